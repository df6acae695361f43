//! Namespaces, topics, event subscriptions and their rules. They are few, so all of them are loaded into memory.

mod access_rules;
mod namespaces;

use std::collections::HashSet;

use rusqlite::{Connection, Row, params};
use zeroize::Zeroizing;

use crate::base::Timestamp;
use crate::model::access::{AccessKeys, KeyName, KeyOwner, KeyRef};
use crate::model::name::{RuleName, SubscriptionName, TopicName};
use crate::model::namespace::NamespaceId;
use crate::model::queue::SendRules;
use crate::model::registry::{Registry, ResourceScope};
use crate::model::rule::Rule;
use crate::model::subscription::{
    EventSubscription, OnDelete, SubscriptionDefinition, SubscriptionId, Validation,
};
use crate::model::topic::{ServiceBusNamespace, Topic, TopicId, TopicKind};
use crate::store::engine::encryption::{
    Encryption, SUBSCRIPTION_DEFINITION, TOPIC_KEY1, TOPIC_KEY2, VALIDATION_CODE,
};
use crate::store::error::StoreError;
use crate::store::key_uses;
use crate::store::ledger::counters::mark_deleted;
use crate::store::row;
use crate::store::sql::Sql;
use crate::wire::resource;
pub use access_rules::AccessRuleChange;
pub use namespaces::NamespaceChange;

/// A change of the catalog.
#[derive(Clone, Debug)]
pub enum RegistryChange {
    Namespace(NamespaceChange),
    AccessRule(AccessRuleChange),
    AddTopic {
        /// `None` for a custom topic.
        namespace: Option<NamespaceId>,
        name: TopicName,
        kind: TopicKind,
        keys: AccessKeys,
    },
    /// Adds a queue and its own subscription.
    AddQueue {
        name: TopicName,
        sending: SendRules,
        keys: AccessKeys,
        subscription: SubscriptionDefinition,
    },
    ChangeQueue {
        id: TopicId,
        sending: SendRules,
        /// The own subscription of the queue.
        of: SubscriptionId,
        subscription: SubscriptionDefinition,
    },
    ChangeTopic {
        id: TopicId,
        kind: TopicKind,
    },
    ChangeKeys {
        id: TopicId,
        keys: AccessKeys,
        renewed: KeyName,
    },
    /// Deletes a topic and its event subscriptions.
    DeleteTopic {
        id: TopicId,
        pending: OnDelete,
    },
    AddSubscription {
        topic: TopicId,
        name: SubscriptionName,
        definition: SubscriptionDefinition,
        validation: Validation,
    },
    ChangeSubscription {
        id: SubscriptionId,
        definition: SubscriptionDefinition,
        validation: Validation,
    },
    ChangeValidation {
        id: SubscriptionId,
        validation: Validation,
    },
    DeleteSubscription {
        id: SubscriptionId,
        pending: OnDelete,
    },
    /// Adds a subscription of a Service Bus topic, with its initial rule.
    AddServiceBusSubscription {
        topic: TopicId,
        name: SubscriptionName,
        definition: SubscriptionDefinition,
        rule: Rule,
    },
    /// Adds or replaces a rule.
    PutRule {
        of: SubscriptionId,
        rule: Rule,
    },
    DeleteRule {
        of: SubscriptionId,
        name: RuleName,
    },
}

