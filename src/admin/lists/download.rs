//! Downloads.

use crate::admin::outside::*;
use crate::admin::widgets::body_view::kind_of;
use crate::base::request_memory::RequestMemory;
use crate::model::limits::EVENT_BYTES_MAX;
use axum::{BoxError, Extension};
use futures_util::stream;
use http::header::CONTENT_DISPOSITION;

pub(crate) const NDJSON: &str = "application/x-ndjson";

/// Rows that are searched at once for a file, without what their events carry.
pub(crate) const FILE_BATCH: usize = 20;

/// Bytes of a file after which a piece of it is handed over. One has more by what its last row has.
const PIECE_BYTES: usize = 256 * 1_024;

/// A file of this name, which has nothing in it that a header could not have.
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

/// How the rows of a file stand in it.
#[derive(Clone, Copy)]
pub(crate) struct Framing {
    content_type: &'static str,
    opens: &'static str,
    between: &'static str,
    ends: &'static str,
}

/// Each of them is a line.
pub(crate) const LINES: Framing = Framing {
    content_type: NDJSON,
    opens: "",
    between: "",
    ends: "",
};

/// They are one array of JSON.
pub(crate) const ARRAY: Framing = Framing {
    content_type: "application/json",
    opens: "[",
    between: ",",
    ends: "]\n",
};

/// The rows of a file that is written while it is read.
pub(crate) trait Rows: Send + 'static {
    /// Returns what the file has of the next row, which ends with a line break; `None` after the last one.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<u8>>, StoreError>> + Send;
}

/// A file that is written while it is read, in pieces: of one that is not taken no more than a piece is kept, which counts from
/// before it is read. An error cuts the file off, which the browser tells as a failed download.
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

/// Data is kept as it was published, and may have line breaks between its parts; in texts there are none.
pub(crate) fn on_one_line(mut json: Vec<u8>) -> Vec<u8> {
    let breaks = json.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r'));
    breaks.for_each(|byte| *byte = b' ');
    json
}

#[cfg(test)]
mod tests {
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
