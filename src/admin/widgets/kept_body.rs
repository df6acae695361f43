//! The body of a request, of which perhaps only the beginning is kept, ready to print.

use crate::admin::widgets::{json_text, print};
use crate::wire::text_beginning;

/// The body as a text that does nothing, and what is to be said of it.
pub(crate) struct KeptBody {
    /// Empty where there was none.
    pub(crate) text: String,
    /// Its size, and whether this is all of it.
    pub(crate) note: String,
}

impl KeptBody {
    /// `shown` is what there is to show of a body of so many bytes.
    pub(crate) fn new(shown: &[u8], bytes: u64) -> Self {
        let is_whole = u64::try_from(shown.len()).is_ok_and(|shown| shown == bytes);
        let size = print::bytes(bytes);
        Self {
            text: readable(shown, is_whole),
            note: match is_whole {
                true => size,
                false => format!("{size}, of which this is the beginning"),
            },
        }
    }
}

/// A whole JSON body is laid out; what is cut would lose its shape.
fn readable(bytes: &[u8], is_whole: bool) -> String {
    let Some(text) = text_beginning(bytes) else {
        return print::visible(&String::from_utf8_lossy(bytes));
    };
    let is_json = is_whole && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    match is_json {
        true => print::visible(&json_text::laid_out(text)),
        false => print::visible(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_json_is_laid_out_and_the_rest_stays_as_it_came() {
        for (shown, bytes, text, note) in [
            (&b"[1]"[..], 3, "[\n  1\n]", "3 B"),
            (
                b"[1]",
                2_048,
                "[1]",
                "2.0 KiB, of which this is the beginning",
            ),
            (b"[1", 2, "[1", "2 B"),
            (b"a\xff\0", 3, "a\u{fffd}\\u{0}", "3 B"),
            (b"", 0, "", "0 B"),
        ] {
            let body = KeptBody::new(shown, bytes);
            assert_eq!((body.text.as_str(), body.note.as_str()), (text, note));
        }
    }
}
