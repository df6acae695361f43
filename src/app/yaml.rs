//! YAML of files that others may have written: what it costs to read one is bounded by its length.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// How deep values may stand in each other on one line, and at all: the reader looks at all that are open for each
/// character, and goes no deeper than this.
const DEPTH_MAX: usize = 128;

/// How many brackets may be open over all lines: the reader looks at those of earlier lines, too, where a key is marked as
/// one. More than can be read, since those in texts and comments count with them.
const OPEN_MAX: usize = 512;

/// Reads a document. The error says what is wrong, and where.
pub(super) fn read(text: &str) -> Result<Value, String> {
    check_depth(text)?;
    // What is written out has less than two for each byte: one for the value, and one for each byte of a text.
    let budget = Expansion(&Cell::new(2 * text.len() + 1));
    let read = budget.deserialize(serde_norway::Deserializer::from_str(text));
    read.map_err(|error| error.to_string())
}

/// Rejects a text that opens too many lists and objects without closing them, on one line or over all.
fn check_depth(text: &str) -> Result<(), String> {
    let mut open: usize = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let mut depth: usize = 0;
        for byte in line.bytes() {
            match byte {
                b'[' | b'{' => (open, depth) = (open + 1, depth + 1),
                b']' | b'}' => (open, depth) = (open.saturating_sub(1), depth.saturating_sub(1)),
                _ => {}
            }
            if depth > DEPTH_MAX {
                return Err(format!(
                    "line {number} opens more than {DEPTH_MAX} lists and objects in each other"
                ));
            }
            if open > OPEN_MAX {
                return Err(format!(
                    "more than {OPEN_MAX} lists and objects are open in line {number}"
                ));
            }
        }
    }
    Ok(())
}

/// Makes values out of YAML while they are no more than is left: aliases let a short text stand for any number.
#[derive(Clone, Copy)]
struct Expansion<'a>(&'a Cell<usize>);

impl Expansion<'_> {
    fn take<E: Error>(self, bytes: usize) -> Result<(), E> {
        let left = self.0.get().checked_sub(bytes + 1);
        self.0.set(left.ok_or_else(|| {
            E::custom(
                "its aliases stand for more than twice as much as is written; write out less of it",
            )
        })?);
        Ok(())
    }

    fn value<E: Error>(self, value: impl Into<Value>) -> Result<Value, E> {
        self.take(0)?;
        Ok(value.into())
    }
}

impl<'de> DeserializeSeed<'de> for Expansion<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

/// The keys of objects, which are texts.
struct KeyOf<'a>(Expansion<'a>);

impl<'de> DeserializeSeed<'de> for KeyOf<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        let key = <String as serde::Deserialize>::deserialize(from)?;
        self.0.take(key.len())?;
        Ok(key)
    }
}

impl<'de> Visitor<'de> for Expansion<'_> {
    type Value = Value;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a value of JSON")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.value(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.value(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.value(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.value(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.take(text.len())?;
        Ok(text.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.value(())
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.value(())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        self.deserialize(from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        self.take(0)?;
        let mut elements = Vec::new();
        while let Some(element) = from.next_element_seed(self)? {
            elements.push(element);
        }
        Ok(elements.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        self.take(0)?;
        let mut members = Map::new();
        while let Some(name) = from.next_key_seed(KeyOf(self))? {
            members.insert(name, from.next_value_seed(self)?);
        }
        Ok(members.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_out_is_read_as_before() {
        for text in [
            "",
            "- kind: topic\n  name: orders\n",
            "{a: [1, -2, 0.5, yes, no, true, ~, 010, 1_000, 0x1f, .inf, \"x\", 'y'], ? b : {}}",
            "a: &a {x: 1, y: [é, 'z']}\nb: *a\n",
            "a: |\n  [[[\n  {{{\nb: >\n  x\n",
            "- !tag a\n- 2026-01-01\n- 18446744073709551615\n- 99999999999999999999\n",
            "[a, b",
            "a: 1\na: 2\n",
            "1: a\n",
        ] {
            let expected: Result<Value, _> = serde_norway::from_str(text);
            assert_eq!(read(text).ok(), expected.ok(), "{text}");
        }
        let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        assert!(read(&deep).is_ok());
    }

    /// Each would otherwise take seconds, or gigabytes; what is counted does not depend on the machine.
    #[test]
    fn a_short_text_stands_for_no_more_than_its_length_allows() {
        let open = format!("- a\n- {}", "[".repeat(100_000));
        let said = "line 2 opens more than 128 lists and objects in each other";
        assert_eq!(read(&open), Err(said.to_owned()));
        assert!(read(&"{a: ".repeat(1_000)).is_err());
        // A marked key keeps the reader looking at what earlier lines have opened.
        for each in ["[\n", "[? [\n", "{? {\n", "- [? [\n  "] {
            let said = read(&each.repeat(50_000)).expect_err("too deep");
            let expected = "more than 512 lists and objects are open in line ";
            assert!(said.starts_with(expected), "{each:?}: {said}");
        }
        let texts = format!("[{}x]\n", "'[', \n".repeat(OPEN_MAX - 1));
        assert!(read(&texts).is_ok(), "brackets in texts are no lists");
        let wide = "x,".repeat(4_000);
        let aliases = "*a,".repeat(1_000);
        let name = format!("'{}'", "x".repeat(1_000));
        for text in [
            format!("- &a [{wide}x]\n- [{aliases}*a]\n"),
            format!("- &a {name}\n- [{aliases}*a]\n"),
            format!("- &a {{{name}: 1}}\n- [{aliases}*a]\n"),
        ] {
            let said = read(&text).expect_err("too much");
            assert!(said.contains("aliases stand for more than"), "{said}");
        }
        let few = json!([["x", "x"], [["x", "x"], ["x", "x"]]]);
        assert_eq!(read("- &a [x, x]\n- [*a, *a]\n"), Ok(few));
    }
}
