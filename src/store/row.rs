//! Conversion between columns and model types.

use std::time::Duration;

use rusqlite::Row;
use rusqlite::types::{Value, ValueRef};

use crate::model::access::{AccessKeys, Secret};
use crate::model::dead_letter::DeadLetterDetails;
use crate::model::delivery::HttpResponse;
use crate::model::event::{Attribute, Event, EventData, StoredEvent};
use crate::model::name::{AccessRuleName, NamespaceName, RuleName, SubscriptionName, TopicName};
use crate::model::namespace::Namespace;
use crate::model::rule::{Rule, RuleFilter};
use crate::model::shared_access::AccessRule;
use crate::model::subscription::{
    EventSubscription, SubscriptionDefinition, SubscriptionId, Validation,
};
use crate::model::topic::{ServiceBusNamespace, Topic, TopicId};
use crate::store::engine::checksum;
use crate::store::engine::encryption::{
    ACCESS_RULE_KEY1, ACCESS_RULE_KEY2, Column, Encryption, NAMESPACE_KEY1, NAMESPACE_KEY2,
    SUBSCRIPTION_DEFINITION, TOPIC_KEY1, TOPIC_KEY2, VALIDATION_CODE,
};
use crate::store::error::StoreError;
use crate::wire::resource;

/// The columns that [`event`] reads.
pub(super) const EVENT_COLUMNS: &str = "event.id, event.received_at, event.event_id, \
    event.event_type, event.source, event.subject, event.event_time, event.data_version, \
    event.attributes, event.data, event.topic_id, event.checksum";

/// The number of [`EVENT_COLUMNS`].
pub(super) const EVENT_WIDTH: usize = 12;

/// The problem of a row that is not as it was stored.
const CHECKSUM_DIFFERS: &str = "its checksum is that of other data";

/// The columns that [`namespace`] reads.
pub(super) const NAMESPACE_COLUMNS: &str =
    "id, name, definition, key1, key2, created_at, updated_at";

/// The columns that [`topic`] reads.
pub(super) const TOPIC_COLUMNS: &str = "id, name, definition, key1, key2, created_at, updated_at, \
    service_bus_namespace, kind";

/// The columns that [`access_rule`] reads.
pub(super) const ACCESS_RULE_COLUMNS: &str = "id, name, rights, key1, key2, created_at, updated_at";

/// The columns that [`subscription`] reads.
pub(super) const SUBSCRIPTION_COLUMNS: &str = "id, topic_id, name, definition, validation_state, \
    validated_once, validation_code, validation_expires_at, validation_failure, allowed_rate, \
    created_at, updated_at";

