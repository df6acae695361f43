//! `everpost demo`: the whole appliance in a few seconds, with receivers that fail.
//!
//! Everything goes over HTTP, as it would from outside: handshakes, publishing, deliveries, and the
//! questions about what became of them.

mod play;
mod stage;
mod story;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use self::stage::DemoStage;
use crate::app::boot;
use crate::app::cli::output::print;
use crate::app::config::{Config, ConfigFlags, RawConfig};
use crate::app::interrupt::Interrupts;
use crate::app::telemetry;
use crate::base::Entropy;
use crate::model::access::Secret;

/// How many times faster than real the demonstration runs: a busy receiver is left alone for 1.5 s instead
/// of 30 s, long enough to be seen and short enough to be watched.
const TIME_SCALE: u32 = 20;

/// The exit code of a demonstration that was interrupted before its end.
const INTERRUPTED: u8 = 130;

/// Seconds that the stop waits for deliveries; they are thrown away with everything else.
const DRAIN_S: u32 = 3;

/// Never reached. The receivers fail for every event, whatever they accepted before; probation would take
/// that for one long failure.
const PROBATION_FAILURES: u32 = 1_000_000;

/// Name of the administrator of an appliance that stays.
pub(super) const USER: &str = "demo";

/// Characters of the administrator's password: enough for a local port, few enough to type.
const PASSWORD_LENGTH: usize = 12;

#[derive(Args, Debug)]
pub(super) struct DemoArgs {
    /// Keep serving afterwards, until Ctrl-C, and print where
    #[arg(long)]
    stay: bool,
    /// How much is logged: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log_level: String,
}

/// How the demonstration ended.
#[derive(PartialEq, Eq)]
enum DemoEnd {
    Complete,
    Interrupted,
}

impl DemoArgs {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let directory = tempfile::Builder::new()
            .prefix("everpost-demo-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .context("cannot make a temporary directory")?;
        let config = self.config(directory.path())?;
        telemetry::start(config.log_format, &config.log_level)?;
        // The runtime ends here, and with it whatever still had files open in the directory.
        let end = boot::runtime()?.block_on(self.show(config))?;
        let removed = directory.close();
        removed.context("cannot remove the temporary directory")?;
        match end {
            DemoEnd::Interrupted => return Ok(ExitCode::from(INTERRUPTED)),
            DemoEnd::Complete if self.stay => {}
            DemoEnd::Complete => print(&story::next_steps(&program()))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the configuration of the appliance, without environment variables: these are meant for appliances that
    /// last.
    fn config(&self, data_dir: &Path) -> anyhow::Result<Config> {
        let mut flags = ConfigFlags::default();
        flags.set("data_dir", data_dir.display().to_string());
        flags.set("listen", "127.0.0.1:0");
        flags.set("time_scale", TIME_SCALE.to_string());
        flags.set("egress.allow", "127.0.0.1/32");
        flags.set("log.level", &self.log_level);
        flags.set("shutdown.drain_s", DRAIN_S.to_string());
        flags.set("probation.failures", PROBATION_FAILURES.to_string());
        let mut config = Config::resolve(&RawConfig::gather(flags, []))?;
        if self.stay {
            let password = Secret::new(&Entropy::Os.secret()[..PASSWORD_LENGTH]);
            config.admin_user = Some(USER.to_owned());
            config.admin_password = Some(password);
        }
        Ok(config)
    }

    async fn show(&self, config: Config) -> anyhow::Result<DemoEnd> {
        let password = config.admin_password.clone();
        let mut interrupts = Interrupts::listen()?;
        let stage = tokio::select! {
            stage = perform(config) => stage?,
            () = interrupts.next() => return Ok(DemoEnd::Interrupted),
        };
        if let Some(password) = password {
            print(&play::invitation(&stage, &password).await?)?;
            interrupts.next().await;
            print("\nstopping\n")?;
        }
        stage.stop().await;
        Ok(DemoEnd::Complete)
    }
}

/// From the first line to the totals. The appliance goes on serving.
async fn perform(config: Config) -> anyhow::Result<DemoStage> {
    print(&story::opening(config.time_scale))?;
    let stage = DemoStage::start(config).await?;
    play::play(&stage).await?;
    Ok(stage)
}

/// How the program was called, so that the commands that are shown work when pasted.
fn program() -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+".contains(c);
    let called = std::env::args_os()
        .next()
        .and_then(|called| called.into_string().ok())
        .filter(|called| !called.is_empty() && called.chars().all(is_plain));
    called.unwrap_or_else(|| "everpost".to_owned())
}
