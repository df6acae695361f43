//! Definitions in configuration files: the body of a PUT, without read-only properties and without secrets.

use serde::Serialize;
use serde_json::{Value, json};

use super::envelope::Envelope;
use super::namespace::Namespace;
use super::namespace_subscription::NamespaceEventSubscription;
use super::namespace_topic::NamespaceTopic;
use super::queue::QueueRequest;
use super::service_bus::{RuleRequest, ServiceBusSubscriptionRequest, ServiceBusTopicRequest};
use super::subscription::SubscriptionProperties;
use super::topic::Topic;
use super::{destination, document};
use crate::model::alert::{AlertChannel, AlertRule};
use crate::model::audit::{AuditTarget, Change, TargetKind};
use crate::model::inspector::InspectorDefinition;
use crate::model::namespace::NamespaceDefinition;
use crate::model::queue::{MessageSubscription, QueueDefinition, ServiceBusTopic};
use crate::model::rule::Rule;
use crate::model::shared_access::AccessRuleDefinition;
use crate::model::subscription::SubscriptionDefinition;
use crate::model::topic::TopicKind;
use crate::wire::changes::changes;

/// The kinds of objects in configuration files. Each kind follows the kinds that it depends on.
pub const KINDS: [TargetKind; 12] = [
    TargetKind::User,
    TargetKind::Inspector,
    TargetKind::Namespace,
    TargetKind::Topic,
    TargetKind::ServiceBusTopic,
    TargetKind::Queue,
    TargetKind::AccessRule,
    TargetKind::ServiceBusSubscription,
    TargetKind::Rule,
    TargetKind::EventSubscription,
    TargetKind::AlertChannel,
    TargetKind::AlertRule,
];

/// Reports whether the properties of a kind are at the top level of its document, and not in `properties`.
pub fn is_flat(kind: TargetKind) -> bool {
    matches!(
        kind,
        TargetKind::User
            | TargetKind::Inspector
            | TargetKind::AccessRule
            | TargetKind::AlertChannel
            | TargetKind::AlertRule
    )
}

/// The path of an object of each kind in the API, with a placeholder for each part of its name.
const PATHS: [(TargetKind, &str); 14] = [
    (TargetKind::User, "everpost/users/{}"),
    (TargetKind::Inspector, "everpost/inspectors/{}"),
    (TargetKind::Namespace, "namespaces/{}"),
    (TargetKind::Topic, "topics/{}"),
    (TargetKind::Topic, "namespaces/{}/topics/{}"),
    (TargetKind::Queue, "queues/{}"),
    (TargetKind::AccessRule, "everpost/accessRules/{}"),
    (TargetKind::ServiceBusTopic, "serviceBusTopics/{}"),
    (
        TargetKind::ServiceBusSubscription,
        "serviceBusTopics/{}/subscriptions/{}",
    ),
    (
        TargetKind::Rule,
        "serviceBusTopics/{}/subscriptions/{}/rules/{}",
    ),
    (
        TargetKind::EventSubscription,
        "topics/{}/eventSubscriptions/{}",
    ),
    (
        TargetKind::EventSubscription,
        "namespaces/{}/topics/{}/eventSubscriptions/{}",
    ),
    (TargetKind::AlertChannel, "everpost/alerts/channels/{}"),
    (TargetKind::AlertRule, "everpost/alerts/rules/{}"),
];

/// Returns the path segments of an object in the API. Returns `None` for a name with too many or too few parts.
pub fn address(target: &AuditTarget) -> Option<Vec<String>> {
    const NAME: &str = "{}";
    if target.name.split('/').any(str::is_empty) {
        return None;
    }
    let fitting = PATHS.iter().filter(|(kind, _)| *kind == target.kind);
    let (path, names) = fitting.into_iter().find_map(|(kind, path)| {
        let count = path.matches(NAME).count();
        let mut names: Vec<&str> = if is_of_service_bus(*kind) {
            // The first part of the name may contain slashes.
            target.name.rsplitn(count, '/').collect()
        } else {
            target.name.rsplit('/').collect()
        };
        names.reverse();
        (names.len() == count).then_some((path, names))
    })?;
    let mut remaining = names.into_iter();
    let segment = |word| {
        if word == NAME {
            remaining.next().unwrap_or_default()
        } else {
            word
        }
    };
    Some(path.split('/').map(segment).map(str::to_owned).collect())
}

fn is_of_service_bus(kind: TargetKind) -> bool {
    matches!(
        kind,
        TargetKind::Queue
            | TargetKind::AccessRule
            | TargetKind::ServiceBusTopic
            | TargetKind::ServiceBusSubscription
            | TargetKind::Rule
    )
}

/// Pairs of a kind of object and a kind that can be its parent.
const PARENTS: [(TargetKind, TargetKind); 6] = [
    (TargetKind::Topic, TargetKind::Namespace),
    (TargetKind::EventSubscription, TargetKind::Topic),
    (
        TargetKind::ServiceBusSubscription,
        TargetKind::ServiceBusTopic,
    ),
    (TargetKind::Rule, TargetKind::ServiceBusSubscription),
    (TargetKind::AccessRule, TargetKind::Queue),
    (TargetKind::AccessRule, TargetKind::ServiceBusTopic),
];

/// Returns the possible parents of an object. If there are any, one of them must exist before the object is created.
pub fn parents(target: &AuditTarget) -> impl Iterator<Item = AuditTarget> {
    let outer = target.name.rsplit_once('/');
    let kinds = PARENTS.into_iter().filter(|(of, _)| *of == target.kind);
    kinds.filter_map(move |(_, kind)| Some(kind.named(outer?.0)))
}

