//! Messages as the rules of subscriptions see them, the copies that their actions make (rule S7), and the messages that
//! deliveries of events become.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;
use std::time::Duration;

use crate::base::Timestamp;
use crate::model::event::{Event, EventKey, StoredEvent};
use crate::model::name::RuleName;
use crate::model::rule::{Changes, MessageView, PropertyValue, Steps, SystemProperty};
use crate::model::topic::DeliverySchema;
use crate::model::trace::TraceContext;
use crate::wire::amqp::message::{Message, MessageParts, MessageProperties, annotation, map};
use crate::wire::amqp::outcome::named_values;
use crate::wire::amqp::value::{Map, get};
use crate::wire::amqp::{DecodeError, Value};
use crate::wire::service_bus::message::{of_event, to_event, trace_properties};
use crate::wire::{self, Payload};

/// The property of a copy that holds the name of the rule whose action made the copy.
const RULE_NAME: &str = "RuleName";

/// A message that is sent to a topic.
pub struct SentMessage {
    message: Message,
    parts: MessageParts,
    bytes: usize,
    sent_at: Timestamp,
    /// The result of [`places_of`], computed when a property is first looked up.
    places: OnceLock<HashMap<String, usize>>,
}

impl SentMessage {
    /// Makes the message from an event. An event that is not a message itself becomes the body of one.
    pub fn of(event: &Event, topic_resource_id: &str, now: Timestamp) -> Result<Self, DecodeError> {
        let message = of_event(event).unwrap_or_else(|| wrapped(event, topic_resource_id, now));
        Ok(Self {
            parts: message.parts()?,
            bytes: message.to_bytes().len(),
            message,
            sent_at: now,
            places: OnceLock::new(),
        })
    }

    /// Returns the copy of the message with the changes of a rule's action. `new_id` supplies the ID of the message if
    /// the action has removed it.
    pub fn copy(
        &self,
        changes: &Changes,
        rule: &RuleName,
        new_id: impl FnOnce() -> String,
    ) -> Result<Event, DecodeError> {
        let own = changes
            .user
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_ref().map(Value::from)));
        let set = own.chain([(RULE_NAME, Some(rule.as_str().into()))]);
        let MessageParts {
            header,
            annotations,
            properties,
            application_properties,
        } = &self.parts;
        let mut parts = MessageParts {
            header: header.clone(),
            annotations: annotations.clone(),
            properties: properties.clone(),
            application_properties: with_changes(application_properties, self.places(), set),
        };
        for (property, value) in &changes.system {
            set_system(&mut parts, *property, value.as_ref());
        }
        let copy = self.message.with_parts(&parts);
        to_event(copy.with_sent_head()?, new_id)
    }

    /// Returns the number of steps to make one copy.
    pub fn copy_steps(&self) -> usize {
        Steps::to_copy(self.parts.application_properties.len(), self.bytes)
    }

    fn places(&self) -> &HashMap<String, usize> {
        let own = &self.parts.application_properties;
        self.places.get_or_init(|| places_of(own))
    }
}

/// Returns the message in `event` with the application properties in `properties`, an encoded map. Returns `None` for
/// an event that is not a message.
pub fn with_properties(event: &Event, properties: &[u8]) -> Option<Event> {
    let message = of_event(event)?;
    let mut parts = message.parts().ok()?;
    let set = named_values(&map(properties).ok()?).into_iter();
    let changes = set.map(|(name, value)| (name, Some(value)));
    let own = &parts.application_properties;
    parts.application_properties = with_changes(own, &places_of(own), changes);
    to_event(message.with_parts(&parts), || event.id.clone()).ok()
}

