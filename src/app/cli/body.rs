//! Request bodies that the user wrote.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::model::limits::MANAGEMENT_BYTES_MAX;

/// Reads a JSON object from a file; `-` is standard input.
pub(super) fn read(path: &Path) -> anyhow::Result<Value> {
    let mut text = String::new();
    let mut source = open(path)?.take(MANAGEMENT_BYTES_MAX as u64 + 1);
    let shown = path.display();
    source
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {shown}"))?;
    if text.len() > MANAGEMENT_BYTES_MAX {
        bail!("{shown} is longer than {MANAGEMENT_BYTES_MAX} bytes, more than any server takes");
    }
    let value: Value =
        serde_json::from_str(&text).with_context(|| format!("{shown} is no JSON"))?;
    match value.is_object() {
        true => Ok(value),
        false => bail!("{shown} holds no JSON object"),
    }
}

/// Opens a file; `-` is standard input.
pub(super) fn open(path: &Path) -> anyhow::Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Box::new(file))
}
