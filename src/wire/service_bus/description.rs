//! Descriptions of queues, topics, subscriptions and rules in XML (rule S9).
//!
//! The schemas of the management API define the properties and their types. The names in XML are the names in JSON
//! with a capital first letter. Rules are an exception: their filters and values have a different structure in XML.

use std::sync::Arc;

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::atom::AtomVersion;
use super::xml::Element;
use crate::base::Timestamp;
use crate::model::destination::EntityId;
use crate::model::limits::MESSAGE_BYTES_MAX;
use crate::model::shared_access::{AccessRule, Right};
use crate::wire::duration::{self, DURATION_MAX};
use crate::wire::moment;
use crate::wire::resource::bodies::{
    QueueRequest, RuleRequest, ServiceBusSubscriptionRequest, ServiceBusTopicRequest,
};
use crate::wire::resource::schema_of;

const CONNECT: &str = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect";
const COUNTS: &str = "http://schemas.microsoft.com/netservices/2011/06/servicebus";
const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";
const SCHEMA: &str = "http://www.w3.org/2001/XMLSchema";

/// The element with the maximum size of messages, which older versions of the API do not have.
const MESSAGE_SIZE: &str = "MaxMessageSizeInKilobytes";

/// The element with the access rules of a queue or topic.
const ACCESS_RULES: &str = "AuthorizationRules";

/// The time of last use of a queue or topic that was never used, as in Azure.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// The kind of an entity that is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescribedKind {
    Queue,
    Topic,
    Subscription,
    Rule,
}

impl DescribedKind {
    const ALL: [Self; 4] = [Self::Queue, Self::Topic, Self::Subscription, Self::Rule];

    /// Returns the name of the root element of descriptions of this kind.
    pub fn root(self) -> &'static str {
        match self {
            Self::Queue => "QueueDescription",
            Self::Topic => "TopicDescription",
            Self::Subscription => "SubscriptionDescription",
            Self::Rule => "RuleDescription",
        }
    }

    /// Reports whether entities of this kind have access rules of their own.
    pub fn has_access_rules(self) -> bool {
        matches!(self, Self::Queue | Self::Topic)
    }

    /// Returns the kind of the entity in a description.
    pub fn of(description: &Element) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.root() == description.name)
    }

    fn schema(self) -> &'static Value {
        fn properties<T: JsonSchema + 'static>() -> &'static Value {
            &schema_of::<T>()["properties"]["properties"]["properties"]
        }
        match self {
            Self::Queue => properties::<QueueRequest>(),
            Self::Topic => properties::<ServiceBusTopicRequest>(),
            Self::Subscription => properties::<ServiceBusSubscriptionRequest>(),
            Self::Rule => properties::<RuleRequest>(),
        }
    }

    /// Returns properties that clients expect in every description, with the values for properties that were not set or
    /// cannot be set.
    fn defaults(self) -> Vec<(&'static str, String)> {
        let text = |name, text: &str| (name, text.to_owned());
        let for_ever = duration::format(DURATION_MAX);
        let every = [
            text("EnableBatchedOperations", "true"),
            text("AutoDeleteOnIdle", &for_ever),
            text("EntityAvailabilityStatus", "Available"),
        ];
        let sent_to = [
            text("IsAnonymousAccessible", "false"),
            text("SupportOrdering", "true"),
            text("EnablePartitioning", "false"),
            text("EnableExpress", "false"),
            text(MESSAGE_SIZE, &(MESSAGE_BYTES_MAX / 1_024).to_string()),
        ];
        match self {
            Self::Queue => every.into_iter().chain(sent_to).collect(),
            Self::Topic => {
                let own = [
                    text("FilteringMessagesBeforePublishing", "false"),
                    text("EnableSubscriptionPartitioning", "false"),
                ];
                every.into_iter().chain(sent_to).chain(own).collect()
            }
            Self::Subscription => every.into(),
            Self::Rule => Vec::new(),
        }
    }
}

/// Converts a description to the equivalent body of a PUT of the management API.
pub fn read(kind: DescribedKind, description: &Element) -> Value {
    let properties = match kind {
        DescribedKind::Rule => rule(description),
        DescribedKind::Queue | DescribedKind::Topic | DescribedKind::Subscription => {
            properties(kind, description)
        }
    };
    json!({ "properties": properties })
}

