//! Decimals as bytes: numbers of 32, 64 and 128 bits in the binary encoding of IEEE 754.
//!
//! Azure's own library encodes numbers of 128 bits differently: it shifts the upper half of the exponent by nine bits
//! instead of seven. That library and Python's client read only this form. This module reads the standard form and
//! Azure's form, and writes Azure's form.

use std::cmp::Ordering;

use bytes::Bytes;

use crate::model::rule::DecimalNumber;

/// Azure's library has decimals with a coefficient of 96 bits and up to 28 decimal places.
const AZURE_BITS: u32 = 96;
const AZURE_SCALE_MAX: i32 = 28;

/// The first byte of Azure's form, without the sign. Its exponents all have the same upper half.
const AZURE_START: u8 = 0x0c;

/// The lower half of the exponent in Azure's form, for a number without decimal places.
const AZURE_WHOLE: u8 = 32;

/// The layout of the bits of a decimal.
struct DecimalLayout {
    exponent_bits: u32,
    bias: i32,
    digits: u32,
}

impl DecimalLayout {
    fn of(length: usize) -> Option<Self> {
        let (exponent_bits, bias, digits) = match length {
            4 => (8, 101, 7),
            8 => (10, 398, 16),
            16 => (14, 6_176, 34),
            _ => return None,
        };
        Some(Self {
            exponent_bits,
            bias,
            digits,
        })
    }
}

/// Returns the number that the bytes of a decimal stand for; `None` for infinity, NaN and bytes that are no decimal.
pub(super) fn read(bytes: &[u8]) -> Option<DecimalNumber> {
    let layout = DecimalLayout::of(bytes.len())?;
    if let Some(decimal) = read_azure(bytes) {
        return Some(decimal);
    }
    let all = bytes
        .iter()
        .fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
    let width = bytes.len() as u32 * 8;
    let is_negative = all >> (width - 1) == 1;
    let bits = all & ((1 << (width - 1)) - 1);
    let (exponent, digits) = match bits >> (width - 5) {
        0b1111 => return None,
        // The first three bits of the digits are 100 where the exponent begins with 11.
        0b1100..=0b1110 => {
            let below = width - 3 - layout.exponent_bits;
            let exponent = bits >> below & ((1 << layout.exponent_bits) - 1);
            (exponent, 1 << (below + 2) | bits & ((1 << below) - 1))
        }
        _ => {
            let below = width - 1 - layout.exponent_bits;
            (bits >> below, bits & ((1 << below) - 1))
        }
    };
    // A coefficient with more digits than the format allows stands for zero.
    let is_canonical = digits < 10_u128.pow(layout.digits);
    let digits = if is_canonical { digits as i128 } else { 0 };
    let exponent = i32::try_from(exponent).ok()? - layout.bias;
    Some(DecimalNumber::new(
        if is_negative { -digits } else { digits },
        exponent,
    ))
}

/// Reads a decimal in Azure's form. The same bytes are numbers in the standard form, too, but all of them are less than
/// 1E-4570, so nobody uses them.
fn read_azure(bytes: &[u8]) -> Option<DecimalNumber> {
    let [first, second, 0, 0, digits @ ..] = bytes else {
        return None;
    };
    let digits: [u8; 12] = digits.try_into().ok()?;
    let scale = i32::from(AZURE_WHOLE) - i32::from(second >> 1);
    let is_azure =
        first & 0x7f == AZURE_START && second & 1 == 0 && (0..=AZURE_SCALE_MAX).contains(&scale);
    let size = digits
        .iter()
        .fold(0_i128, |bits, byte| bits << 8 | i128::from(*byte));
    let is_negative = first & 0x80 != 0;
    is_azure.then(|| DecimalNumber::new(if is_negative { -size } else { size }, -scale))
}

/// Returns whether a decimal has the bytes that [`write`] makes of its number.
pub(super) fn is_written(bytes: &[u8]) -> bool {
    let written = read(bytes).and_then(write);
    written.is_some_and(|written| *written == *bytes)
}

/// Returns the bytes of a decimal in Azure's form, rounded to the decimal places that fit; `None` for a number that is
/// too large.
pub(super) fn write_rounded(decimal: DecimalNumber) -> Option<Bytes> {
    let mut places = (0..=AZURE_SCALE_MAX).rev();
    write(decimal).or_else(|| places.find_map(|places| write(rounded(decimal, places))))
}

/// Rounds a number to `places` decimal places, and rounds halves to an even digit.
fn rounded(decimal: DecimalNumber, places: i32) -> DecimalNumber {
    let Ok(surplus) = u32::try_from(-places - decimal.exponent()) else {
        return decimal;
    };
    let Some(unit) = 10_i128.checked_pow(surplus) else {
        return DecimalNumber::new(0, -places);
    };
    let digits = decimal.coefficient();
    let (kept, rest) = (digits / unit, digits % unit);
    let is_up = match (2 * rest.unsigned_abs()).cmp(&unit.unsigned_abs()) {
        Ordering::Less => false,
        Ordering::Equal => kept % 2 != 0,
        Ordering::Greater => true,
    };
    let step = if is_up { digits.signum() } else { 0 };
    DecimalNumber::new(kept + step, -places)
}

