//! The words that people read: those that everybody uses, and one for one thing.

use everpost::api::{self, ApiOptions, AzureScope};
use serde_json::Value;

use crate::documents::{documents, read};
use crate::sources::product_sources;
use crate::templates::templates;

/// What is not said, in any letter case, and what is said instead. Of the beginning of a word, `refus*`.
const NOT_SAID: &[(&str, &str)] = &[
    ("accounts balance", "delivery counts are consistent"),
    ("as the system", "System"),
    ("bite*", "batch"),
    ("cannot be taken back", "cannot be revoked"),
    ("count what is stored", "recount"),
    ("deed*", "audit action"),
    ("deliveries took", "delivery time (p50, p95)"),
    ("do it", "say what is done"),
    ("end* by itself", "SAS token; it expires"),
    ("events come as", "input schema"),
    ("farewell", "deletion event"),
    ("gave up", "dead-lettered"),
    ("give up", "dead-letter"),
    ("given up", "dead-lettered"),
    ("gives up", "dead-letters"),
    ("hasten*", "retry now"),
    ("headers of your own", "custom headers"),
    ("hook", "webhook, or endpoint"),
    ("is out until", "is valid until"),
    ("its clock says", "server time"),
    ("job rest", "pause"),
    (
        "letter case of the subject counts",
        "case-sensitive subject",
    ),
    ("look* through", "check the integrity"),
    (
        "no dead letter is meant",
        "no dead letters match this filter",
    ),
    ("no sooner than", "held until"),
    ("notes and end", "labels and expiration"),
    ("of it free", "free"),
    ("of it in use", "used"),
    ("of one's own", "your own"),
    ("on the wire", "in flight"),
    ("pass* this subscription by", "are never delivered to it"),
    ("password, please", "confirm your password"),
    ("present password", "current password"),
    ("read the picture", "scan this QR code"),
    ("refus*", "reject"),
    ("seal*", "encrypt"),
    ("send* again", "resubmit (one), replay (many)"),
    ("sent again", "resubmitted, replayed"),
    ("the webhook is shown", "authentication"),
    ("those ticked", "selected"),
    ("unseal*", "decrypt"),
    ("vault", "encryption"),
    ("waiting", "pending"),
    ("with a delivery that is", "delivery status"),
    ("way out", "outbound connectivity"),
    ("why", "the reason"),
];

/// Where such a word is everybody's, or the name of something.
const SAID: &[&str] = &["connection refused", "connection was refused"];

