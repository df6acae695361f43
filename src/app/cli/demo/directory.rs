//! A directory for the time of the demonstration.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::Context;

use crate::base::Entropy;

/// Tries to remove the directory: the database's thread may still be closing its files.
const TRIES: u32 = 20;

/// The pause between two of them.
const PAUSE: Duration = Duration::from_millis(50);

/// A new, private directory, which is gone when the value is.
#[derive(Debug)]
pub(super) struct TemporaryDirectory {
    path: PathBuf,
    is_removed: bool,
}

impl TemporaryDirectory {
    /// Makes it where the system keeps temporary files, under a name that nobody can guess.
    pub(super) fn make(entropy: &Entropy) -> anyhow::Result<Self> {
        let name = format!("everpost-demo-{}", entropy.uuid().simple());
        let path = std::env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot make the temporary directory {}", path.display()))?;
        Ok(Self {
            path,
            is_removed: false,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it with everything inside.
    pub(super) fn remove(mut self) -> anyhow::Result<()> {
        self.is_removed = true;
        let removed = remove_all(&self.path);
        removed.with_context(|| {
            format!(
                "cannot remove the temporary directory {}; it is yours to remove",
                self.path.display()
            )
        })
    }
}

impl Drop for TemporaryDirectory {
    /// For errors on the way: what went wrong first is what is told.
    fn drop(&mut self) {
        if !self.is_removed {
            let _ = remove_all(&self.path);
        }
    }
}

fn remove_all(path: &Path) -> io::Result<()> {
    let mut tries_left = TRIES;
    loop {
        tries_left -= 1;
        match fs::remove_dir_all(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if tries_left == 0 => return Err(error),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_directory_is_private_and_goes_with_its_content() {
        let make = || TemporaryDirectory::make(&Entropy::Os).expect("a directory");
        let check = |directory: TemporaryDirectory, end: fn(TemporaryDirectory)| {
            let path = directory.path().to_owned();
            let mode = fs::metadata(&path).expect("metadata").permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
            fs::write(path.join("file"), "text").expect("written");
            end(directory);
            assert!(!path.exists());
        };
        check(make(), |directory| directory.remove().expect("removed"));
        check(make(), drop);
    }
}
