//! Messages of a page: about the last action, and about a list without rows.

use super::*;

#[derive(Clone, Debug, PartialEq, Eq, Template, Serialize, Deserialize)]
#[template(path = "widgets/flash.html")]
pub(crate) struct Flash {
    tone: Tone,
    text: String,
    /// The delivery that it is about, whose card has it; else it stands at the head of the page.
    about: Option<i64>,
    /// The page that has it; `None` for that of the subject of the action.
    #[serde(skip)]
    pub(crate) leads_to: Option<String>,
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
        Self::new(Tone::Good, text)
    }

    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::new(Tone::Bad, text)
    }

    /// Nothing had to be done.
    pub(crate) fn unchanged(text: impl Into<String>) -> Self {
        Self::new(Tone::Rest, text)
    }

    fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self {
            tone,
            text: text.into(),
            about: None,
            leads_to: None,
        }
    }

    pub(crate) fn about(self, delivery: DeliveryId) -> Self {
        let about = Some(delivery.0);
        Self { about, ..self }
    }

    pub(crate) fn leading_to(self, page: impl Into<String>) -> Self {
        let leads_to = Some(page.into());
        Self { leads_to, ..self }
    }

    pub(crate) fn is_about(&self, delivery: Option<DeliveryId>) -> bool {
        self.about == delivery.map(|it| it.0)
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
