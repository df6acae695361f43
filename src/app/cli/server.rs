//! Which server a command talks to, and the management token for it.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use url::Url;

use crate::app::boot::SERVER_URL_FILE;
use crate::app::config::{Config, ConfigFlags, RawConfig};
use crate::app::management_token;
use crate::app::tls::AUTHORITY_FILE;
use crate::model::access::Secret;
use crate::store::{DataDir, DataDirError, can_be_filled};

/// The heading of the flags that all commands for a server have.
pub(super) const GLOBAL: &str = "Global options";

/// Which installation is meant.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct InstallationArgs {
    /// Data directory of the server [env: EVERPOST_DATA_DIR] [default: everpost-data]
    #[arg(long, value_name = "DIR", global = true, help_heading = GLOBAL)]
    data_dir: Option<String>,
    /// Configuration file of the server [env: EVERPOST_CONFIG]
    #[arg(long, value_name = "FILE", global = true, help_heading = GLOBAL)]
    config: Option<PathBuf>,
    /// File with the management token [env: EVERPOST_MANAGEMENT_TOKEN_FILE, or the token itself in
    /// EVERPOST_MANAGEMENT_TOKEN] [default: management.token in the data directory]
    #[arg(long, value_name = "FILE", global = true, help_heading = GLOBAL)]
    management_token_file: Option<String>,
}

impl InstallationArgs {
    /// The configuration of that installation.
    pub(super) fn config(&self) -> anyhow::Result<Config> {
        Ok(Config::resolve(&RawConfig::of_process(self.flags()))?)
    }

    fn flags(&self) -> ConfigFlags {
        let mut flags = ConfigFlags {
            config_file: self.config.clone(),
            ..ConfigFlags::default()
        };
        if let Some(data_dir) = &self.data_dir {
            flags.set("data_dir", data_dir);
        }
        if let Some(file) = &self.management_token_file {
            flags.set("management.token", file);
        }
        flags
    }
}

/// Which server is meant.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct ServerArgs {
    /// URL of the server [default: that of the server that runs on the data directory]
    #[arg(
        long,
        value_name = "URL",
        env = "EVERPOST_URL",
        hide_env_values = true,
        global = true,
        help_heading = GLOBAL
    )]
    url: Option<String>,
    #[command(flatten)]
    installation: InstallationArgs,
}

/// The address and the authority of a server that speaks HTTPS, if the system does not know them.
#[derive(Debug, Default)]
pub(super) struct OverTls {
    /// Where its host is, if not where the name leads.
    pub(super) address: Option<SocketAddr>,
    /// The certificate of a development authority, in PEM, that is trusted besides those of the system.
    pub(super) authority: Option<Vec<u8>>,
}

/// Where a server is and how it is accessed.
#[derive(Debug)]
pub(super) struct ServerAccess {
    pub(super) url: Url,
    /// The flag, variable or file that named the URL: for errors.
    pub(super) url_origin: String,
    pub(super) over_tls: OverTls,
    /// `None` if there is none; not every request needs one.
    pub(super) token: Option<Secret>,
    /// Where the token is, or would be: for errors.
    pub(super) token_origin: String,
}

impl ServerAccess {
    /// Returns the access to a server in this process.
    pub(super) fn of_own(url: &str, token: Secret) -> anyhow::Result<Self> {
        Ok(Self {
            url: parse_url(url)?,
            url_origin: "this program".to_owned(),
            over_tls: OverTls::default(),
            token: Some(token),
            token_origin: "this program".to_owned(),
        })
    }
}

impl ServerArgs {
    /// Returns whether the command line or the environment names a server.
    pub(super) fn names_url(&self) -> bool {
        self.url.as_deref().is_some_and(|url| !url.is_empty())
    }

    /// The configuration of the installation.
    pub(super) fn config(&self) -> anyhow::Result<Config> {
        self.installation.config()
    }

    /// Finds the server and the token.
    pub(super) fn find(&self) -> anyhow::Result<ServerAccess> {
        self.find_by(&self.installation.config()?)
    }

    fn find_by(&self, config: &Config) -> anyhow::Result<ServerAccess> {
        // An empty variable counts as unset, as it does for settings.
        let (url, url_origin, address) = match self.url.as_deref().filter(|url| !url.is_empty()) {
            Some(url) => (
                parse_url(url).context("--url or EVERPOST_URL")?,
                "--url".to_owned(),
                None,
            ),
            None => url_of(&config.data_dir)?,
        };
        let (token, token_origin) = management_token(config)?;
        Ok(ServerAccess {
            url,
            url_origin,
            over_tls: OverTls {
                address,
                authority: fs::read(config.data_dir.join(AUTHORITY_FILE)).ok(),
            },
            token,
            token_origin,
        })
    }
}

fn url_of(data_dir: &Path) -> anyhow::Result<(Url, String, Option<SocketAddr>)> {
    let path = data_dir.join(SERVER_URL_FILE);
    let shown = path.display().to_string();
    match fs::read_to_string(&path) {
        Ok(text) => {
            let mut lines = text.lines();
            let url = parse_url(lines.next().unwrap_or_default());
            let address = lines.next().and_then(|line| line.parse().ok());
            Ok((url.with_context(|| shown.clone())?, shown, address))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "no server found in {}: start it with `everpost serve` or name it with --url{}",
            here(data_dir),
            or_the_service(data_dir, Path::new(SERVICE_DATA_DIR))
        ),
        Err(error) => bail!(
            "cannot read {shown}: {error}; act as the user that runs the server, or name it with --url"
        ),
    }
}