pub(super) fn load(
    tx: &Connection,
    scope: &ResourceScope,
    encryption: &Encryption,
) -> Result<Registry, StoreError> {
    let mut unreadable = Unreadable::default();
    let select = not_deleted("namespace", row::NAMESPACE_COLUMNS);
    let namespaces =
        unreadable.rows(tx, &select, |row| row::namespace(row, encryption), |_| None)?;
    let select = not_deleted("topic", row::TOPIC_COLUMNS);
    let topics = unreadable.rows(tx, &select, |row| row::topic(row, encryption), |_| None)?;
    let of_messages = topics.iter().filter(|topic| topic.kind.takes_messages());
    let of_messages: HashSet<TopicId> = of_messages.map(|topic| topic.id).collect();
    let select = not_deleted("event_subscription", row::SUBSCRIPTION_COLUMNS);
    let subscriptions = unreadable.rows(
        tx,
        &select,
        |row| row::subscription(row, encryption),
        |row| row::unreadable_subscription(row, |topic| of_messages.contains(&topic)),
    )?;
    let mut registry = Registry::new(scope, namespaces, topics, subscriptions);
    let select = format!("SELECT {RULE_COLUMNS} FROM subscription_rule");
    for (of, rule) in unreadable.rows(tx, &select, row::rule, row::unreadable_rule)? {
        registry.put_rule(of, rule);
    }
    let select = format!("SELECT {} FROM access_rule", row::ACCESS_RULE_COLUMNS);
    let access_rules = unreadable.rows(
        tx,
        &select,
        |row| row::access_rule(row, encryption),
        |_| None,
    )?;
    for rule in access_rules {
        registry.put_access_rule(rule);
    }
    registry.set_unreadable(unreadable.problems.into());
    Ok(registry)
}

/// The columns that [`row::rule`] reads.
const RULE_COLUMNS: &str = "subscription_id, name, definition, created_at";

fn not_deleted(table: &str, columns: &str) -> String {
    format!("SELECT {columns} FROM {table} WHERE deleted_at IS NULL ORDER BY id")
}

/// Problems with unreadable definitions. None of them prevents the appliance from starting.
#[derive(Default)]
struct Unreadable {
    problems: Vec<String>,
}

impl Unreadable {
    /// Returns the rows of a query. The first column is the id, and the column `name` is the name. An unreadable row is
    /// recorded as a problem, and replaced with the result of `instead` or left out.
    fn rows<T>(
        &mut self,
        tx: &Connection,
        select: &str,
        read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
        instead: impl Fn(&Row<'_>) -> Option<T>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = tx.all(select, [], |row| match read(row) {
            Err(StoreError::Unreadable(problem)) => {
                let stand_in = instead(row);
                self.problems.push(told(row, &problem, stand_in.is_some()));
                Ok(stand_in)
            }
            found => found.map(Some),
        })?;
        Ok(rows.into_iter().flatten().collect())
    }
}

/// Describes an unreadable definition and the consequence.
fn told(row: &Row<'_>, problem: &str, has_stand_in: bool) -> String {
    let id: i64 = row.get(0).unwrap_or_default();
    let column = row.as_ref().column_index("name");
    let named = column.and_then(|index| row::text(row, index));
    let name = named.unwrap_or_default();
    let end = if has_stand_in {
        "it matches and delivers nothing until it is put anew or deleted"
    } else {
        "it is left out until a backup is restored"
    };
    format!("{problem} (of id {id}, name {name:?}); {end}")
}

