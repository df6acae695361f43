//! Decimal numbers, the type that .NET and Python have for money. They are exact: 12.50 is stored as exactly twelve and
//! a half.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use num_bigint::BigInt;

/// Most digits of a result: those of decimal128, the widest decimal type of AMQP.
const DIGITS_MAX: u32 = 34;

/// Smallest and largest exponent of decimal128, the widest decimal type of AMQP.
const EXPONENT_MIN: i32 = -6_176;
const EXPONENT_MAX: i32 = 6_111;

/// Largest difference between the powers of ten of the first digits of two numbers at which their sum takes both into
/// account; beyond it, the sum is the larger number.
const APART_MAX: i64 = 80;

/// Most zeros with which a number is written out; a number that needs more is written with an exponent.
const ZEROS_MAX: i64 = 40;

/// A decimal number: an integer coefficient and the power of ten by which it is multiplied. Trailing zeros are kept,
/// since a price is written as 12.50.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DecimalNumber {
    coefficient: i128,
    exponent: i32,
}

/// The error for a result that decimal128 cannot hold, or for a remainder of numbers whose exponents are too far apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooFarApart;

impl DecimalNumber {
    /// Creates the number `coefficient` times ten to the power of `exponent`.
    pub const fn new(coefficient: i128, exponent: i32) -> Self {
        Self {
            coefficient,
            exponent,
        }
    }

    /// Returns the coefficient: the signed integer that is multiplied by a power of ten.
    pub fn coefficient(self) -> i128 {
        self.coefficient
    }

    /// Returns the exponent of the power of ten by which the coefficient is multiplied.
    pub fn exponent(self) -> i32 {
        self.exponent
    }

    /// Converts a float: exactly if it is whole and less than 2^127 in size, else to the fewest digits that distinguish
    /// it from all other floats, so that 0.1 becomes one tenth. `None` for infinity and NaN.
    pub(super) fn of_float(number: f64) -> Option<Self> {
        const WHOLE_MAX: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0; // 2^127
        if number.fract() == 0.0 && number.abs() < WHOLE_MAX {
            return Some(Self::new(number as i128, 0));
        }
        format!("{number:e}").parse().ok()
    }

    /// Returns the nearest float.
    pub fn to_float(self) -> f64 {
        let text = format!("{}e{}", self.coefficient, self.exponent);
        text.parse().unwrap_or(f64::NAN)
    }

    /// Returns the number as an integer; `None` if it has a fraction or does not fit into 128 bits.
    pub(super) fn to_whole(self) -> Option<i128> {
        let it = self.normal();
        let power = 10_i128.checked_pow(u32::try_from(it.exponent).ok()?)?;
        it.coefficient.checked_mul(power)
    }

    /// Returns the normalized form, without trailing zeros, which all numbers of equal value share.
    pub fn normal(self) -> Self {
        let mut it = self;
        if it.coefficient == 0 {
            return Self::new(0, 0);
        }
        while it.coefficient % 10 == 0 {
            it = Self::new(it.coefficient / 10, it.exponent + 1);
        }
        it
    }

    /// Compares by value.
    pub(super) fn compare(self, other: Self) -> Ordering {
        let sign = |it: Self| it.coefficient.signum();
        let by_sign = sign(self).cmp(&sign(other));
        if by_sign != Ordering::Equal || self.coefficient == 0 {
            return by_sign;
        }
        let by_size = self.size().cmp(&other.size()).then_with(|| {
            // Both have their first digit at the same power of ten, so aligning them makes neither much longer.
            let (one, other, _) = aligned(self, other);
            one.magnitude().cmp(other.magnitude())
        });
        if self.coefficient < 0 {
            return by_size.reverse();
        }
        by_size
    }

    /// Returns the exponent of the power of ten of the first digit: 1 for 12.50.
    fn size(self) -> i64 {
        let digits = self.coefficient.unsigned_abs().checked_ilog10();
        i64::from(digits.unwrap_or(0)) + i64::from(self.exponent)
    }

    pub(super) fn add(self, other: Self) -> Result<Self, TooFarApart> {
        let apart = self.size() - other.size();
        if other.coefficient == 0 && other.exponent >= self.exponent {
            return Ok(self);
        }
        if apart.abs() > APART_MAX && self.coefficient != 0 && other.coefficient != 0 {
            return Ok(if apart > 0 { self } else { other });
        }
        if (i64::from(self.exponent) - i64::from(other.exponent)).abs() > 2 * APART_MAX {
            // One of the numbers is zero, with an exponent far from that of the other.
            return Ok(if self.coefficient == 0 { other } else { self });
        }
        let (one, other, exponent) = aligned(self, other);
        rounded(one + other, i64::from(exponent))
    }

