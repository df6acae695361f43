//! Mappings read a second time, as plainly as can be, over random documents: these are trees that are
//! written out, so that the reference parses nothing.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::model::event::EventKey;

const NOW: Timestamp = Timestamp::from_ms(1_795_243_253_138);

/// Few names, so that mappings find something; in two letter cases, with dots, and empty.
const NAMES: [&str; 9] = ["", "a", "b", "c", "A", "B", "a.b", "b.c", "é"];

const PATHS: [&str; 13] = [
    "", "a", "b", "A", "é", "a.b", "b.c", "A.b", "a.B.c", "a.b.c", "c.a", "a.", ".a",
];

/// JSON strings, and the text that each is; one holds half of a surrogate pair.
const STRINGS: [(&str, Option<&str>); 9] = [
    (r#""x""#, Some("x")),
    (r#""""#, Some("")),
    (r#"" \t ""#, Some(" \t ")),
    (r#""\u00e4\"\/""#, Some("ä\"/")),
    (r#""\ud83e\uddc0 käse""#, Some("🧀 käse")),
    (r#""\ud800""#, None),
    (
        r#""2026-11-21T06:40:53+01:00""#,
        Some("2026-11-21T06:40:53+01:00"),
    ),
    (
        r#""2026-11-21T06:40:53.5+0100""#,
        Some("2026-11-21T06:40:53.5+0100"),
    ),
    (r#""2026-11-21""#, Some("2026-11-21")),
];

/// The moments among the strings, and how receivers read them.
const MOMENTS: [(&str, &str); 2] = [
    ("2026-11-21T06:40:53+01:00", "2026-11-21T06:40:53+01:00"),
    ("2026-11-21T06:40:53.5+0100", "2026-11-21T06:40:53.5+01:00"),
];

/// Numbers and booleans, which no parser may touch.
const PLAIN: [&str; 7] = [
    "0",
    "-0.0",
    "1.0e400",
    "12345678901234567890123",
    "1E+2",
    "true",
    "false",
];

#[derive(Clone, Debug)]
enum Node {
    Null,
    Plain(&'static str),
    Text(&'static str, Option<&'static str>),
    List(Vec<Node>),
    Object(Vec<(&'static str, Node)>),
}

fn nodes() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![
        1 => Just(Node::Null),
        3 => select(&PLAIN[..]).prop_map(Node::Plain),
        6 => select(&STRINGS[..]).prop_map(|(json, text)| Node::Text(json, text)),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            1 => vec(inner.clone(), 0..3).prop_map(Node::List),
            4 => vec((select(&NAMES[..]), inner), 0..4).prop_map(Node::Object),
        ]
    })
}

/// The properties of an event; one in eight may have a name twice.
fn documents() -> impl Strategy<Value = Vec<(&'static str, Node)>> {
    let members = vec((select(&NAMES[..]), nodes()), 0..7);
    (members, 0..8).prop_map(|(mut members, luck)| {
        if luck > 0 {
            let mut seen = Vec::new();
            members.retain(|(name, _)| {
                !seen.contains(name) && {
                    seen.push(*name);
                    true
                }
            });
        }
        members
    })
}

fn mappings() -> impl Strategy<Value = InputMapping> {
    let source = || option::of(select(&PATHS[..]).prop_map(str::to_owned));
    let default = option::weighted(0.8, select(&["d", " ", ""][..]).prop_map(str::to_owned));
    let field = (source(), default).prop_map(|(source_field, default_value)| MappedField {
        source_field,
        default_value,
    });
    let moment = option::weighted(0.2, select(&PATHS[..]).prop_map(str::to_owned));
    (
        source(),
        source(),
        moment,
        [field.clone(), field.clone(), field],
    )
        .prop_map(
            |(id, topic, event_time, [event_type, subject, data_version])| InputMapping {
                id,
                topic,
                event_time,
                event_type,
                subject,
                data_version,
            },
        )
}

/// Writes documents with spaces and escapes that no writer would choose; the quirks go round.
struct Writer<'a> {
    out: String,
    quirks: std::iter::Cycle<std::slice::Iter<'a, usize>>,
}

impl<'a> Writer<'a> {
    fn new(quirks: &'a [usize]) -> Self {
        Self {
            out: String::new(),
            quirks: quirks.iter().cycle(),
        }
    }

    fn quirk(&mut self) -> usize {
        *self.quirks.next().expect("they go round")
    }

    fn space(&mut self) {
        let spaces = ["", " ", "\n\t", "\r\n  "];
        let quirk = self.quirk();
        self.out += spaces[quirk % spaces.len()];
    }

    fn name(&mut self, name: &str) {
        let escaped = self.quirk().is_multiple_of(3);
        self.out.push('"');
        for unit in name.encode_utf16() {
            match escaped {
                true => self.out += &format!("\\u{unit:04X}"),
                false => self.out.extend(char::from_u32(unit.into())),
            }
        }
        self.out.push('"');
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Null => self.out += "null",
            Node::Plain(json) | Node::Text(json, _) => self.out += json,
            Node::List(nodes) => self.list('[', nodes, ']', Self::node),
            Node::Object(members) => self.object(members),
        }
    }

    fn object(&mut self, members: &[(&'static str, Node)]) {
        self.list('{', members, '}', |writer, (name, node)| {
            writer.name(name);
            writer.space();
            writer.out.push(':');
            writer.space();
            writer.node(node);
        });
    }

    fn list<T>(&mut self, open: char, all: &[T], close: char, write: impl Fn(&mut Self, &T)) {
        self.out.push(open);
        for (index, each) in all.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            self.space();
            write(self, each);
        }
        self.space();
        self.out.push(close);
    }
}

/// What a mapping makes of a document, besides its data.
#[derive(Debug, PartialEq)]
struct Envelope {
    /// `None` for a number of the appliance's own.
    id: Option<String>,
    topic: Option<String>,
    event_time: String,
    event_type: String,
    subject: String,
    data_version: String,
}

type Document = [(&'static str, Node)];

/// The property of that name, or else the one at the end of the dotted path, whose further steps care less
/// for letter case; of several with one name the last.
fn look_up<'a>(document: &'a Document, path: &str) -> Option<&'a Node> {
    let exactly = |members: &'a Document, name: &str| {
        let found = members.iter().rfind(|(each, _)| *each == name);
        found.map(|(_, node)| node)
    };
    if let Some(found) = exactly(document, path) {
        return Some(found);
    }
    let mut steps = path.split('.');
    let mut place = exactly(document, steps.next()?)?;
    for step in steps {
        let Node::Object(members) = place else {
            return None;
        };
        place = exactly(members, step).or_else(|| {
            let folded = step.to_ascii_lowercase();
            let mut members = members.iter();
            let found = members.rfind(|(each, _)| each.to_ascii_lowercase() == folded);
            found.map(|(_, node)| node)
        })?;
    }
    Some(place)
}

/// The text at a path, if there is one; `Err` for what has no text.
fn text_at(document: &Document, path: &str) -> Result<Option<String>, ()> {
    match look_up(document, path) {
        None | Some(Node::Null) => Ok(None),
        Some(Node::Plain(text) | Node::Text(_, Some(text))) => Ok(Some((*text).to_owned())),
        Some(Node::Text(_, None) | Node::List(_) | Node::Object(_)) => Err(()),
    }
}

/// What must come of a document, or the fields that are at fault.
fn expected(mapping: &InputMapping, document: &Document) -> Result<Envelope, Vec<String>> {
    for (index, (name, _)) in document.iter().enumerate() {
        if document[..index].iter().any(|(other, _)| other == name) {
            return Err(NAMES.map(str::to_owned).to_vec());
        }
    }
    let mut at_fault = Vec::new();
    let mut part = |name: &str, from: &MappedField, needed: bool, may_be_blank: bool| {
        let path = from.source_field.as_deref();
        let found = path.map_or(Ok(None), |path| text_at(document, path));
        let text = found.map(|found| found.or_else(|| from.default_value.clone()));
        match text {
            Ok(Some(text)) if may_be_blank || !text.trim().is_empty() => Some(text),
            Ok(None) if !needed => None,
            _ => {
                at_fault.push(path.unwrap_or(name).to_owned());
                None
            }
        }
    };
    let only = |path: &Option<String>| MappedField {
        source_field: path.clone(),
        default_value: None,
    };
    let id = part("id", &only(&mapping.id), false, false);
    let topic = part("topic", &only(&mapping.topic), false, false);
    let event_type = part("eventType", &mapping.event_type, true, false);
    let subject = part("subject", &mapping.subject, true, false);
    let version_is_mapped = mapping.data_version != MappedField::default();
    let data_version = part(
        "dataVersion",
        &mapping.data_version,
        version_is_mapped,
        true,
    );
    let told = part("eventTime", &only(&mapping.event_time), false, false);
    let event_time = told.map_or(Some(NOW.to_azure()), |told| {
        let known = MOMENTS.iter().find(|(text, _)| *text == told);
        known.map(|(_, read)| (*read).to_owned())
    });
    if event_time.is_none() {
        at_fault.extend(mapping.event_time.clone());
    }
    match at_fault.is_empty() {
        false => Err(at_fault),
        true => Ok(Envelope {
            id,
            topic,
            event_time: event_time.unwrap_or_default(),
            event_type: event_type.unwrap_or_default(),
            subject: subject.unwrap_or_default(),
            data_version: data_version.unwrap_or_default(),
        }),
    }
}

fn envelope_of(event: &Event, mapping: &InputMapping, document: &Document) -> Envelope {
    let is_own = mapping
        .id
        .as_ref()
        .is_none_or(|path| text_at(document, path) == Ok(None));
    Envelope {
        id: (!is_own).then(|| event.id.clone()),
        topic: event.source.clone(),
        event_time: event.time.clone().unwrap_or_default(),
        event_type: event.event_type.clone(),
        subject: event.subject.clone().unwrap_or_default(),
        data_version: event.data_version.clone().unwrap_or_default(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn mappings_find_what_a_naive_reader_finds(
        mapping in mappings(),
        documents in vec(documents(), 1..4),
        quirks in vec(0..12_usize, 1..9),
    ) {
        let mut writer = Writer::new(&quirks);
        let texts: Vec<String> = documents
            .iter()
            .map(|document| {
                writer.object(document);
                std::mem::take(&mut writer.out)
            })
            .collect();
        let request = format!(" [{}\n] ", texts.join(" ,\t"));
        let read = decode(&mapping, &request, NOW, &Entropy::seeded(7));
        let expected: Vec<_> = documents
            .iter()
            .map(|document| expected(&mapping, document))
            .collect();
        match read {
            Ok(events) => {
                prop_assert_eq!(events.len(), documents.len());
                for (index, event) in events.into_iter().enumerate() {
                    let envelope = envelope_of(&event, &mapping, &documents[index]);
                    prop_assert_eq!(Ok(&envelope), expected[index].as_ref(), "{}", request);
                    // To the byte: as it is kept, and as it goes out again.
                    prop_assert_eq!(&event.data, &EventData::Json(texts[index].clone()));
                    let stored = StoredEvent { key: EventKey(1), received_at: NOW, event };
                    let mut out = Vec::new();
                    write(&mut out, "/topic", &stored);
                    prop_assert_eq!(String::from_utf8(out).ok(), Some(texts[index].clone()));
                }
            }
            Err(bad) => {
                let first = expected.iter().position(Result::is_err);
                prop_assert_eq!(bad.index, first, "{}: {}", bad, request);
                let at_fault = expected[first.unwrap_or(0)].as_ref().err();
                let named = at_fault.is_some_and(|all| all.contains(&bad.field.clone().unwrap_or_default()));
                prop_assert!(named, "{}, not {:?}: {}", bad, at_fault, request);
            }
        }
    }
}
