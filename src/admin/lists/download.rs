//! Downloads.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};

/// The content type of one JSON value on each line.
pub(crate) const NDJSON: &str = "application/x-ndjson";

/// A file of this name, which has nothing in it that a header could not have.
pub(crate) fn file(name: &str, content_type: &str, body: impl Into<Body>) -> Response {
    let name = format!("attachment; filename=\"{name}\"");
    let headers = [
        (CONTENT_TYPE, content_type.to_owned()),
        (CONTENT_DISPOSITION, name),
    ];
    (headers, body.into()).into_response()
}

/// Data is kept as it was published, and may have line breaks between its parts; in texts there are none.
pub(crate) fn on_one_line(mut json: Vec<u8>) -> Vec<u8> {
    for byte in &mut json {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    json
}