fn properties(kind: DescribedKind, description: &Element) -> Map<String, Value> {
    let schema = kind.schema();
    let given = description.children.iter().filter(|each| !is_nil(each));
    let known = given.filter_map(|each| {
        let name = with_first(&each.name, char::to_ascii_lowercase);
        let value = value(schema.get(&name)?, &each.text)?;
        Some((name, value))
    });
    known.collect()
}

/// Returns an element of a description that `version` does not have, and the first version that has the element.
pub fn newer_element(
    description: &Element,
    version: Option<AtomVersion>,
) -> Option<(&'static str, AtomVersion)> {
    let mut said = description.children.iter().filter(|each| !is_nil(each));
    let is_newer = !AtomVersion::has_message_sizes(version)
        && said.any(|each| each.name == MESSAGE_SIZE && !each.text.trim().is_empty());
    is_newer.then_some((MESSAGE_SIZE, AtomVersion::WITH_MESSAGE_SIZES))
}

fn is_nil(element: &Element) -> bool {
    element.attribute("nil") == Some("true")
}

/// Converts a string to the type in the schema. Returns `None` for an empty string, which means no value.
fn value(schema: &Value, text: &str) -> Option<Value> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return None;
    }
    let is = |kind: &str| schema["type"] == kind;
    // A string that is not of the type remains a string, so that its validation reports the valid values.
    let read = if is("boolean") {
        trimmed.to_ascii_lowercase().parse().ok().map(Value::Bool)
    } else if is("integer") {
        trimmed.parse().ok().map(|number: i64| json!(number))
    } else {
        None
    };
    let is_longer = schema["format"] == "duration"
        && duration::parse(trimmed) == Err(duration::InvalidDuration::TooLong);
    // The Python client rounds the longest duration up.
    let rounded = is_longer.then(|| duration::format(DURATION_MAX).into());
    Some(read.or(rounded).unwrap_or_else(|| trimmed.into()))
}

fn rule(description: &Element) -> Map<String, Value> {
    let mut rule = Map::new();
    if let Some(filter) = description.child("Filter").filter(|each| !is_nil(each)) {
        let kind = type_of(filter);
        if let Some(kind) = kind {
            rule.insert("filterType".to_owned(), kind.into());
        }
        match kind {
            Some("TrueFilter" | "FalseFilter") => {}
            Some("CorrelationFilter") => {
                rule.insert("correlationFilter".to_owned(), correlation(filter));
            }
            _ => {
                rule.insert("sqlFilter".to_owned(), sql(filter));
            }
        }
    }
    let action = description.child("Action");
    if let Some(action) = action.filter(|each| each.child("SqlExpression").is_some()) {
        rule.insert("action".to_owned(), sql(action));
    }
    rule
}

/// Returns the rule in the description of a subscription: its name, and the body of its PUT.
pub fn first_rule(description: &Element) -> Option<(String, Value)> {
    let rule = description.child("DefaultRuleDescription")?;
    let rule_name = rule.child("Name").map(|name| name.text.clone());
    Some((
        rule_name.unwrap_or_default(),
        read(DescribedKind::Rule, rule),
    ))
}

/// Returns the access rules in the description of a queue or topic: the name of each, and the body of its PUT. Returns
/// `None` if the description does not have the element for access rules.
pub fn access_rules(description: &Element) -> Option<Vec<(String, Value)>> {
    let rules = description.child(ACCESS_RULES)?.children.iter();
    let read = rules.filter(|each| !is_nil(each)).map(|rule| {
        let text = |name: &str| rule.child(name).map(|each| each.text.trim().to_owned());
        let rights: Vec<&str> = rule
            .child("Rights")
            .into_iter()
            .flat_map(|rights| &rights.children)
            .map(|right| right.text.trim())
            .collect();
        let mut body = json!({ "rights": rights });
        for (name, key) in [("key1", "PrimaryKey"), ("key2", "SecondaryKey")] {
            if let Some(key) = text(key).filter(|key| !key.is_empty()) {
                body[name] = key.into();
            }
        }
        (text("KeyName").unwrap_or_default(), body)
    });
    Some(read.collect())
}

