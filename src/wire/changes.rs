//! Differences between two JSON documents, property by property, for the audit log.

use serde_json::Value;

use crate::base::Timestamp;
use crate::model::audit::{AuditAction, AuditEntry, AuditTarget, Change, TargetKind};
use crate::model::name::{AccessRuleName, NamespaceName, RuleName, SubscriptionName, TopicName};
use crate::model::probation::Health;
use crate::model::queue::QueueCounts;
use crate::model::registry::Registry;
use crate::wire::resource::{self, Observed};

/// Maximum number of changes in an audit entry; further changes are left out.
const CHANGES_MAX: usize = 100;

/// Maximum number of bytes of a value as JSON; a longer value is replaced by its truncated text.
const VALUE_BYTES_MAX: usize = 4_096;

/// Properties that are not compared: they change with every update, or by themselves, and do not describe the update.
const RESTLESS: [&str; 3] = ["systemData", "updatedAt", "provisioningState"];

/// Returns an update entry with its changes, and with the action that the two registries show: the target is created,
/// updated or deleted. Other entries are returned unchanged.
pub fn with_changes(entry: AuditEntry, before: &Registry, after: &Registry) -> AuditEntry {
    if !matches!(entry.action, AuditAction::Update { .. }) {
        return entry;
    }
    let [old, new] =
        [before, after].map(|registry| document(registry, &entry.target, entry.caller.at));
    let changes = changes(old.as_ref(), new.as_ref());
    let action = match (old, new) {
        (None, _) => AuditAction::Create { changes },
        (Some(_), Some(_)) => AuditAction::Update { changes },
        (Some(_), None) => AuditAction::Delete { changes },
    };
    AuditEntry { action, ..entry }
}

/// Returns a target as the API shows it, without secrets.
fn document(registry: &Registry, target: &AuditTarget, now: Timestamp) -> Option<Value> {
    let topic = |name: &str| registry.topic(&TopicName::parse(name).ok()?);
    let name = &target.name;
    if target.kind == TargetKind::Namespace {
        let namespace = registry.namespace(&NamespaceName::parse(name).ok()?)?;
        return Some(resource::whole_namespace(namespace, ""));
    }
    if let TargetKind::Topic | TargetKind::Queue | TargetKind::ServiceBusTopic = target.kind {
        let entry = topic(name)?;
        let is_meant = target.kind == entry.topic.kind.entity().into();
        return resource::whole_entity(entry, "").filter(|_| is_meant);
    }
    if target.kind == TargetKind::AccessRule {
        let rule = registry.access_rule(&AccessRuleName::parse(name).ok()?)?;
        return Some(resource::render_access_rule(rule));
    }
    let (of, name) = name.rsplit_once('/')?;
    if target.kind == TargetKind::Rule {
        let (of, subscription) = of.rsplit_once('/')?;
        let topic = topic(of)?;
        let subscription = topic.subscription(&SubscriptionName::parse(subscription).ok()?)?;
        let rule = topic
            .rules
            .find(subscription.id, &RuleName::parse(name).ok()?)?;
        return Some(resource::render_rule(topic, subscription, rule));
    }
    let topic = topic(of)?;
    let subscription = topic.subscription(&SubscriptionName::parse(name).ok()?)?;
    if target.kind == TargetKind::ServiceBusSubscription {
        return resource::render_service_bus_subscription(
            topic,
            subscription,
            QueueCounts::default(),
        );
    }
    let observed = Observed {
        health: &Health::default(),
        outage: None,
        now,
    };
    Some(resource::whole_subscription(topic, subscription, observed))
}

/// Lists the properties in which `before` and `after` differ. `None` stands for the document that an object does not
/// have before it is created or after it is deleted.
pub fn changes(before: Option<&Value>, after: Option<&Value>) -> Vec<Change> {
    let mut found = Vec::new();
    let null = Value::Null;
    compare(
        String::new(),
        before.unwrap_or(&null),
        after.unwrap_or(&null),
        &mut found,
    );
    found.truncate(CHANGES_MAX);
    found
}

fn compare(property: String, before: &Value, after: &Value, found: &mut Vec<Change>) {
    if before == after {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        found.push(Change {
            property,
            before: cut(before),
            after: cut(after),
        });
        return;
    };
    let null = Value::Null;
    let added = new.keys().filter(|name| !old.contains_key(*name));
    for name in old.keys().chain(added) {
        if RESTLESS.contains(&name.as_str()) {
            continue;
        }
        let inner = match property.as_str() {
            "" => name.clone(),
            outer => format!("{outer}.{name}"),
        };
        let (old, new) = (old.get(name), new.get(name));
        compare(inner, old.unwrap_or(&null), new.unwrap_or(&null), found);
    }
}

fn cut(value: &Value) -> Value {
    let text = value.to_string();
    if text.len() > VALUE_BYTES_MAX {
        format!("{}…", &text[..text.floor_char_boundary(VALUE_BYTES_MAX)]).into()
    } else {
        value.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(property: &str, before: Value, after: Value) -> Change {
        Change {
            property: property.to_owned(),
            before,
            after,
        }
    }

    #[test]
    fn properties_are_compared_by_name() {
        let before = json!({ "a": 1, "b": { "c": [1], "d": "x" }, "gone": true, "updatedAt": 1 });
        let after = json!({ "a": 1, "b": { "c": [1, 2], "d": "x" }, "new": null, "updatedAt": 2 });
        let expected = [
            change("b.c", json!([1]), json!([1, 2])),
            change("gone", json!(true), Value::Null),
        ];
        assert_eq!(changes(Some(&before), Some(&after)), expected);
        assert_eq!(changes(Some(&before), Some(&before)), []);
        assert_eq!(changes(None, None), []);
    }

    #[test]
    fn what_is_created_or_deleted_is_one_change() {
        let whole = json!({ "a": 1 });
        let created = changes(None, Some(&whole));
        assert_eq!(created, [change("", Value::Null, whole.clone())]);
        let deleted = changes(Some(&whole), None);
        assert_eq!(deleted, [change("", whole, Value::Null)]);
    }

    #[test]
    fn long_values_and_many_changes_are_cut() {
        let long = changes(None, Some(&json!("ü".repeat(VALUE_BYTES_MAX))));
        let long = long[0].after.as_str().expect("a text");
        assert!(long.len() <= VALUE_BYTES_MAX + 3 && long.ends_with('…'));
        let many: serde_json::Map<String, Value> =
            (0..500).map(|n| (format!("p{n}"), json!(n))).collect();
        let many = changes(Some(&json!({})), Some(&Value::Object(many)));
        assert_eq!(many.len(), CHANGES_MAX);
    }
}
