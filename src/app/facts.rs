//! Facts that the running appliance knows about itself from the start on.

use std::path::Path;

use crate::app::config::Config;
use crate::app::{components, management_token};
use crate::base::Timestamp;
use crate::broker::diagnostics::ProcessFacts;
use crate::store::{self, DataDir, MASTER_KEY_FILE};

/// The licence of the appliance, as it stands in the manifest of the build.
const LICENCE: &str = env!("CARGO_PKG_LICENSE");

/// Gathers the facts about the appliance in `data_dir`, which listens at `url`.
pub(super) fn gather(
    config: &Config,
    data_dir: &DataDir,
    url: &str,
    now: Timestamp,
) -> ProcessFacts {
    let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
    ProcessFacts {
        version: env!("CARGO_PKG_VERSION"),
        platform: format!("{system} on {processor}"),
        sqlite: store::sqlite_version(),
        started_at: now,
        places: places(config, data_dir, url),
        licence: LICENCE,
        components: components::components(),
        component_licences: components::licences(),
    }
}

fn places(config: &Config, data_dir: &DataDir, url: &str) -> Vec<(&'static str, String)> {
    let text = |path: &Path| path.display().to_string();
    let inside = |name: &str| text(&data_dir.file(name));
    let configured = "given by the configuration".to_owned();
    let master_key = match config.master_keys {
        None => inside(MASTER_KEY_FILE),
        Some(_) => configured.clone(),
    };
    let token = match config.management_token {
        None => inside(management_token::FILE),
        Some(_) => configured,
    };
    let export_dir = config.dead_letter_export_dir.as_deref();
    vec![
        ("Listens at", url.to_owned()),
        ("Data directory", text(data_dir.path())),
        ("Database", inside(store::FILE)),
        ("Copies before upgrades", inside("backups")),
        ("Master key", master_key),
        ("Management token", token),
        (
            "Dead letters exported to",
            export_dir.map_or("not exported".to_owned(), text),
        ),
        ("Configuration file", config.shown.file.clone()),
    ]
}
