//! Numbers as they are written in JSON, compared digit by digit.
//!
//! Comparison uses no binary floating point: 0.1 is exactly 0.1, and identifiers of twenty digits stay exact.

use std::cmp::Ordering;
use std::fmt;

/// A decimal number of any length: ±0.`digits` × 10^`exponent`.
///
/// Exact for exponents up to 18 digits; a larger exponent is set to `EXPONENT_MAX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimal {
    negative: bool,
    exponent: i64,
    /// Digits without leading and trailing zeros, so that equal numbers have equal digits; empty for zero.
    digits: String,
}

/// The largest exponent: far larger than the exponent of any number in an event, and small enough that adding the
/// length of a text does not overflow.
const EXPONENT_MAX: i64 = 1_000_000_000_000_000_000;

/// Maximum number of zeros that are written out. A number with more zeros is written with an exponent.
const PLAIN_ZEROS_MAX: i64 = 21;

impl Decimal {
    /// Parses a number in JSON notation. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |t| (true, t));
        let (mantissa, power) = match text.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, parse_power(power)?),
            None => (text, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
            Some(_) => return None,
            None => (mantissa, ""),
        };
        let padded = whole.len() > 1 && whole.starts_with('0');
        if whole.is_empty() || padded || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        Some(Self::normalised(negative, whole, fraction, power))
    }

    fn normalised(negative: bool, whole: &str, fraction: &str, power: i64) -> Self {
        let written = [whole, fraction].concat();
        let after_zeros = written.trim_start_matches('0');
        let leading_zeros = written.len() - after_zeros.len();
        let digits = after_zeros.trim_end_matches('0').to_owned();
        let is_zero = digits.is_empty();
        let point = whole.len() as i64 - leading_zeros as i64;
        Self {
            negative: negative && !is_zero,
            exponent: if is_zero { 0 } else { power + point },
            digits,
        }
    }

    fn cmp_magnitude(&self, other: &Self) -> Ordering {
        // Digits after the decimal point compare in lexical order.
        let by_exponent = self.exponent.cmp(&other.exponent);
        by_exponent.then_with(|| self.digits.cmp(&other.digits))
    }

    fn sign(&self) -> i8 {
        match (self.negative, self.digits.is_empty()) {
            (true, _) => -1,
            (false, true) => 0,
            (false, false) => 1,
        }
    }
}

