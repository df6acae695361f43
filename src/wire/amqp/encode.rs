//! Encodes AMQP values as bytes, each in its shortest encoding.

use crate::wire::amqp::value::{Array, ElementType, Value};

/// The largest content, in bytes, of a list, map or array with a size of one byte. The size includes the byte of the
/// count.
const SMALL_MAX: usize = 254;

/// Appends the encoding of `value`.
pub(super) fn encode(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0x40),
        Value::Bool(true) => out.push(0x41),
        Value::Bool(false) => out.push(0x42),
        Value::Ubyte(number) => out.extend([0x50, *number]),
        Value::Ushort(number) => fixed(0x60, &number.to_be_bytes(), out),
        Value::Uint(0) => out.push(0x43),
        Value::Uint(number) => match u8::try_from(*number) {
            Ok(small) => out.extend([0x52, small]),
            Err(_) => fixed(0x70, &number.to_be_bytes(), out),
        },
        Value::Ulong(0) => out.push(0x44),
        Value::Ulong(number) => match u8::try_from(*number) {
            Ok(small) => out.extend([0x53, small]),
            Err(_) => fixed(0x80, &number.to_be_bytes(), out),
        },
        Value::Byte(number) => fixed(0x51, &number.to_be_bytes(), out),
        Value::Short(number) => fixed(0x61, &number.to_be_bytes(), out),
        Value::Int(number) => match i8::try_from(*number) {
            Ok(small) => fixed(0x54, &small.to_be_bytes(), out),
            Err(_) => fixed(0x71, &number.to_be_bytes(), out),
        },
        Value::Long(number) => match i8::try_from(*number) {
            Ok(small) => fixed(0x55, &small.to_be_bytes(), out),
            Err(_) => fixed(0x81, &number.to_be_bytes(), out),
        },
        Value::Float(number) => fixed(0x72, &number.to_be_bytes(), out),
        Value::Double(number) => fixed(0x82, &number.to_be_bytes(), out),
        Value::Decimal(bytes) => {
            let code = match bytes.len() {
                4 => 0x74,
                8 => 0x84,
                _ => 0x94,
            };
            fixed(code, bytes, out);
        }
        Value::Char(code_point) => fixed(0x73, &code_point.to_be_bytes(), out),
        Value::Timestamp(ms) => fixed(0x83, &ms.to_be_bytes(), out),
        Value::Uuid(uuid) => fixed(0x98, uuid.as_bytes(), out),
        Value::Binary(bytes) => variable(0xa0, 0xb0, bytes, out),
        Value::String(text) => variable(0xa1, 0xb1, text.as_bytes(), out),
        Value::Symbol(text) => variable(0xa3, 0xb3, text.as_bytes(), out),
        Value::List(values) if values.is_empty() => out.push(0x45),
        Value::List(values) => compound(0xc0, 0xd0, values.len(), out, |out| {
            values.iter().for_each(|each| encode(each, out));
        }),
        Value::Map(pairs) => compound(0xc1, 0xd1, 2 * pairs.len(), out, |out| {
            for (key, value) in pairs {
                encode(key, out);
                encode(value, out);
            }
        }),
        Value::Array(array) => compound(0xe0, 0xf0, array.values.len(), out, |out| {
            elements(array, out);
        }),
        Value::Described(described) => {
            let (descriptor, value) = &**described;
            out.push(0x00);
            encode(descriptor, out);
            encode(value, out);
        }
    }
}

fn fixed(code: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(code);
    out.extend_from_slice(bytes);
}

fn variable(small: u8, large: u8, bytes: &[u8], out: &mut Vec<u8>) {
    match u8::try_from(bytes.len()) {
        Ok(length) => out.extend([small, length]),
        Err(_) => fixed(large, &length_of(bytes.len()), out),
    }
    out.extend_from_slice(bytes);
}

/// Appends a list, map or array. Its size and count precede the content and are filled in after the content is written.
fn compound(
    small: u8,
    large: u8,
    count: usize,
    out: &mut Vec<u8>,
    content: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    out.extend([small, 0, 0]);
    let inside = out.len();
    content(out);
    let length = out.len() - inside;
    match (u8::try_from(length + 1), u8::try_from(count)) {
        (Ok(size), Ok(count)) if length <= SMALL_MAX => {
            out[start + 1] = size;
            out[start + 2] = count;
        }
        _ => {
            let mut head = vec![large];
            head.extend(length_of(length + 4));
            head.extend(length_of(count));
            out.splice(start..inside, head);
        }
    }
}

