//! Reasons for rejecting a publish request, in words that state the necessary change.

use std::fmt;

/// Maximum number of characters of a rejected value that an error shows.
const SHOWN_CHARS: usize = 64;

/// The reason why a publish request is rejected. One bad event rejects all events of the request (rule A).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadInput {
    pub kind: BadInputKind,
    /// The index of the event at fault in the array, from 0.
    pub index: Option<usize>,
    /// The property, attribute or header that is at fault.
    pub field: Option<String>,
    /// The fault, and what would be right.
    pub problem: String,
    /// The expected and the found kind of JSON, in words for people, if they differ. `problem` states the difference in
    /// Event Grid's words.
    pub misfit: Option<(&'static str, &'static str)>,
}

/// The kind of fault, which decides the status of the response (rule 1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadInputKind {
    /// 400
    Malformed,
    /// 413
    TooLarge,
    /// 415
    UnsupportedEncoding,
}

impl BadInput {
    pub(super) fn malformed(problem: impl Into<String>) -> Self {
        Self::new(BadInputKind::Malformed, problem)
    }

    pub(super) fn new(kind: BadInputKind, problem: impl Into<String>) -> Self {
        Self {
            kind,
            index: None,
            field: None,
            problem: problem.into(),
            misfit: None,
        }
    }

    pub(super) fn in_field(field: &str, problem: impl Into<String>) -> Self {
        Self {
            field: Some(shortened(field)),
            ..Self::malformed(problem)
        }
    }

    /// Sets the index of the event that is at fault.
    pub(super) fn at(self, index: usize) -> Self {
        Self {
            index: Some(index),
            ..self
        }
    }
}

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.index, &self.field) {
            (Some(index), Some(field)) => write!(f, "event [{index}], field {field:?}: ")?,
            (Some(index), None) => write!(f, "event [{index}]: ")?,
            (None, Some(field)) => write!(f, "field {field:?}: ")?,
            (None, None) => {}
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for BadInput {}

/// A rejected value in quotes, cut to a length that suits an error.
pub(super) fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
}

/// A rejected value cut to a length that suits an error.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_where_and_what() {
        let bare = BadInput::malformed("wrong");
        assert_eq!(bare.to_string(), "wrong");
        assert_eq!(bare.at(2).to_string(), "event [2]: wrong");
        let field = BadInput::in_field("id", "wrong");
        assert_eq!(field.to_string(), r#"field "id": wrong"#);
        assert_eq!(field.at(0).to_string(), r#"event [0], field "id": wrong"#);
    }

    #[test]
    fn long_values_are_cut() {
        assert_eq!(quoted("ä\"b"), r#""ä\"b""#);
        assert_eq!(quoted(&"ä".repeat(65)), format!("\"{}…\"", "ä".repeat(64)));
    }
}