/// Returns the bytes of a decimal in Azure's form, which all clients read; `None` for a number that does not fit into
/// that form.
pub(super) fn write(decimal: DecimalNumber) -> Option<Bytes> {
    let is_zero = decimal.coefficient() == 0;
    let decimal = if decimal.exponent() < -AZURE_SCALE_MAX || is_zero && decimal.exponent() > 0 {
        decimal.normal()
    } else {
        decimal
    };
    let exponent = decimal.exponent();
    let digits = match u32::try_from(exponent) {
        Ok(zeros) => decimal
            .coefficient()
            .checked_mul(10_i128.checked_pow(zeros)?)?,
        Err(_) => decimal.coefficient(),
    };
    let scale = (-exponent).max(0);
    let size = digits.unsigned_abs();
    if scale > AZURE_SCALE_MAX || size >> AZURE_BITS != 0 {
        return None;
    }
    let mut bytes = size.to_be_bytes();
    bytes[0] = AZURE_START | sign_bit(digits);
    bytes[1] = (AZURE_WHOLE - scale as u8) << 1;
    Some(Bytes::copy_from_slice(&bytes))
}

fn sign_bit(number: i128) -> u8 {
    if number < 0 { 0x80 } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::amqp::tests::hex;

    fn decimal(text: &str) -> DecimalNumber {
        text.parse().unwrap_or_else(|_| panic!("{text}"))
    }

    #[test]
    fn decimals_are_read_in_both_forms() {
        for (bytes, number) in [
            // As Azure's library has them, and as the standard has them.
            ("0c38 0000 00000000 00000000 00003039", "1.2345"),
            ("3038 0000 00000000 00000000 00003039", "1.2345"),
            ("b03c 0000 00000000 00000000 000004e2", "-12.50"),
            ("8c3c 0000 00000000 00000000 000004e2", "-12.50"),
            ("0c40 0000 00000000 00000000 00000000", "0"),
            (
                "0c08 0000 ffffffff ffffffff ffffffff",
                "7.9228162514264337593543950335",
            ),
            ("3042 0000 00000000 00000000 00000001", "1E1"),
            ("6c10 0000000000000000000000002710", "0"),
            ("32000001", "0.1"),
            ("6cb8967f", "9999999"),
            ("b1a000000000007d", "-12.5"),
            ("6c7386f26fc0ffff", "9999999999999999"),
        ] {
            let found = read(&hex(bytes)).unwrap_or_else(|| panic!("{bytes}"));
            if number == "0" {
                assert_eq!(found.coefficient(), 0, "{bytes}");
            } else {
                assert_eq!(found, decimal(number), "{bytes}");
            }
        }
        for bytes in [
            "78000000000000000000000000000000",
            "7c000000000000000000000000000000",
            "f8000000",
            "7c00000000000000",
            "00",
        ] {
            assert_eq!(read(&hex(bytes)), None, "{bytes}");
        }
    }

    #[test]
    fn decimals_are_written_as_azure_reads_them_where_they_fit() {
        for (number, bytes) in [
            ("1.2345", "0c38 0000 00000000 00000000 00003039"),
            ("-12.50", "8c3c 0000 00000000 00000000 000004e2"),
            ("1E2", "0c40 0000 00000000 00000000 00000064"),
            ("0E-40", "0c40 0000 00000000 00000000 00000000"),
            ("0E40", "0c40 0000 00000000 00000000 00000000"),
            (
                "1.00000000000000000000000000000",
                "0c40 0000 00000000 00000000 00000001",
            ),
        ] {
            assert_eq!(write(decimal(number)), Some(hex(bytes)), "{number}");
            assert!(is_written(&hex(bytes)), "{number}");
        }
        for number in ["1E-29", "79228162514264337593543950336", "1E40"] {
            assert_eq!(write(decimal(number)), None, "{number}");
        }
        for bytes in [
            "3038 0000 00000000 00000000 00003039",
            "b1a000000000007d",
            "32000001",
        ] {
            assert!(!is_written(&hex(bytes)), "{bytes}");
        }
    }

    #[test]
    fn results_of_rules_are_rounded_to_what_fits() {
        for (number, expected) in [
            ("-12.50", Some("-12.50")),
            (
                "0.3333333333333333333333333333333333",
                Some("0.3333333333333333333333333333"),
            ),
            ("25E-29", Some("2E-28")),
            ("-35E-29", Some("-4E-28")),
            ("26E-29", Some("3E-28")),
            ("1E-60", Some("0E-28")),
            (
                "66666666666666666666.66666666666666",
                Some("66666666666666666666.666666667"),
            ),
            ("1E40", None),
        ] {
            let found = write_rounded(decimal(number)).map(|bytes| read(&bytes));
            assert_eq!(found, expected.map(|text| Some(decimal(text))), "{number}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(digits in 1 - (1_i128 << 96)..(1_i128 << 96), exponent in -60..30) {
            let decimal = DecimalNumber::new(digits, exponent);
            let written = write(decimal);
            prop_assert_eq!(written.is_some(), written.is_some_and(|bytes| is_written(&bytes)));
            if let Some(rounded) = write_rounded(decimal) {
                let again = read(&rounded).expect("a number");
                if (-AZURE_SCALE_MAX..=0).contains(&exponent) {
                    prop_assert_eq!(again, decimal);
                }
                let (again, whole) = (again.to_float(), decimal.to_float());
                prop_assert!((again - whole).abs() <= whole.abs() * 1e-12 + 1e-28);
            }
        }

        #[test]
        fn any_bytes_are_a_number_or_none(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Some(decimal) = read(&bytes) {
                prop_assert!(decimal.coefficient().unsigned_abs() < 10_u128.pow(34));
            }
        }
    }
}
