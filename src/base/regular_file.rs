//! Opens files that someone else may have created. A pipe or a device instead of a regular file is an error, so the
//! server neither waits for another process nor reads without end.

use std::fs::{self, File, FileType};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Opens a regular file for reading. Follows symbolic links, because Kubernetes creates links for its secrets.
pub fn open(path: &Path) -> io::Result<File> {
    check(fs::metadata(path)?.file_type())?;
    open_with(path, OFlags::empty())
}

/// Opens a regular file for reading. Fails if `path` is a symbolic link.
pub fn open_unlinked(path: &Path) -> io::Result<File> {
    check(fs::symlink_metadata(path)?.file_type())?;
    open_with(path, OFlags::NOFOLLOW)
}

/// Opens a file and checks its type again, because the file may have been replaced since the caller checked its type.
fn open_with(path: &Path, flags: OFlags) -> io::Result<File> {
    let waiting_for_nobody = OFlags::NONBLOCK | OFlags::NOCTTY;
    let all = OFlags::RDONLY | OFlags::CLOEXEC | waiting_for_nobody | flags;
    let file = File::from(rustix::fs::open(path, all, Mode::empty())?);
    check(file.metadata()?.file_type())?;
    Ok(file)
}

fn check(found: FileType) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    let kinds = [
        (found.is_dir(), "a directory"),
        (found.is_symlink(), "a link"),
        (found.is_fifo(), "a pipe"),
        (found.is_socket(), "a socket"),
    ];
    let known = kinds.into_iter().find(|(is_so, _)| *is_so);
    let kind = known.map_or("a device", |(_, kind)| kind);
    Err(io::Error::other(format!(
        "it is {kind}, and must be a file"
    )))
}

/// Makes a pipe that nobody ever writes to.
#[cfg(test)]
pub(crate) fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo runs").success(), "{}", path.display());
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::{fs, make_pipe, open, open_unlinked};

    #[test]
    fn a_file_is_opened_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "text").expect("a file");
        symlink("file", at("link")).expect("a link");
        for opened in [
            open(&at("file")),
            open(&at("link")),
            open_unlinked(&at("file")),
        ] {
            let mut text = String::new();
            let read = opened.and_then(|mut file| file.read_to_string(&mut text));
            assert_eq!((read.ok(), text.as_str()), (Some(4), "text"));
        }
        let link = open_unlinked(&at("link")).expect_err("a link");
        assert_eq!(link.to_string(), "it is a link, and must be a file");

        make_pipe(&at("pipe"));
        let _listener = UnixListener::bind(at("socket")).expect("a socket");
        symlink("/dev/zero", at("device")).expect("a link");
        symlink("pipe", at("link to a pipe")).expect("a link");
        for (name, kind) in [
            (".", "a directory"),
            ("pipe", "a pipe"),
            ("link to a pipe", "a pipe"),
            ("socket", "a socket"),
            ("device", "a device"),
        ] {
            let told = open(&at(name)).expect_err(name).to_string();
            assert_eq!(told, format!("it is {kind}, and must be a file"), "{name}");
        }
        for missing in [open(&at("none")), open_unlinked(&at("none"))] {
            let error = missing.expect_err("nothing is there");
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        }
    }
}