    pub(super) fn subtract(self, other: Self) -> Result<Self, TooFarApart> {
        self.add(Self::new(-other.coefficient, other.exponent))
    }

    pub(super) fn multiply(self, other: Self) -> Result<Self, TooFarApart> {
        let product = BigInt::from(self.coefficient) * other.coefficient;
        rounded(
            product,
            i64::from(self.exponent) + i64::from(other.exponent),
        )
    }

    /// Divides by `other`, which must not be zero. A quotient keeps no trailing zeros at powers of ten below the
    /// exponent of `self` less that of `other`.
    pub(super) fn divide(self, other: Self) -> Result<Self, TooFarApart> {
        let least = i64::from(self.exponent) - i64::from(other.exponent);
        // Computes at least two digits more than are kept, so that the remainder can affect the rounding only through
        // the last of them.
        let shift = 2 * DIGITS_MAX + 6;
        let dividend = BigInt::from(self.coefficient) * BigInt::from(10).pow(shift);
        let divisor = BigInt::from(other.coefficient);
        let mut quotient = &dividend / &divisor;
        let has_rest = dividend != &quotient * &divisor;
        if has_rest && (&quotient % 5_u8) == BigInt::ZERO {
            let sign = (self.coefficient.signum() * other.coefficient.signum()) as i8;
            quotient += sign;
        }
        let mut result = rounded(quotient, least - i64::from(shift))?;
        while i64::from(result.exponent) < least && result.coefficient % 10 == 0 {
            if result.coefficient == 0 {
                break;
            }
            result = Self::new(result.coefficient / 10, result.exponent + 1);
        }
        Ok(result)
    }

    /// Returns the remainder, with the sign of `self`, of the division by `other`, which must not be zero.
    pub(super) fn remainder(self, other: Self) -> Result<Self, TooFarApart> {
        if (i64::from(self.exponent) - i64::from(other.exponent)).abs() > 2 * APART_MAX {
            return Err(TooFarApart);
        }
        let (one, other, exponent) = aligned(self, other);
        rounded(one % other, i64::from(exponent))
    }
}

/// Returns the coefficients of both numbers for a common exponent, the smaller of theirs, and that exponent.
fn aligned(one: DecimalNumber, other: DecimalNumber) -> (BigInt, BigInt, i32) {
    let exponent = one.exponent.min(other.exponent);
    let at = |it: DecimalNumber| {
        let shift = it.exponent.abs_diff(exponent);
        BigInt::from(it.coefficient) * BigInt::from(10).pow(shift)
    };
    (at(one), at(other), exponent)
}

/// Returns the decimal, rounded half to even to [`DIGITS_MAX`] digits if it has more, and to no exponent below
/// [`EXPONENT_MIN`].
fn rounded(coefficient: BigInt, exponent: i64) -> Result<DecimalNumber, TooFarApart> {
    let digits = coefficient.magnitude().to_string().len();
    let spare = digits.saturating_sub(DIGITS_MAX as usize);
    let below = usize::try_from(i64::from(EXPONENT_MIN) - exponent).unwrap_or(0);
    let drop = spare.max(below).min(digits + 1);
    let (mut kept, mut exponent) = (coefficient, exponent);
    if drop > 0 {
        let unit = BigInt::from(10).pow(drop as u32);
        let rest = &kept % &unit;
        kept /= &unit;
        let twice = BigInt::from(rest.magnitude().clone()) * 2_u8;
        let is_odd = (&kept % 2_u8) != BigInt::ZERO;
        if twice > unit || (twice == unit && is_odd) {
            kept += if rest < BigInt::ZERO { -1_i8 } else { 1_i8 };
        }
        exponent += drop as i64;
    }
    if kept == BigInt::ZERO {
        exponent = exponent.clamp(i64::from(EXPONENT_MIN), i64::from(EXPONENT_MAX));
    }
    let coefficient = i128::try_from(&kept).map_err(|_| TooFarApart)?;
    let exponent = i32::try_from(exponent).map_err(|_| TooFarApart)?;
    if exponent > EXPONENT_MAX {
        return Err(TooFarApart);
    }
    Ok(DecimalNumber::new(coefficient, exponent))
}

