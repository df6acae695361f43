//! Changes of namespaces.

use rusqlite::{Connection, params};

use crate::base::Timestamp;
use crate::model::access::{AccessKeys, KeyName, KeyOwner, KeyRef};
use crate::model::name::NamespaceName;
use crate::model::namespace::{NamespaceDefinition, NamespaceId};
use crate::model::registry::Registry;
use crate::model::subscription::OnDelete;
use crate::store::catalog::delete_subscriptions;
use crate::store::engine::encryption::{Encryption, NAMESPACE_KEY1, NAMESPACE_KEY2};
use crate::store::error::StoreError;
use crate::store::key_uses;
use crate::store::row;
use crate::store::sql::Sql;
use crate::wire::resource;

/// One change of a namespace.
#[derive(Clone, Debug)]
pub enum NamespaceChange {
    Add {
        name: NamespaceName,
        definition: NamespaceDefinition,
        keys: AccessKeys,
    },
    Change {
        id: NamespaceId,
        definition: NamespaceDefinition,
    },
    ChangeKeys {
        id: NamespaceId,
        keys: AccessKeys,
        renewed: KeyName,
    },
    /// Deletes its topics and their event subscriptions too.
    Delete { id: NamespaceId, pending: OnDelete },
}

/// See `catalog::save`.
pub(super) fn save(
    tx: &Connection,
    encryption: &Encryption,
    change: NamespaceChange,
    registry: &mut Registry,
    now: Timestamp,
) -> Result<(), StoreError> {
    let id = match change {
        NamespaceChange::Add {
            name,
            definition,
            keys,
        } => {
            // The keys are encrypted for the row, whose id is known only now.
            let add = "INSERT INTO namespace (name, definition, key1, key2, created_at, updated_at) \
                 VALUES (?1, ?2, '', '', ?3, ?3)";
            let text = resource::namespace_to_text(&definition);
            tx.run(add, params![name.as_str(), text, now])?;
            let id = NamespaceId(tx.last_insert_rowid());
            save_keys(tx, encryption, id, &keys, now)?;
            id
        }
        NamespaceChange::Change { id, definition } => {
            let change = "UPDATE namespace SET definition = ?2, updated_at = ?3 WHERE id = ?1";
            tx.run(
                change,
                params![id, resource::namespace_to_text(&definition), now],
            )?;
            id
        }
        NamespaceChange::ChangeKeys { id, keys, renewed } => {
            let owner = KeyOwner::Namespace(id);
            key_uses::forget(
                tx,
                KeyRef {
                    owner,
                    key: renewed,
                },
            )?;
            save_keys(tx, encryption, id, &keys, now)?;
            id
        }
        NamespaceChange::Delete { id, pending } => {
            delete(tx, id, pending, now)?;
            registry.remove_namespace(id);
            return Ok(());
        }
    };
    let columns = row::NAMESPACE_COLUMNS;
    let select = format!("SELECT {columns} FROM namespace WHERE id = ?1");
    let stored = tx.one(&select, [id], |row| row::namespace(row, encryption))?;
    registry.put_namespace(stored);
    Ok(())
}

fn save_keys(
    tx: &Connection,
    encryption: &Encryption,
    id: NamespaceId,
    keys: &AccessKeys,
    now: Timestamp,
) -> rusqlite::Result<usize> {
    let key1 = encryption.encrypt(NAMESPACE_KEY1, id.0, keys.key1.reveal());
    let key2 = encryption.encrypt(NAMESPACE_KEY2, id.0, keys.key2.reveal());
    let save = "UPDATE namespace SET key1 = ?2, key2 = ?3, updated_at = ?4 WHERE id = ?1";
    tx.run(save, params![id, key1, key2, now])
}

fn delete(
    tx: &Connection,
    id: NamespaceId,
    pending: OnDelete,
    now: Timestamp,
) -> rusqlite::Result<usize> {
    let of_its_topics = "topic_id IN (SELECT topic.id FROM topic WHERE namespace_id = ?1)";
    delete_subscriptions(tx, of_its_topics, id.0, pending, now)?;
    tx.run(
        "UPDATE topic SET deleted_at = ?2 WHERE namespace_id = ?1 AND deleted_at IS NULL",
        params![id, now],
    )?;
    let delete = "UPDATE namespace SET deleted_at = ?2 WHERE id = ?1";
    tx.run(delete, params![id, now])
}