#[test]
fn people_read_plain_words() {
    let texts = texts();
    let faults = texts.iter().flat_map(|(path, text)| {
        let words = said(text).into_iter();
        words.map(move |(word, instead)| {
            format!("{path}: {word:?} in {:?}: {instead}", shortened(text))
        })
    });
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn words_are_found() {
    for (text, words) in [
        ("It was Refused.", &["refus*"][..]),
        ("connection refused", &[]),
        ("Why\nnot", &["why"]),
        ("unsealed, or sealed", &["seal*", "unseal*"]),
        ("prefusion, a hooked rug", &[]),
        ("sends  it again, and sent\nagain", &["sent again"]),
        ("dead_letters.given_up", &[]),
        ("rejected: {why}", &[]),
    ] {
        let found: Vec<&str> = said(text).into_iter().map(|(word, _)| word).collect();
        assert_eq!(found, words, "{text}");
    }
}

#[test]
fn texts_are_found_in_sources() {
    let source = r##"
        // "not this"
        let a = "one \"two\" \
                 three"; /* "nor this" */
        let b = ('"', 'x', b"four", r#"five "six""#);
        fn c<'a>(it: &'a str) -> &'static str { "seven" }
    "##;
    assert_eq!(
        literals(source),
        ["one \"two\" three", "four", "five \"six\"", "seven"]
    );
}

/// Everything that is written for people, each with where it stands.
fn texts() -> Vec<(String, String)> {
    let options = ApiOptions {
        publish_bytes_max: 1,
        metrics_public: false,
        dev: None,
        azure: AzureScope::ANY,
    };
    let mut found: Vec<(String, String)> = Vec::new();
    prose("openapi.json", &api::document(&options, ""), &mut found);
    for path in documents() {
        // What programs read is in code.
        let prose: Vec<String> = read(&path)
            .split("```")
            .step_by(2)
            .map(str::to_owned)
            .collect();
        let parts = prose.iter().flat_map(|part| part.split("\n\n"));
        let texts = parts.flat_map(|part| match part.starts_with('|') {
            true => part.lines().collect(), // the rows of a table
            false => vec![part],
        });
        found.extend(texts.map(|text| (path.clone(), text.to_owned())));
    }
    for (path, text) in product_sources() {
        // A text without a space is a name for programs.
        let texts = literals(&text)
            .into_iter()
            .filter(|text| text.contains(' '));
        found.extend(texts.map(|text| (path.clone(), text)));
    }
    for (path, text) in templates() {
        // What stands outside of tags, and in those attributes that are read out.
        let outside = text.split('<').filter_map(|piece| piece.split_once('>'));
        let outside = outside.map(|(_, text)| text);
        let attributes = ["title=\"", "aria-label=\"", "placeholder=\""].into_iter();
        let attributes = attributes.flat_map(|name| text.split(name).skip(1));
        let attributes = attributes.filter_map(|rest| rest.split('"').next());
        let texts = outside.chain(attributes).map(str::to_owned);
        found.extend(texts.map(|text| (path.clone(), text)));
    }
    found
}

/// The descriptions and summaries in a document, each with the path to it.
fn prose(path: &str, document: &Value, found: &mut Vec<(String, String)>) {
    match document {
        Value::Array(items) => items.iter().for_each(|item| prose(path, item, found)),
        Value::Object(members) => {
            for (name, member) in members {
                let path = format!("{path}/{name}");
                match (&**name, member) {
                    ("description" | "summary", Value::String(text)) => {
                        found.push((path, text.clone()));
                    }
                    _ => prose(&path, member, found),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The words of the list that stand in a text, besides those of values in braces.
fn said(text: &str) -> Vec<(&'static str, &'static str)> {
    let outside = text
        .split('{')
        .enumerate()
        .map(|(index, part)| match index {
            0 => part,
            _ => part.split_once('}').map_or("", |(_, outside)| outside),
        });
    let text = outside.collect::<Vec<_>>().join(" ").to_lowercase();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = SAID.iter().fold(text, |text, said| text.replace(said, ""));
    let words: Vec<&str> = text.split(|c: char| !(is_inner(c) || c == '\'')).collect();
    let is_said = |(phrase, _): &&(&str, &str)| contains(&words, phrase);
    NOT_SAID.iter().filter(is_said).copied().collect()
}

fn is_inner(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether the words of `phrase` follow each other.
fn contains(words: &[&str], phrase: &str) -> bool {
    let wanted = phrase.split([' ', ',']).filter(|word| !word.is_empty());
    let wanted: Vec<&str> = wanted.collect();
    let fits = |(word, wanted): (&&str, &&str)| match wanted.strip_suffix('*') {
        Some(beginning) => word.starts_with(beginning),
        None => word == wanted,
    };
    let mut windows = words.windows(wanted.len());
    windows.any(|window| window.iter().zip(&wanted).all(fits))
}

fn shortened(text: &str) -> String {
    text.chars().take(120).collect()
}

/// The texts in a source: its string literals outside of comments.
fn literals(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find(['/', '"', '\'', 'r']) {
        let before = rest[..at].chars().next_back();
        rest = &rest[at..];
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some((text, length)) = raw(rest).filter(|_| !is_part_of_name(before)) {
            found.push(text);
            length
        } else if rest.starts_with('"') {
            let (text, length) = quoted(rest);
            found.push(text);
            length
        } else {
            character(rest)
        };
        rest = &rest[skipped..];
    }
    found
}

fn is_part_of_name(before: Option<char>) -> bool {
    before.is_some_and(is_inner)
}

/// A raw string at the beginning, and how long it is.
fn raw(rest: &str) -> Option<(String, usize)> {
    let inner = rest.strip_prefix('r')?;
    let hashes = inner.len() - inner.trim_start_matches('#').len();
    let text = inner[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", &inner[..hashes]);
    let length = text.find(&close)?;
    Some((text[..length].to_owned(), 2 + hashes + length + close.len()))
}

/// A string at the beginning, without its escapes, and how long it is.
fn quoted(rest: &str) -> (String, usize) {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (text, at + 1),
            '\\' => match chars.next() {
                Some((_, '\n')) => while chars.next_if(|(_, c)| c.is_whitespace()).is_some() {},
                Some((_, 'n' | 't' | 'r')) => text.push(' '),
                Some((_, escaped)) => text.push(escaped),
                None => {}
            },
            c => text.push(c),
        }
    }
    (text, rest.len())
}

/// The bytes of a character literal at the beginning, or of what only looks like one.
fn character(rest: &str) -> usize {
    let mut chars = rest.chars();
    let closes = match (chars.next(), chars.next()) {
        (Some('\''), Some('\\')) => rest[3..].find('\'').map(|at| at + 4),
        (Some('\''), Some(c)) if rest[1 + c.len_utf8()..].starts_with('\'') => {
            Some(2 + c.len_utf8())
        }
        _ => None,
    };
    closes.unwrap_or(1)
}
