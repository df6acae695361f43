//! `everpost serve`: the appliance itself.

use std::process::ExitCode;

use clap::Args;

use crate::app::boot;
use crate::app::config::{Config, ConfigFlags, RawConfig};

#[derive(Args, Default)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    flags: ConfigFlags,
}

impl ServeArgs {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        boot::serve(Config::resolve(&RawConfig::of_process(self.flags))?)
    }
}