/// Describes the access rules, without their keys.
fn described_access_rules(rules: &[Arc<AccessRule>]) -> Element {
    let each = rules.iter().map(|rule| {
        let rights: Vec<Right> = rule.rights.into();
        let granted = rights
            .into_iter()
            .map(|right| Element::of_text("AccessRights", format!("{right:?}")));
        Element::new("AuthorizationRule")
            .with_attribute("i:type", "SharedAccessAuthorizationRule")
            .with_children([
                Element::of_text("ClaimType", "SharedAccessKey"),
                Element::of_text("ClaimValue", "None"),
                Element::new("Rights").with_children(granted),
                Element::of_text("CreatedTime", rule.created_at.to_azure()),
                Element::of_text("ModifiedTime", rule.updated_at.to_azure()),
                Element::of_text("KeyName", rule.name.own()),
            ])
    });
    Element::new(ACCESS_RULES).with_children(each)
}

fn sql(element: &Element) -> Value {
    let mut sql = Map::new();
    if let Some(text) = element.child("SqlExpression") {
        sql.insert("sqlExpression".to_owned(), text.text.clone().into());
    }
    if let Some(parameters) = element.child("Parameters") {
        sql.insert("parameters".to_owned(), pairs(parameters));
    }
    sql.into()
}

fn correlation(filter: &Element) -> Value {
    let given = filter.children.iter().filter(|each| !is_nil(each));
    let read = given.map(|each| {
        let value = match each.name.as_str() {
            "Properties" => pairs(each),
            _ => each.text.clone().into(),
        };
        (with_first(&each.name, char::to_ascii_lowercase), value)
    });
    read.collect::<Map<_, _>>().into()
}

fn pairs(element: &Element) -> Value {
    let pair = |pair: &Element| {
        let name = pair.child("Key")?.text.clone();
        Some((name, typed(pair.child("Value")?)))
    };
    let pairs = element.children.iter().filter_map(pair);
    pairs.collect::<Map<_, _>>().into()
}

/// Returns the local name in the `type` attribute of an element.
fn type_of(element: &Element) -> Option<&str> {
    let name = element.attribute("type")?;
    Some(name.rsplit(':').next().unwrap_or(name))
}

const LONG: &str = "long";

/// The types that JSON does not have: the name in the management API, and the name in XML.
const KINDS: [(&str, &str); 13] = [
    ("timestamp", "dateTime"),
    ("duration", "duration"),
    ("uuid", "guid"),
    ("binary", "base64Binary"),
    ("decimal", "decimal"),
    ("float", "float"),
    ("int", "int"),
    ("short", "short"),
    ("byte", "byte"),
    ("ubyte", "unsignedByte"),
    ("ushort", "unsignedShort"),
    ("uint", "unsignedInt"),
    ("ulong", "unsignedLong"),
];

/// Converts a typed value to JSON. Returns `null`, which validation always rejects, if the text is not of the type.
fn typed(value: &Element) -> Value {
    let text = value.text.as_str();
    let number = text.trim();
    match type_of(value).unwrap_or("string") {
        "string" | "char" => text.into(),
        "boolean" => number.parse().map_or(Value::Null, Value::Bool),
        "double" => number.parse().map_or(Value::Null, |it: f64| json!(it)),
        "float" => number
            .parse()
            .map_or(Value::Null, |it: f32| json!({ "float": it })),
        "decimal" => json!({ "decimal": number }),
        "dateTime" => {
            let spelled = moment::respelled(number);
            json!({ "timestamp": spelled.as_deref().unwrap_or(number) })
        }
        "duration" => json!({ "duration": number }),
        "guid" => json!({ "uuid": number }),
        "base64Binary" => json!({ "binary": number }),
        kind => {
            let signed = number.parse().ok().map(|it: i64| json!(it));
            let large = || number.parse().ok().map(|it: u64| json!(it));
            let whole = signed.or_else(large).unwrap_or_default();
            if kind == LONG || whole.is_null() {
                return whole;
            }
            let mut kinds = KINDS.into_iter();
            let word = kinds.find_map(|(word, of_xml)| (of_xml == kind).then_some(word));
            word.map_or(Value::Null, |word| json!({ word: whole }))
        }
    }
}

/// An entity or rule to describe.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    pub kind: DescribedKind,
    /// The document that the management API returns for the entity or rule.
    pub shown: &'a Value,
    /// The access rules of a queue or topic.
    pub access_rules: Vec<Arc<AccessRule>>,
    pub times: Times,
}

/// The times of creation, last update and last use.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The time of last use; `None` for an entity that was never used.
    pub used_at: Option<Timestamp>,
}

