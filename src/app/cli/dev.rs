//! `everpost dev`: an appliance for the machine of a developer, and for integration tests.
//!
//! Everything has a name and a key that are known beforehand, and nothing is kept. What a reset starts from is prepared
//! once, in a directory of its own; each appliance runs on a copy of it. The socket stays open meanwhile, so that
//! whoever connects during a reset waits for the new appliance.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::json;
use tempfile::TempDir;

use crate::app::boot::{self, Appliance};
use crate::app::cli::output::{Output, print};
use crate::app::cli::request::RemoteServer;
use crate::app::cli::server::ServerAccess;
use crate::app::cli::subscriptions::handshake_ended;
use crate::app::config::{Config, ConfigFlags, RawConfig};
use crate::app::interrupt::Interrupts;
use crate::app::telemetry::{self, ProcessLog};
use crate::base::Clock;
use crate::model::access::{KeyName, Secret};
use crate::model::audit::Caller;
use crate::model::inspector::INSPECTOR_HOST;
use crate::model::name::TopicName;

const TOPIC: &str = "events";
const INSPECTOR: &str = "inbox";
const USER: &str = "dev";

/// Known to everybody, as they are meant to be: the appliance cannot be reached from other machines.
const PASSWORD: &str = "everpost-dev";
const TOKEN: &str = "everpost-development-token";
const TOPIC_KEY: &str = "ZXZlcnBvc3QgZGV2ZWxvcG1lbnQga2V5LCBwdWJsaWM=";

/// Seconds that a stop waits for deliveries; they are thrown away with everything else.
const DRAIN_S: u32 = 1;

#[derive(Args, Debug)]
pub(super) struct DevArgs {
    /// Loopback address and port to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// How many times faster than real the waits between attempts pass
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    time_scale: String,
    /// Azure Service Bus tier whose limits apply: premium or standard
    #[arg(long, value_name = "TIER", default_value = "premium")]
    service_bus_tier: String,
    /// How much is logged: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log_level: String,
}

impl DevArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        ensure!(
            self.listen.ip().is_loopback(),
            "--listen {}: everybody who can reach it has full access, so it has to be a loopback address, such as \
             127.0.0.1:8080",
            self.listen
        );
        let prepared = temporary()?;
        let config = self.config(prepared.path())?;
        let log = telemetry::start(config.log_format, &config.log_level)?;
        boot::runtime()?.block_on(async {
            prepare(config, log.clone()).await?;
            self.serve(prepared.path(), log).await
        })
    }

    /// One appliance after the other, until Ctrl-C.
    async fn serve(&self, prepared: &Path, log: ProcessLog) -> anyhow::Result<()> {
        let socket = boot::bind(self.listen)?.into_std()?;
        print(&banner(socket.local_addr()?))?;
        let mut interrupts = Interrupts::listen()?;
        let mut is_over = false;
        while !is_over {
            let directory = temporary()?;
            copy(prepared, directory.path())?;
            let config = self.config(directory.path())?;
            let appliance =
                Appliance::start(config, log.clone(), vec![socket.try_clone()?]).await?;
            is_over = tokio::select! {
                () = interrupts.next() => true,
                () = appliance.reset() => false,
            };
            appliance.stop().await;
        }
        Ok(())
    }

    /// Returns the configuration of the appliance, without environment variables: these are meant for appliances that
    /// last.
    fn config(&self, data_dir: &Path) -> anyhow::Result<Config> {
        let mut flags = ConfigFlags::default();
        flags.set("data_dir", data_dir.display().to_string());
        flags.set("listen", SocketAddr::new(self.listen.ip(), 0).to_string());
        flags.set("time_scale", &self.time_scale);
        flags.set("service_bus.tier", &self.service_bus_tier);
        flags.set("egress.allow", "127.0.0.0/8");
        flags.set("log.level", &self.log_level);
        flags.set("shutdown.drain_s", DRAIN_S.to_string());
        let mut config = Config::resolve(&RawConfig::gather(flags, []))?;
        config.dev = true;
        config.admin_user = Some(USER.to_owned());
        config.admin_password = Some(Secret::new(PASSWORD));
        config.management_token = Some(Secret::new(TOKEN));
        Ok(config)
    }
}

/// Makes the topic, and the inspector that receives what is published to it.
async fn prepare(config: Config, log: ProcessLog) -> anyhow::Result<()> {
    let appliance = Appliance::start(config, log, Vec::new()).await?;
    let access = ServerAccess::of_own(appliance.url(), Secret::new(TOKEN))?;
    let server = RemoteServer::new(access, Output::default())?;
    let topic = server.put(["topics", TOPIC]);
    topic.json(&json!({ "location": "local" })).send().await?;
    let by = Caller::command_line(Clock::system().now());
    let name = TopicName::parse(TOPIC).context("the name of the topic")?;
    let broker = appliance.broker();
    let key = Secret::new(TOPIC_KEY);
    broker.replace_key(&by, &name, KeyName::Key1, key).await?;
    let inspector = server.put(["everpost", "inspectors", INSPECTOR]);
    inspector.json(&json!({})).send().await?;
    let subscription = ["topics", TOPIC, "eventSubscriptions", INSPECTOR];
    let webhook = json!({ "endpointUrl": format!("https://{INSPECTOR_HOST}/{INSPECTOR}") });
    let destination = json!({ "endpointType": "WebHook", "properties": webhook });
    let body = json!({ "properties": { "destination": destination } });
    let created = server.put(subscription).json(&body).send().await?;
    handshake_ended(&server, &subscription, created).await?;
    appliance.stop().await;
    Ok(())
}

fn temporary() -> anyhow::Result<TempDir> {
    let mut named = tempfile::Builder::new();
    named.prefix("everpost-dev-");
    let made = named.permissions(Permissions::from_mode(0o700)).tempdir();
    made.context("cannot make a temporary directory")
}

/// The files of a data directory that no process has open.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(from)? {
        let file = entry?;
        if file.file_type()?.is_file() {
            fs::copy(file.path(), to.join(file.file_name()))?;
        }
    }
    Ok(())
}

fn banner(address: SocketAddr) -> String {
    let url = format!("http://{address}");
    format!(
        "everpost {}, for development: nothing is kept, and every program on this machine has full access
listening on {url}
admin pages      {url}/admin (signed in as {USER}; the password is {PASSWORD})
publish to       {url}/topics/{TOPIC}/api/events
topic key        {TOPIC_KEY}
inspector        {url}/admin/inspectors/{INSPECTOR}
Service Bus      Endpoint=sb://{address};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={TOKEN};UseDevelopmentEmulator=true;
command line     export EVERPOST_URL={url} EVERPOST_MANAGEMENT_TOKEN={TOKEN}
press Ctrl-C to stop
",
        env!("CARGO_PKG_VERSION")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_are_kept_out() {
        let args = DevArgs {
            listen: SocketAddr::from(([0, 0, 0, 0], 0)),
            time_scale: "1".to_owned(),
            service_bus_tier: "premium".to_owned(),
            log_level: "off".to_owned(),
        };
        let error = args.run().expect_err("everybody could reach it");
        assert!(error.to_string().contains("--listen 0.0.0.0:0"), "{error}");
    }
}
