//! Namespaces, topics and event subscriptions: few, so they are loaded whole.

mod namespaces;

use std::sync::Arc;

use rusqlite::{Savepoint, params};
use zeroize::Zeroizing;

use crate::base::Timestamp;
use crate::model::access::AccessKeys;
use crate::model::audit::AuditEntry;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::namespace::NamespaceId;
use crate::model::registry::{Registry, ResourceScope};
use crate::model::subscription::{OnDelete, SubscriptionDefinition, SubscriptionId, Validation};
use crate::model::topic::{TopicDefinition, TopicId};
use crate::store::engine::db::Db;
use crate::store::engine::encryption::{
    Encryption, SUBSCRIPTION_DEFINITION, TOPIC_KEY1, TOPIC_KEY2, VALIDATION_CODE,
};
use crate::store::error::StoreError;
use crate::store::ledger::append::AppendRequest;
use crate::store::ledger::notices::{self, AppendSummary};
use crate::store::row;
use crate::wire::changes::with_changes;
use crate::wire::resource;
pub use namespaces::NamespaceChange;

/// Namespaces, topics and event subscriptions.
#[derive(Clone)]
pub struct Catalog {
    pub(super) db: Db,
    pub(super) scope: ResourceScope,
    pub(super) encryption: Encryption,
}

/// One change of the catalog.
#[derive(Clone, Debug)]
pub enum RegistryChange {
    Namespace(NamespaceChange),
    AddTopic {
        /// `None` for a custom topic.
        namespace: Option<NamespaceId>,
        name: TopicName,
        definition: TopicDefinition,
        keys: AccessKeys,
    },
    ChangeTopic {
        id: TopicId,
        definition: TopicDefinition,
    },
    ChangeKeys {
        id: TopicId,
        keys: AccessKeys,
    },
    /// Deletes its event subscriptions too.
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
}

impl Catalog {
    /// Loads all namespaces, topics and event subscriptions.
    pub async fn load(&self) -> Result<Registry, StoreError> {
        let (scope, encryption) = (self.scope.clone(), self.encryption.clone());
        self.db.read(move |tx| load(tx, &scope, &encryption)).await
    }

    /// Stores `change`, made at `now`, and returns the new registry.
    pub async fn save(
        &self,
        change: RegistryChange,
        now: Timestamp,
    ) -> Result<Registry, StoreError> {
        let (registry, _) = self.save_with(change, None, None, now).await?;
        Ok(registry)
    }

    /// Stores `change`, its audit entry (with the registry as it was before) and the event that notifies of it
    /// in one transaction. Returns also which subscriptions got that event.
    pub async fn save_with(
        &self,
        change: RegistryChange,
        audit: Option<(AuditEntry, Arc<Registry>)>,
        notice: Option<AppendRequest>,
        now: Timestamp,
    ) -> Result<(Registry, Option<AppendSummary>), StoreError> {
        let (scope, encryption) = (self.scope.clone(), self.encryption.clone());
        self.db
            .write_audited(move |tx| {
                save(tx, &encryption, change, now)?;
                let arrival = notices::store(tx, notice)?;
                let registry = load(tx, &scope, &encryption)?;
                let entry = audit.map(|(entry, before)| with_changes(entry, &before, &registry));
                Ok(((registry, arrival), entry))
            })
            .await
    }
}

fn load(
    tx: &rusqlite::Connection,
    scope: &ResourceScope,
    encryption: &Encryption,
) -> Result<Registry, StoreError> {
    let namespaces = all(tx, "namespace", row::NAMESPACE_COLUMNS, |row| {
        row::namespace(row, encryption)
    })?;
    let topics = all(tx, "topic", row::TOPIC_COLUMNS, |row| {
        row::topic(row, encryption)
    })?;
    let subscriptions = all(tx, "event_subscription", row::SUBSCRIPTION_COLUMNS, |row| {
        row::subscription(row, encryption)
    })?;
    Ok(Registry::new(scope, namespaces, topics, subscriptions))
}