impl Subject<'_> {
    /// Returns the name without the name of the parent.
    pub fn name(&self) -> &str {
        self.shown["name"].as_str().unwrap_or_default()
    }

    /// Returns the elements with the times. An update is never before the creation, and a use is never before the last
    /// update.
    fn told_times(&self) -> Vec<Element> {
        let Times {
            created_at,
            updated_at,
            used_at,
        } = self.times;
        let last_update = updated_at.max(created_at);
        let last_use = used_at.map(|at| at.max(last_update).to_azure());
        let text = |name: &str, at: String| Element::of_text(name, at);
        let created = text("CreatedAt", created_at.to_azure());
        let updated = text("UpdatedAt", last_update.to_azure());
        let unused = match self.kind {
            DescribedKind::Rule => return vec![created],
            DescribedKind::Subscription => last_update.to_azure(),
            DescribedKind::Queue | DescribedKind::Topic => NEVER.to_owned(),
        };
        vec![
            created,
            updated,
            text("AccessedAt", last_use.unwrap_or(unused)),
        ]
    }
}

/// Renders a description for clients of `version`. `host` is the host of the appliance, for URLs with the names of
/// other queues.
pub fn write(subject: &Subject<'_>, version: Option<AtomVersion>, host: &str) -> Element {
    let Subject {
        kind,
        shown,
        access_rules: rules,
        ..
    } = subject;
    let empty = root(kind.root());
    let properties = &shown["properties"];
    let own = match kind {
        DescribedKind::Rule => {
            let rule = described_rule(properties);
            empty
                .with_children(rule)
                .with_children([Element::of_text("Name", subject.name())])
        }
        DescribedKind::Queue | DescribedKind::Topic => empty
            .with_children([described_access_rules(rules)])
            .with_children(described(*kind, properties, host)),
        DescribedKind::Subscription => empty.with_children(described(*kind, properties, host)),
    };
    let told = own.with_children(subject.told_times());
    let missing: Vec<_> = kind
        .defaults()
        .into_iter()
        .filter(|(name, _)| told.child(name).is_none())
        .map(|(name, text)| Element::of_text(name, text))
        .collect();
    let mut whole = told.with_children(missing);
    if !AtomVersion::has_message_sizes(version) {
        whole.children.retain(|each| each.name != MESSAGE_SIZE);
    }
    whole
}

/// Makes the root element of a description.
pub(super) fn root(name: &str) -> Element {
    Element::new(name)
        .with_attribute("xmlns", CONNECT)
        .with_attribute("xmlns:i", INSTANCE)
}

fn described(kind: DescribedKind, properties: &Value, host: &str) -> Vec<Element> {
    let names_entity = |name: &str| kind.schema()[name]["x-check"] == "entityId";
    let given = properties.as_object().into_iter().flatten();
    let each = given.map(|(name, value)| match (name.as_str(), value) {
        ("countDetails", Value::Object(counts)) => count_details(counts),
        (property, Value::String(target)) if names_entity(property) => {
            let own = EntityId::parse(target)
                .ok()
                .filter(|_| !target.contains("://"));
            let url = own.map_or_else(
                || target.clone(),
                |own| format!("sb://{host}/{}", own.name()),
            );
            Element::of_text(with_first(name, char::to_ascii_uppercase), url)
        }
        _ => Element::of_text(with_first(name, char::to_ascii_uppercase), plain(value)),
    });
    each.collect()
}