/// Stores a change, and updates `registry` from the stored rows.
pub(super) fn save(
    tx: &Connection,
    encryption: &Encryption,
    change: RegistryChange,
    registry: &mut Registry,
    now: Timestamp,
) -> Result<(), StoreError> {
    match change {
        RegistryChange::Namespace(change) => {
            namespaces::save(tx, encryption, change, registry, now)?;
        }
        RegistryChange::AccessRule(change) => {
            access_rules::save(tx, encryption, change, registry, now)?;
        }
        RegistryChange::AddTopic {
            namespace,
            name,
            kind,
            keys,
        } => {
            // Inserts the row with empty keys first, since encrypting the keys needs the id of the row.
            let add = "INSERT INTO topic (name, definition, key1, key2, created_at, updated_at, \
                 namespace_id, service_bus_namespace, kind) \
                 VALUES (?1, ?2, '', '', ?3, ?3, ?4, ?5, ?6)";
            let text = resource::topic_to_text(&kind);
            let names = ServiceBusNamespace::DEFAULT;
            let (name, names, kind) = (name.as_str(), names.as_str(), kind.name());
            tx.run(add, params![name, text, now, namespace, names, kind])?;
            let id = TopicId(tx.last_insert_rowid());
            save_keys(tx, encryption, id, &keys, now)?;
            registry.put_topic(topic(tx, encryption, id)?);
        }
        RegistryChange::AddQueue {
            name,
            sending,
            keys,
            subscription,
        } => {
            let own = SubscriptionName::of_queue(&name);
            let add = RegistryChange::AddTopic {
                namespace: None,
                name,
                kind: TopicKind::Queue(sending),
                keys,
            };
            save(tx, encryption, add, registry, now)?;
            let add = RegistryChange::AddSubscription {
                topic: TopicId(tx.last_insert_rowid()),
                name: own,
                definition: subscription,
                validation: Validation::succeeded(None),
            };
            save(tx, encryption, add, registry, now)?;
        }
        RegistryChange::ChangeQueue {
            id,
            sending,
            of,
            subscription: definition,
        } => {
            let kind = TopicKind::Queue(sending);
            let change = RegistryChange::ChangeTopic { id, kind };
            save(tx, encryption, change, registry, now)?;
            save_definition(tx, encryption, of, &definition, now)?;
            registry.put_subscription(subscription(tx, encryption, of)?);
        }
        RegistryChange::ChangeTopic { id, kind } => {
            let change = "UPDATE topic SET definition = ?2, updated_at = ?3 WHERE id = ?1";
            tx.run(change, params![id, resource::topic_to_text(&kind), now])?;
            registry.put_topic(topic(tx, encryption, id)?);
        }
        RegistryChange::ChangeKeys { id, keys, renewed } => {
            let owner = KeyOwner::Topic(id);
            key_uses::forget(
                tx,
                KeyRef {
                    owner,
                    key: renewed,
                },
            )?;
            save_keys(tx, encryption, id, &keys, now)?;
            registry.put_topic(topic(tx, encryption, id)?);
        }
        RegistryChange::DeleteTopic { id, pending } => {
            delete_subscriptions(tx, "topic_id = ?1", id.0, pending, now)?;
            tx.run("DELETE FROM access_rule WHERE topic_id = ?1", [id])?;
            let delete = "UPDATE topic SET deleted_at = ?2 WHERE id = ?1";
            tx.run(delete, params![id, now])?;
            registry.remove_topic(id);
        }
        RegistryChange::AddSubscription {
            topic,
            name,
            definition,
            validation,
        } => {
            let add = "INSERT INTO event_subscription (topic_id, name, definition, \
                 validation_state, validated_once, created_at, updated_at) \
                 VALUES (?1, ?2, '', ?3, ?4, ?5, ?5)";
            let (state, once) = (validation.state, validation.validated_once);
            tx.run(add, params![topic, name.as_str(), state, once, now])?;
            let id = SubscriptionId(tx.last_insert_rowid());
            save_definition(tx, encryption, id, &definition, now)?;
            save_validation(tx, encryption, id, &validation)?;
            registry.put_subscription(subscription(tx, encryption, id)?);
        }
        RegistryChange::ChangeSubscription {
            id,
            definition,
            validation,
        } => {
            save_definition(tx, encryption, id, &definition, now)?;
            save_validation(tx, encryption, id, &validation)?;
            registry.put_subscription(subscription(tx, encryption, id)?);
        }
        RegistryChange::ChangeValidation { id, validation } => {
            save_validation(tx, encryption, id, &validation)?;
            registry.put_subscription(subscription(tx, encryption, id)?);
        }
        RegistryChange::DeleteSubscription { id, pending } => {
            delete_subscriptions(tx, "id = ?1", id.0, pending, now)?;
            registry.remove_subscription(id);
        }
        RegistryChange::AddServiceBusSubscription {
            topic,
            name,
            definition,
            rule,
        } => {
            let add = RegistryChange::AddSubscription {
                topic,
                name,
                definition,
                validation: Validation::succeeded(None),
            };
            save(tx, encryption, add, registry, now)?;
            let add = RegistryChange::PutRule {
                of: SubscriptionId(tx.last_insert_rowid()),
                rule,
            };
            save(tx, encryption, add, registry, now)?;
        }
        RegistryChange::PutRule { of, rule } => {
            // Uses the rule as read back from the row, so that a rule that the next start cannot read is rejected.
            let put = format!(
                "INSERT INTO subscription_rule (subscription_id, name, definition, created_at) \
                 VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET name = ?2, definition = ?3 \
                 RETURNING {RULE_COLUMNS}"
            );
            let values = params![of, rule.name.as_str(), resource::rule_to_text(&rule), now];
            let (_, stored) = tx.one(&put, values, row::rule)?;
            registry.put_rule(of, stored);
        }
        RegistryChange::DeleteRule { of, name } => {
            let delete = "DELETE FROM subscription_rule WHERE subscription_id = ?1 AND name = ?2";
            tx.run(delete, params![of, name.as_str()])?;
            registry.remove_rule(of, &name);
        }
    }
    Ok(())
}

