//! The body of an event or a message, shown in one of several formats.

use askama::Template;
use serde::de::IgnoredAny;

use super::json_text::JsonCode;
use super::{filters, part, print};
use crate::model::event::{Event, EventData};
use crate::store::accounts::Role;
use crate::wire::service_bus::message::of_event;
use crate::wire::text_beginning;

/// The maximum number of bytes shown as JSON or text; nobody reads more.
const TEXT_MAX: usize = 65_536;

/// The maximum number of bytes shown in hex, which takes four times the space.
const HEX_MAX: usize = 16_384;

/// The number of bytes in a line of hex.
const HEX_LINE: usize = 16;

#[derive(Debug, Template)]
#[template(path = "widgets/body.html")]
pub(crate) struct BodyView {
    title: &'static str,
    id: String,
    /// The page of the event or message with this body.
    page: String,
    /// The end of the address and the label of each format, and whether it is selected.
    ways: Vec<(String, &'static str, bool)>,
    code: Option<JsonCode>,
    text: String,
    is_hex: bool,
    pub(crate) bytes: usize,
    is_cut: bool,
    is_secret: bool,
}

part!(BodyView);

impl BodyView {
    /// Shows the body in the format `wanted`, or if that is not possible in the first possible one of JSON, text and
    /// hex.
    pub(crate) fn new(title: &'static str, page: &str, body: &[u8], wanted: &str) -> Self {
        let shown = &body[..body.len().min(TEXT_MAX)];
        let text = text_beginning(shown).filter(|text| !text.contains(is_no_text));
        let is_whole = shown.len() == body.len();
        let is_json = |text: &&str| is_whole && serde_json::from_str::<IgnoredAny>(text).is_ok();
        let json = text.filter(is_json);
        let known = [
            ("json", "JSON", json.is_some()),
            ("text", "Text", text.is_some()),
            ("hex", "Hex", true),
        ];
        let possible = || known.iter().filter(|(_, _, is_possible)| *is_possible);
        let way = possible()
            .find(|(way, _, _)| *way == wanted)
            .or_else(|| possible().next())
            .map_or("hex", |it| it.0);
        let link = |(name, title, _): &(&str, &'static str, bool)| {
            (format!("{page}?as={name}"), *title, *name == way)
        };
        let (code, text, shown) = match (way, json, text) {
            ("json", Some(json), _) => (Some(JsonCode::new(json)), String::new(), shown.len()),
            ("text", _, Some(text)) => (None, print::visible(text), text.len()),
            _ => {
                let shown = &body[..body.len().min(HEX_MAX)];
                (None, hex(shown), shown.len())
            }
        };
        Self {
            title,
            id: title.to_lowercase(),
            page: page.to_owned(),
            ways: possible().map(link).collect(),
            code,
            text,
            is_hex: way == "hex",
            bytes: body.len(),
            is_cut: shown < body.len(),
            is_secret: false,
        }
    }

    /// Hides the body from a role that may not see data.
    pub(crate) fn seen_by(self, role: Role) -> Self {
        let is_secret = !role.sees_data();
        Self { is_secret, ..self }
    }
}

/// Returns the data of an event; for a message its body.
pub(crate) fn carried_by(event: &Event) -> Vec<u8> {
    let of_message = of_event(event).map(|message| message.plain_body());
    of_message.unwrap_or_else(|| match &event.data {
        EventData::Absent => Vec::new(),
        EventData::Json(text) => text.clone().into_bytes(),
        EventData::Binary(bytes) => bytes.to_vec(),
    })
}

/// Returns the file extension and the content type for the body.
pub(crate) fn kind_of(body: &[u8]) -> (&'static str, &'static str) {
    match std::str::from_utf8(body) {
        Ok(text) if serde_json::from_str::<IgnoredAny>(text).is_ok() => {
            ("json", "application/json")
        }
        Ok(text) if !text.contains(is_no_text) => ("txt", "text/plain; charset=utf-8"),
        Ok(_) | Err(_) => ("bin", "application/octet-stream"),
    }
}

fn is_no_text(c: char) -> bool {
    c.is_control() && !c.is_whitespace()
}

/// Formats lines with the offset, the bytes in hex, and the printable ASCII characters.
fn hex(bytes: &[u8]) -> String {
    let line = |(at, bytes): (usize, &[u8])| {
        let codes = Vec::from_iter(bytes.iter().map(|byte| format!("{byte:02x}")));
        let visible = |byte: &u8| Some(char::from(*byte)).filter(|c| matches!(c, ' '..='~'));
        let text = bytes.iter().map(|byte| visible(byte).unwrap_or('.'));
        let text = String::from_iter(text);
        format!("{:04x}  {:47}  {text}\n", at * HEX_LINE, codes.join(" "))
    };
    bytes.chunks(HEX_LINE).enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_shown_in_the_way_that_tells_the_most() {
        let check = |body: &[u8], wanted: &str, way: &str, ways: usize| {
            let view = BodyView::new("Body", "/m", body, wanted);
            let chosen = view.ways.iter().find(|(_, _, chosen)| *chosen);
            assert_eq!(chosen.map(|(_, word, _)| *word), Some(way), "{view:?}");
            assert_eq!(view.ways.len(), ways, "{view:?}");
        };
        check(b"{\"a\":1}", "", "JSON", 3);
        check(b"{\"a\":1}", "hex", "Hex", 3);
        check(b"{\"a\":1}", "nonsense", "JSON", 3);
        check("größe".as_bytes(), "json", "Text", 2);
        for bytes in [&b"\x00\xff"[..], b"\x00a"] {
            check(bytes, "text", "Hex", 1);
        }
        let long = "ü".repeat(TEXT_MAX);
        let view = BodyView::new("Body", "/m", long.as_bytes(), "");
        assert!(view.is_cut && view.text.len() == TEXT_MAX);
        assert!(BodyView::new("Body", "/m", &[0; HEX_MAX + 1], "").is_cut);
    }

    #[test]
    fn hex_has_places_bytes_and_characters() {
        let lines = hex(b"0123456789abcdef\x00z");
        let codes = "30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66";
        let expected = format!(
            "0000  {codes}  0123456789abcdef\n0010  {:47}  .z\n",
            "00 7a"
        );
        assert_eq!(lines, expected);
    }

    #[test]
    fn files_are_called_by_what_is_in_them() {
        for (body, ending) in [
            (&b"[1]"[..], "json"),
            (b"a", "txt"),
            (b"\x00\x01", "bin"),
            (b"\xff", "bin"),
        ] {
            assert_eq!(kind_of(body).0, ending);
        }
    }
}
