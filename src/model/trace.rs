//! Distributed traces: the trace context of the W3C, and spans.

use std::fmt;

use crate::base::Timestamp;

/// The header, and the extension attribute of CloudEvents, that holds a trace context.
pub const TRACEPARENT: &str = "traceparent";

/// The maximum number of links of a span, which is the default of OpenTelemetry's libraries.
pub const SPAN_LINKS_MAX: usize = 128;

/// The maximum size in bytes of a span attribute's value, since publishers choose ids and types of any length.
const VALUE_BYTES_MAX: usize = 256;

/// A position in a distributed trace: the trace id and the id of the current span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub trace: u128,
    pub span: u64,
    /// Is true if the trace is recorded by the service that began it.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Parses `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`. Later versions may append further fields.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut hex = |length: usize| {
            let part = parts.next().filter(|part| part.len() == length)?;
            let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            part.bytes()
                .all(is_hex)
                .then(|| u128::from_str_radix(part, 16).ok())?
        };
        let (version, trace, span, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
        let is_valid = version != 0xff && (version > 0 || parts.next().is_none());
        (is_valid && trace != 0 && span != 0).then_some(Self {
            trace,
            span: u64::try_from(span).ok()?,
            is_sampled: flags & 1 == 1,
        })
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        write!(f, "00-{:032x}-{:016x}-{flags:02x}", self.trace, self.span)
    }
}

/// An operation, from its start to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub context: TraceContext,
    /// The id of the parent span.
    pub parent: Option<u64>,
    /// The contexts of other spans that the span is related to.
    pub links: Vec<TraceContext>,
    pub name: String,
    pub kind: SpanKind,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub attributes: Vec<(&'static str, SpanValue)>,
    /// The kind of error, in a word.
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A request that was answered.
    Server,
    /// A request that was made.
    Client,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpanValue {
    Text(String),
    Number(u64),
}

impl SpanValue {
    /// The text, cut where it is too long.
    pub fn text(text: &str) -> Self {
        Self::Text(text[..text.floor_char_boundary(VALUE_BYTES_MAX)].to_owned())
    }

    pub fn count(count: usize) -> Self {
        Self::Number(u64::try_from(count).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_as_the_w3c_writes_them() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let span = "b7ad6b7169203331";
        for (text, is_sampled) in [
            (format!("00-{trace}-{span}-01"), Some(true)),
            (format!("00-{trace}-{span}-00"), Some(false)),
            (format!("00-{trace}-{span}-03"), Some(true)),
            (format!("cc-{trace}-{span}-01-more"), Some(true)),
            (format!("00-{trace}-{span}-01-more"), None),
            (format!("ff-{trace}-{span}-01"), None),
            (format!("00-{}-{span}-01", "0".repeat(32)), None),
            (format!("00-{trace}-{}-01", "0".repeat(16)), None),
            (format!("00-{}-{span}-01", trace.to_uppercase()), None),
            (format!("00-{trace}-{span}"), None),
            (format!("00-{trace}-{span}-+1"), None),
            (String::new(), None),
        ] {
            let read = TraceContext::parse(&text);
            assert_eq!(read.map(|read| read.is_sampled), is_sampled, "{text}");
            if let Some(read) = read {
                assert_eq!(TraceContext::parse(&read.to_string()), Some(read));
            }
        }
    }
}
