//! Content types, character sets and encodings of bodies, as their headers state them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::model::limits::JSON_DEPTH_MAX;
use crate::wire::bad_input::{BadInput, BadInputKind, quoted};
use crate::wire::json;

/// The content type of deliveries in the Event Grid schema and of custom events (rule 6.2).
pub(super) const JSON: &str = "application/json; charset=utf-8";

/// The content type of a delivery of one CloudEvent (rule 6.2).
pub(super) const CLOUD_EVENT: &str = "application/cloudevents+json; charset=utf-8";

/// The content type of a delivery of a batch of CloudEvents (rule 6.2).
pub(super) const CLOUD_EVENTS_BATCH: &str = "application/cloudevents-batch+json; charset=utf-8";

/// A `Content-Type`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContentType {
    /// The whole value of the header as it was received.
    pub(super) text: String,
    /// Type and subtype, in lower case.
    pub(super) essence: String,
    /// The character set, in lower case.
    charset: Option<String>,
}

impl ContentType {
    pub(super) fn parse(text: &str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let essence = parts.next().unwrap_or("").to_ascii_lowercase();
        let charset = parts.find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            let charset = value.trim().trim_matches('"').to_ascii_lowercase();
            name.trim()
                .eq_ignore_ascii_case("charset")
                .then_some(charset)
        });
        Self {
            text: text.to_owned(),
            essence,
            charset,
        }
    }

    /// Reads the content type from `headers`; `None` if there is none.
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Self>, BadInput> {
        let Some(value) = headers.get(CONTENT_TYPE) else {
            return Ok(None);
        };
        match value.to_str() {
            Ok(text) => Ok(Some(Self::parse(text))),
            Err(_) => Err(BadInput::in_field("Content-Type", "it is not plain ASCII")),
        }
    }

    /// Reports whether data of this type is a JSON value (rule 2.5).
    pub(super) fn is_json(&self) -> bool {
        self.essence.ends_with("/json") || self.essence.ends_with("+json")
    }

    /// Reports whether data of this type is text.
    pub(super) fn is_text(&self) -> bool {
        self.essence.starts_with("text/")
            || self.essence.ends_with("/xml")
            || self.essence.ends_with("+xml")
    }

    /// Reports whether text of this type is UTF-8, which is the default if no character set is named.
    pub(super) fn is_utf8(&self) -> bool {
        let charset = self.charset.as_deref().unwrap_or("utf-8");
        matches!(charset, "utf-8" | "utf8" | "us-ascii")
    }
}

/// Rejects a compressed body, since the size limit applies to the body as it is received.
pub(super) fn reject_content_encoding(headers: &HeaderMap) -> Result<(), BadInput> {
    let encoding = headers.get_all(CONTENT_ENCODING).iter().find(|value| {
        let coding = value.as_bytes().trim_ascii();
        !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")
    });
    match encoding {
        None => Ok(()),
        Some(_) => Err(BadInput {
            field: Some("Content-Encoding".to_owned()),
            ..BadInput::new(
                BadInputKind::UnsupportedEncoding,
                "compressed bodies are not taken; send the body as it is",
            )
        }),
    }
}

/// Returns a JSON body as text, not yet parsed.
pub(super) fn json_text<'a>(headers: &HeaderMap, body: &'a [u8]) -> Result<&'a str, BadInput> {
    json_text_of(ContentType::of(headers)?.as_ref(), body)
}

/// Returns a JSON body with the given content type as text, not yet parsed.
pub(super) fn json_text_of<'a>(
    content_type: Option<&ContentType>,
    body: &'a [u8],
) -> Result<&'a str, BadInput> {
    if let Some(content_type) = content_type
        && !content_type.is_utf8()
    {
        return Err(foreign_charset(content_type));
    }
    let text = std::str::from_utf8(body).map_err(|error| {
        let at = error.valid_up_to();
        BadInput::malformed(format!("the body is not UTF-8 from byte {at} on"))
    })?;
    let text = without_byte_order_mark(text);
    reject_deep(text)?;
    Ok(text)
}

/// Removes a byte order mark. Senders must not add one, but .NET and PowerShell do, and readers may ignore it (RFC
/// 8259, 8.1).
fn without_byte_order_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Reports whether a body without a content type is JSON.
pub(super) fn is_json(body: &[u8]) -> bool {
    let text = std::str::from_utf8(body).map(without_byte_order_mark);
    text.is_ok_and(|text| serde_json::from_str::<&RawValue>(text).is_ok())
}

/// Rejects JSON that is nested too deeply. `RawValue`, with which the JSON is parsed later, does not limit the depth.
fn reject_deep(text: &str) -> Result<(), BadInput> {
    if json::is_deeper_than(text, JSON_DEPTH_MAX) {
        return Err(BadInput::malformed(format!(
            "the JSON is nested more than {JSON_DEPTH_MAX} levels deep"
        )));
    }
    Ok(())
}

/// Returns the error for text in a character set other than UTF-8.
fn foreign_charset(content_type: &ContentType) -> BadInput {
    let charset = quoted(content_type.charset.as_deref().unwrap_or(""));
    BadInput {
        field: Some("Content-Type".to_owned()),
        ..BadInput::new(
            BadInputKind::UnsupportedEncoding,
            format!("the character set {charset} is not supported; send UTF-8"),
        )
    }
}

/// Returns the beginning of a body as text, without an incomplete character at its end; `None` if it is not UTF-8.
pub fn text_beginning(beginning: &[u8]) -> Option<&str> {
    match std::str::from_utf8(beginning) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&beginning[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

/// The beginning of a body as answers show it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BodyBeginning {
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// In the place of `body` if it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

impl BodyBeginning {
    /// Shows the `beginning` of a body that has `bytes` bytes in all.
    pub fn new(beginning: &[u8], bytes: u64) -> Self {
        let body = text_beginning(beginning);
        Self {
            truncated: u64::try_from(beginning.len()).is_ok_and(|kept| kept < bytes),
            body: body.map(str::to_owned),
            body_base64: body.is_none().then(|| STANDARD.encode(beginning)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_character_does_not_make_text_binary() {
        assert_eq!(text_beginning("aä".as_bytes()), Some("aä"));
        assert_eq!(text_beginning(&"aä".as_bytes()[..2]), Some("a"));
        assert_eq!(text_beginning(b"a\xff\xfeb"), None);
        assert_eq!(text_beginning(b""), Some(""));
    }
}