/// Where the service of the Debian package keeps its data.
const SERVICE_DATA_DIR: &str = "/var/lib/everpost";

/// Where else there is a server, if there is one.
fn or_the_service(data_dir: &Path, service: &Path) -> String {
    if data_dir != service && service.is_dir() {
        format!(
            "; for the service of this machine, --data-dir {}",
            service.display()
        )
    } else {
        String::new()
    }
}

/// `./everpost-data` rather than `everpost-data`, so that it reads as a directory.
fn here(data_dir: &Path) -> String {
    if data_dir.is_absolute() || data_dir.starts_with(".") {
        data_dir.display().to_string()
    } else {
        Path::new(".").join(data_dir).display().to_string()
    }
}

fn parse_url(text: &str) -> anyhow::Result<Url> {
    let url = Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.with_context(|| {
        format!("{text:?} is not the URL of a server; write it like http://127.0.0.1:8080")
    })
}

/// The data directory, for commands that change it without a server.
pub(super) fn existing_data_dir(config: &Config) -> anyhow::Result<&Path> {
    if config.data_dir.is_dir() {
        Ok(&config.data_dir)
    } else {
        bail!(
            "no data directory {}: name it with --data-dir",
            config.data_dir.display()
        )
    }
}

/// Rejects a directory in which there is something already, for commands that fill a new one, but for what such a
/// command has left that did not end.
pub(super) fn reject_used(dir: &Path) -> anyhow::Result<()> {
    if can_be_filled(dir) {
        Ok(())
    } else {
        bail!("{} is not empty: name a new directory", dir.display())
    }
}

/// The data directory of an installation, if no server runs on it; `None` where one does, or one is named.
pub(super) fn unused_data_dir(
    server: &ServerArgs,
    config: &Config,
) -> anyhow::Result<Option<DataDir>> {
    if server.names_url() {
        return Ok(None);
    }
    match DataDir::open(&config.data_dir) {
        Ok(data_dir) => Ok(Some(data_dir)),
        Err(DataDirError::InUse { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The management token, and where it is or would be.
pub(super) fn management_token(config: &Config) -> anyhow::Result<(Option<Secret>, String)> {
    if let Some(token) = &config.management_token {
        return Ok((Some(token.clone()), "the configuration".to_owned()));
    }
    let path = management_token::path(&config.data_dir)
        .display()
        .to_string();
    match management_token::read(&config.data_dir) {
        Ok(token) => Ok((Some(token), path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((None, path)),
        // With --url the data directory may well be somebody else's; the token will be missed if needed.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok((None, path)),
        Err(error) => bail!("cannot read the management token from {path}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(data_dir: &Path) -> ServerArgs {
        ServerArgs {
            url: None,
            installation: InstallationArgs {
                data_dir: Some(data_dir.display().to_string()),
                config: None,
                management_token_file: None,
            },
        }
    }

    /// Whatever the environment of the tests says.
    fn find(args: &ServerArgs) -> anyhow::Result<ServerAccess> {
        let raw = RawConfig::gather(args.installation.flags(), []);
        args.find_by(&Config::resolve(&raw)?)
    }

    #[test]
    fn a_running_server_is_found_by_its_data_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(
            directory.path().join(SERVER_URL_FILE),
            "http://127.0.0.1:8123\n",
        )
        .expect("written");
        let server = find(&args(directory.path())).expect("found");
        assert_eq!(server.url.as_str(), "http://127.0.0.1:8123/");
        assert!(server.token.is_none());

        fs::write(
            management_token::path(directory.path()),
            "open-sesame-again\n",
        )
        .expect("written");
        let mut args = args(directory.path());
        args.url = Some("https://events.example.com".to_owned());
        let server = find(&args).expect("found");
        assert_eq!(server.url.as_str(), "https://events.example.com/");
        assert_eq!(server.token.expect("a token").reveal(), "open-sesame-again");
    }

    #[test]
    fn a_server_that_is_missing_is_missed_with_advice() {
        let directory = tempfile::tempdir().expect("a directory");
        let error = find(&args(directory.path())).expect_err("none");
        let expected = format!(
            "no server found in {}: start it with `everpost serve` or name it with --url",
            directory.path().display()
        );
        assert_eq!(format!("{error:#}"), expected);
        assert_eq!(here(Path::new("everpost-data")), "./everpost-data");
        let service = directory.path();
        let advice = format!(
            "; for the service of this machine, --data-dir {}",
            service.display()
        );
        assert_eq!(or_the_service(Path::new("everpost-data"), service), advice);
        assert_eq!(or_the_service(service, service), "");
        assert_eq!(or_the_service(Path::new("a"), Path::new("/nowhere")), "");

        fs::write(directory.path().join(SERVER_URL_FILE), "localhost").expect("written");
        let error = find(&args(directory.path())).expect_err("no URL");
        assert!(format!("{error:#}").contains("\"localhost\" is not the URL of a server"));
    }
}
