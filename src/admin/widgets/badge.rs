//! States: an icon, a word and a colour.

use askama::Template;
use serde::{Deserialize, Serialize};

use crate::admin::widgets::part;

/// How good news is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Tone {
    Good,
    /// Neither good nor bad.
    Rest,
    Warn,
    Bad,
}

impl Tone {
    pub(crate) const ALL: [Self; 4] = [Self::Good, Self::Rest, Self::Warn, Self::Bad];

    /// Its class in the stylesheet.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Rest => "rest",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }

    /// The icon where the state has none of its own.
    pub(crate) fn icon(self) -> Icon {
        Icon(match self {
            Self::Good => "ok",
            Self::Rest => "none",
            Self::Warn => "wait",
            Self::Bad => "x",
        })
    }
}

/// A drawing of `templates/sprite.html`, without a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Template)]
#[template(
    ext = "html",
    source = "<svg class=\"icon\" aria-hidden=\"true\"><use href=\"#i-{{ self.0 }}\"/></svg>"
)]
pub(crate) struct Icon(pub(crate) &'static str);

/// A state, as a word with an icon.
#[derive(Clone, Debug, PartialEq, Eq, Template)]
#[template(path = "widgets/badge.html")]
pub(crate) struct Badge {
    pub(crate) tone: Tone,
    icon: Icon,
    pub(crate) word: String,
    /// Without a ground, as in tables.
    bare: bool,
}

part!(Icon, Badge);

impl Badge {
    /// The word in that tone.
    pub(crate) fn new(tone: Tone, word: impl Into<String>) -> Self {
        Self {
            tone,
            icon: tone.icon(),
            word: word.into(),
            bare: false,
        }
    }

    /// The same with another icon than that of the tone.
    pub(crate) fn with(self, icon: &'static str) -> Self {
        let icon = Icon(icon);
        Self { icon, ..self }
    }

    /// The same in other words.
    pub(crate) fn saying(self, word: String) -> Self {
        Self { word, ..self }
    }

    /// The same as tables have it.
    pub(crate) fn bare(self) -> Self {
        Self { bare: true, ..self }
    }

    /// The icon with its colour alone, for rows that say the word elsewhere.
    pub(crate) fn icon(&self) -> Icon {
        self.icon
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn badges_escape_what_they_print() {
        let badge = Badge::new(Tone::Bad, "<b>\"x\"</b>")
            .with("dead")
            .to_string();
        let expected = "<span class=\"badge bad\"><svg class=\"icon\" aria-hidden=\"true\">\
             <use href=\"#i-dead\"/></svg>&#60;b&#62;&#34;x&#34;&#60;/b&#62;</span>";
        assert_eq!(badge, expected);
    }
}
