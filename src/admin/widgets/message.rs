//! What a page has to say: about the last action, and about a list with nothing in it.

use super::*;

#[derive(Clone, Debug, PartialEq, Eq, Template, Serialize, Deserialize)]
#[template(path = "widgets/flash.html")]
pub(crate) struct Flash {
    tone: Tone,
    text: String,
}

#[derive(Clone, Debug, Template)]
#[template(path = "widgets/empty.html")]
pub(crate) struct Empty {
    icon: Icon,
    title: &'static str,
    text: &'static str,
    step: Option<(String, &'static str)>,
}

part!(Flash, Empty);

impl Flash {
    pub(crate) fn done(text: impl Into<String>) -> Self {
        let (tone, text) = (Tone::Good, text.into());
        Self { tone, text }
    }

    pub(crate) fn failed(text: impl Into<String>) -> Self {
        let (tone, text) = (Tone::Bad, text.into());
        Self { tone, text }
    }
}

impl Empty {
    pub(crate) fn new(icon: &'static str, title: &'static str, text: &'static str) -> Self {
        Self {
            icon: Icon(icon),
            title,
            text,
            step: None,
        }
    }

    /// Nothing fits what was asked of the list at `path`.
    pub(crate) fn no_match(title: &'static str, path: &str) -> Self {
        let step = Some((path.to_owned(), "Clear filters"));
        Self::new("search", title, "").leading_to(step)
    }

    pub(crate) fn saying(title: &'static str, step: Option<(String, &'static str)>) -> Self {
        Self::new("none", title, "").leading_to(step)
    }

    pub(crate) fn leading_to(self, step: Option<(String, &'static str)>) -> Self {
        Self { step, ..self }
    }
}