/// Deletes the event subscriptions that match `condition`, in which `?1` is `of`. The rows are kept until no other row
/// refers to them, but without the definitions, which contain secrets and may be far larger than the referring rows.
fn delete_subscriptions(
    tx: &Connection,
    condition: &str,
    of: i64,
    pending: OnDelete,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let condition = format!("deleted_at IS NULL AND {condition}");
    tx.run(&mark_deleted(&condition), [of])?;
    let rules = format!(
        "DELETE FROM subscription_rule WHERE subscription_id IN \
         (SELECT id FROM event_subscription WHERE {condition})"
    );
    tx.run(&rules, [of])?;
    let delete = format!(
        "UPDATE event_subscription SET deleted_at = ?2, dead_letters_pending = ?3, definition = '{{}}' \
         WHERE {condition}"
    );
    let is_kept = pending == OnDelete::DeadLetter;
    tx.run(&delete, params![of, now, is_kept])?;
    Ok(())
}

fn topic(tx: &Connection, encryption: &Encryption, id: TopicId) -> Result<Topic, StoreError> {
    let select = format!("SELECT {} FROM topic WHERE id = ?1", row::TOPIC_COLUMNS);
    tx.one(&select, [id], |row| row::topic(row, encryption))
}

fn subscription(
    tx: &Connection,
    encryption: &Encryption,
    id: SubscriptionId,
) -> Result<EventSubscription, StoreError> {
    let columns = row::SUBSCRIPTION_COLUMNS;
    let select = format!("SELECT {columns} FROM event_subscription WHERE id = ?1");
    tx.one(&select, [id], |row| row::subscription(row, encryption))
}

fn save_keys(
    tx: &Connection,
    encryption: &Encryption,
    id: TopicId,
    keys: &AccessKeys,
    now: Timestamp,
) -> rusqlite::Result<usize> {
    let key1 = encryption.encrypt(TOPIC_KEY1, id.0, keys.key1.reveal());
    let key2 = encryption.encrypt(TOPIC_KEY2, id.0, keys.key2.reveal());
    let save = "UPDATE topic SET key1 = ?2, key2 = ?3, updated_at = ?4 WHERE id = ?1";
    tx.run(save, params![id, key1, key2, now])
}

fn save_definition(
    tx: &Connection,
    encryption: &Encryption,
    id: SubscriptionId,
    definition: &SubscriptionDefinition,
    now: Timestamp,
) -> rusqlite::Result<usize> {
    let text = Zeroizing::new(resource::subscription_to_text(definition));
    let encrypted = encryption.encrypt(SUBSCRIPTION_DEFINITION, id.0, &text);
    let save = "UPDATE event_subscription SET definition = ?2, updated_at = ?3 WHERE id = ?1";
    tx.run(save, params![id, encrypted, now])
}

fn save_validation(
    tx: &Connection,
    encryption: &Encryption,
    id: SubscriptionId,
    validation: &Validation,
) -> rusqlite::Result<usize> {
    let code = validation.code.as_ref();
    let save = "UPDATE event_subscription \
         SET validation_state = ?2, validated_once = ?3, validation_code = ?4, \
             validation_expires_at = ?5, validation_failure = ?6, allowed_rate = ?7 \
         WHERE id = ?1";
    let values = params![
        id,
        validation.state,
        validation.validated_once,
        code.map(|code| encryption.encrypt(VALIDATION_CODE, id.0, code.reveal())),
        validation.expires_at,
        validation.failure,
        validation.allowed_rate
    ];
    tx.run(save, values)
}