fn count_details(counts: &Map<String, Value>) -> Element {
    let elements = counts.iter().map(|(name, count)| {
        let name = with_first(name, char::to_ascii_uppercase);
        Element::of_text(format!("d2p1:{name}"), count.to_string())
    });
    let details = Element::new("CountDetails").with_attribute("xmlns:d2p1", COUNTS);
    details.with_children(elements)
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn described_rule(rule: &Value) -> [Element; 2] {
    let of_type = |name: &str, kind: &str| Element::new(name).with_attribute("i:type", kind);
    let kind = rule["filterType"].as_str().unwrap_or_default();
    let filter = of_type("Filter", kind);
    let filter = match kind {
        "CorrelationFilter" => {
            filter.with_children(described_correlation(&rule["correlationFilter"]))
        }
        "TrueFilter" => filter.with_children(described_sql(&json!({ "sqlExpression": "1=1" }))),
        "FalseFilter" => filter.with_children(described_sql(&json!({ "sqlExpression": "1=0" }))),
        _ => filter.with_children(described_sql(&rule["sqlFilter"])),
    };
    let action = if rule["action"]["sqlExpression"].is_null() {
        of_type("Action", "EmptyRuleAction")
    } else {
        of_type("Action", "SqlRuleAction").with_children(described_sql(&rule["action"]))
    };
    [filter, action]
}

fn described_sql(sql: &Value) -> Vec<Element> {
    let text = sql["sqlExpression"].as_str().unwrap_or_default();
    let mut described = vec![
        Element::of_text("SqlExpression", text),
        Element::of_text("CompatibilityLevel", "20"),
    ];
    described.extend(described_pairs("Parameters", &sql["parameters"]));
    described
}

fn described_correlation(filter: &Value) -> Vec<Element> {
    let given = filter.as_object().into_iter().flatten();
    let each = given.filter_map(|(name, value)| match name.as_str() {
        "properties" => described_pairs("Properties", value),
        _ => Some(Element::of_text(
            with_first(name, char::to_ascii_uppercase),
            plain(value),
        )),
    });
    each.collect()
}

fn described_pairs(name: &str, pairs: &Value) -> Option<Element> {
    let members = pairs.as_object().filter(|pairs| !pairs.is_empty())?;
    let each = members.iter().map(|(name, value)| {
        let (kind, text) = spelled(value);
        let value = Element::of_text("Value", text)
            .with_attribute("i:type", &format!("d6p1:{kind}"))
            .with_attribute("xmlns:d6p1", SCHEMA);
        let pair = Element::new("KeyValueOfstringanyType");
        pair.with_children([Element::of_text("Key", name), value])
    });
    Some(Element::new(name).with_children(each))
}

/// Returns the XML type and the text of a value.
fn spelled(value: &Value) -> (&'static str, String) {
    let kind = match value {
        Value::Bool(_) => "boolean",
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(_), _) => LONG,
            (None, Some(_)) => "unsignedLong",
            (None, None) => "double",
        },
        Value::Object(object) => {
            let mut found = KINDS
                .into_iter()
                .filter_map(|(name, kind)| Some((kind, plain(object.get(name)?))));
            return found.next().unwrap_or(("string", String::new()));
        }
        Value::String(_) | Value::Array(_) | Value::Null => "string",
    };
    (kind, plain(value))
}

/// Returns the name with `change` applied to its first letter.
fn with_first(name: &str, change: impl Fn(&char) -> char) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|first| change(&first));
    first.into_iter().chain(letters).collect()
}

