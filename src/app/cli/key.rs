//! The key of a topic, as flags.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use crate::app::files;

/// How publishers and receivers prove who they are.
#[derive(Args, Debug)]
pub(super) struct KeyArgs {
    /// Key of the topic or of its namespace [default: asked of the server]
    #[arg(long, env = "EVERPOST_KEY", hide_env_values = true)]
    key: Option<String>,
    /// File with the key
    #[arg(
        long,
        value_name = "FILE",
        env = "EVERPOST_KEY_FILE",
        conflicts_with = "key"
    )]
    key_file: Option<PathBuf>,
}

impl KeyArgs {
    /// The key, if one was given; an empty variable gives none.
    pub(super) fn given(&self) -> anyhow::Result<Option<String>> {
        let file = self.key_file.as_ref();
        let Some(path) = file.filter(|path| !path.as_os_str().is_empty()) else {
            return Ok(self.key.clone().filter(|key| !key.is_empty()));
        };
        let key = files::secret(path).map_err(|problem| anyhow!("{} {problem}", path.display()))?;
        Ok(Some(key.reveal().trim().to_owned()))
    }
}
