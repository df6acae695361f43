//! Figures: numbers with what they count, coloured by whether somebody has to look at them. The macro `figure` of
//! `templates/ui.html` draws them.

/// Less than so many are no trend.
const FEW: u64 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Plain,
    Note,
    Hot,
    Warn,
    Bad,
}

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

    pub(crate) fn when(self, has_reason: bool) -> Self {
        if has_reason { self } else { Self::Plain }
    }

    /// Returns the look of a number of dead letters, of which `new` are new.
    pub(crate) fn of_dead_letters(all: u64, new: u64) -> Self {
        let look = if new > 0 { Self::Bad } else { Self::Hot };
        look.when(all > 0)
    }

    /// Returns the look of a share: good from 99 % on, and not yet bad from 50 % on, or if the whole is small and the
    /// part is not zero.
    pub(crate) fn of_share(part: u64, whole: u64) -> Self {
        match part * 100 {
            well if well >= whole * 99 => Self::Plain,
            half if half >= whole * 50 || (part > 0 && whole < FEW) => Self::Note,
            _ => Self::Bad,
        }
    }
}
