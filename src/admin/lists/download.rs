//! Downloads.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::{BoxError, Extension};
use futures_util::stream;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use serde::Serialize;

use crate::admin::widgets::body_view::kind_of;
use crate::base::request_memory::RequestMemory;
use crate::model::limits::EVENT_BYTES_MAX;
use crate::store::StoreError;

pub(crate) const NDJSON: &str = "application/x-ndjson";

/// Number of rows that one search for a file returns, without the data of their events.
pub(crate) const FILE_BATCH: usize = 20;

/// Bytes after which a chunk of a streamed file is sent. A chunk can exceed this by the size of its last row.
const PIECE_BYTES: usize = 256 * 1_024;

/// Returns a file as a download. Its `name` must contain only characters that are valid in a header.
pub(crate) fn file(name: &str, content_type: &str, body: impl Into<Body>) -> Response {
    let name = format!("attachment; filename=\"{name}\"");
    let headers = [
        (CONTENT_TYPE, content_type.to_owned()),
        (CONTENT_DISPOSITION, name),
    ];
    (headers, body.into()).into_response()
}

/// Returns the body of an event or a message as a file, whose name ends with the extension of its type.
pub(crate) fn body_file(name: &str, body: Vec<u8>) -> Response {
    let (ending, kind) = kind_of(&body);
    file(&format!("{name}.{ending}"), kind, body)
}

/// The text around and between the rows of a file, with its content type.
#[derive(Clone, Copy)]
pub(crate) struct Framing {
    content_type: &'static str,
    opens: &'static str,
    between: &'static str,
    ends: &'static str,
}

/// Writes each row as one line of NDJSON.
pub(crate) const LINES: Framing = Framing {
    content_type: NDJSON,
    opens: "",
    between: "",
    ends: "",
};

/// Writes all rows as one JSON array.
pub(crate) const ARRAY: Framing = Framing {
    content_type: "application/json",
    opens: "[",
    between: ",",
    ends: "]\n",
};

/// The rows of a file that is written while it is read.
pub(crate) trait Rows: Send + 'static {
    /// Returns the text of the next row in the file, which ends with a line break; `None` after the last row.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<u8>>, StoreError>> + Send;
}

/// Returns a file that is written in chunks while its rows are read. If the client stops reading, at most one chunk is
/// kept in memory. The memory of a chunk is reserved before its rows are read. An error cuts the file off, and the
/// browser reports a failed download.
pub(crate) fn streamed(
    name: &str,
    framing: Framing,
    memory: Option<Extension<RequestMemory>>,
    rows: impl Rows,
) -> Response {
    let pieces = stream::try_unfold(Some((rows, framing.opens)), move |left| {
        let counted = memory.clone();
        async move {
            let Some((mut rows, mut sign)) = left else {
                return Ok(None);
            };
            if let Some(Extension(counted)) = &counted {
                counted.reserve(PIECE_BYTES + EVENT_BYTES_MAX).await?;
            }
            let mut piece = Vec::new();
            while piece.len() < PIECE_BYTES {
                let Some(row) = rows.next().await? else {
                    let signs = [if sign == framing.opens { sign } else { "" }, framing.ends];
                    piece.extend(signs.concat().bytes());
                    return Ok(Some((piece, None)));
                };
                piece.extend(sign.bytes());
                piece.extend(row);
                sign = framing.between;
            }
            Ok::<_, BoxError>(Some((piece, Some((rows, sign)))))
        }
    });
    file(name, framing.content_type, Body::from_stream(pieces))
}

pub(crate) fn line(body: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(body).expect("texts, numbers and what was JSON before");
    line = on_one_line(line);
    line.push(b'\n');
    line
}

/// Puts JSON on one line. Event data is stored as published and may have line breaks between its tokens, but never
/// inside a JSON string.
pub(crate) fn on_one_line(mut json: Vec<u8>) -> Vec<u8> {
    let breaks = json.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r'));
    breaks.for_each(|byte| *byte = b' ');
    json
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::BodyExt;

    use super::*;
    use crate::base::budget::Budget;

    /// Two of them are a piece.
    const ROW_BYTES: usize = PIECE_BYTES / 2;

    /// Counts rows that were read.
    struct Endless(Arc<AtomicUsize>);

    impl Rows for Endless {
        async fn next(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Some(vec![b'x'; ROW_BYTES]))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_read_in_pieces_and_only_where_there_is_memory() {
        const ENOUGH: usize = 10_000_000;
        let account = Budget::of(usize::MAX / 2).account([None, None], ENOUGH);
        let memory = RequestMemory::take(&account, 0).expect("nothing");
        let read = Arc::new(AtomicUsize::new(0));
        let rows = Endless(Arc::clone(&read));
        let counted = Some(Extension(memory.clone()));
        let mut body = streamed("x", LINES, counted, rows).into_body();
        for pieces in 1..=2 {
            let piece = body.frame().await.expect("goes on").expect("a piece");
            let bytes = piece.into_data().expect("bytes").len();
            let rows_read = read.load(Ordering::Relaxed);
            assert_eq!((bytes, rows_read), (PIECE_BYTES, pieces * 2));
            assert!(account.taken() >= PIECE_BYTES, "it counts");
            memory.answer_anyway(bytes);
        }
        let mut others = account.nothing();
        others.add_anyway(ENOUGH);
        assert!(body.frame().await.expect("an end").is_err());
        assert_eq!(read.load(Ordering::Relaxed), 4, "nothing is read in vain");
    }
}