/// Wraps an event in a message, in the form in which receivers get the event.
fn wrapped(event: &Event, topic_resource_id: &str, now: Timestamp) -> Message {
    let stored = StoredEvent {
        key: EventKey(0), // it is in no body
        received_at: now,
        event: event.clone(),
    };
    let schema = DeliverySchema::CloudEventSchemaV1_0;
    let payload = wire::encode_message(schema, topic_resource_id, &stored);
    let properties = MessageProperties {
        message_id: Some(event.id.as_str().into()),
        subject: event.subject.clone(),
        content_type: Some(payload.content_type.to_owned()),
        ..MessageProperties::default()
    };
    let trace = trace_properties(event.trace_context());
    Message::of_data(&properties, trace, payload.body)
}

/// Returns the message for the delivery of an event (rule 6.6). Names in `given` that are system properties of Service
/// Bus set these. All other names set application properties.
pub fn delivered(
    id: &str,
    payload: Payload,
    trace: Option<TraceContext>,
    given: impl Iterator<Item = (String, String)>,
) -> Result<Event, DecodeError> {
    let properties = MessageProperties {
        message_id: Some(id.into()),
        content_type: Some(payload.content_type.to_owned()),
        ..MessageProperties::default()
    };
    let message = Message::of_data(&properties, trace_properties(trace), payload.body);
    let mut parts = message.parts()?;
    let mut set: Vec<(String, Option<Value>)> = Vec::new();
    for (name, text) in given {
        match SystemProperty::find(&name).filter(is_text) {
            Some(property) => {
                set_system(&mut parts, property, Some(&PropertyValue::Text(text)));
            }
            None => set.push((name, Some(text.as_str().into()))),
        }
    }
    let own = &parts.application_properties;
    parts.application_properties = with_changes(own, &places_of(own), set);
    to_event(message.with_parts(&parts), || id.to_owned())
}

/// Reports whether a property that the sender sets is a string.
fn is_text(property: &SystemProperty) -> bool {
    let is_moment = matches!(
        property,
        SystemProperty::TimeToLive | SystemProperty::ScheduledEnqueueTimeUtc
    );
    property.is_settable() && !is_moment
}

impl MessageView for SentMessage {
    fn system(&self, property: SystemProperty) -> Option<PropertyValue> {
        let MessageParts {
            header,
            annotations,
            properties,
            ..
        } = &self.parts;
        let text = |text: &Option<String>| text.clone().map(PropertyValue::Text);
        let id = |id: &Option<Value>| id.as_ref().map(PropertyValue::from);
        let annotated = |name| get(annotations, name).map(PropertyValue::from);
        let ttl_ms = || i64::try_from(header.ttl?.as_millis()).ok();
        match property {
            SystemProperty::MessageId => id(&properties.message_id),
            SystemProperty::CorrelationId => id(&properties.correlation_id),
            SystemProperty::To => text(&properties.to),
            SystemProperty::ReplyTo => text(&properties.reply_to),
            SystemProperty::Label => text(&properties.subject),
            SystemProperty::SessionId => text(&properties.group_id),
            SystemProperty::ReplyToSessionId => text(&properties.reply_to_group_id),
            SystemProperty::ContentType => text(&properties.content_type),
            SystemProperty::TimeToLive => ttl_ms().map(PropertyValue::long),
            SystemProperty::PartitionKey => annotated(annotation::PARTITION_KEY),
            SystemProperty::ViaPartitionKey => annotated(annotation::VIA_PARTITION_KEY),
            SystemProperty::ScheduledEnqueueTimeUtc => {
                annotated(annotation::SCHEDULED_ENQUEUE_TIME)
            }
            SystemProperty::EnqueuedTimeUtc => Some(PropertyValue::Timestamp(self.sent_at.into())),
            SystemProperty::ExpiresAtUtc => {
                let expires_at = self.sent_at + header.ttl?;
                Some(PropertyValue::Timestamp(expires_at.into()))
            }
            SystemProperty::DeliveryCount => Some(PropertyValue::long(0)),
            SystemProperty::Size => i64::try_from(self.bytes).ok().map(PropertyValue::long),
            // Each copy of the message gets its own values of these properties.
            SystemProperty::SequenceNumber
            | SystemProperty::EnqueuedSequenceNumber
            | SystemProperty::State => None,
        }
    }

