//! Users whom somebody else vouches for.

use rusqlite::{Connection, params};

use crate::model::audit::{AuditAction, AuditEntry, AuditTarget, Caller};
use crate::model::identity::Identity;
use crate::store::accounts::users::{audited, existing, one, reject_beyond_limit};
use crate::store::accounts::{AccountError, Accounts, Role, User, UserId};
use crate::store::error::StoreError;
use crate::wire::changes::changes;

impl Accounts {
    /// The user of `identity`, made if there is none, with the name and the role that the source gives today.
    pub async fn admit(
        &self,
        identity: Identity,
        role: Role,
        by: Caller,
    ) -> Result<User, AccountError> {
        self.db
            .write_audited(move |tx| {
                let known = find(tx, &identity)?;
                if known
                    .as_ref()
                    .is_some_and(|user| user.disabled_at.is_some())
                {
                    return Err(AccountError::Disabled);
                }
                let same = |user: &User| user.role == role && user.name == identity.name;
                if let Some(user) = known.as_ref().filter(|user| same(user)) {
                    return Ok((user.clone(), None));
                }
                let id = put(tx, known.as_ref(), &identity, role, &by)?;
                let user = existing(tx, id)?;
                let before = known.as_ref().map(audited);
                let changes = changes(before.as_ref(), Some(&audited(&user)));
                let action = match before {
                    Some(_) => AuditAction::Update { changes },
                    None => AuditAction::Create { changes },
                };
                let entry = by.did(action, AuditTarget::user(&user.name));
                Ok((user, Some(entry)))
            })
            .await
    }

    /// Records what changes nothing else.
    pub async fn record(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.db.write_audited(move |_| Ok(((), Some(entry)))).await
    }
}

fn find(tx: &Connection, identity: &Identity) -> Result<Option<User>, StoreError> {
    let by_subject = "source = ?1 AND subject = ?2";
    one(
        tx,
        by_subject,
        params![identity.source.name(), identity.subject],
    )
}

fn put(
    tx: &Connection,
    known: Option<&User>,
    identity: &Identity,
    role: Role,
    by: &Caller,
) -> Result<UserId, AccountError> {
    // The name of somebody else would let one act as the other, in the eyes of whoever reads it.
    let namesake = one(tx, "name = ?1", params![identity.name])?;
    if namesake.is_some_and(|it| known.is_none_or(|user| user.id != it.id)) {
        return Err(AccountError::NameTaken);
    }
    if let Some(user) = known {
        let set = "UPDATE user SET name = ?2, role = ?3 WHERE id = ?1";
        tx.execute(set, params![user.id.0, identity.name, role.name()])?;
        return Ok(user.id);
    }
    reject_beyond_limit(tx)?;
    tx.execute(
        "INSERT INTO user (name, password_hash, role, created_at, source, subject) \
         VALUES (?1, '', ?2, ?3, ?4, ?5)",
        params![
            identity.name,
            role.name(),
            by.at.as_ms(),
            identity.source.name(),
            identity.subject
        ],
    )?;
    Ok(UserId(tx.last_insert_rowid()))
}
