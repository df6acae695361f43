//! Reads and writes YAML. The cost of reading an untrusted file is bounded by its length. Hidden characters are escaped
//! in the output.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::base::steers;

/// Maximum nesting depth of values, on one line and in total. For each character the parser looks at all open values,
/// and it goes no deeper than this.
const DEPTH_MAX: usize = 128;

/// Maximum number of brackets that may be open across lines. The parser looks at the brackets of earlier lines, too,
/// where a key is marked explicitly. The limit is higher than `DEPTH_MAX` because brackets in strings and comments
/// count.
const OPEN_MAX: usize = 512;

/// Reads a document. The error says what is wrong, and where.
pub(super) fn read(text: &str) -> Result<Value, String> {
    check_depth(text)?;
    // A document without aliases costs less than two units for each byte: one for each value, and one for each byte of
    // a string.
    let budget = Expansion(&Cell::new(2 * text.len() + 1));
    let read = budget.deserialize(serde_norway::Deserializer::from_str(text));
    read.map_err(|error| error.to_string())
}

/// Writes a list. Strings with hidden characters are written in double quotes, with these characters escaped.
pub(super) fn write(list: &[Value]) -> Result<String, serde_norway::Error> {
    let plain = serde_norway::to_string(list)?;
    if !is_hiding(&plain) {
        return Ok(plain); // as nearly always
    }
    // The serializer cannot be told to quote a string, so a placeholder replaces each string with hidden characters. A
    // placeholder begins with a mark that occurs nowhere else.
    let mark = unused_mark(&plain);
    let mut quoted = Vec::new();
    let stand_ins = list.iter().map(|value| veiled(value, &mark, &mut quoted));
    let written = serde_norway::to_string(&stand_ins.collect::<Vec<_>>())?;
    let mut parts = written.split(&mark);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (place, rest) = part.split_once('x').unwrap_or((part, ""));
        let of_place = place
            .parse()
            .ok()
            .and_then(|place: usize| quoted.get(place));
        text.push_str(of_place.map_or("", String::as_str));
        text.push_str(rest.trim_start_matches('x'));
    }
    Ok(text)
}

/// Returns whether a text contains hidden characters other than line feeds and tabs.
fn is_hiding(text: &str) -> bool {
    text.contains(|c: char| steers(c) && c != '\n' && c != '\t')
}

/// Returns a mark that does not occur in `plain`. Finds it in one pass, however many marks `plain` contains. Searches
/// for `ext`, which cannot overlap itself as `text` can.
fn unused_mark(plain: &str) -> String {
    let numbers = plain.split("ext").filter_map(|behind| {
        let (number, _) = behind.split_once('x')?;
        number.parse().ok()
    });
    let used: HashSet<u64> = numbers.collect();
    let mut marks = (0..).filter(|number| !used.contains(number));
    format!("text{}x", marks.next().unwrap_or_default())
}

/// Returns the value with a placeholder for each string that contains hidden characters, and adds these strings to
/// `quoted`. A placeholder is as long as its quoted string, since long keys are written in another way.
fn veiled(value: &Value, mark: &str, quoted: &mut Vec<String>) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => veiled_text(text, mark, quoted).into(),
        Value::Array(elements) => {
            let stand_ins = elements.iter().map(|each| veiled(each, mark, quoted));
            stand_ins.collect()
        }
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                let name = veiled_text(name, mark, quoted);
                (name, veiled(value, mark, quoted))
            };
            members.iter().map(member).collect()
        }
    }
}

fn veiled_text(text: &str, mark: &str, quoted: &mut Vec<String>) -> String {
    if !is_hiding(text) {
        return text.to_owned();
    }
    let escaped = in_quotes(text);
    let stand_in = format!("{mark}{}x", quoted.len());
    let length = escaped.len();
    quoted.push(escaped);
    format!("{stand_in:x<length$}")
}

/// The text in double quotes, as YAML escapes it.
fn in_quotes(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            // YAML allows neither U+FFFE nor U+FFFF in a document.
            c if steers(c) || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                let code = u32::from(c);
                quoted.push_str(&if code > 0xffff {
                    format!("\\U{code:08x}")
                } else {
                    format!("\\u{code:04x}")
                });
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Rejects a text with too many unclosed lists and objects, on one line or in total.
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

/// Deserializes YAML values within a budget, because aliases let a short text expand to any number of values.
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
    fn a_mark_is_nowhere_in_the_text() {
        for (plain, mark) in [
            ("", "text0x"),
            ("text1x text01x textx text-1x", "text0x"),
            ("text0x texttext1x textext2x text4x", "text3x"),
            ("text99999999999999999999999x text0", "text0x"),
        ] {
            assert_eq!(unused_mark(plain), mark, "{plain}");
        }
    }

    #[test]
    fn what_is_hidden_is_written_out_and_read_back() {
        for text in [
            "\u{202e}gpj.exe",
            "text0x0x \u{202e}",
            "a\rb\nc\td",
            "\u{2028}x: \"y\" \\ # z",
            "größe 👩\u{200d}🚀 \u{e0041}",
            "\u{fffe}\u{200b}",
            "\0\u{1b}c\u{85}\u{feff}",
        ] {
            let list = [
                json!({ text: text, "plain": "text0x0x", "each": [text, 1, null] }),
                json!({ text.repeat(200): { "long": text.repeat(200) } }),
            ];
            let written = write(&list).expect("YAML");
            assert!(!is_hiding(&written), "{written:?}");
            assert_eq!(read(&written), Ok(json!(list)), "{written:?}");
        }
        let labelled = [json!({ "label": "\u{202e}x \u{e0041}" })];
        assert_eq!(
            write(&labelled).expect("YAML"),
            "- label: \"\\u202ex \\U000e0041\"\n"
        );
    }

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
