//! Files that people write, read within bounds. Problems are sentences that begin behind the name of the file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::model::access::Secret;

/// Bytes of a file with secrets.
const SECRETS_MAX: usize = 65_536;

/// Opens a file; `-` is standard input.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read>, String> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).map_err(|error| format!("cannot be read: {error}"))?;
    Ok(Box::new(file))
}

/// Reads a text of at most `bytes_max` bytes; `-` is standard input.
pub(super) fn text(path: &Path, bytes_max: usize) -> Result<String, String> {
    let mut text = String::new();
    let mut file = open(path)?.take(bytes_max as u64 + 1);
    let read = file.read_to_string(&mut text);
    match read.map_err(|error| format!("cannot be read: {error}"))? > bytes_max {
        true => Err(format!("is longer than {bytes_max} bytes")),
        false => Ok(text),
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
    match secret.reveal().contains(['\r', '\n']) {
        true => Err("has more than one line".to_owned()),
        false => Ok(secret),
    }
}
