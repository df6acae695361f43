//! What pages are made of, made from types of the model: no part knows who asks for it or from where.
//!
//! A part is a struct with a template of its own. Its output is escaped where it is made, so a page prints
//! it as it is.

pub(crate) mod chart;
pub(crate) mod facts;
pub(crate) mod hint;
pub(crate) mod json_text;
pub(crate) mod kept_body;
pub(crate) mod print;
pub(crate) mod qr;
pub(crate) mod retry_preview;

use askama::Template;
use serde::{Deserialize, Serialize};

use crate::base::{Timestamp, human};

/// How good news is; every tone has a shape of its own beside its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Tone {
    Good,
    Bad,
    Waiting,
    Neutral,
}

impl Tone {
    /// The end of its class in the stylesheet.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Waiting => "waiting",
            Self::Neutral => "neutral",
        }
    }

    /// Its shape, as the path of an icon 12 units wide.
    pub(crate) fn shape(self) -> &'static str {
        match self {
            Self::Good => "M2 6.5 5 9.5 10 3",
            Self::Bad => "M3 3 9 9M9 3 3 9",
            Self::Waiting => "M6 1.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M6 3.8V6l1.6 1",
            Self::Neutral => "M2.5 6H9.5",
        }
    }
}

/// What the last action has to say.
#[derive(Clone, Debug, PartialEq, Eq, Template, Serialize, Deserialize)]
#[template(path = "admin/parts/flash.html")]
pub(crate) struct Flash {
    tone: Tone,
    text: String,
}

impl Flash {
    /// It worked.
    pub(crate) fn done(text: impl Into<String>) -> Self {
        Self {
            tone: Tone::Good,
            text: text.into(),
        }
    }

    /// It did not work.
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self {
            tone: Tone::Bad,
            text: text.into(),
        }
    }
}

/// A state, as a word with a shape.
#[derive(Clone, Debug, Template)]
#[template(path = "admin/parts/badge.html")]
pub(crate) struct Badge {
    tone: Tone,
    word: String,
}

impl Badge {
    /// The word in that tone.
    pub(crate) fn new(tone: Tone, word: impl Into<String>) -> Self {
        Self {
            tone,
            word: word.into(),
        }
    }
}

/// A moment in UTC.
#[derive(Clone, Debug, PartialEq, Eq, Template)]
#[template(path = "admin/parts/moment.html")]
pub(crate) struct Moment {
    iso: String,
    text: String,
}

impl Moment {
    /// To the second.
    pub(crate) fn at(at: Timestamp) -> Self {
        Self {
            iso: at.to_string(),
            text: human::date_time(at),
        }
    }

    /// The day alone.
    pub(crate) fn day(at: Timestamp) -> Self {
        let iso = at.to_string();
        let text = iso[..iso.len().min(10)].to_owned();
        Self { iso, text }
    }

    /// To the millisecond.
    pub(crate) fn exactly(at: Timestamp) -> Self {
        Self {
            iso: at.to_string(),
            text: human::date_time_ms(at),
        }
    }
}

/// A moment to come, with how far away it is.
#[derive(Clone, Debug, Template)]
#[template(path = "admin/parts/due.html")]
pub(crate) struct Due {
    at: Moment,
    from_now: String,
}

impl Due {
    /// As it is seen at `now`; what is late is due now.
    pub(crate) fn new(at: Timestamp, now: Timestamp) -> Self {
        Self {
            at: Moment::at(at),
            from_now: print::relative(at.max(now), now),
        }
    }
}

/// What an empty list says, and the next step.
#[derive(Clone, Debug, Template)]
#[template(path = "admin/parts/empty.html")]
pub(crate) struct Empty {
    pub(crate) text: &'static str,
    pub(crate) step: Option<(String, &'static str)>,
}

macro_rules! part {
    ($($name:ty),+ $(,)?) => { $(
        // The template has escaped whatever it printed.
        impl askama::filters::HtmlSafe for $name {}
    )+ };
}
pub(crate) use part;

part!(Flash, Badge, Moment, Due, Empty);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_printed_in_utc_with_the_machine_readable_form() {
        let at = "2026-11-21T06:40:53.138Z".parse().expect("RFC 3339");
        let moment = Moment::at(at).to_string();
        let expected = "<time datetime=\"2026-11-21T06:40:53.138Z\">2026-11-21 06:40:53</time>";
        assert_eq!(moment, expected);
        assert!(
            Moment::exactly(at)
                .to_string()
                .contains(">2026-11-21 06:40:53.138<")
        );
    }

    #[test]
    fn parts_escape_what_they_print() {
        let badge = Badge::new(Tone::Bad, "<b>\"x\"</b>").to_string();
        assert!(!badge.contains("<b>"), "{badge}");
        let flash = Flash::done("<script>").to_string();
        assert!(!flash.contains("<script>"), "{flash}");
    }
}
