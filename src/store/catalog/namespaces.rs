//! Changes of namespaces.

use rusqlite::{Savepoint, params};

use crate::model::access::AccessKeys;
use crate::model::name::NamespaceName;
use crate::model::namespace::{NamespaceDefinition, NamespaceId};
use crate::model::subscription::OnDelete;
use crate::store::engine::encryption::{Encryption, NAMESPACE_KEY1, NAMESPACE_KEY2};
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
    },
    /// Deletes its topics and their event subscriptions too.
    Delete {
        id: NamespaceId,
        pending: OnDelete,
    },
}

pub(super) fn save(
    tx: &Savepoint<'_>,
    encryption: &Encryption,
    change: NamespaceChange,
    now: i64,
) -> rusqlite::Result<usize> {
    match change {
        NamespaceChange::Add {
            name,
            definition,
            keys,
        } => {
            // The keys are encrypted for the row, whose id is known only now.
            tx.execute(
                "INSERT INTO namespace (name, definition, key1, key2, created_at, updated_at)
                 VALUES (?1, ?2, '', '', ?3, ?3)",
                params![name.as_str(), resource::namespace_to_text(&definition), now],
            )?;
            save_keys(tx, encryption, NamespaceId(tx.last_insert_rowid()), &keys)
        }
        NamespaceChange::Change { id, definition } => tx.execute(
            "UPDATE namespace SET definition = ?2, updated_at = ?3 WHERE id = ?1",
            params![id, resource::namespace_to_text(&definition), now],
        ),
        NamespaceChange::ChangeKeys { id, keys } => {
            tx.execute(
                "UPDATE namespace SET updated_at = ?2 WHERE id = ?1",
                params![id, now],
            )?;
            save_keys(tx, encryption, id, &keys)
        }
        NamespaceChange::Delete { id, pending } => delete(tx, id, pending, now),
    }
}

fn save_keys(
    tx: &Savepoint<'_>,
    encryption: &Encryption,
    id: NamespaceId,
    keys: &AccessKeys,
) -> rusqlite::Result<usize> {
    let key1 = encryption.encrypt(NAMESPACE_KEY1, id.0, keys.key1.reveal());
    let key2 = encryption.encrypt(NAMESPACE_KEY2, id.0, keys.key2.reveal());
    tx.execute(
        "UPDATE namespace SET key1 = ?2, key2 = ?3 WHERE id = ?1",
        params![id, key1, key2],
    )
}

fn delete(
    tx: &Savepoint<'_>,
    id: NamespaceId,
    pending: OnDelete,
    now: i64,
) -> rusqlite::Result<usize> {
    tx.execute(
        "UPDATE event_subscription SET deleted_at = ?2, dead_letters_pending = ?3
         WHERE deleted_at IS NULL
         AND topic_id IN (SELECT topic.id FROM topic WHERE namespace_id = ?1)",
        params![id, now, pending == OnDelete::DeadLetter],
    )?;
    tx.execute(
        "UPDATE topic SET deleted_at = ?2 WHERE namespace_id = ?1 AND deleted_at IS NULL",
        params![id, now],
    )?;
    tx.execute(
        "UPDATE namespace SET deleted_at = ?2 WHERE id = ?1",
        params![id, now],
    )
}
