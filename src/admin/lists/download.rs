//! Downloads.

use crate::admin::outside::*;
use crate::admin::widgets::body_view::kind_of;
use futures_util::future::OptionFuture;
use futures_util::{FutureExt, stream};
use http::header::CONTENT_DISPOSITION;

pub(crate) const NDJSON: &str = "application/x-ndjson";

/// Events read at once for a file: they bound its memory together with the size of an event.
pub(crate) const FILE_BATCH: usize = 20;

/// A file of this name, which has nothing in it that a header could not have.
pub(crate) fn file(name: &str, content_type: &str, body: impl Into<Body>) -> Response {
    let name = format!("attachment; filename=\"{name}\"");
    let headers = [
        (CONTENT_TYPE, content_type.to_owned()),
        (CONTENT_DISPOSITION, name),
    ];
    (headers, body.into()).into_response()
}

/// What an event or a message carries, under a name that ends as it looks.
pub(crate) fn body_file(name: &str, body: Vec<u8>) -> Response {
    let (ending, kind) = kind_of(&body);
    file(&format!("{name}.{ending}"), kind, body)
}

/// A file that is written while it is read: `next` gives a batch and from where to go on. An error cuts it off, which
/// the browser tells as a failed download.
pub(crate) fn streamed<S, F>(
    name: &str,
    content_type: &str,
    first: S,
    mut next: impl FnMut(S) -> F + Send + 'static,
) -> Response
where
    S: Send + 'static,
    F: Future<Output = Result<(Vec<u8>, Option<S>), StoreError>> + Send + 'static,
{
    let batches = stream::try_unfold(Some(first), move |rest| {
        OptionFuture::from(rest.map(&mut next)).map(Option::transpose)
    });
    file(name, content_type, Body::from_stream(batches))
}

pub(crate) fn line(body: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(body).expect("texts, numbers and what was JSON before");
    line = on_one_line(line);
    line.push(b'\n');
    line
}

/// Data is kept as it was published, and may have line breaks between its parts; in texts there are none.
pub(crate) fn on_one_line(mut json: Vec<u8>) -> Vec<u8> {
    let breaks = json.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r'));
    breaks.for_each(|byte| *byte = b' ');
    json
}
