//! `everpost demo`: the whole appliance in a few seconds, with receivers that misbehave.
//!
//! Everything goes over HTTP, as it would from outside: handshakes, publishing, deliveries, and the
//! questions about what became of them.

mod directory;
mod ending;
mod play;
mod progress;
mod role;
mod stage;
mod story;

use std::process::ExitCode;

use clap::Args;

use self::directory::TemporaryDirectory;
use self::stage::Stage;
use crate::app::boot;
use crate::app::cli::output::print;
use crate::app::config::{AdminAccount, Config, ConfigFlags, RawConfig};
use crate::app::interrupt::interrupted;
use crate::app::telemetry;
use crate::base::Entropy;
use crate::model::access::Secret;

/// How many times faster than real the demonstration runs: a receiver that is busy is left alone for
/// 1.5 s instead of 30 s, long enough to be seen and short enough to be watched.
const TIME_SCALE: u32 = 20;

/// The exit code of a demonstration that was interrupted before its end.
const INTERRUPTED: u8 = 130;

/// Seconds that the stop waits for deliveries; they are thrown away with everything else.
const DRAIN_S: u32 = 3;

/// Never reached: the receivers refuse every event anew, whatever they took before, which probation would
/// take for one long failure.
const PROBATION_FAILURES: u32 = 1_000_000;

/// Name of the administrator of an appliance that stays.
const USER: &str = "demo";

/// Characters of the administrator's password: enough for a local port, few enough to type.
const PASSWORD_LENGTH: usize = 12;

/// See it work: an appliance, 100 events and two receivers that misbehave, in a few seconds
#[derive(Args, Debug)]
pub(super) struct DemoArgs {
    /// Keep serving afterwards, until Ctrl-C, and print where
    #[arg(long)]
    stay: bool,
    /// How much is logged: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log_level: String,
}

/// How much of it was seen.
enum Shown {
    Whole,
    Interrupted,
}

impl DemoArgs {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let directory = TemporaryDirectory::make(&Entropy::Os)?;
        let config = self.config(&directory)?;
        telemetry::start(&config.log)?;
        // The runtime ends here, and with it whatever still had files open in the directory.
        let shown = boot::runtime()?.block_on(self.show(config));
        let removed = directory.remove();
        let shown = shown?;
        removed?;
        match shown {
            Shown::Interrupted => return Ok(ExitCode::from(INTERRUPTED)),
            Shown::Whole if self.stay => {}
            Shown::Whole => print(&story::next_steps(&program()))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// What the environment says is meant for appliances that last.
    fn config(&self, directory: &TemporaryDirectory) -> anyhow::Result<Config> {
        let mut flags = ConfigFlags::default();
        flags.set("data_dir", directory.path().display().to_string());
        flags.set("listen", "127.0.0.1:0");
        flags.set("time_scale", TIME_SCALE.to_string());
        flags.set("egress.allow", "127.0.0.0/8");
        flags.set("log.level", &self.log_level);
        flags.set("shutdown.drain_s", DRAIN_S.to_string());
        flags.set("probation.failures", PROBATION_FAILURES.to_string());
        let mut config = Config::resolve(&RawConfig::gather(flags, []))?;
        config.admin.account = self.stay.then(guest_account);
        Ok(config)
    }

    async fn show(&self, config: Config) -> anyhow::Result<Shown> {
        let account = config.admin.account.clone();
        let stage = tokio::select! {
            stage = perform(config) => stage?,
            () = interrupted() => return Ok(Shown::Interrupted),
        };
        if let Some(account) = account {
            print(&play::invitation(&stage, &account).await?)?;
            interrupted().await;
            print("\nstopping\n")?;
        }
        stage.clear().await;
        Ok(Shown::Whole)
    }
}

/// From the first line to the totals; the appliance goes on serving.
async fn perform(config: Config) -> anyhow::Result<Stage> {
    print(&story::opening(config.time_scale))?;
    let stage = Stage::set(config).await?;
    play::play(&stage).await?;
    Ok(stage)
}

/// How the program was called, so that the commands that are shown work when pasted.
fn program() -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+".contains(c);
    let called = std::env::args_os().next();
    let called = called.and_then(|called| called.into_string().ok());
    let called = called.filter(|called| !called.is_empty() && called.chars().all(is_plain));
    called.unwrap_or_else(|| "everpost".to_owned())
}

fn guest_account() -> AdminAccount {
    let password = Entropy::Os.secret();
    AdminAccount {
        user: USER.to_owned(),
        password: Secret::new(&password[..PASSWORD_LENGTH]),
    }
}