/// Returns all possible ancestors of an object, the closest first.
pub fn above(target: &AuditTarget) -> Vec<AuditTarget> {
    let outer = parents(target).flat_map(|outer| {
        let further = above(&outer);
        std::iter::once(outer).chain(further)
    });
    outer.collect()
}

/// Returns the body of the PUT that creates an object of a configuration file.
pub fn body(object: &Value) -> Value {
    let kind: Option<TargetKind> = serde_json::from_value(object["kind"].clone()).ok();
    let mut body = object.clone();
    if let Value::Object(members) = &mut body {
        let properties = members.remove("properties").unwrap_or_else(|| json!({}));
        if kind.is_some_and(is_flat) {
            return properties;
        }
        members.remove("kind");
        members.remove("name");
        members.insert("properties".to_owned(), properties);
    }
    body
}

/// A definition: the document for configuration files, and the complete document for comparisons.
pub struct Definition {
    /// The body of a PUT, without secrets.
    pub document: Value,
    whole: Value,
}

impl Definition {
    fn of(document: &impl Serialize) -> Self {
        let mut definition = Self {
            document: json!(document),
            whole: document::written(document),
        };
        without_nulls(&mut definition.document);
        definition
    }

    /// Makes the definition of an object whose properties are at the top level of its document.
    fn flat(document: &impl Serialize) -> Self {
        let Self { document, whole } = Self::of(document);
        Self {
            document: json!({ "properties": document }),
            whole: json!({ "properties": whole }),
        }
    }

    pub fn namespace(definition: &NamespaceDefinition) -> Self {
        Self::of(&Namespace::from(definition))
    }

    /// Returns the definition of a custom topic or a namespace topic; `None` for topics of other kinds.
    pub fn topic(kind: &TopicKind) -> Option<Self> {
        match kind {
            TopicKind::Custom(topic) => Some(Self::of(&Topic::from(topic))),
            TopicKind::Namespace { event_retention } => {
                Some(Self::of(&NamespaceTopic::from(event_retention)))
            }
            TopicKind::Queue(_) | TopicKind::ServiceBus(_) | TopicKind::System(_) => None,
        }
    }

    pub fn queue(definition: &QueueDefinition) -> Self {
        Self::of(&QueueRequest::from(definition))
    }

    pub fn service_bus_topic(definition: &ServiceBusTopic) -> Self {
        Self::of(&ServiceBusTopicRequest::from(definition))
    }

    pub fn service_bus_subscription(definition: &MessageSubscription) -> Self {
        Self::of(&ServiceBusSubscriptionRequest::from(definition))
    }

    pub fn rule(rule: &Rule) -> Self {
        Self::of(&RuleRequest::from(rule))
    }

    pub fn access_rule(definition: &AccessRuleDefinition) -> Self {
        Self::flat(definition)
    }

    pub fn inspector(definition: &InspectorDefinition) -> Self {
        Self::flat(definition)
    }

    pub fn alert_rule(rule: &AlertRule) -> Self {
        Self::flat(rule)
    }

    pub fn alert_channel(channel: &AlertChannel) -> Self {
        Self::flat(channel)
    }

    pub fn user(role: &impl Serialize, disabled: bool) -> Self {
        Self::flat(&json!({ "role": role, "disabled": disabled }))
    }

    pub fn subscription(definition: &SubscriptionDefinition, in_namespace: bool) -> Self {
        let (mut it, place) = if in_namespace {
            let document = Envelope::<NamespaceEventSubscription>::from(definition);
            let place = "/properties/deliveryConfiguration/push/destination/properties";
            (Self::of(&document), place)
        } else {
            let document = Envelope::<SubscriptionProperties>::from(definition);
            (Self::of(&document), "/properties/destination/properties")
        };
        // The server sets `goneAt`, so the property is not part of the configuration.
        if let Some(Value::Object(properties)) = it.whole.get_mut("properties") {
            properties.remove("goneAt");
        }
        let destination = &definition.destination;
        if let Some(shown) = it.document.pointer_mut(place) {
            shown["deliveryAttributeMappings"] = destination::shown_headers(destination);
            // The query of a URL may be a secret. A PUT with the URL without its query keeps the stored URL.
            let url = destination.endpoint_url();
            if let Some(url) = url.and_then(|url| url.without_query()) {
                shown["endpointUrl"] = url.into();
            }
            without_nulls(shown);
        }
        it
    }

    /// Lists the differences from `before`, property by property. The values of secrets are masked.
    pub fn changes_from(&self, before: &Self) -> Vec<Change> {
        let shown = changes(Some(&before.document), Some(&self.document));
        let all = changes(Some(&before.whole), Some(&self.whole));
        let masked = |change: Change| {
            let same = shown.iter().find(|each| each.property == change.property);
            same.cloned().unwrap_or_else(|| mask(change, before, self))
        };
        all.into_iter().map(masked).collect()
    }
}

/// Masks the values in a change that responses do not show.
fn mask(change: Change, before: &Definition, after: &Definition) -> Change {
    let value = |of: &Definition, value: Value| {
        let path = format!("/{}", change.property.replace('.', "/"));
        match of.document.pointer(&path) {
            Some(shown) => shown.clone(),
            None if value.is_null() => Value::Null,
            None => "***".into(),
        }
    };
    Change {
        before: value(before, change.before),
        after: value(after, change.after),
        property: change.property,
    }
}

/// Removes members with the value `null` from all objects in a document.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(without_nulls);
        }
        Value::Array(elements) => elements.iter_mut().for_each(without_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