fn all<T>(
    tx: &rusqlite::Connection,
    table: &str,
    columns: &str,
    read: impl Fn(&rusqlite::Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let select = format!("SELECT {columns} FROM {table} WHERE deleted_at IS NULL ORDER BY id");
    let mut select = tx.prepare_cached(&select)?;
    let mut rows = select.query([])?;
    let mut values = Vec::new();
    while let Some(row) = rows.next()? {
        values.push(read(row)?);
    }
    Ok(values)
}

fn save(
    tx: &Savepoint<'_>,
    encryption: &Encryption,
    change: RegistryChange,
    now: Timestamp,
) -> Result<(), StoreError> {
    let now = now.as_ms();
    match change {
        RegistryChange::Namespace(change) => namespaces::save(tx, encryption, change, now)?,
        RegistryChange::AddTopic {
            namespace,
            name,
            definition,
            keys,
        } => {
            // The keys are encrypted for the row, whose id is known only now.
            tx.execute(
                "INSERT INTO topic (name, definition, key1, key2, created_at, updated_at, namespace_id)
                 VALUES (?1, ?2, '', '', ?3, ?3, ?4)",
                params![name.as_str(), resource::topic_to_text(&definition), now, namespace],
            )?;
            save_keys(tx, encryption, TopicId(tx.last_insert_rowid()), &keys)?
        }
        RegistryChange::ChangeTopic { id, definition } => tx.execute(
            "UPDATE topic SET definition = ?2, updated_at = ?3 WHERE id = ?1",
            params![id, resource::topic_to_text(&definition), now],
        )?,
        RegistryChange::ChangeKeys { id, keys } => {
            tx.execute(
                "UPDATE topic SET updated_at = ?2 WHERE id = ?1",
                params![id, now],
            )?;
            save_keys(tx, encryption, id, &keys)?
        }
        RegistryChange::DeleteTopic { id, pending } => {
            tx.execute(
                "UPDATE event_subscription SET deleted_at = ?2, dead_letters_pending = ?3
                 WHERE topic_id = ?1 AND deleted_at IS NULL",
                params![id, now, pending == OnDelete::DeadLetter],
            )?;
            tx.execute(
                "UPDATE topic SET deleted_at = ?2 WHERE id = ?1",
                params![id, now],
            )?
        }
        RegistryChange::AddSubscription {
            topic,
            name,
            definition,
            validation,
        } => {
            tx.execute(
                "INSERT INTO event_subscription (topic_id, name, definition, validation_state,
                     validated_once, created_at, updated_at)
                 VALUES (?1, ?2, '', ?3, ?4, ?5, ?5)",
                params![
                    topic,
                    name.as_str(),
                    validation.state.name(),
                    validation.validated_once,
                    now
                ],
            )?;
            let id = SubscriptionId(tx.last_insert_rowid());
            save_definition(tx, encryption, id, &definition)?;
            save_validation(tx, encryption, id, &validation)?
        }
        RegistryChange::ChangeSubscription {
            id,
            definition,
            validation,
        } => {
            tx.execute(
                "UPDATE event_subscription SET updated_at = ?2 WHERE id = ?1",
                params![id, now],
            )?;
            save_definition(tx, encryption, id, &definition)?;
            save_validation(tx, encryption, id, &validation)?
        }
        RegistryChange::ChangeValidation { id, validation } => {
            save_validation(tx, encryption, id, &validation)?
        }
        RegistryChange::DeleteSubscription { id, pending } => tx.execute(
            "UPDATE event_subscription SET deleted_at = ?2, dead_letters_pending = ?3 WHERE id = ?1",
            params![id, now, pending == OnDelete::DeadLetter],
        )?,
    };
    Ok(())
}

fn save_keys(
    tx: &Savepoint<'_>,
    encryption: &Encryption,
    id: TopicId,
    keys: &AccessKeys,
) -> rusqlite::Result<usize> {
    let key1 = encryption.encrypt(TOPIC_KEY1, id.0, keys.key1.reveal());
    let key2 = encryption.encrypt(TOPIC_KEY2, id.0, keys.key2.reveal());
    tx.execute(
        "UPDATE topic SET key1 = ?2, key2 = ?3 WHERE id = ?1",
        params![id, key1, key2],
    )
}

fn save_definition(
    tx: &Savepoint<'_>,
    encryption: &Encryption,
    id: SubscriptionId,
    definition: &SubscriptionDefinition,
) -> rusqlite::Result<usize> {
    let text = Zeroizing::new(resource::subscription_to_text(definition));
    tx.execute(
        "UPDATE event_subscription SET definition = ?2 WHERE id = ?1",
        params![id, encryption.encrypt(SUBSCRIPTION_DEFINITION, id.0, &text)],
    )
}

fn save_validation(
    tx: &Savepoint<'_>,
    encryption: &Encryption,
    id: SubscriptionId,
    validation: &Validation,
) -> rusqlite::Result<usize> {
    tx.execute(
        "UPDATE event_subscription
         SET validation_state = ?2, validated_once = ?3, validation_code = ?4,
             validation_expires_at = ?5, validation_failure = ?6, allowed_rate = ?7
         WHERE id = ?1",
        params![
            id,
            validation.state.name(),
            validation.validated_once,
            validation.code.as_ref().map(|code| encryption.encrypt(
                VALIDATION_CODE,
                id.0,
                code.reveal()
            )),
            validation.expires_at.map(Timestamp::as_ms),
            validation.failure,
            validation.allowed_rate
        ],
    )
}
