//! States: an icon, a word and a colour.

use askama::Template;
use serde::{Deserialize, Serialize};

use super::part;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Tone {
    Good,
    Rest,
    Warn,
    Bad,
}

impl Tone {
    /// Its class in the stylesheet, and the icon where the state has none of its own.
    fn look(self) -> (&'static str, &'static str) {
        match self {
            Self::Good => ("good", "ok"),
            Self::Rest => ("rest", "none"),
            Self::Warn => ("warn", "wait"),
            Self::Bad => ("bad", "x"),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.look().0
    }

    pub(crate) fn icon(self) -> Icon {
        Icon(self.look().1)
    }
}

/// A drawing of `templates/sprite.html`, without a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Template)]
#[template(
    ext = "html",
    source = "<svg class=\"icon\" aria-hidden=\"true\"><use href=\"#i-{{ self.0 }}\"/></svg>"
)]
pub(crate) struct Icon(pub(crate) &'static str);

#[derive(Clone, Debug, PartialEq, Eq, Template)]
#[template(path = "widgets/badge.html")]
pub(crate) struct Badge {
    pub(crate) tone: Tone,
    pub(crate) icon: Icon,
    pub(crate) word: String,
    bare: bool,
}

part!(Icon, Badge);

impl Badge {
    pub(crate) fn new(tone: Tone, word: impl Into<String>) -> Self {
        Self {
            tone,
            icon: tone.icon(),
            word: word.into(),
            bare: false,
        }
    }

    pub(crate) fn with(self, icon: &'static str) -> Self {
        let icon = Icon(icon);
        Self { icon, ..self }
    }

    pub(crate) fn saying(self, word: String) -> Self {
        Self { word, ..self }
    }

    pub(crate) fn bare(self) -> Self {
        Self { bare: true, ..self }
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
