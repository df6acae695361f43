//! Changes of access rules.

use rusqlite::{Connection, params};
use serde_json::json;

use crate::base::Timestamp;
use crate::model::access::{AccessKeys, KeyName, KeyOwner, KeyRef};
use crate::model::name::AccessRuleName;
use crate::model::registry::Registry;
use crate::model::shared_access::{AccessRuleId, Rights};
use crate::model::topic::TopicId;
use crate::store::engine::encryption::{ACCESS_RULE_KEY1, ACCESS_RULE_KEY2, Encryption};
use crate::store::error::StoreError;
use crate::store::key_uses;
use crate::store::row;
use crate::store::sql::Sql;

/// One change of an access rule.
#[derive(Clone, Debug)]
pub enum AccessRuleChange {
    Add {
        /// The queue or topic of the rule; `None` for a rule of all queues and topics.
        of: Option<TopicId>,
        name: AccessRuleName,
        rights: Rights,
        keys: AccessKeys,
    },
    Change {
        id: AccessRuleId,
        rights: Rights,
        keys: AccessKeys,
        renewed: Vec<KeyName>,
    },
    Delete(AccessRuleName),
}

/// Stores a change of an access rule, and updates `registry` from the stored row.
pub(super) fn save(
    tx: &Connection,
    encryption: &Encryption,
    change: AccessRuleChange,
    registry: &mut Registry,
    now: Timestamp,
) -> Result<(), StoreError> {
    let (id, rights, keys) = match change {
        AccessRuleChange::Add {
            of,
            name,
            rights,
            keys,
        } => {
            // Inserts the row with empty keys first, since encrypting the keys needs the id of the row.
            let add = "INSERT INTO access_rule (topic_id, name, rights, key1, key2, created_at, \
                 updated_at) VALUES (?1, ?2, '', '', '', ?3, ?3)";
            tx.run(add, params![of, name.as_str(), now])?;
            (AccessRuleId(tx.last_insert_rowid()), rights, keys)
        }
        AccessRuleChange::Change {
            id,
            rights,
            keys,
            renewed,
        } => {
            let owner = KeyOwner::AccessRule(id);
            for key in renewed {
                key_uses::forget(tx, KeyRef { owner, key })?;
            }
            (id, rights, keys)
        }
        AccessRuleChange::Delete(name) => {
            tx.run("DELETE FROM access_rule WHERE name = ?1", [name.as_str()])?;
            registry.remove_access_rule(&name);
            return Ok(());
        }
    };
    let key1 = encryption.encrypt(ACCESS_RULE_KEY1, id.0, keys.key1.reveal());
    let key2 = encryption.encrypt(ACCESS_RULE_KEY2, id.0, keys.key2.reveal());
    let save = "UPDATE access_rule SET rights = ?2, key1 = ?3, key2 = ?4, updated_at = ?5 \
         WHERE id = ?1";
    tx.run(
        save,
        params![id, json!(rights).to_string(), key1, key2, now],
    )?;
    let columns = row::ACCESS_RULE_COLUMNS;
    let select = format!("SELECT {columns} FROM access_rule WHERE id = ?1");
    let stored = tx.one(&select, [id], |row| row::access_rule(row, encryption))?;
    registry.put_access_rule(stored);
    Ok(())
}
