//! The appliance and the receivers of the demonstration, and a client that speaks to the appliance.

use std::path::PathBuf;

use anyhow::Context;
use url::Url;

use crate::app::boot::Appliance;
use crate::app::cli::client::Client;
use crate::app::cli::demo::role::{ROLES, Role};
use crate::app::cli::server::Server;
use crate::app::config::Config;
use crate::app::management_token;
use crate::app::receive::{Receiver, ReceiverOptions};
use crate::base::{Clock, LogTail, TimeScale};

/// Everything that runs.
pub(super) struct Stage {
    pub(super) client: Client,
    pub(super) cast: Vec<Actor>,
    pub(super) clock: Clock,
    pub(super) data_dir: PathBuf,
    pub(super) time_scale: TimeScale,
    appliance: Appliance,
}

/// A running receiver and its role.
pub(super) struct Actor {
    pub(super) role: &'static Role,
    pub(super) receiver: Receiver,
}

impl Stage {
    /// Starts the receivers and the appliance.
    pub(super) async fn set(config: Config) -> anyhow::Result<Self> {
        let mut cast = Vec::new();
        for role in ROLES {
            cast.push(Actor::start(role).await?);
        }
        let (data_dir, time_scale) = (config.data_dir.clone(), config.time_scale);
        let appliance = Appliance::start(config, LogTail::default()).await;
        let appliance = appliance.context("the appliance does not start")?;
        let token = management_token::read(&data_dir);
        let server = Server {
            url: Url::parse(appliance.url()).context("the appliance's own URL")?,
            url_origin: "the demonstration".to_owned(),
            token: Some(token.context("cannot read the management token")?),
            token_origin: management_token::path(&data_dir).display().to_string(),
        };
        Ok(Self {
            client: Client::new(server)?,
            cast,
            clock: Clock::system(),
            data_dir,
            time_scale,
            appliance,
        })
    }

    /// Where the appliance listens.
    pub(super) fn url(&self) -> &str {
        self.appliance.url()
    }

    /// Stops everything.
    pub(super) async fn clear(self) {
        self.appliance.stop().await;
        for actor in self.cast {
            actor.receiver.stop().await;
        }
    }
}

impl Actor {
    async fn start(role: &'static Role) -> anyhow::Result<Self> {
        let answers = role.answers.parse().expect("roles have valid answers");
        let options = ReceiverOptions {
            per_event: true,
            ..ReceiverOptions::scripted(answers)
        };
        let receiver = Receiver::bind(options).await;
        let receiver = receiver.with_context(|| format!("the receiver of {}", role.name))?;
        Ok(Self { role, receiver })
    }

    /// The URL of its webhook.
    pub(super) fn endpoint(&self) -> String {
        format!("{}/{}", self.receiver.url(), self.role.name)
    }
}
