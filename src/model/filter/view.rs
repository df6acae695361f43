//! An event as filters see it: in the form in which it was published.

use std::cell::{Cell, OnceCell};

use crate::model::event::{Event, EventData};
use crate::model::filter::text::fold;
use crate::model::filter::value::Node;

/// An event that is compared with many filters.
///
/// Creation parses nothing. Every value is parsed at most once, and in `data` only the objects on the path of a filter
/// key.
pub struct EventView<'a> {
    event: &'a Event,
    /// `event.source`, or the resource id of the topic for an event without a source.
    source: &'a str,
    schema: EnvelopeSchema,
    folded_subject: OnceCell<String>,
    envelope: OnceCell<Vec<(&'a str, Node<'a>)>>,
    data: Option<Node<'a>>,
    /// See [`EventView::steps`].
    steps: Cell<usize>,
}

/// The input schema, which determines the names of the envelope's properties.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EnvelopeSchema {
    EventGrid,
    CloudEvents,
    Custom,
}

/// Older names of CloudEvents attributes (rule 4.3), each with its current name.
const ALIASES: [(&str, &str); 3] = [
    ("eventid", "id"),
    ("eventtype", "type"),
    ("eventtypeversion", "dataschema"),
];

impl<'a> EventView<'a> {
    /// Creates the view of an event in the Event Grid schema or of a CloudEvent. `default_source`, the resource id of
    /// the topic, replaces the source of an event that has none.
    pub fn new(event: &'a Event, default_source: &'a str) -> Self {
        // Only CloudEvents come without a data version.
        let schema = match event.data_version {
            Some(_) => EnvelopeSchema::EventGrid,
            None => EnvelopeSchema::CloudEvents,
        };
        Self::with_schema(event, default_source, schema)
    }

    /// A view of an event whose topic maps custom input: its `data` is the whole original object, and
    /// filters may name properties of that object without `data.` before them.
    pub fn of_custom_input(event: &'a Event, default_source: &'a str) -> Self {
        Self::with_schema(event, default_source, EnvelopeSchema::Custom)
    }

    fn with_schema(event: &'a Event, default_source: &'a str, schema: EnvelopeSchema) -> Self {
        let data = match &event.data {
            EventData::Json(text) => Some(Node::json(text)),
            EventData::Absent | EventData::Binary(_) => None,
        };
        Self {
            event,
            source: event.source.as_deref().unwrap_or(default_source),
            schema,
            folded_subject: OnceCell::new(),
            envelope: OnceCell::new(),
            data,
            steps: Cell::new(0),
        }
    }

    /// Returns the number of steps that filters have taken so far to look at the event. A step is a look at a value, or
    /// at a few bytes of a text.
    pub fn steps(&self) -> usize {
        self.steps.get()
    }

    pub(super) fn add_steps(&self, steps: usize) {
        self.steps.set(self.steps.get() + steps);
    }

    pub(super) fn event_type(&self) -> &'a str {
        &self.event.event_type
    }

    pub(super) fn subject(&self) -> Option<&'a str> {
        self.event.subject.as_deref()
    }

    /// The subject as it is compared without regard to case; empty if there is none.
    pub(super) fn folded_subject(&self) -> &str {
        self.folded_subject
            .get_or_init(|| fold(self.subject().unwrap_or("")))
    }

    pub(super) fn data(&self) -> Option<&Node<'a>> {
        self.data.as_ref()
    }

    /// Returns the object whose properties filters address without `data.`; `None` unless the topic maps custom input.
    pub(super) fn root(&self) -> Option<&Node<'a>> {
        self.data()
            .filter(|_| self.schema == EnvelopeSchema::Custom)
    }

    /// Returns the names of the envelope's properties.
    pub(super) fn envelope_names(&self) -> impl Iterator<Item = &'a str> {
        let properties = self.envelope.get_or_init(|| self.read_envelope());
        properties.iter().map(|(name, _)| *name)
    }

    /// Returns the envelope's property whose folded name is `name`.
    pub(super) fn envelope(&self, name: &str) -> Option<&Node<'a>> {
        let named = |name: &str| {
            let properties = self.envelope.get_or_init(|| self.read_envelope());
            self.add_steps(properties.len());
            let found = properties.iter().find(|(each, _)| fold_eq(each, name));
            found.map(|(_, node)| node)
        };
        named(name).or_else(|| named(self.alias(name)?))
    }

    fn alias(&self, name: &str) -> Option<&'static str> {
        let aliases = ALIASES
            .iter()
            .filter(|_| self.schema == EnvelopeSchema::CloudEvents);
        let mut found = aliases.filter(|(alias, _)| *alias == name);
        found.next().map(|(_, current)| *current)
    }

    fn read_envelope(&self) -> Vec<(&'a str, Node<'a>)> {
        match self.schema {
            EnvelopeSchema::EventGrid | EnvelopeSchema::Custom => self.event_grid_envelope(),
            EnvelopeSchema::CloudEvents => self.cloud_events_envelope(),
        }
    }

    fn event_grid_envelope(&self) -> Vec<(&'a str, Node<'a>)> {
        let event = self.event;
        present([
            ("id", Some(&event.id)),
            ("topic", Some(self.source)),
            ("subject", event.subject.as_deref()),
            ("eventType", Some(&event.event_type)),
            ("dataVersion", event.data_version.as_deref()),
        ])
        .collect()
    }

    fn cloud_events_envelope(&self) -> Vec<(&'a str, Node<'a>)> {
        let event = self.event;
        let attributes = event.attributes.iter();
        present([
            ("id", Some(&event.id)),
            ("source", Some(self.source)),
            ("type", Some(&event.event_type)),
            ("specversion", Some("1.0")),
            ("subject", event.subject.as_deref()),
            ("time", event.time.as_deref()),
        ])
        .chain(attributes.map(|each| (each.name.as_str(), Node::attribute(&each.value))))
        .collect()
    }
}

fn present<'a, const N: usize>(
    texts: [(&'a str, Option<&'a str>); N],
) -> impl Iterator<Item = (&'a str, Node<'a>)> {
    let present = texts
        .into_iter()
        .filter_map(|(name, text)| Some((name, text?)));
    present.map(|(name, text)| (name, Node::text(text)))
}

/// Returns whether `name` equals `folded`, letter case aside.
fn fold_eq(name: &str, folded: &str) -> bool {
    if name.is_ascii() {
        return name.eq_ignore_ascii_case(folded);
    }
    fold(name) == folded
}