/// A text that may be damaged: one row must not spoil a list.
pub(super) fn text_or_null(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<String>> {
    if let ValueRef::Text(bytes) = row.get_ref(index)? {
        return Ok(Some(String::from_utf8_lossy(bytes).into_owned()));
    }
    row.get(index)
}

/// Like [`text_or_null`], for a column that is never NULL.
pub(super) fn text(row: &Row<'_>, index: usize) -> rusqlite::Result<String> {
    Ok(text_or_null(row, index)?.unwrap_or_default())
}

/// The error for a value that cannot be read: a bug, or somebody else wrote to the file.
pub(super) fn unreadable(what: &str, cause: impl std::fmt::Display) -> StoreError {
    StoreError::Unreadable(format!("a stored {what} cannot be read: {cause}"))
}

/// The error for a delivery whose checksum is that of another row.
pub(super) fn damaged_delivery() -> StoreError {
    unreadable("delivery", CHECKSUM_DIFFERS)
}

pub(super) fn namespace(row: &Row<'_>, encryption: &Encryption) -> Result<Namespace, StoreError> {
    let what = "namespace";
    let name: String = row.get(1)?;
    let definition: String = row.get(2)?;
    Ok(Namespace {
        id: row.get(0)?,
        name: NamespaceName::parse(&name).map_err(|error| unreadable(what, error))?,
        definition: resource::namespace_from_text(&definition)
            .map_err(|error| unreadable(what, error))?,
        keys: AccessKeys {
            key1: key(row, encryption, NAMESPACE_KEY1, 3)?,
            key2: key(row, encryption, NAMESPACE_KEY2, 4)?,
        },
        created_at: row.get(5)?,
        updated_at: row.get(6)?,
    })
}

/// An encrypted access key in the column `index` of a row that begins with its id.
fn key(
    row: &Row<'_>,
    encryption: &Encryption,
    column: Column,
    index: usize,
) -> Result<Secret, StoreError> {
    let encrypted: String = row.get(index)?;
    let opened = encryption.open(column, row.get(0)?, &encrypted)?;
    Ok(Secret::new(opened.as_str()))
}

pub(super) fn topic(row: &Row<'_>, encryption: &Encryption) -> Result<Topic, StoreError> {
    let name: String = row.get(1)?;
    let definition: String = row.get(2)?;
    let (id, kind) = (row.get(0)?, row.get(8)?);
    Ok(Topic {
        id,
        service_bus_namespace: ServiceBusNamespace::stored(row.get(7)?),
        name: TopicName::parse(&name).map_err(|error| unreadable("topic", error))?,
        kind: resource::topic_from_text(id, kind, &definition)
            .map_err(|error| unreadable("topic", error))?,
        keys: topic_keys(row, encryption)?,
        created_at: row.get(5)?,
        updated_at: row.get(6)?,
    })
}

/// The keys of a topic. Those of a built-in one are empty.
fn topic_keys(row: &Row<'_>, encryption: &Encryption) -> Result<Option<AccessKeys>, StoreError> {
    if row.get_ref(3)?.as_str().is_ok_and(str::is_empty) {
        return Ok(None);
    }
    Ok(Some(AccessKeys {
        key1: key(row, encryption, TOPIC_KEY1, 3)?,
        key2: key(row, encryption, TOPIC_KEY2, 4)?,
    }))
}

pub(super) fn access_rule(
    row: &Row<'_>,
    encryption: &Encryption,
) -> Result<AccessRule, StoreError> {
    let what = "access rule";
    let (name, rights): (String, String) = (row.get(1)?, row.get(2)?);
    Ok(AccessRule {
        id: row.get(0)?,
        name: AccessRuleName::parse(&name).map_err(|error| unreadable(what, error))?,
        rights: serde_json::from_str(&rights).map_err(|error| unreadable(what, error))?,
        keys: AccessKeys {
            key1: key(row, encryption, ACCESS_RULE_KEY1, 3)?,
            key2: key(row, encryption, ACCESS_RULE_KEY2, 4)?,
        },
        created_at: row.get(5)?,
        updated_at: row.get(6)?,
    })
}

/// A rule with the subscription that it is of.
pub(super) fn rule(row: &Row<'_>) -> Result<(SubscriptionId, Rule), StoreError> {
    let what = "rule";
    let (name, definition): (String, String) = (row.get(1)?, row.get(2)?);
    let name = RuleName::parse(&name).map_err(|error| unreadable(what, error))?;
    let rule =
        resource::rule_from_text(name, &definition).map_err(|error| unreadable(what, error))?;
    let created_at = row.get(3)?;
    Ok((row.get(0)?, Rule { created_at, ..rule }))
}

/// Makes a stand-in for a rule that cannot be read: it has its name, and matches nothing.
pub(super) fn unreadable_rule(row: &Row<'_>) -> Option<(SubscriptionId, Rule)> {
    let rule = Rule {
        name: RuleName::parse(&text(row, 1).ok()?).ok()?,
        filter: RuleFilter::None,
        action: None,
        created_at: row.get(3).ok(),
    };
    Some((row.get(0).ok()?, rule))
}

/// Makes a stand-in for a subscription that cannot be read: it has its name, and is disabled.
pub(super) fn unreadable_subscription(
    row: &Row<'_>,
    is_of_messages: impl Fn(TopicId) -> bool,
) -> Option<EventSubscription> {
    let topic_id = row.get(1).ok()?;
    Some(EventSubscription {
        id: row.get(0).ok()?,
        topic_id,
        name: SubscriptionName::parse(&text(row, 2).ok()?).ok()?,
        definition: SubscriptionDefinition::unreadable(is_of_messages(topic_id)),
        validation: Validation::succeeded(None),
        created_at: row.get(10).ok()?,
        updated_at: row.get(11).ok()?,
    })
}

pub(super) fn subscription(
    row: &Row<'_>,
    encryption: &Encryption,
) -> Result<EventSubscription, StoreError> {
    let what = "event subscription";
    let id = row.get(0)?;
    let name: String = row.get(2)?;
    let definition: String = row.get(3)?;
    let definition = encryption.open(SUBSCRIPTION_DEFINITION, id, &definition)?;
    let stored_code: Option<String> = row.get(6)?;
    let code = stored_code.map(|code| encryption.open(VALIDATION_CODE, id, &code));
    Ok(EventSubscription {
        id: SubscriptionId(id),
        topic_id: row.get(1)?,
        name: SubscriptionName::parse(&name).map_err(|error| unreadable(what, error))?,
        definition: resource::subscription_from_text(&definition)
            .map_err(|error| unreadable(what, error))?,
        validation: Validation {
            state: row.get(4)?,
            validated_once: row.get(5)?,
            code: code.transpose()?.map(|code| Secret::new(code.as_str())),
            expires_at: row.get(7)?,
            failure: row.get(8)?,
            allowed_rate: row.get(9)?,
        },
        created_at: row.get(10)?,
        updated_at: row.get(11)?,
    })
}

/// Reads an event that is as it was stored; a damaged one is an error.
pub(super) fn event(row: &Row<'_>) -> Result<StoredEvent, StoreError> {
    let sealed = (0..EVENT_WIDTH - 1).map(|index| row.get_ref(index).unwrap_or(ValueRef::Null));
    if checksum::of_values(sealed) != row.get::<_, i64>(EVENT_WIDTH - 1)? {
        return Err(unreadable("event", CHECKSUM_DIFFERS));
    }
    Ok(StoredEvent {
        key: row.get(0)?,
        received_at: row.get(1)?,
        event: Event {
            id: row.get(2)?,
            event_type: row.get(3)?,
            source: row.get(4)?,
            subject: row.get(5)?,
            time: row.get(6)?,
            data_version: row.get(7)?,
            attributes: attributes_from(row.get::<_, Option<String>>(8)?.as_deref())?,
            data: data_from(row)?,
        },
    })
}

/// Checks the data, so that a damaged event does not spoil the request that it would be part of.
fn data_from(row: &Row<'_>) -> Result<EventData, StoreError> {
    match row.get::<_, Value>(9)? {
        Value::Null => Ok(EventData::Absent),
        Value::Blob(bytes) => Ok(EventData::Binary(bytes.into())),
        Value::Text(text) => {
            serde_json::from_str::<serde::de::IgnoredAny>(&text)
                .map_err(|error| unreadable("event", error))?;
            Ok(EventData::Json(text))
        }
        Value::Integer(_) | Value::Real(_) => Err(unreadable("event", "its data is a number")),
    }
}

/// An event's data for the column `data`.
pub(super) fn data_column(data: &EventData) -> ValueRef<'_> {
    match data {
        EventData::Absent => ValueRef::Null,
        EventData::Json(text) => ValueRef::Text(text.as_bytes()),
        EventData::Binary(bytes) => ValueRef::Blob(bytes),
    }
}

