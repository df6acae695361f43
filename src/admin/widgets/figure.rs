//! Figures: a number with what it counts, coloured by whether somebody has to look at it.

use askama::Template;

use crate::admin::widgets::part;

/// A figure, ready to print.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/figure.html")]
pub(crate) struct Figure {
    /// By which tests know it.
    key: &'static str,
    label: &'static str,
    value: String,
    sub: String,
    /// Empty for none.
    href: String,
    look: Look,
    icon: &'static str,
}

/// How loud a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Plain,
    /// It is off, and coloured.
    Note,
    Hot,
    /// It needs somebody, and is tinted.
    Warn,
    Bad,
}

part!(Figure);

impl Look {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Note => " note",
            Self::Hot => " hot",
            Self::Warn => " warn",
            Self::Bad => " bad",
        }
    }

    /// This look if there is reason for it.
    pub(crate) fn when(self, has_reason: bool) -> Self {
        if has_reason { self } else { Self::Plain }
    }

    /// Of a share in per cent, which is well from 99 on.
    pub(crate) fn of_share(part: u64, whole: u64) -> Self {
        if part * 100 >= whole * 99 {
            Self::Plain
        } else if part * 100 >= whole * 50 {
            Self::Note
        } else {
            Self::Bad
        }
    }
}

impl Figure {
    pub(crate) fn new(key: &'static str, label: &'static str, value: impl Into<String>) -> Self {
        Self {
            key,
            label,
            value: value.into(),
            sub: String::new(),
            href: String::new(),
            look: Look::Plain,
            icon: "",
        }
    }

    /// The same with half a sentence below.
    pub(crate) fn sub(self, sub: impl Into<String>) -> Self {
        let sub = sub.into();
        Self { sub, ..self }
    }

    /// The same, coloured, with an icon where it is.
    pub(crate) fn look(self, look: Look, icon: &'static str) -> Self {
        Self { look, icon, ..self }
    }

    pub(crate) fn leading_to(self, href: impl Into<String>) -> Self {
        let href = href.into();
        Self { href, ..self }
    }
}