fn parse_power(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !all_digits(digits) {
        return None;
    }
    // Parsing a text that consists of digits fails only if the number is too large for `i64`.
    let power = digits.parse().unwrap_or(EXPONENT_MAX);
    Some(sign * power.min(EXPONENT_MAX))
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sign().cmp(&other.sign()).then_with(|| {
            let magnitude = self.cmp_magnitude(other);
            if self.negative {
                magnitude.reverse()
            } else {
                magnitude
            }
        })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Writes the number in JSON's notation. Equal numbers give equal text.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negative {
            f.write_str("-")?;
        }
        let length = self.digits.len() as i64;
        if self.digits.is_empty() {
            f.write_str("0")
        } else if (0..=PLAIN_ZEROS_MAX).contains(&(self.exponent - length)) {
            let zeros = (self.exponent - length) as usize;
            write!(f, "{}{:0<zeros$}", self.digits, "")
        } else if (1..length).contains(&self.exponent) {
            let (whole, fraction) = self.digits.split_at(self.exponent as usize);
            write!(f, "{whole}.{fraction}")
        } else if (-PLAIN_ZEROS_MAX..=0).contains(&self.exponent) {
            let zeros = -self.exponent as usize;
            write!(f, "0.{:0<zeros$}{}", "", self.digits)
        } else {
            let (whole, fraction) = self.digits.split_at(1);
            let point = if fraction.is_empty() { "" } else { "." };
            write!(f, "{whole}{point}{fraction}e{}", self.exponent - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(text: &str) -> Decimal {
        Decimal::parse(text).unwrap_or_else(|| panic!("{text} is a number"))
    }

    fn check(one: &str, expected: Ordering, other: &str) {
        assert_eq!(number(one).cmp(&number(other)), expected, "{one} {other}");
        let reverse = number(other).cmp(&number(one));
        assert_eq!(reverse, expected.reverse(), "{other} {one}");
        assert_eq!(
            number(one) == number(other),
            expected.is_eq(),
            "{one} {other}"
        );
    }

    #[test]
    fn numbers_compare_exactly() {
        use Ordering::{Equal, Greater, Less};
        check("0", Equal, "-0");
        check("0.0", Equal, "0e5");
        check("1", Equal, "1.000");
        check("100", Equal, "1e2");
        check("100", Equal, "0.001E+5");
        check("0.1", Equal, "1e-1");
        check("1", Less, "2");
        check("9", Less, "10");
        check("-9", Greater, "-10");
        check("-1", Less, "0");
        check("-1", Less, "0.5");
        check("0.1", Greater, "0.09999999999999999999999999999");
        check("12", Greater, "1.99");
        check("1.2", Greater, "1.19");
        check("1.2", Less, "1.21");
        // Where doubles fail.
        check("9007199254740993", Greater, "9007199254740992");
        check("0.30000000000000004", Greater, "0.3");
        check(
            "18446744073709551616.00000000000000000001",
            Greater,
            "18446744073709551616",
        );
        check("1e400", Greater, "1.7976931348623157e308");
        check("1e-400", Greater, "0");
        check("-1e400", Less, "-1e399");
        // Endless exponents cost nothing.
        check("1e999999999999999999999999", Greater, "9e999999999");
        check("1e-999999999999999999999999", Less, "1e-999999999");
        check("0e999999999999999999999999", Equal, "0");
        check(
            &"9".repeat(100_000),
            Less,
            &format!("1{}", "0".repeat(100_000)),
        );
    }

    #[test]
    fn only_numbers_are_numbers() {
        for text in [
            "", "-", ".", "1.", ".5", "+1", "1e", "1e+", "1e1.5", "--1", "0x10", "1 ", " 1", "NaN",
            "Infinity", "1,5", "1_000", "e5", "1e5e5", "1.2.3", "٣",
        ] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_written_plainly() {
        for (text, expected) in [
            ("0", "0"),
            ("-0.0", "0"),
            ("100", "100"),
            ("1e2", "100"),
            ("1.50", "1.5"),
            ("-12.25", "-12.25"),
            ("0.1", "0.1"),
            ("0.00012", "0.00012"),
            ("5e-30", "5e-30"),
            ("1.25e300", "1.25e300"),
            ("-1e300", "-1e300"),
            (
                "123456789012345678901234567890",
                "123456789012345678901234567890",
            ),
            ("18446744073709551615", "18446744073709551615"),
        ] {
            assert_eq!(number(text).to_string(), expected, "{text}");
        }
    }

    /// A number of hundredths with a power of ten, so that the exact order is one of integers.
    fn reference(hundredths: i32, power: u32) -> i128 {
        i128::from(hundredths) * 10_i128.pow(power)
    }

    proptest! {
        #[test]
        fn order_is_that_of_integers(
            a in -3_000..3_000_i32, b in -3_000..3_000_i32, p in 0..20_u32, q in 0..20_u32,
        ) {
            let written = |n: i32, power: u32| {
                let sign = if n < 0 { "-" } else { "" };
                let n = n.unsigned_abs();
                number(&format!("{sign}{}.{:02}e{power}", n / 100, n % 100))
            };
            let expected = reference(a, p).cmp(&reference(b, q));
            prop_assert_eq!(written(a, p).cmp(&written(b, q)), expected);
        }

        #[test]
        fn writing_keeps_the_number(text in "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,17})?") {
            let once = number(&text);
            prop_assert_eq!(number(&once.to_string()), once);
        }
    }
}
