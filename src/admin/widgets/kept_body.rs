//! The body of a request, of which perhaps only the beginning is kept, ready to print.

use serde::de::IgnoredAny;

use super::{json_text, print};
use crate::wire::text_beginning;

/// The body as a text that does nothing, and what is to be said of it.
pub(crate) struct KeptBody {
    pub(crate) text: String,
    pub(crate) note: String,
}

impl KeptBody {
    /// `shown` is what there is to show of a body of so many bytes. A whole JSON body is laid out; what is cut would
    /// lose its shape.
    pub(crate) fn new(shown: &[u8], bytes: u64) -> Self {
        let is_whole = shown.len() as u64 == bytes;
        let text = match text_beginning(shown) {
            Some(json) if is_whole && serde_json::from_str::<IgnoredAny>(json).is_ok() => {
                json_text::laid_out(json)
            }
            Some(text) => text.to_owned(),
            None => String::from_utf8_lossy(shown).into_owned(),
        };
        let beginning = format!("first {} of ", print::bytes(shown.len() as u64));
        Self {
            text: print::visible(&text),
            note: if is_whole { String::new() } else { beginning } + &print::bytes(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_json_is_laid_out_and_the_rest_stays_as_it_came() {
        for (shown, bytes, text, note) in [
            (&b"[1]"[..], 3, "[\n  1\n]", "3 B"),
            (b"[1]", 2_048, "[1]", "first 3 B of 2 KiB"),
            (b"[1", 2, "[1", "2 B"),
            (b"a\xff\0", 3, "a\u{fffd}\\u{0}", "3 B"),
            (b"", 0, "", "0 B"),
        ] {
            let body = KeptBody::new(shown, bytes);
            assert_eq!((body.text.as_str(), body.note.as_str()), (text, note));
        }
    }
}
