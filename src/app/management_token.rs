//! The file of the management token: only the owner reads it, and it is replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::base::Entropy;
use crate::model::access::Secret;

/// The file inside of the data directory.
pub const TOKEN_FILE: &str = "management.token";

/// Bytes of the file: a token of any sensible length.
const FILE_MAX: u64 = 4_096;

/// Where the token of the data directory is kept.
pub fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(TOKEN_FILE)
}

/// Reads the token. An empty file is an error of the kind `InvalidData`.
pub fn read(data_dir: &Path) -> io::Result<Secret> {
    let mut text = String::new();
    let file = File::open(path(data_dir))?;
    file.take(FILE_MAX).read_to_string(&mut text)?;
    match text.trim() {
        "" => Err(io::Error::new(io::ErrorKind::InvalidData, "it is empty")),
        token => Ok(Secret::new(token)),
    }
}

/// Puts a new token in the place of the old one, if there is one. Whoever reads the file meanwhile gets
/// the old token or the new one, also after a power failure.
pub fn replace(data_dir: &Path, entropy: &Entropy) -> io::Result<Secret> {
    let token = Secret::new(entropy.secret());
    let draft = data_dir.join(format!("{TOKEN_FILE}.{}", entropy.uuid()));
    let written = write_private(&draft, token.reveal());
    if let Err(error) = written.and_then(|()| fs::rename(&draft, path(data_dir))) {
        // The draft is of no use, and there may be none: the error is the one to tell.
        let _ = fs::remove_file(&draft);
        return Err(error);
    }
    sync_directory(data_dir)?;
    Ok(token)
}

fn write_private(path: &Path, token: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    writeln!(file, "{token}")?;
    file.sync_all()
}

/// A renamed file is only safe once its directory is.
fn sync_directory(directory: &Path) -> io::Result<()> {
    match cfg!(unix) {
        true => File::open(directory)?.sync_all(),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
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
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let metadata = fs::metadata(path(directory.path())).expect("metadata");
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn an_empty_file_is_no_token() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(path(directory.path()), " \n").expect("written");
        let error = read(directory.path()).expect_err("no token");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