/// Converts a path in a document of the management API, such as `properties.lockDuration`, to the path in XML.
pub fn path_in_xml(path: &str) -> String {
    let bare_path = path.strip_prefix("properties.").unwrap_or(path);
    let parts = bare_path.split('.');
    let parts: Vec<String> = parts
        .map(|part| with_first(part, char::to_ascii_uppercase))
        .collect();
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::resource::{parse_queue, queue_document};

    fn element(text: &str) -> Element {
        Element::parse(text).expect("a description")
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_ms(seconds * 1_000)
    }

    fn subject(kind: DescribedKind, shown: &Value) -> Subject<'_> {
        Subject {
            kind,
            shown,
            access_rules: Vec::new(),
            times: Times {
                created_at: at(1),
                updated_at: at(2),
                used_at: None,
            },
        }
    }

    fn written(kind: DescribedKind, shown: &Value) -> Element {
        write(
            &subject(kind, shown),
            Some(AtomVersion::WITH_MESSAGE_SIZES),
            "h",
        )
    }

    #[test]
    fn no_time_is_empty_or_before_one_that_it_follows() {
        let shown = json!({ "properties": {} });
        let told = |kind, updated_at, used_at| {
            let mut subject = subject(kind, &shown);
            subject.times = Times {
                created_at: at(1),
                updated_at,
                used_at,
            };
            let written = write(&subject, None, "h");
            let time = |name| written.child(name).map(|each| each.text.clone());
            (time("CreatedAt"), time("UpdatedAt"), time("AccessedAt"))
        };
        let some = |seconds| Some(at(seconds).to_azure());
        for (kind, updated_at, used_at, expected) in [
            (DescribedKind::Rule, at(2), None, (some(1), None, None)),
            (
                DescribedKind::Queue,
                at(2),
                None,
                (some(1), some(2), Some(NEVER.to_owned())),
            ),
            (
                DescribedKind::Topic,
                at(2),
                Some(at(3)),
                (some(1), some(2), some(3)),
            ),
            (
                DescribedKind::Queue,
                at(0),
                Some(at(0)),
                (some(1), some(1), some(1)),
            ),
            (
                DescribedKind::Subscription,
                at(2),
                None,
                (some(1), some(2), some(2)),
            ),
        ] {
            assert_eq!(told(kind, updated_at, used_at), expected, "{kind:?}");
        }
    }

    #[test]
    fn older_versions_know_no_size_of_messages() {
        let shown = json!({ "properties": { "maxMessageSizeInKilobytes": 256 } });
        let has_size = |version| {
            let written = write(&subject(DescribedKind::Queue, &shown), version, "h");
            written.child(MESSAGE_SIZE).is_some()
        };
        assert!(has_size(AtomVersion::parse("2021-05")));
        assert!(!has_size(AtomVersion::parse("2017-04")));
        assert!(has_size(None), "no version is the newest");
    }

    #[test]
    fn a_description_is_the_document_of_the_management_api() {
        let description = element(
            "<QueueDescription xmlns:i=\"u\"><LockDuration>PT30S</LockDuration>\
             <MaxDeliveryCount> 3 </MaxDeliveryCount><RequiresSession>True</RequiresSession>\
             <DefaultMessageTimeToLive>P10675199DT2H48M5.477581S</DefaultMessageTimeToLive>\
             <UserMetadata/><ForwardTo i:nil=\"true\"/><Odd>1</Odd><AuthorizationRules/>\
             <ForwardDeadLetteredMessagesTo>sb://h/graves</ForwardDeadLetteredMessagesTo></QueueDescription>",
        );
        assert_eq!(DescribedKind::of(&description), Some(DescribedKind::Queue));
        let expected = json!({ "properties": {
            "lockDuration": "PT30S", "maxDeliveryCount": 3, "requiresSession": true,
            "defaultMessageTimeToLive": duration::format(DURATION_MAX),
            "forwardDeadLetteredMessagesTo": "sb://h/graves",
        } });
        let document = read(DescribedKind::Queue, &description);
        assert_eq!(document, expected);
        let queue = parse_queue(&document).expect("a queue");
        let shown = queue_document(&queue);
        let written = written(DescribedKind::Queue, &shown);
        let again = parse_queue(&read(DescribedKind::Queue, &element(&written.to_string())));
        let mut again = again.expect("a queue");
        // What clients were told although nobody had said it, they say from then on.
        assert_eq!(
            again.subscription.pull.upkeep.inert["enableExpress"],
            "false"
        );
        again.subscription.pull.upkeep.inert.clear();
        again.subscription.as_written = queue.subscription.as_written.clone();
        assert_eq!(again, queue);
    }

    #[test]
    fn values_keep_their_types() {
        let values = json!({
            "text": "a < b", "yes": true, "small": 7, "large": 1_i64 << 40, "half": 0.5, "one": 1.0,
            "int": { "int": 7 }, "huge": { "ulong": u64::MAX }, "price": { "decimal": "12.50" },
            "tenth": { "float": 0.5 }, "tiny": { "byte": -7 }, "octet": { "ubyte": 255 },
            "at": { "timestamp": "2026-11-25T10:00:00.1234567Z" }, "there": { "timestamp": "2026-11-25T10:00:00" },
            "long": { "duration": "P1DT2H3M" },
            "id": { "uuid": "00000000-0000-0000-0000-000000000007" }, "raw": { "binary": "AAE=" },
        });
        for properties in [
            json!({ "filterType": "SqlFilter",
                "sqlFilter": { "sqlExpression": "a = @text", "parameters": values },
                "action": { "sqlExpression": "SET a = 1", "parameters": values } }),
            json!({ "filterType": "CorrelationFilter",
                "correlationFilter": { "label": "paid", "properties": values } }),
            json!({ "filterType": "FalseFilter" }),
        ] {
            let written = written(DescribedKind::Rule, &json!({ "properties": properties }));
            let again = read(DescribedKind::Rule, &element(&written.to_string()));
            assert_eq!(again["properties"], properties);
        }
        for (kind, text) in [("int", "x"), ("boolean", "2"), ("anyURI", "u")] {
            let value = Element::of_text("Value", text).with_attribute("type", kind);
            assert_eq!(typed(&value), Value::Null, "{kind}");
        }
    }

    #[test]
    fn properties_are_named_as_xml_has_them() {
        assert_eq!(path_in_xml("properties.lockDuration"), "LockDuration");
        assert_eq!(
            path_in_xml("properties.sqlFilter.sqlExpression"),
            "SqlFilter.SqlExpression"
        );
    }
}