impl From<i128> for DecimalNumber {
    fn from(whole: i128) -> Self {
        Self::new(whole, 0)
    }
}

/// Digits with a point, or with an exponent if there would be too many zeros.
impl fmt::Display for DecimalNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.coefficient.unsigned_abs().to_string();
        let sign = if self.coefficient < 0 { "-" } else { "" };
        let exponent = i64::from(self.exponent);
        let whole = digits.len() as i64 + exponent;
        if exponent > ZEROS_MAX || whole < -ZEROS_MAX {
            return write!(f, "{sign}{digits}E{exponent}");
        }
        if exponent >= 0 {
            let zeros = exponent as usize * usize::from(self.coefficient != 0);
            return write!(f, "{sign}{digits}{}", "0".repeat(zeros));
        }
        let places = exponent.unsigned_abs() as usize;
        let digits = format!("{digits:0>width$}", width = places + 1);
        let (whole, fraction) = digits.split_at(digits.len() - places);
        write!(f, "{sign}{whole}.{fraction}")
    }
}

/// The text is no decimal of up to 34 digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidDecimal;

impl FromStr for DecimalNumber {
    type Err = InvalidDecimal;

    fn from_str(text: &str) -> Result<Self, InvalidDecimal> {
        let (number, exponent) = match text.split_once(['e', 'E']) {
            None => (text, 0),
            Some((number, exponent)) => (number, exponent.parse().map_err(|_| InvalidDecimal)?),
        };
        let (negative, number) = match number.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{fraction}");
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        if !is_number {
            return Err(InvalidDecimal);
        }
        let significant = digits.trim_start_matches('0');
        // Trailing zeros beyond the most digits of a number increase the exponent instead.
        let excess = significant.len().saturating_sub(DIGITS_MAX as usize);
        let (kept, zeros) = digits.split_at(digits.len() - excess);
        if zeros.bytes().any(|digit| digit != b'0') {
            return Err(InvalidDecimal);
        }
        let size: i128 = kept.parse().map_err(|_| InvalidDecimal)?;
        let places = i32::try_from(fraction.len()).map_err(|_| InvalidDecimal)?;
        let excess = i32::try_from(excess).map_err(|_| InvalidDecimal)?;
        let exponent: i32 = exponent;
        let moved = exponent
            .checked_sub(places)
            .and_then(|fewer| fewer.checked_add(excess));
        let exponent = moved.ok_or(InvalidDecimal)?;
        if !(EXPONENT_MIN..=EXPONENT_MAX).contains(&exponent) {
            return Err(InvalidDecimal);
        }
        Ok(Self::new(if negative { -size } else { size }, exponent))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decimal(text: &str) -> DecimalNumber {
        text.parse().unwrap_or_else(|_| panic!("{text}"))
    }

    #[test]
    fn numbers_are_read_and_written_as_they_are() {
        for text in [
            "0",
            "7",
            "-7",
            "12.50",
            "0.1",
            "-0.05",
            "0.00",
            "1234567890123456789012345678901234",
            "5E41",
            "5E-60",
            "100000000000000000000000000000000000000",
            "1234567890123456789012345678901234000000",
        ] {
            assert_eq!(decimal(text).to_string(), text);
        }
        for (text, expected) in [("1e2", "100"), (".5", "0.5"), ("+1.", "1"), ("0e5", "0")] {
            assert_eq!(decimal(text).to_string(), expected);
        }
        for text in [
            "",
            ".",
            "-",
            "1x",
            "1e",
            "1e7000",
            "12345678901234567890123456789012345",
            "1234567890123456789012345678901234é",
        ] {
            assert_eq!(text.parse::<DecimalNumber>(), Err(InvalidDecimal), "{text}");
        }
    }

    #[test]
    fn values_compare_whatever_their_zeros() {
        for (one, ordering, other) in [
            ("12.5", Ordering::Equal, "12.50"),
            ("12.5", Ordering::Greater, "10"),
            ("-12.5", Ordering::Less, "-10"),
            ("-1", Ordering::Less, "0"),
            ("0", Ordering::Equal, "0.00"),
            ("1E6000", Ordering::Greater, "9E5999"),
            ("1E-6000", Ordering::Greater, "0"),
            ("9999999999999999999999999999999999", Ordering::Less, "1E34"),
            (
                "0.1000000000000000000000000000000001",
                Ordering::Greater,
                "0.1",
            ),
        ] {
            assert_eq!(
                decimal(one).compare(decimal(other)),
                ordering,
                "{one} {other}"
            );
            assert_eq!(decimal(other).compare(decimal(one)), ordering.reverse());
            let is_equal = decimal(one).normal() == decimal(other).normal();
            assert_eq!(is_equal, ordering == Ordering::Equal, "{one} {other}");
        }
    }

    #[test]
    fn floats_are_what_they_are_written_as() {
        for (number, text) in [(0.1, "0.1"), (12.0, "12"), (-0.5, "-0.5"), (1e300, "1E300")] {
            assert_eq!(
                DecimalNumber::of_float(number).expect("a number"),
                decimal(text)
            );
            assert_eq!(decimal(text).to_float(), number);
        }
        let exact = DecimalNumber::of_float(18_446_744_073_709_551_616.0);
        assert_eq!(exact, Some(decimal("18446744073709551616")));
        assert_eq!(DecimalNumber::of_float(f64::NAN), None);
        assert_eq!(DecimalNumber::of_float(f64::INFINITY), None);
    }

    fn words(case: &str) -> [&str; 5] {
        let words: Vec<_> = case.split_whitespace().collect();
        words.try_into().expect("five words")
    }

    #[test]
    fn calculations_are_exact_and_keep_the_places() {
        for case in [
            "12.50 + 1 = 13.50",
            "0.1 + 0.2 = 0.3",
            "1E50 + 0 = 100000000000000000000000000000000000000000000000000",
            "1E100 + 1 = 1E100",
            "0.1 - 0.1 = 0.0",
            "1 - 1E-33 = 0.999999999999999999999999999999999",
            "19.99 * 3 = 59.97",
            "1.10 * 1.10 = 1.2100",
            "9999999999999999999999999999999999 * 9999999999999999999999999999999999 = \
             99999999999999999999999999999999980000000000000000000000000000000000",
            "12.5 / 2 = 6.25",
            "100 / 4 = 25",
            "1 / 3 = 0.3333333333333333333333333333333333",
            "-2 / 3 = -0.6666666666666666666666666666666667",
            "7.5 % 2 = 1.5",
            "-7.5 % 2 = -1.5",
        ] {
            let [one, sign, other, _, expected] = words(case);
            let (one, other) = (decimal(one), decimal(other));
            let result = match sign {
                "+" => one.add(other),
                "-" => one.subtract(other),
                "*" => one.multiply(other),
                "/" => one.divide(other),
                _ => one.remainder(other),
            };
            assert_eq!(result.expect("a number").to_string(), expected, "{case}");
        }
        let large = decimal("1E6000");
        assert_eq!(large.multiply(large), Err(TooFarApart));
        assert_eq!(large.remainder(decimal("1E-6000")), Err(TooFarApart));
        let small = decimal("1E-6000");
        assert_eq!(small.multiply(small).expect("zero").coefficient(), 0);
    }

    #[test]
    fn whole_numbers_are_found() {
        assert_eq!(decimal("12.00").to_whole(), Some(12));
        assert_eq!(decimal("1.2E1").to_whole(), Some(12));
        assert_eq!(decimal("12.5").to_whole(), None);
        assert_eq!(decimal("1E39").to_whole(), None);
    }

    proptest! {
        #[test]
        fn small_numbers_are_calculated_with_as_cents_are(one in -1_000_000_i64..1_000_000, other in -1_000_000_i64..1_000_000) {
            let cents = |number: i64| DecimalNumber::new(i128::from(number), -2);
            prop_assert_eq!(cents(one).add(cents(other)), Ok(cents(one + other)));
            prop_assert_eq!(cents(one).compare(cents(other)), one.cmp(&other));
            let product = DecimalNumber::new(i128::from(one) * i128::from(other), -4);
            prop_assert_eq!(cents(one).multiply(cents(other)), Ok(product));
            if other != 0 {
                prop_assert_eq!(cents(one).remainder(cents(other)), Ok(cents(one % other)));
                let quotient = cents(one).divide(cents(other)).expect("a number");
                let difference = quotient.to_float() - one as f64 / other as f64;
                prop_assert!(difference.abs() < 1e-6);
            }
            let text = cents(one).to_string();
            prop_assert_eq!(text.parse(), Ok(cents(one)));
        }
    }
}
