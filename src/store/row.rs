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

/// The error text for a row whose checksum does not match its columns.
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

/// Reads a text column that may hold invalid UTF-8, which is replaced, so that one damaged row does not fail a list.
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

/// Creates the error for a stored value that cannot be read. The cause is a bug, or another program wrote to the file.
pub(super) fn unreadable(what: &str, cause: impl std::fmt::Display) -> StoreError {
    StoreError::Unreadable(format!("a stored {what} cannot be read: {cause}"))
}

/// Creates the error for a delivery whose checksum does not match its columns.
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

/// Decrypts the access key in the column `index` of a row. The first column of the row is the id.
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

/// Reads the access keys of a topic. Built-in topics have none: their columns are empty.
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

/// Reads a rule and the id of its subscription.
pub(super) fn rule(row: &Row<'_>) -> Result<(SubscriptionId, Rule), StoreError> {
    let what = "rule";
    let (name, definition): (String, String) = (row.get(1)?, row.get(2)?);
    let name = RuleName::parse(&name).map_err(|error| unreadable(what, error))?;
    let rule =
        resource::rule_from_text(name, &definition).map_err(|error| unreadable(what, error))?;
    let created_at = row.get(3)?;
    Ok((row.get(0)?, Rule { created_at, ..rule }))
}

/// Returns a placeholder for a rule that cannot be read. The placeholder has the name of the rule and matches nothing.
pub(super) fn unreadable_rule(row: &Row<'_>) -> Option<(SubscriptionId, Rule)> {
    let rule = Rule {
        name: RuleName::parse(&text(row, 1).ok()?).ok()?,
        filter: RuleFilter::None,
        action: None,
        created_at: row.get(3).ok(),
    };
    Some((row.get(0).ok()?, rule))
}

/// Returns a placeholder for a subscription that cannot be read. The placeholder has the name of the subscription and
/// is disabled.
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

/// Reads an event. Fails if its checksum does not match its columns.
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

/// Reads the data of an event. Fails if JSON data is invalid, so that a damaged event does not break a delivery
/// request.
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

/// Returns the value of the column `data` for an event's data.
pub(super) fn data_column(data: &EventData) -> ValueRef<'_> {
    match data {
        EventData::Absent => ValueRef::Null,
        EventData::Json(text) => ValueRef::Text(text.as_bytes()),
        EventData::Binary(bytes) => ValueRef::Blob(bytes),
    }
}

/// Returns the extension attributes of an event as JSON, or `None` if there are none, as for most events.
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

/// Returns pairs as a JSON array, or `None` if there are none.
pub(super) fn pairs_column<T: AsRef<str> + serde::Serialize>(pairs: &[(T, T)]) -> Option<String> {
    let text = || serde_json::to_string(pairs).expect("texts are JSON");
    (!pairs.is_empty()).then(text)
}

/// The column value for the headers of a cut response: an empty list. A whole response without headers has NULL.
pub(super) const CUT: &str = "[]";

/// Returns the headers of a response as JSON, or [`CUT`] if the response is cut.
pub(super) fn headers_column(response: &HttpResponse) -> Option<String> {
    if response.is_cut {
        return Some(CUT.to_owned());
    }
    pairs_column(&response.headers)
}

/// Parses a JSON array of pairs. Returns an empty list for NULL.
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

/// Returns a duration in milliseconds for a column.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
