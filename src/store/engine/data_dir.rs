//! The data directory: private, locked by one process, and never on a network file system.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Network file systems, where SQLite cannot rely on locks and flushes.
const NETWORK_FILE_SYSTEMS: [&str; 8] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "fuse.sshfs",
];

/// Name of the lock file. The file is never deleted, and contains the id of the process.
pub(super) const LOCK: &str = "LOCK";

/// A directory that only this process uses until the value is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Lock file, kept open to hold the lock.
    _lock: File,
}

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error(
        "{path} is in use by the everpost process {pid}; stop it, or choose another --data-dir"
    )]
    InUse { path: String, pid: String },
    #[error(
        "{path} is on a network file system ({kind}), where a database can be damaged; choose a \
         local --data-dir"
    )]
    Network { path: String, kind: String },
    #[error("{path}: {cause}")]
    Io { path: String, cause: io::Error },
}

impl DataDir {
    /// Creates the directory (0700) if it is missing, and locks it.
    pub fn open(path: &Path) -> Result<Self, DataDirError> {
        let io = |cause| DataDirError::Io {
            path: path.display().to_string(),
            cause,
        };
        create_dir(path).map_err(io)?;
        let real_path = path.canonicalize().map_err(io)?;
        reject_network(
            &real_path,
            &std::fs::read_to_string("/proc/self/mounts").unwrap_or_default(),
        )?;
        std::fs::set_permissions(&real_path, PermissionsExt::from_mode(0o700)).map_err(io)?;
        let lock = take_lock(&real_path)?;
        Ok(Self {
            path: real_path,
            _lock: lock,
        })
    }

    /// Returns the absolute path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file in the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the free bytes on the disk of the directory.
    pub fn free_bytes(&self) -> io::Result<u64> {
        free_bytes(&self.path)
    }

    /// Flushes the directory, so that new files in it survive a power loss.
    pub fn sync(&self) -> io::Result<()> {
        sync_dir(&self.path)
    }
}

/// Creates a directory and its missing parents, and flushes each new name, so that it survives a power loss.
fn create_dir(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|dir| is_missing(dir)).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    missing.into_iter().try_for_each(sync_parent)
}

fn is_missing(dir: &Path) -> bool {
    !dir.as_os_str().is_empty() && !dir.exists()
}

/// Returns the free bytes on the disk of a file or directory.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Flushes a directory, so that new names in it survive a power loss.
pub(in crate::store) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Flushes the parent directory, so that the name of a file or directory survives a power loss.
pub(in crate::store) fn sync_parent(path: &Path) -> io::Result<()> {
    let named = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    sync_dir(named.unwrap_or(Path::new(".")))
}

/// Writes a file atomically. Only the owner of the file can read it.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let unfinished = path.with_extension("unfinished");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    sync_parent(path)
}

fn take_lock(dir: &Path) -> Result<File, DataDirError> {
    let path = dir.join(LOCK);
    let io = |cause| DataDirError::Io {
        path: path.display().to_string(),
        cause,
    };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(io)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            file.read_to_string(&mut pid).map_err(io)?;
            let path = dir.display().to_string();
            return Err(DataDirError::InUse {
                path,
                pid: pid.trim().to_owned(),
            });
        }
        Err(TryLockError::Error(cause)) => return Err(io(cause)),
    }
    file.set_len(0).and_then(|()| file.rewind()).map_err(io)?;
    writeln!(file, "{}", std::process::id()).map_err(io)?;
    Ok(file)
}

/// Rejects a path on a network file system. `mounts` has a line `device mount-point type options …` for each
/// mount.
fn reject_network(path: &Path, mounts: &str) -> Result<(), DataDirError> {
    let mount = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            Some((words.next()?.replace("\\040", " "), words.next()?))
        })
        .filter(|(point, _)| path.starts_with(point))
        .max_by_key(|(point, _)| point.len());
    match mount {
        Some((_, kind)) if NETWORK_FILE_SYSTEMS.contains(&kind) => Err(DataDirError::Network {
            path: path.display().to_string(),
            kind: kind.to_owned(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_private_and_has_one_owner() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("data");
        let first = DataDir::open(&path).expect("a new directory");
        let mode = std::fs::metadata(&path)
            .expect("its facts")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        let second = DataDir::open(&path).expect_err("it is in use");
        assert!(
            second
                .to_string()
                .contains(&format!("process {};", std::process::id())),
            "{second}"
        );
        drop(first);
        DataDir::open(&path).expect("it is free again");
    }

    #[test]
    fn private_files_are_replaced_whole() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("management.token");
        write_private(&path, "one\n").expect("a file");
        write_private(&path, "two\n").expect("the file again");
        assert_eq!(std::fs::read_to_string(&path).expect("its text"), "two\n");
        let mode = std::fs::metadata(&path)
            .expect("its facts")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn network_file_systems_are_rejected() {
        let mounts = "/dev/vda / ext4 rw 0 0\nhost:/x /mnt/share nfs4 rw 0 0\n/dev/b /mnt/share/local xfs rw 0 0\n";
        for (path, rejected) in [
            ("/var/lib", false),
            ("/mnt/share", true),
            ("/mnt/share/data", true),
            ("/mnt/shared", false),
            ("/mnt/share/local/data", false),
        ] {
            assert_eq!(
                reject_network(Path::new(path), mounts).is_err(),
                rejected,
                "{path}"
            );
        }
    }
}