    fn user(&self, name: &str) -> Option<PropertyValue> {
        let place = self.places().get(&name.to_lowercase())?;
        Some((&self.parts.application_properties[*place].1).into())
    }

    fn user_properties(&self) -> Vec<(String, PropertyValue)> {
        let properties = self.parts.application_properties.iter();
        let named = properties.filter_map(|(key, value)| Some((key.as_text()?, value)));
        named
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect()
    }
}

/// Returns the positions of an application's properties by their names in lower case, since letter case does not
/// matter. The first of two with one name counts.
fn places_of(properties: &Map) -> HashMap<String, usize> {
    let named = properties.iter().map(|(key, _)| key.as_text());
    let places = named.enumerate().rev();
    places
        .filter_map(|(place, name)| Some((name?.to_lowercase(), place)))
        .collect()
}

/// Applies changes to application properties. `None` removes a property, and the last change to a property takes
/// effect. The cost of a change does not depend on the number of properties.
fn with_changes<N: AsRef<str>>(
    properties: &Map,
    places: &HashMap<String, usize>,
    changes: impl IntoIterator<Item = (N, Option<Value>)>,
) -> Map {
    let mut changed: BTreeMap<usize, Option<Value>> = BTreeMap::new();
    let mut new: Vec<(Value, Option<Value>)> = Vec::new();
    let mut places_of_new = HashMap::new();
    for (name, value) in changes {
        let key = name.as_ref().to_lowercase();
        if let Some(place) = places.get(&key) {
            changed.insert(*place, value);
            continue;
        }
        let place: usize = *places_of_new.entry(key).or_insert(new.len());
        if place == new.len() {
            new.push((name.as_ref().into(), None));
        }
        new[place].1 = value;
    }
    let own = properties.iter().enumerate();
    let kept = own.filter_map(|(place, (key, value))| {
        let value = match changed.remove(&place) {
            Some(changed) => changed?,
            None => value.clone(),
        };
        Some((key.clone(), value))
    });
    let added = new
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)));
    kept.chain(added).collect()
}

/// Sets a property of the message. A value of a type that the property cannot have becomes a text, or nothing.
fn set_system(parts: &mut MessageParts, property: SystemProperty, value: Option<&PropertyValue>) {
    let text = || match value?
        .clone()
        .in_type_of(&PropertyValue::Text(String::new()))
    {
        PropertyValue::Text(text) => Some(text),
        PropertyValue::Null
        | PropertyValue::Bool(_)
        | PropertyValue::Integer(..)
        | PropertyValue::Float(_)
        | PropertyValue::Double(_)
        | PropertyValue::Decimal(_)
        | PropertyValue::Timestamp(_)
        | PropertyValue::ZonelessTime(_)
        | PropertyValue::Duration(_)
        | PropertyValue::Uuid(_)
        | PropertyValue::Binary(_)
        | PropertyValue::Other => None,
    };
    let properties = &mut parts.properties;
    let annotations = &mut parts.annotations;
    let mut annotate = |name, value: Option<Value>| {
        annotations.retain(|(key, _)| key.as_text() != Some(name));
        annotations.extend(value.map(|value| (Value::symbol(name), value)));
    };
    match property {
        SystemProperty::MessageId => properties.message_id = text().map(Value::from),
        SystemProperty::CorrelationId => properties.correlation_id = text().map(Value::from),
        SystemProperty::To => properties.to = text(),
        SystemProperty::ReplyTo => properties.reply_to = text(),
        SystemProperty::Label => properties.subject = text(),
        SystemProperty::SessionId => properties.group_id = text(),
        SystemProperty::ReplyToSessionId => properties.reply_to_group_id = text(),
        SystemProperty::ContentType => properties.content_type = text(),
        SystemProperty::PartitionKey => {
            annotate(annotation::PARTITION_KEY, text().map(Value::from));
        }
        SystemProperty::ViaPartitionKey => {
            annotate(annotation::VIA_PARTITION_KEY, text().map(Value::from));
        }
        SystemProperty::ScheduledEnqueueTimeUtc => {
            let at = value
                .map(Value::from)
                .filter(|at| matches!(at, Value::Timestamp(_)));
            annotate(annotation::SCHEDULED_ENQUEUE_TIME, at);
        }
        SystemProperty::TimeToLive => parts.header.ttl = value.and_then(time_to_live),
        // Actions cannot set these properties.
        SystemProperty::EnqueuedTimeUtc
        | SystemProperty::ExpiresAtUtc
        | SystemProperty::SequenceNumber
        | SystemProperty::EnqueuedSequenceNumber
        | SystemProperty::DeliveryCount
        | SystemProperty::Size
        | SystemProperty::State => {}
    }
}

