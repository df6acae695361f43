//! Durations as Azure writes them: ISO 8601 with days, hours, minutes and seconds.

use std::time::Duration;

/// The longest duration that Azure's clients can express, which they use for "for ever".
pub const DURATION_MAX: Duration = Duration::new(922_337_203_685, 477_580_700);

/// The text of [`DURATION_MAX`].
const DURATION_MAX_TEXT: &str = "P10675199DT2H48M5.4775807S";

/// Maximum number of fractional digits of the seconds of a [`Duration`].
const FRACTION_DIGITS_MAX: usize = 9;

const DAY: u64 = 86_400;
const HOUR: u64 = 3_600;
const MINUTE: u64 = 60;

/// The reason why a text is not a valid duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDuration {
    #[error("it is no ISO 8601 duration such as PT30S, PT1H30M or P1DT12H")]
    Malformed,
    #[error("years and months differ in length; write days")]
    Calendar,
    #[error("it is longer than {DURATION_MAX_TEXT}")]
    TooLong,
}

/// Reads a duration, strictly: capital letters, at least one unit, each unit at most once and in order, and no sign.
/// Only seconds may have a fraction. Weeks must not be combined with other units.
pub fn parse(text: &str) -> Result<Duration, InvalidDuration> {
    let parts = text.strip_prefix('P').ok_or(InvalidDuration::Malformed)?;
    let (date, time) = match parts.split_once('T') {
        None => (parts, None),
        Some((_, "")) => return Err(InvalidDuration::Malformed),
        Some((date, time)) => (date, Some(time)),
    };
    let mut total = DurationSum::default();
    if date.ends_with('W') && time.is_none() {
        total.add_units(date, &[('W', 7 * DAY)])?;
    } else {
        total.add_units(date, &[('Y', 0), ('M', 0), ('D', DAY)])?;
        let units = [('H', HOUR), ('M', MINUTE), ('S', 1)];
        total.add_units(time.unwrap_or_default(), &units)?;
    }
    total.finish()
}

/// Writes a duration as [`parse`] reads it, without units that are zero: `PT1H30M`, `P1D`, `PT0S`.
pub fn format(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let date = unit(seconds / DAY, 'D');
    let (hours, minutes) = (seconds % DAY / HOUR, seconds % HOUR / MINUTE);
    let time = [unit(hours, 'H'), unit(minutes, 'M'), second(duration)].concat();
    match (date.is_empty(), time.is_empty()) {
        (true, true) => "PT0S".to_owned(),
        (false, true) => format!("P{date}"),
        (_, false) => format!("P{date}T{time}"),
    }
}

fn unit(number: u64, letter: char) -> String {
    match number {
        0 => String::new(),
        number => format!("{number}{letter}"),
    }
}

fn second(duration: Duration) -> String {
    let (seconds, nanos) = (duration.as_secs() % MINUTE, duration.subsec_nanos());
    if nanos == 0 {
        return unit(seconds, 'S');
    }
    let fraction = format!("{nanos:09}");
    format!("{seconds}.{}S", fraction.trim_end_matches('0'))
}

/// Nanoseconds of a tick, in which .NET counts durations.
const TICK_NS: u128 = 100;

/// Reads a duration with an optional leading minus as a number of ticks, rounded toward zero.
pub fn to_ticks(text: &str) -> Option<i64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let ticks = parse(text).ok()?.as_nanos() / TICK_NS;
    Some(i64::try_from(ticks).ok()? * sign)
}

/// Writes a number of ticks as [`to_ticks`] reads it. `i64::MIN` has no positive counterpart, so it is written as
/// `-i64::MAX`.
pub fn of_ticks(ticks: i64) -> String {
    const PER_SECOND: u64 = 10_000_000;
    let size = ticks.max(-i64::MAX).unsigned_abs();
    let nanos = (size % PER_SECOND) as u32 * TICK_NS as u32;
    let sign = if ticks < 0 { "-" } else { "" };
    format!("{sign}{}", format(Duration::new(size / PER_SECOND, nanos)))
}

/// The sum of the parts of a duration that have been read so far.
#[derive(Default)]
struct DurationSum {
    seconds: u64,
    nanos: u32,
    has_units: bool,
    has_calendar: bool,
    is_too_long: bool,
}

impl DurationSum {
    /// Adds the numbers in `text` with the letters in `units`, in their order. A unit of 0 seconds is a calendar unit:
    /// years or months.
    fn add_units(&mut self, text: &str, units: &[(char, u64)]) -> Result<(), InvalidDuration> {
        let mut rest = text;
        for (letter, worth) in units {
            // Splits before the next letter, whichever it is. A number must precede it.
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
            let Some((number, after)) = end.map(|end| rest.split_at(end)) else {
                break;
            };
            if let Some(after) = after.strip_prefix(*letter) {
                self.add(number, *worth)?;
                rest = after;
            }
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(InvalidDuration::Malformed)
        }
    }

    fn add(&mut self, number: &str, worth: u64) -> Result<(), InvalidDuration> {
        let whole = match number.split_once('.') {
            Some((whole, fraction)) if worth == 1 => {
                self.nanos = nanos(fraction).ok_or(InvalidDuration::Malformed)?;
                whole
            }
            Some(_) => return Err(InvalidDuration::Malformed),
            None => number,
        };
        if whole.is_empty() {
            return Err(InvalidDuration::Malformed);
        }
        self.has_units = true;
        self.has_calendar |= worth == 0;
        // The text consists of digits only, so a number that does not parse is too large.
        let number = whole.parse::<u64>().ok();
        let sum = number
            .and_then(|number| number.checked_mul(worth))
            .and_then(|seconds| self.seconds.checked_add(seconds));
        match sum {
            Some(seconds) => self.seconds = seconds,
            None => self.is_too_long = true,
        }
        Ok(())
    }

