//! JSON from files; `-` is standard input.

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::app::files;
use crate::model::limits::{MANAGEMENT_BYTES_MAX, PUBLISH_BYTES_MAX};

/// Bytes of an event, laid out generously. Servers may be configured to accept more than by default.
const EVENT_BYTES_MAX: usize = 16 * PUBLISH_BYTES_MAX;

/// Reads a JSON object.
pub(super) fn read(path: &Path) -> anyhow::Result<Value> {
    let value: Value = serde_json::from_str(raw(path, MANAGEMENT_BYTES_MAX)?.get())?;
    if value.is_object() {
        Ok(value)
    } else {
        bail!("{} is not a JSON object", path.display())
    }
}

/// Reads an event as it is written there.
pub(super) fn read_event(path: &Path) -> anyhow::Result<Box<RawValue>> {
    raw(path, EVENT_BYTES_MAX)
}

fn raw(path: &Path, bytes_max: usize) -> anyhow::Result<Box<RawValue>> {
    let shown = path.display();
    let text = files::text(path, bytes_max).map_err(|problem| anyhow!("{shown} {problem}"))?;
    serde_json::from_str(&text).with_context(|| format!("{shown} is not JSON"))
}
