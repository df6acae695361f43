//! How templates print values of the model: `{{ at|relative }}`, `{{ bytes|size }}`. A page's module imports this
//! one by its name, and its template finds them.

#![allow(unreachable_pub, reason = "the macro makes public items of them")]

use std::time::Duration;

use askama::{Result, Values, filter_fn};

use crate::admin::widgets::time::Said;
use crate::admin::widgets::{Time, print};
use crate::base::Timestamp;

/// A value, or a reference to one, as templates have them.
pub(crate) trait Plain<T> {
    fn plain(&self) -> T;
}

macro_rules! plain {
    ($($name:ty => $as:ty),+ $(,)?) => { $(
        impl Plain<$as> for $name {
            #[allow(clippy::useless_conversion)]
            fn plain(&self) -> $as {
                (*self).try_into().unwrap_or(<$as>::MAX)
            }
        }
    )+ };
}

plain!(u64 => u64, u32 => u64, u16 => u64, usize => u64);

impl Plain<Timestamp> for Timestamp {
    fn plain(&self) -> Timestamp {
        *self
    }
}

impl Plain<Duration> for Duration {
    fn plain(&self) -> Duration {
        *self
    }
}

impl<T, U: Plain<T> + ?Sized> Plain<T> for &U {
    fn plain(&self) -> T {
        (**self).plain()
    }
}

/// `1,140`.
#[filter_fn]
pub(crate) fn count(number: impl Plain<u64>, _: &dyn Values) -> Result<String> {
    Ok(print::count(number.plain()))
}

/// `1 topic`, `2 topics`.
#[filter_fn]
pub(crate) fn plural(
    number: impl Plain<u64>,
    _: &dyn Values,
    one: &str,
    many: &str,
) -> Result<String> {
    Ok(print::plural(number.plain(), one, many))
}

/// `1.5 KiB`.
#[filter_fn]
pub(crate) fn size(bytes: impl Plain<u64>, _: &dyn Values) -> Result<String> {
    Ok(print::bytes(bytes.plain()))
}

/// `1 min 40 s`.
#[filter_fn]
pub(crate) fn span(span: impl Plain<Duration>, _: &dyn Values) -> Result<String> {
    Ok(print::span(span.plain()))
}

/// `1 h 42 min`: as much of it as matters to somebody who waits.
#[filter_fn]
pub(crate) fn roughly(span: impl Plain<Duration>, _: &dyn Values) -> Result<String> {
    Ok(print::roughly(span.plain()))
}

/// `0.4 ms`, `25 ms`: a span with tenths of a millisecond below ten.
#[filter_fn]
pub(crate) fn lap(lap: impl Plain<Duration>, _: &dyn Values) -> Result<String> {
    Ok(print::lap(lap.plain()))
}

/// The text of a stranger with nothing hidden in it.
#[filter_fn]
pub(crate) fn visible(text: impl AsRef<str>, _: &dyn Values) -> Result<String> {
    Ok(print::visible(text.as_ref()))
}

/// `3 min ago`, `in 9 min`.
#[filter_fn]
pub(crate) fn relative(at: impl Plain<Timestamp>, _: &dyn Values) -> Result<Time> {
    Ok(Time::relative(at.plain()))
}

/// Date and time of day.
#[filter_fn]
pub(crate) fn moment(at: impl Plain<Timestamp>, _: &dyn Values) -> Result<Time> {
    Ok(Time::at(at.plain()))
}

/// The same to the millisecond.
#[filter_fn]
pub(crate) fn exactly(at: impl Plain<Timestamp>, _: &dyn Values) -> Result<Time> {
    Ok(Time::exactly(at.plain()))
}

/// The time of day to the minute.
#[filter_fn]
pub(crate) fn minute(at: impl Plain<Timestamp>, _: &dyn Values) -> Result<Time> {
    Ok(Time::minute(at.plain()))
}

/// The time of day to the millisecond.
#[filter_fn]
pub(crate) fn clock(at: impl Plain<Timestamp>, _: &dyn Values) -> Result<Time> {
    Ok(Time::clock(at.plain()))
}

/// How long until then, without a `title` of its own: `in 9 min`.
#[filter_fn]
pub(crate) fn until(at: impl Plain<Timestamp>, _: &dyn Values) -> Result<String> {
    Ok(Time::relative(at.plain()).text())
}

/// These words for a moment that the title tells.
#[filter_fn]
pub(crate) fn saying(at: impl Plain<Timestamp>, _: &dyn Values, words: &str) -> Result<Said> {
    Ok(Said {
        at: at.plain(),
        words: words.to_owned(),
    })
}

/// With a capital letter and a full stop.
#[filter_fn]
pub(crate) fn sentence(text: impl AsRef<str>, _: &dyn Values) -> Result<String> {
    Ok(print::sentence(text.as_ref()))
}
