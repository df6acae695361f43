//! `everpost upgrade-check`: whether this version can take over a data directory, and what it would upgrade.

use anyhow::{Context, bail};
use clap::Args;

use crate::app::cli::output::print;
use crate::app::cli::server::{InstallationArgs, existing_data_dir};
use crate::base::human::bytes;
use crate::store::{Store, Upgrade, free_bytes};

#[derive(Args, Debug)]
pub(super) struct UpgradeCheckArgs {
    #[command(flatten)]
    installation: InstallationArgs,
}

impl UpgradeCheckArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let config = self.installation.config().context("the settings")?;
        let folder = existing_data_dir(&config)?;
        let upgrade = Store::upgrade_of(folder)?;
        let free = free_bytes(folder)?;
        print(&report(upgrade, free))?;
        if upgrade.bytes > free {
            bail!(
                "the disk of {} has too little free space for the upgrade",
                folder.display()
            );
        }
        Ok(())
    }
}

fn report(upgrade: Upgrade, free: u64) -> String {
    let Upgrade {
        from,
        to,
        bytes: needed,
    } = upgrade;
    let database = if from == to {
        format!("schema {to}; no upgrade needed")
    } else {
        format!("schema {from}; upgraded to {to}, with a copy of the old one in backups/")
    };
    let disk = match needed {
        0 => "enough free space".to_owned(),
        needed => format!("{} needed, {} free", bytes(needed), bytes(free)),
    };
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "version   everpost {version}\nsettings  valid\ndatabase  {database}\ndisk      {disk}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_is_told_with_the_space_that_it_needs() {
        let upgrade = |from, bytes| Upgrade { from, to: 2, bytes };
        let same = report(upgrade(2, 0), 5_000);
        assert!(
            same.contains("database  schema 2; no upgrade needed\ndisk      enough free space\n")
        );
        let older = report(upgrade(1, 3_000), 5_000);
        assert!(
            older.contains("schema 1; upgraded to 2, with a copy"),
            "{older}"
        );
        assert!(older.contains("needed, "), "{older}");
    }
}
