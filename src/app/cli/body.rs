//! Files with what the user wrote.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::model::limits::{MANAGEMENT_BYTES_MAX, PUBLISH_BYTES_MAX};

/// Bytes of an event, laid out generously. Servers may be set to take more than by default.
const EVENT_BYTES_MAX: usize = 16 * PUBLISH_BYTES_MAX;

/// Bytes of a file with a secret: of a password of any sensible length.
const SECRET_BYTES_MAX: usize = 4_096;

/// Reads a JSON object from a file; `-` is standard input.
pub(super) fn read(path: &Path) -> anyhow::Result<Value> {
    let text = read_text(path, MANAGEMENT_BYTES_MAX)?;
    let shown = path.display();
    let value: Value =
        serde_json::from_str(&text).with_context(|| format!("{shown} is not JSON"))?;
    match value.is_object() {
        true => Ok(value),
        false => bail!("{shown} is not a JSON object"),
    }
}

/// Reads an event from a file as it is written there; `-` is standard input.
pub(super) fn read_event(path: &Path) -> anyhow::Result<String> {
    let text = read_text(path, EVENT_BYTES_MAX)?;
    let event: Box<RawValue> =
        serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
    Ok(event.get().to_owned())
}

/// Reads a secret of one line; `-` is standard input.
pub(super) fn read_secret(path: &Path) -> anyhow::Result<String> {
    let text = read_text(path, SECRET_BYTES_MAX)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn read_text(path: &Path, bytes_max: usize) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut source = open(path)?.take(bytes_max as u64 + 1);
    let shown = path.display();
    source
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {shown}"))?;
    if text.len() > bytes_max {
        bail!("{shown} is longer than {bytes_max} bytes, more than any server takes");
    }
    Ok(text)
}

/// Opens a file; `-` is standard input.
pub(super) fn open(path: &Path) -> anyhow::Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Box::new(file))
}