    fn finish(self) -> Result<Duration, InvalidDuration> {
        if !self.has_units {
            return Err(InvalidDuration::Malformed);
        }
        if self.has_calendar {
            return Err(InvalidDuration::Calendar);
        }
        let duration = Duration::new(self.seconds, self.nanos);
        if self.is_too_long || duration > DURATION_MAX {
            Err(InvalidDuration::TooLong)
        } else {
            Ok(duration)
        }
    }
}

/// Converts the digits of a fraction to nanoseconds; `None` if there are no digits or too many.
fn nanos(fraction: &str) -> Option<u32> {
    let digits = fraction.len();
    let is_number = fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !(1..=FRACTION_DIGITS_MAX).contains(&digits) || !is_number {
        return None;
    }
    format!("{fraction:0<FRACTION_DIGITS_MAX$}").parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: Result<(u64, u32), InvalidDuration>) {
        let read = parse(text).map(|duration| (duration.as_secs(), duration.subsec_nanos()));
        assert_eq!(read, expected, "{text}");
    }

    #[test]
    fn durations_are_read() {
        for (text, seconds, nanos) in [
            ("PT0S", 0, 0),
            ("P0D", 0, 0),
            ("PT1S", 1, 0),
            ("PT30S", 30, 0),
            ("PT90M", 5_400, 0),
            ("PT1H30M", 5_400, 0),
            ("P1D", 86_400, 0),
            ("P1DT12H", 129_600, 0),
            ("P1DT2H3M4S", 93_784, 0),
            ("P2W", 1_209_600, 0),
            ("PT0.5S", 0, 500_000_000),
            ("PT1.000000001S", 1, 1),
            ("PT007S", 7, 0),
            (DURATION_MAX_TEXT, 922_337_203_685, 477_580_700),
        ] {
            check(text, Ok((seconds, nanos)));
        }
    }

    #[test]
    fn everything_else_is_rejected() {
        let malformed = "P PT P1 PT1 P1DT 1D PTS P1S P1H PT1D PT1M1H PT1S1S P1D1D P1DT1H1H pt1s P1d \
             -PT1S +PT1S PT-1S PT+1S P-1D PT1.S PT.5S PT1.5M P1.5D PT1.5.5S PT1,5S PT0.1234567890S \
             P1W1D P1WT1S PT1W P1DT1HX P1D2 PTT1S PPT1S ½ P½D PT1½S P١D";
        for text in malformed
            .split_whitespace()
            .chain(["", " PT1S", "PT1S ", "PT1 S"])
        {
            check(text, Err(InvalidDuration::Malformed));
        }
        for text in "P1Y P1M P1Y2M P1Y2M3DT4H P99999999999999999999Y".split(' ') {
            check(text, Err(InvalidDuration::Calendar));
        }
        for text in [
            "P10675199DT2H48M5.4775808S",
            "P10675200D",
            "PT922337203686S",
            "P18446744073709551615D",
            "PT18446744073709551615S",
            "PT99999999999999999999S",
            "P9223372036854775807DT9223372036854775807H",
        ] {
            check(text, Err(InvalidDuration::TooLong));
        }
    }

    #[test]
    fn ticks_have_a_sign() {
        for (text, ticks) in [
            ("PT1S", 10_000_000),
            ("-PT0.0000001S", -1),
            (DURATION_MAX_TEXT, i64::MAX),
        ] {
            assert_eq!(to_ticks(text), Some(ticks), "{text}");
            assert_eq!(of_ticks(ticks), text);
        }
        assert_eq!(to_ticks(&of_ticks(i64::MIN)), Some(-i64::MAX));
        assert_eq!(to_ticks("PT0.00000019S"), Some(1));
        assert_eq!(to_ticks("--PT1S"), None);
    }

    #[test]
    fn durations_are_written_short() {
        for (seconds, nanos, expected) in [
            (0, 0, "PT0S"),
            (10, 0, "PT10S"),
            (60, 0, "PT1M"),
            (5_400, 0, "PT1H30M"),
            (86_400, 0, "P1D"),
            (86_401, 0, "P1DT1S"),
            (0, 500_000_000, "PT0.5S"),
            (922_337_203_685, 477_580_700, DURATION_MAX_TEXT),
        ] {
            assert_eq!(format(Duration::new(seconds, nanos)), expected);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(seconds in 0..=922_337_203_684_u64, nanos in 0..1_000_000_000_u32) {
            let duration = Duration::new(seconds, nanos);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }

        #[test]
        fn units_add_up(days in 0..9_999_999_u64, hours in 0..99_u64, minutes in 0..999_u64, seconds in 0..9_999_u64) {
            let text = format!("P{days}DT{hours}H{minutes}M{seconds}S");
            let total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds;
            prop_assert_eq!(parse(&text), Ok(Duration::from_secs(total)));
        }

        #[test]
        fn no_text_ends_in_a_panic(text in "[-+PTYMWDHS.0-9]{0,24}|\\PC{0,9}") {
            if let Ok(duration) = parse(&text) {
                prop_assert!(duration <= DURATION_MAX);
                prop_assert_eq!(parse(&format(duration)), Ok(duration));
            }
        }
    }
}