/// Appends a map with the encoded `entries`. `count` is the number of keys and values.
pub(super) fn encode_map(entries: &[u8], count: usize, out: &mut Vec<u8>) {
    compound(0xc1, 0xd1, count, out, |out| out.extend_from_slice(entries));
}

fn length_of(length: usize) -> [u8; 4] {
    u32::try_from(length)
        .expect("what is encoded is bounded to far below 4 GiB")
        .to_be_bytes()
}

/// Appends the constructor and the elements of an array. All elements share one constructor, the widest of their type.
fn elements(array: &Array, out: &mut Vec<u8>) {
    for descriptor in &array.descriptors {
        out.push(0x00);
        encode(descriptor, out);
    }
    out.push(array.element.0);
    for value in &array.values {
        element(value, out);
    }
}

/// Returns the element type of an array of values like `value`.
pub(super) fn element_type(value: &Value) -> ElementType {
    let code = match value {
        Value::Null => 0x40,
        Value::Bool(_) => 0x56,
        Value::Ubyte(_) => 0x50,
        Value::Ushort(_) => 0x60,
        Value::Uint(_) => 0x70,
        Value::Ulong(_) => 0x80,
        Value::Byte(_) => 0x51,
        Value::Short(_) => 0x61,
        Value::Int(_) => 0x71,
        Value::Long(_) => 0x81,
        Value::Float(_) => 0x72,
        Value::Double(_) => 0x82,
        Value::Decimal(bytes) if bytes.len() == 4 => 0x74,
        Value::Decimal(bytes) if bytes.len() == 8 => 0x84,
        Value::Decimal(_) => 0x94,
        Value::Char(_) => 0x73,
        Value::Timestamp(_) => 0x83,
        Value::Uuid(_) => 0x98,
        Value::Binary(_) => 0xb0,
        Value::String(_) => 0xb1,
        Value::Symbol(_) => 0xb3,
        Value::List(_) => 0xd0,
        Value::Map(_) => 0xd1,
        Value::Array(_) => 0xf0,
        // The descriptors of an array's elements are a part of the array, not of its element type.
        Value::Described(described) => return element_type(&described.1),
    };
    ElementType(code)
}

/// Appends an element of an array, without its constructor.
fn element(value: &Value, out: &mut Vec<u8>) {
    let sized = |bytes: &[u8], out: &mut Vec<u8>| {
        out.extend(length_of(bytes.len()));
        out.extend_from_slice(bytes);
    };
    let counted = |count: usize, content: Vec<u8>, out: &mut Vec<u8>| {
        out.extend(length_of(content.len() + 4));
        out.extend(length_of(count));
        out.extend(content);
    };
    match value {
        Value::Null => {}
        Value::Bool(is) => out.push(u8::from(*is)),
        Value::Ubyte(number) => out.push(*number),
        Value::Ushort(number) => out.extend(number.to_be_bytes()),
        Value::Uint(number) | Value::Char(number) => out.extend(number.to_be_bytes()),
        Value::Ulong(number) => out.extend(number.to_be_bytes()),
        Value::Byte(number) => out.extend(number.to_be_bytes()),
        Value::Short(number) => out.extend(number.to_be_bytes()),
        Value::Int(number) => out.extend(number.to_be_bytes()),
        Value::Long(number) | Value::Timestamp(number) => out.extend(number.to_be_bytes()),
        Value::Float(number) => out.extend(number.to_be_bytes()),
        Value::Double(number) => out.extend(number.to_be_bytes()),
        Value::Decimal(bytes) => out.extend_from_slice(bytes),
        Value::Uuid(uuid) => out.extend_from_slice(uuid.as_bytes()),
        Value::Binary(bytes) => sized(bytes, out),
        Value::String(text) | Value::Symbol(text) => sized(text.as_bytes(), out),
        Value::List(values) => {
            let mut content = Vec::new();
            values.iter().for_each(|each| encode(each, &mut content));
            counted(values.len(), content, out);
        }
        Value::Map(pairs) => {
            let mut content = Vec::new();
            for (key, value) in pairs {
                encode(key, &mut content);
                encode(value, &mut content);
            }
            counted(2 * pairs.len(), content, out);
        }
        Value::Array(array) => {
            let mut content = Vec::new();
            elements(array, &mut content);
            counted(array.values.len(), content, out);
        }
        Value::Described(described) => element(&described.1, out),
    }
}

impl Value {
    /// Returns the encoding of the value.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        encode(self, &mut out);
        out
    }
}
