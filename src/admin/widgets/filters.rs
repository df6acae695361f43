//! Askama filters that print values of the model: `{{ at|relative }}`, `{{ bytes|size }}`. The module of a page imports
//! this module under the name `filters`, where Askama looks up the filters of the page's template.

#![allow(unreachable_pub, reason = "the macro makes public items of them")]

use std::time::Duration;

use askama::filters::Safe;
use askama::{Result, Values, filter_fn};

use super::print;
use crate::admin::widgets::time::Time;
use crate::base::Timestamp;

/// Converts a value, or a reference to one, to the type that a filter takes: templates pass either.
pub(crate) trait Plain<T> {
    fn plain(&self) -> T;
}

macro_rules! plain {
    ($($name:ty => $as:ty, $by:expr;)+) => { $(
        impl Plain<$as> for $name {
            fn plain(&self) -> $as {
                ($by)(*self)
            }
        }
    )+ };
}

plain! {
    u64 => u64, std::convert::identity;
    u32 => u64, u64::from;
    u16 => u64, u64::from;
    usize => u64, |count| count as u64;
    Timestamp => Timestamp, std::convert::identity;
    Duration => Duration, std::convert::identity;
}

impl<T, U: Plain<T> + ?Sized> Plain<T> for &U {
    fn plain(&self) -> T {
        (**self).plain()
    }
}

macro_rules! filters {
    ($($(#[$says:meta])* $name:ident: $of:ty => $gives:ty, $by:expr;)+) => { $(
        $(#[$says])*
        #[filter_fn]
        pub(crate) fn $name(value: impl Plain<$of>, _: &dyn Values) -> Result<$gives> {
            Ok(($by)(value.plain()))
        }
    )+ };
}

filters! {
    /// `1,140`.
    count: u64 => String, print::count;
    /// `1.5 KiB`.
    size: u64 => String, print::bytes;
    /// `1 min 40 s`.
    span: Duration => String, print::span;
    /// `8 s`, `1 h 42 min`, `23 d`: a duration without the small units that do not matter to somebody who waits.
    roughly: Duration => String, print::roughly;
    /// `0.4 ms`, `25 ms`: a duration, with tenths of a millisecond below 10 ms.
    lap: Duration => String, print::lap;
    /// `3 min ago`, `in 9 min`.
    relative: Timestamp => Time, Time::relative;
    /// `in 9 min`: the time until a moment, as text alone, without a `<time>` element and its `title`.
    until: Timestamp => String, |at| Time::relative(at).text();
    moment: Timestamp => Time, Time::at;
    /// `2026-11-21 06:40:12.345`, to the millisecond.
    exactly: Timestamp => Time, |at| Time::by("%Y-%m-%d %H:%M:%S.%3f", at);
    /// The time of day to the minute, with the date unless it is today's.
    minute: Timestamp => Time, Time::minute;
    /// The time of day to the millisecond.
    clock: Timestamp => Time, |at| Time::by("%H:%M:%S.%3f", at);
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

/// Prints a text that a form sends back unchanged: its control and other invisible characters become HTML character
/// references, where pages otherwise write them out visibly.
#[filter_fn]
pub(crate) fn exact(text: impl AsRef<str>, _: &dyn Values) -> Result<Safe<String>> {
    Ok(Safe(print::exact(text.as_ref())))
}

/// Shows `words` for a moment, whose date and time are in the `title` attribute.
#[filter_fn]
pub(crate) fn saying(at: impl Plain<Timestamp>, _: &dyn Values, words: &str) -> Result<Time> {
    Ok(Time::saying(at.plain(), words))
}

#[filter_fn]
pub(crate) fn sentence(text: impl AsRef<str>, _: &dyn Values) -> Result<String> {
    Ok(print::sentence(text.as_ref()))
}
