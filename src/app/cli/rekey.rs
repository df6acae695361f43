//! `everpost rekey`: a new master key.

use anyhow::bail;
use clap::Args;

use crate::app::cli::output::{note, print};
use crate::app::cli::server::{InstallationArgs, existing_data_dir};
use crate::base::Entropy;
use crate::store::{DataDir, MASTER_KEY_FILE, Rekeyed, Store};

#[derive(Args, Debug)]
pub(super) struct RekeyArgs {
    #[command(flatten)]
    installation: InstallationArgs,
}

impl RekeyArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let config = self.installation.config()?;
        if config.master_keys.is_some() {
            bail!(
                "the master key is set by the configuration (master_key): put a new key on a line in \
                 front of the present one there and start the server, which encrypts everything again; \
                 then remove the old line"
            );
        }
        let data_dir = DataDir::open(existing_data_dir(&config)?)?;
        let rekeyed = Store::rekey(&data_dir, &Entropy::Os, &note)?;
        let Rekeyed { old, new, cells } = &rekeyed;
        let file = data_dir.file(MASTER_KEY_FILE);
        Ok(print(&format!(
            "{cells} secrets are encrypted with the new master key {new} in {}; the old key {old} decrypts \
             only what was copied before\n",
            file.display()
        ))?)
    }
}
