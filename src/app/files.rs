//! Files that people write, read within bounds. Problems are sentences that begin behind the name of the file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::base::regular_file;
use crate::model::access::Secret;

/// Bytes of a file with secrets.
const SECRETS_MAX: usize = 65_536;

/// Opens a file; `-` is standard input. A pipe or a device is an error, unless it is below `/dev`, as what a shell has
/// opened for the command is: who names that means it.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read>, String> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let is_meant = ["/dev", "/proc/self/fd"]
        .iter()
        .any(|above| path.starts_with(above));
    let opened = if is_meant {
        File::open(path)
    } else {
        regular_file::open(path)
    };
    let file = opened.map_err(|error| format!("cannot be read: {error}"))?;
    Ok(Box::new(file))
}

/// Reads a text of at most `bytes_max` bytes; `-` is standard input.
pub(super) fn text(path: &Path, bytes_max: usize) -> Result<String, String> {
    let mut text = String::new();
    let mut file = open(path)?.take(bytes_max as u64 + 1);
    let read = file.read_to_string(&mut text);
    if read.map_err(|error| format!("cannot be read: {error}"))? > bytes_max {
        Err(format!("is longer than {bytes_max} bytes"))
    } else {
        Ok(text)
    }
}

/// Reads secrets, a line each.
pub(super) fn secrets(path: &Path) -> Result<Secret, String> {
    match text(path, SECRETS_MAX)?.trim_end_matches(['\r', '\n']) {
        "" => Err("is empty".to_owned()),
        secrets => Ok(Secret::new(secrets)),
    }
}

/// Reads one secret.
pub(super) fn secret(path: &Path) -> Result<Secret, String> {
    let secret = secrets(path)?;
    if secret.reveal().contains(['\r', '\n']) {
        Err("has more than one line".to_owned())
    } else {
        Ok(secret)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::{Path, SECRETS_MAX, text};
    use crate::base::regular_file::make_pipe;

    #[test]
    fn links_are_followed_and_pipes_are_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        let read = |name: &str| text(&at(name), SECRETS_MAX);
        // A secret of Kubernetes.
        fs::create_dir(at("..data")).expect("a directory");
        fs::write(at("..data/key"), "sesame\n").expect("a file");
        symlink("..data/key", at("key")).expect("a link");
        assert_eq!(read("key"), Ok("sesame\n".to_owned()));

        symlink("/dev/zero", at("zeros")).expect("a link");
        make_pipe(&at("pipe"));
        for (name, kind) in [("zeros", "a device"), ("pipe", "a pipe")] {
            let told = format!("cannot be read: it is {kind}, and must be a file");
            assert_eq!(read(name), Err(told));
        }
        let meant = text(Path::new("/dev/null"), SECRETS_MAX);
        assert_eq!(meant, Ok(String::new()));
    }
}
