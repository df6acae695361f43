//! Figures: a number with what it counts, coloured by whether somebody has to look at it.

use askama::Template;

use crate::admin::widgets::chart::Spark;
use crate::admin::widgets::{Icon, Tone, part};

/// A figure, ready to print.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/figure.html")]
pub(crate) struct Figure {
    /// By which tests know it.
    key: &'static str,
    label: &'static str,
    value: String,
    unit: String,
    sub: String,
    href: Option<String>,
    look: Look,
    icon: Option<Icon>,
    spark: Spark,
    /// States of what is counted, each with its name, in the place of a small chart.
    states: Vec<(Tone, String)>,
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
    fn class(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Note => " note",
            Self::Hot => " hot",
            Self::Warn => " warn",
            Self::Bad => " bad",
        }
    }

    /// Of a share in per cent, which is well from 99 on.
    pub(crate) fn of_share(part: u64, whole: u64) -> Self {
        match whole {
            0 => Self::Plain,
            _ if part * 100 >= whole * 99 => Self::Plain,
            _ if part * 100 >= whole * 50 => Self::Note,
            _ => Self::Bad,
        }
    }
}

impl Figure {
    pub(crate) fn new(key: &'static str, label: &'static str, value: impl Into<String>) -> Self {
        // A unit stands apart and smaller.
        let value = value.into();
        let (value, unit) = match value.split_once(' ') {
            Some((value, unit)) => (value.to_owned(), format!(" {unit}")),
            None => (value, String::new()),
        };
        Self {
            key,
            label,
            value,
            unit,
            sub: String::new(),
            href: None,
            look: Look::Plain,
            icon: None,
            spark: Spark::default(),
            states: Vec::new(),
        }
    }

    /// The same with half a sentence below.
    pub(crate) fn sub(self, sub: impl Into<String>) -> Self {
        let sub = sub.into();
        Self { sub, ..self }
    }

    /// The same, coloured, with an icon where it is.
    pub(crate) fn look(self, look: Look, icon: &'static str) -> Self {
        let icon = (look != Look::Plain).then_some(Icon(icon));
        Self { look, icon, ..self }
    }

    pub(crate) fn leading_to(self, href: impl Into<String>) -> Self {
        let href = Some(href.into());
        Self { href, ..self }
    }

    pub(crate) fn spark(self, spark: Spark) -> Self {
        Self { spark, ..self }
    }

    pub(crate) fn states(self, states: Vec<(Tone, String)>) -> Self {
        Self { states, ..self }
    }
}
