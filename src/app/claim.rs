//! Claims the appliance, by the configured administrator account or by the first user of the set-up link.

use std::path::Path;

use anyhow::{Context, bail};
use tokio_util::sync::CancellationToken;

use crate::app::config::Config;
use crate::broker::people::People;
use crate::broker::people::SetupLink;
use crate::model::audit::Caller;
use crate::store::write_private;

/// The file in the data directory that holds the set-up link while nobody has claimed the appliance.
const SETUP_URL_FILE: &str = "setup-url";

/// Creates the configured administrator account, if any. Returns whether a set-up link is still needed. It is not
/// needed once the appliance is claimed, or if the admin pages are disabled.
pub(super) async fn needs_link(config: &Config, people: &People) -> anyhow::Result<bool> {
    if !config.admin_enabled {
        return Ok(false);
    }
    if let Some((name, password)) = config
        .admin_user
        .as_ref()
        .zip(config.admin_password.as_ref())
    {
        let by = Caller::command_line(people.now());
        let made = people.claim(by, name, password.reveal()).await;
        made.context("the administrator of the configuration cannot be made")?;
    }
    if people.accounts().is_claimed().await? {
        return Ok(false);
    }
    reject_exposure(config)?;
    Ok(true)
}

/// Fails if an unclaimed appliance without a management token can be reached from other machines.
fn reject_exposure(config: &Config) -> anyhow::Result<()> {
    let exposed = config.listen.iter().find(|each| !each.ip().is_loopback());
    let Some(exposed) = exposed.filter(|_| config.management_token.is_none()) else {
        return Ok(());
    };
    bail!(
        "{exposed} can be reached from other machines, and nobody owns this appliance yet. Start it once on \
         127.0.0.1 and open the set-up link, or configure admin.user and admin.password (or \
         management.token)"
    )
}

/// Writes the set-up link to a file, for containers and services whose output nobody reads. The file is removed when an
/// account is added. If the file cannot be written, the link is only printed.
pub(super) fn write_down(
    link: &SetupLink,
    people: &People,
    base: &str,
    data_dir: &Path,
    stop: CancellationToken,
) -> String {
    let url = format!("{base}{}", link.path());
    let file = data_dir.join(SETUP_URL_FILE);
    if let Err(error) = write_private(&file, &format!("{url}\n")) {
        tracing::warn!(%error, file = %file.display(), "the set-up link could not be written to its file");
    }
    let people = people.clone();
    tokio::spawn(stop.run_until_cancelled_owned(async move {
        people.added().await;
        remove(&file);
    }));
    url
}

/// Removes the set-up link file of an earlier start.
pub(super) fn forget(data_dir: &Path) {
    remove(&data_dir.join(SETUP_URL_FILE));
}

fn remove(file: &Path) {
    // The file may not exist. A leftover link does not work.
    let _ = std::fs::remove_file(file);
}