/// Reads a time to live in milliseconds that fits into the header.
fn time_to_live(value: &PropertyValue) -> Option<Duration> {
    let PropertyValue::Integer(_, ms) = value else {
        return None;
    };
    let ms = u32::try_from(*ms).ok()?;
    Some(Duration::from_millis(u64::from(ms)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Entropy;
    use crate::model::event::EventData;
    use crate::model::rule::{Parameters, SqlAction, SqlFilter};
    use crate::wire::amqp::message::{Header, encoded};

    const NOW: Timestamp = Timestamp::from_ms(1_000_000);

    fn sent() -> SentMessage {
        let properties = MessageProperties {
            message_id: Some("m".into()),
            subject: Some("paid".to_owned()),
            correlation_id: Some(Value::Ulong(7)),
            group_id: Some("s".to_owned()),
            ..MessageProperties::default()
        };
        let user = vec![
            ("Total".into(), Value::Int(12)),
            ("note".into(), "x".into()),
            (
                "price".into(),
                Value::Decimal(
                    vec![0x30, 0x3c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0xe2].into(),
                ),
            ),
        ];
        let message = Message::of(&properties, user, "body".into());
        let parts = MessageParts {
            header: Header {
                ttl: Some(Duration::from_secs(60)),
                ..Header::default()
            },
            annotations: vec![(Value::symbol("x-opt-partition-key"), "p".into())],
            ..message.parts().expect("parts")
        };
        let event = to_event(message.with_parts(&parts), || panic!("it has an id"));
        SentMessage::of(&event.expect("an event"), "/t", NOW).expect("a message")
    }

    fn matches(message: &SentMessage, filter: &str) -> bool {
        let filter = SqlFilter::parse(filter, Parameters::new()).expect("a filter");
        let entropy = Entropy::seeded(1);
        filter
            .matches(message, &entropy, &mut Steps::of_message())
            .expect("evaluated")
    }

    fn changed(action: &str) -> Message {
        let action = SqlAction::parse(action, Parameters::new()).expect("an action");
        let (sent, entropy) = (sent(), Entropy::seeded(1));
        let changes = action
            .apply(&sent, &entropy, &mut Steps::of_message())
            .expect("applied");
        let rule = RuleName::parse("large").expect("a name");
        let copy = sent.copy(&changes, &rule, || "new".to_owned());
        of_event(&copy.expect("an event")).expect("a message")
    }

    #[test]
    fn rules_see_what_the_sender_says() {
        let sent = sent();
        for filter in [
            "sys.MessageId = 'm'",
            "sys.Label = 'paid' AND sys.Subject = 'paid'",
            "sys.CorrelationId = 7",
            "sys.SessionId = 's'",
            "sys.PartitionKey = 'p'",
            "sys.TimeToLive = 60000",
            "sys.ExpiresAtUtc > sys.EnqueuedTimeUtc",
            "sys.To IS NULL",
            "sys.DeliveryCount = 0 AND sys.Size > 10",
            "total = 12 AND NOTE LIKE 'x%'",
            "NOT EXISTS(missing)",
            "price > 10 AND price = 12.5",
        ] {
            assert!(matches(&sent, filter), "{filter}");
        }
        assert_eq!(sent.user_properties().len(), 3);
    }

    #[test]
    fn events_are_seen_as_messages() {
        let event = Event {
            id: "e".to_owned(),
            source: Some("/s".to_owned()),
            event_type: "T".to_owned(),
            subject: Some("paid".to_owned()),
            time: None,
            data_version: None,
            attributes: Vec::new(),
            data: EventData::Json("{\"n\":7}".to_owned()),
        };
        let sent = SentMessage::of(&event, "/t", NOW).expect("a message");
        assert!(matches(&sent, "sys.MessageId = 'e' AND sys.Label = 'paid'"));
        let rule = RuleName::default_rule();
        let copy = sent.copy(&Changes::default(), &rule, || panic!("it has an id"));
        let copy = of_event(&copy.expect("an event")).expect("a message");
        let body = String::from_utf8_lossy(copy.body()).into_owned();
        assert!(body.contains("\"n\":7"), "{body}");
    }

    #[test]
    fn a_copy_is_one_that_could_be_sent() {
        let rule = RuleName::default_rule();
        let of = |property, value| Changes {
            system: vec![(property, Some(value))],
            ..Changes::default()
        };
        let long = PropertyValue::Text("x".repeat(129));
        for property in [
            SystemProperty::MessageId,
            SystemProperty::SessionId,
            SystemProperty::PartitionKey,
        ] {
            let copy = sent().copy(&of(property, long.clone()), &rule, String::new);
            assert!(copy.is_err(), "{property:?}");
        }
        let late = PropertyValue::Timestamp(Timestamp::from_ms(i64::MAX).into());
        let changes = of(SystemProperty::ScheduledEnqueueTimeUtc, late);
        assert!(sent().copy(&changes, &rule, String::new).is_err());
    }

    #[test]
    fn a_copy_has_no_larger_properties_than_a_message_may_have() {
        let text = "x".repeat(40_000);
        let changes = |count: usize| Changes {
            user: (0..count)
                .map(|n| (n.to_string(), Some(PropertyValue::Text(text.clone()))))
                .collect(),
            ..Changes::default()
        };
        let copy = |count| sent().copy(&changes(count), &RuleName::default_rule(), String::new);
        assert!(copy(1).is_ok());
        let error = copy(2).expect_err("80,000 bytes");
        assert!(
            matches!(error, DecodeError::HeadTooLarge(80_000..)),
            "{error}"
        );
    }

    /// A message with so many properties.
    fn with_many(properties: i32) -> Event {
        let own = (0..properties).map(|n| (format!("p{n}").as_str().into(), Value::Int(n)));
        let message = Message::of(&MessageProperties::default(), own.collect(), "body".into());
        to_event(message, || "m".to_owned()).expect("an event")
    }

    #[test]
    fn a_change_of_a_copy_costs_the_same_for_any_properties() {
        let event = with_many(4_000);
        let costs = |changes: usize| {
            let sent = SentMessage::of(&event, "/t", NOW).expect("a message");
            let each = (0..changes).map(|n| (format!("P{n}"), Some(PropertyValue::long(1))));
            let changes = Changes {
                user: each.collect(),
                ..Changes::default()
            };
            let rule = RuleName::default_rule();
            let measured = allocation_counter::measure(|| {
                assert!(sent.copy(&changes, &rule, String::new).is_ok());
            });
            measured.count_total
        };
        let (one, many) = (costs(1), costs(33));
        assert!(many < one + 32 * 20, "{many} allocations, {one} for one");
    }

    #[test]
    fn properties_of_receivers_cost_the_same_for_any_of_the_message() {
        let event = with_many(2_000);
        let set = (0..1_000).map(|n| (format!("P{n}").as_str().into(), Value::Int(1)));
        let set = encoded(set.collect());
        let measured = allocation_counter::measure(|| {
            assert!(with_properties(&event, &set).is_some());
        });
        let count = measured.count_total;
        assert!(count < 20 * 3_000, "{count} allocations");
    }

    #[test]
    fn the_last_of_several_changes_counts() {
        let own = vec![("A".into(), Value::Int(1)), ("b".into(), Value::Int(2))];
        let changes = [
            ("a", None),
            ("c", Some(Value::Int(3))),
            ("a", Some(Value::Int(4))),
            ("C", Some(Value::Int(5))),
            ("d", Some(Value::Int(6))),
            ("D", None),
            ("b", None),
        ];
        let expected = vec![("A".into(), Value::Int(4)), ("c".into(), Value::Int(5))];
        assert_eq!(with_changes(&own, &places_of(&own), changes), expected);
    }

    #[test]
    fn a_copy_takes_steps_by_what_is_copied() {
        let steps = |properties| {
            let sent = SentMessage::of(&with_many(properties), "/t", NOW);
            sent.expect("a message").copy_steps()
        };
        assert!(steps(1) < 100, "{}", steps(1));
        assert!(steps(4_000) > 20_000, "{}", steps(4_000));
    }

    #[test]
    fn an_event_takes_its_trace_with_it() {
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = TraceContext::parse(trace);
        let mut event = Event {
            id: "e".to_owned(),
            source: None,
            event_type: "T".to_owned(),
            subject: None,
            time: None,
            data_version: None,
            attributes: Vec::new(),
            data: EventData::Absent,
        };
        event.join_trace(context.expect("a trace"));
        let of_topic = SentMessage::of(&event, "/t", NOW)
            .expect("a message")
            .message;
        let payload = Payload {
            content_type: "application/json",
            body: b"{}".to_vec(),
        };
        let of_queue = delivered("e", payload, context, std::iter::empty()).expect("an event");
        for message in [of_topic, of_event(&of_queue).expect("a message")] {
            let own = message.application_properties().expect("properties");
            for name in ["Diagnostic-Id", "traceparent"] {
                assert_eq!(get(&own, name), Some(&trace.into()), "{name}");
            }
        }
    }

    #[test]
    fn actions_change_properties_of_the_copy_alone() {
        let copy = changed(
            "SET total = total + 1; SET price = price + 1; SET size = 'large'; REMOVE note; SET sys.Label = 'big'; \
             SET sys.CorrelationId = 8; REMOVE sys.SessionId; SET sys.TimeToLive = 5000; \
             SET sys.PartitionKey = 'q'",
        );
        let properties = copy.properties().expect("properties");
        assert_eq!(properties.subject.as_deref(), Some("big"));
        assert_eq!(properties.correlation_id, Some("8".into()));
        assert_eq!(properties.group_id, None);
        assert_eq!(properties.message_id, Some("m".into()));
        let expected = vec![
            ("Total".into(), Value::Int(13)),
            (
                "price".into(),
                Value::Decimal(
                    vec![0x0c, 0x3c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0x46].into(),
                ),
            ),
            ("size".into(), "large".into()),
            ("RuleName".into(), "large".into()),
        ];
        assert_eq!(copy.application_properties(), Ok(expected));
        let header = copy.header().expect("a header");
        assert_eq!(header.ttl, Some(Duration::from_secs(5)));
        let annotations = copy.annotations().expect("annotations");
        assert_eq!(get(&annotations, "x-opt-partition-key"), Some(&"q".into()));
        assert_eq!(copy.body(), sent().message.body());
        assert!(matches(&sent(), "total = 12"), "the message stays as it is");
    }

    #[test]
    fn a_copy_always_has_an_id() {
        let properties = changed("REMOVE sys.MessageId").properties();
        let id = properties.expect("properties").message_id;
        assert_eq!(id, Some("new".into()));
    }
}
