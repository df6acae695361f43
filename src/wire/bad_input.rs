//! Why a publish request is rejected, in words that tell what to change.

use std::fmt;

/// How much of a rejected value is shown.
const SHOWN_CHARS: usize = 64;

/// Why nothing of a publish request is taken: one bad event rejects them all (rule A).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadInput {
    pub kind: BadInputKind,
    /// Which event of an array is meant, from 0.
    pub index: Option<usize>,
    /// The property, attribute or header that is at fault.
    pub field: Option<String>,
    /// The fault, and what would be right.
    pub problem: String,
    /// The kind of JSON that is expected and the kind that was found, if this is the fault. `problem` says it in Event
    /// Grid's words; these words are for people.
    pub misfit: Option<(&'static str, &'static str)>,
}

/// Which status answers it (rule 1.5).
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
