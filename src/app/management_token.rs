//! The management token file. Only its owner can read it, and it is replaced as a whole.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::api::ManagementToken;
use crate::base::{Entropy, regular_file};
use crate::model::access::Secret;
use crate::store::{DataDir, write_private};

/// The file inside of the data directory.
pub const FILE: &str = "management.token";

/// Bytes of the file: a token of any sensible length.
const BYTES_MAX: u64 = 4_096;

/// Returns the configured management token, or else the token in the data directory. Creates a token
/// in the data directory if there is none.
pub fn open(
    data_dir: &DataDir,
    configured: Option<&Secret>,
    entropy: &Entropy,
) -> anyhow::Result<ManagementToken> {
    if let Some(token) = configured {
        return Ok(ManagementToken::configured(token.clone()));
    }
    let found = match read(data_dir.path()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => replace(data_dir.path(), entropy),
        read => read,
    };
    let path = path(data_dir.path());
    let token = found.with_context(|| format!("the management token in {}", path.display()))?;
    Ok(ManagementToken::in_file(path, token))
}

/// Where the token of a data directory is kept.
pub fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE)
}

/// Minimum number of characters of a token, as for a configured one.
const CHARACTERS_MIN: usize = 16;

/// Reads the token. Returns an `InvalidData` error if the file holds fewer than `CHARACTERS_MIN` characters.
pub fn read(data_dir: &Path) -> io::Result<Secret> {
    let mut text = String::new();
    let file = regular_file::open(&path(data_dir))?;
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    match text.trim() {
        token if token.len() < CHARACTERS_MIN => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "it holds {} characters, and a token has at least {CHARACTERS_MIN}; put a longer one there, or delete \
                 the file and have one made with `everpost token rotate`",
                token.chars().count()
            ),
        )),
        token => Ok(Secret::new(token)),
    }
}

/// Replaces the token, or creates one if there is none. A concurrent reader of the file gets either the
/// old token or the new one.
pub fn replace(data_dir: &Path, entropy: &Entropy) -> io::Result<Secret> {
    let token = Secret::new(entropy.secret());
    write_private(&path(data_dir), &format!("{}\n", token.reveal()))?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_replaced_whole_and_private() {
        let directory = tempfile::tempdir().expect("a directory");
        let missing = read(directory.path()).expect_err("no token yet");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let entropy = Entropy::seeded(1);
        let first = replace(directory.path(), &entropy).expect("written");
        assert!(read(directory.path()).expect("read") == first);
        let second = replace(directory.path(), &entropy).expect("written");
        assert!(read(directory.path()).expect("read") == second && first != second);
        let names = fs::read_dir(directory.path()).expect("listed");
        assert_eq!(names.count(), 1, "no draft is left");
        let metadata = fs::metadata(path(directory.path())).expect("metadata");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn an_empty_file_is_no_token() {
        let directory = tempfile::tempdir().expect("a directory");
        for text in [" \n", "abc\n", "fifteen-letters\n"] {
            fs::write(path(directory.path()), text).expect("written");
            let error = read(directory.path()).expect_err("no token");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{text:?}");
            assert!(error.to_string().contains("at least 16"), "{error}");
        }
    }

    #[test]
    fn a_server_keeps_its_token_and_takes_a_new_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let data_dir = DataDir::open(directory.path()).expect("a data directory");
        let entropy = Entropy::seeded(1);
        let token = open(&data_dir, None, &entropy).expect("made");
        let first = read(data_dir.path()).expect("written");
        assert!(token.admits(&first));
        let again = open(&data_dir, None, &entropy).expect("read");
        assert!(again.admits(&first), "a restart changes nothing");

        let second = replace(data_dir.path(), &entropy).expect("rotated");
        assert!(token.admits(&second) && !token.admits(&first));

        let configured = Secret::new("configured");
        let token = open(&data_dir, Some(&configured), &entropy).expect("configured");
        assert!(token.admits(&configured) && !token.admits(&second));
    }
}