/// Further attributes as JSON; `None` if there are none, as usual.
pub(super) fn attributes_column(attributes: &[Attribute]) -> Option<String> {
    let pairs: Vec<_> = attributes
        .iter()
        .map(|each| (each.name.as_str(), each.value.as_str()))
        .collect();
    pairs_column(&pairs)
}

fn attributes_from(text: Option<&str>) -> Result<Vec<Attribute>, StoreError> {
    let pairs = pairs_from(text)?;
    Ok(pairs
        .into_iter()
        .map(|(name, value)| Attribute { name, value })
        .collect())
}

/// Pairs as a JSON array; `None` if there are none.
pub(super) fn pairs_column<T: AsRef<str> + serde::Serialize>(pairs: &[(T, T)]) -> Option<String> {
    let text = || serde_json::to_string(pairs).expect("texts are JSON");
    (!pairs.is_empty()).then(text)
}

/// The headers of a response that is cut: an empty list, and not NULL as those of one that had none.
pub(super) const CUT: &str = "[]";

/// The headers of a response, or that it is cut.
pub(super) fn headers_column(response: &HttpResponse) -> Option<String> {
    if response.is_cut {
        return Some(CUT.to_owned());
    }
    pairs_column(&response.headers)
}

/// The pairs of a JSON array; empty for NULL.
pub(super) fn pairs_from(text: Option<&str>) -> Result<Vec<(String, String)>, StoreError> {
    text.map_or(Ok(Vec::new()), |text| {
        serde_json::from_str(text).map_err(|error| unreadable("list of pairs", error))
    })
}

/// Reads the reason, description and properties that a receiver gave for a dead letter, from the columns at `index` and
/// the two after it.
pub(super) fn details(row: &Row<'_>, index: usize) -> Result<DeadLetterDetails, StoreError> {
    Ok(DeadLetterDetails {
        reason: row.get(index)?,
        description: row.get(index + 1)?,
        properties: pairs_from(row.get::<_, Option<String>>(index + 2)?.as_deref())?,
    })
}

/// A duration for a column in milliseconds.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
