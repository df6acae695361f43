//! The audit log. Entries are added and eventually deleted, but never changed.
//!
//! Every audited change to the store goes through [`Db::write_audited`], which commits the change and its entry in one
//! transaction, and rejects changes of provisioned resources. An entry for a read, or for a change outside of the
//! store, is recorded by itself.

use std::time::Duration;

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use crate::base::Timestamp;
use crate::model::audit::{Actor, AuditEntry, AuditId, AuditRow, AuditTarget, Caller};
use crate::model::limits::{AUDIT_LIFE, AUDIT_ROWS_MAX, AUDIT_ROWS_PER_SHARE_MAX};
use crate::store::engine::db::{Db, WriteTx};
use crate::store::error::{ChangeError, StoreError};
use crate::store::provisioned;
use crate::store::row::unreadable;
use crate::store::views::{PAGE_ROWS_MAX, PageOf, Views};

/// Number of the oldest entries that each added entry causes to be checked, and deleted if they are too old. The number
/// is above one, so that the log shrinks after its limits are lowered.
const OLDEST_CHECKED: i64 = 4;

/// Number of added entries between two counts of all entries. Counting takes longer the more entries exist.
const COUNTED_EACH: i64 = 128;

/// Counts all entries. SQLite reads only the pages of the smallest index.
const COUNT: &str = "SELECT count(*) FROM audit";

const DELETE_OLD: &str = "DELETE FROM audit \
     WHERE id IN (SELECT id FROM audit ORDER BY id LIMIT ?3) \
         AND (+at < ?2 OR id IN (SELECT id FROM audit ORDER BY id LIMIT ?1))";

/// Deletes the oldest entries of a share beyond its limit. The excess is found with an index alone.
const DELETE_OLD_OF: &str = "DELETE FROM audit \
     WHERE id IN (SELECT id FROM audit WHERE share = ?1 ORDER BY id LIMIT ?3) \
         AND id <= (SELECT id FROM audit WHERE share = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";

/// Maximum number of entries of one share (`AuditEntry::share`) that are written to the process log within a minute.
const LINES_PER_SHARE: i64 = 10;

const MINUTE: Duration = Duration::from_secs(60);

/// A handle on the audit log for actions that change nothing else in the store.
#[derive(Clone)]
pub struct Audit {
    pub(super) db: Db,
}

/// Which entries to list.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// The actor's name, or its kind.
    pub actor: Option<String>,
    /// The name of the action, such as `Create`.
    pub action: Option<String>,
    /// The kind of the target, such as `Topic`.
    pub target_kind: Option<String>,
    /// The name of the target or of its parent: `orders` also matches `orders/billing`.
    pub target: Option<String>,
    pub from: Option<Timestamp>,
    /// Exclusive.
    pub to: Option<Timestamp>,
    pub before: Option<AuditId>,
    pub limit: usize,
}

impl Audit {
    /// Adds an entry, and deletes entries that are too old or beyond the limits.
    pub async fn record(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.db.write_audited(|_| Ok(((), Some(entry)))).await
    }
}

impl Db {
    /// Runs `change` and records the returned entry, in one transaction. The entry is `None` if the change had nothing
    /// to do.
    pub(in crate::store) async fn write_audited<T, E, F>(&self, change: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: ChangeError,
        F: FnOnce(&WriteTx) -> Result<(T, Option<AuditEntry>), E> + Send + 'static,
    {
        let (value, entry) = self
            .write(move |tx| {
                let (value, entry) = change(tx)?;
                let told = match entry {
                    Some(entry) => add(tx, &entry)?.then_some(entry),
                    None => None,
                };
                Ok::<_, E>((value, told))
            })
            .await?;
        if let Some(entry) = entry {
            let Caller { actor, address, .. } = &entry.caller;
            let address = address.map(tracing::field::display);
            tracing::info!(%actor, client.address = address, "{}", entry.describe());
        }
        Ok(value)
    }
}

impl Views {
    /// Returns entries that match `query`, newest first.
    pub async fn audit(&self, query: AuditQuery) -> Result<PageOf<AuditRow, AuditId>, StoreError> {
        self.db.read(move |tx| list(tx, &query)).await
    }
}

/// Adds an entry. Returns whether the entry is also to be written to the process log.
fn add(tx: &Connection, entry: &AuditEntry) -> Result<bool, StoreError> {
    provisioned::check(tx, entry)?;
    let defect = |error: serde_json::Error| StoreError::Other(error.to_string());
    let kind = serde_json::to_value(entry.target.kind).map_err(defect)?;
    let details = serde_json::to_string(&entry.action).map_err(defect)?;
    let share = entry.share();
    tx.prepare_cached(
        "INSERT INTO audit (at, actor_kind, actor, address, action, target_kind, target, details, share) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        entry.caller.at.as_ms(),
        entry.caller.actor.kind(),
        entry.caller.actor.name(),
        entry.caller.address.map(|address| address.to_string()),
        entry.action.name(),
        kind.as_str(),
        entry.target.name,
        details,
        share,
    ])?;
    let at = entry.caller.at;
    delete_old(tx, share.as_deref(), at)?;
    match share {
        Some(share) => Ok(is_seldom(tx, &share, at)?),
        None => Ok(true),
    }
}

/// Returns whether the share had at most `LINES_PER_SHARE` entries within the last minute.
fn is_seldom(tx: &Connection, share: &str, now: Timestamp) -> rusqlite::Result<bool> {
    let before = "SELECT at FROM audit WHERE share = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2";
    let mut before = tx.prepare_cached(before)?;
    let found = before.query_row(params![share, LINES_PER_SHARE], |row| row.get(0));
    let at = found.optional()?.map(Timestamp::from_ms);
    Ok(at.is_none_or(|at| now.since(at) >= MINUTE))
}

/// Deletes the oldest entries that are too old or too many, and the oldest entries of `share` beyond its limit.
fn delete_old(tx: &Connection, share: Option<&str>, now: Timestamp) -> rusqlite::Result<()> {
    if let Some(share) = share {
        let values = params![share, AUDIT_ROWS_PER_SHARE_MAX, OLDEST_CHECKED];
        tx.prepare_cached(DELETE_OLD_OF)?.execute(values)?;
    }
    let too_many = excess(tx)?;
    let oldest = (now - AUDIT_LIFE).as_ms();
    let values = params![too_many, oldest, too_many.max(OLDEST_CHECKED)];
    tx.prepare_cached(DELETE_OLD)?.execute(values)?;
    Ok(())
}

/// Returns the number of entries beyond the limit, or 0 if this addition does not count all entries. The number of
/// entries cannot be derived from the last id, since entries in between were deleted.
fn excess(tx: &Connection) -> rusqlite::Result<i64> {
    if tx.last_insert_rowid() % COUNTED_EACH != 0 {
        return Ok(0);
    }
    let count: i64 = tx.prepare_cached(COUNT)?.query_row([], |row| row.get(0))?;
    Ok((count - AUDIT_ROWS_MAX).clamp(0, 2 * COUNTED_EACH))
}

fn list(tx: &Connection, query: &AuditQuery) -> Result<PageOf<AuditRow, AuditId>, StoreError> {
    let limit = query.limit.clamp(1, PAGE_ROWS_MAX);
    let newest = query
        .before
        .map_or(i64::MAX, |before| before.0.saturating_sub(1));
    let mut conditions = "id <= ?".to_owned();
    let mut values = vec![Sql::from(newest)];
    let mut and = |condition: &str, value: Option<Sql>| {
        if let Some(value) = value {
            conditions.push_str(" AND ");
            conditions.push_str(condition);
            values.push(value);
        }
    };
    let text = |text: &Option<String>| text.clone().map(Sql::from);
    and("? IN (actor, actor_kind)", text(&query.actor));
    and("action = ? COLLATE NOCASE", text(&query.action));
    and("target_kind = ? COLLATE NOCASE", text(&query.target_kind));
    let target = query.target.as_ref().map(|name| format!("{name}/").into());
    and("instr(lower(target || '/'), lower(?)) = 1", target);
    and("at >= ?", query.from.map(|at| at.as_ms().into()));
    and("at < ?", query.to.map(|at| at.as_ms().into()));
    let limit_plus_one = i64::try_from(limit + 1).unwrap_or(i64::MAX);
    values.push(limit_plus_one.into());
    let select = format!(
        "SELECT id, at, actor_kind, actor, address, target_kind, target, details FROM audit \
         WHERE {conditions} ORDER BY id DESC LIMIT ?"
    );
    let mut select = tx.prepare_cached(&select)?;
    let mut found = select.query(params_from_iter(values))?;
    let (mut rows, mut looked_at) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        looked_at += 1;
        match from_row(row) {
            Err(StoreError::Unreadable(problem)) => {
                tracing::error!(problem, "what is stored is left out");
            }
            entry => rows.push(entry?),
        }
    }
    let has_more = looked_at > limit;
    rows.truncate(limit);
    let next_before = rows
        .last()
        .filter(|_| has_more)
        .map(|row: &AuditRow| row.id);
    Ok(PageOf { rows, next_before })
}

fn from_row(row: &Row<'_>) -> Result<AuditRow, StoreError> {
    let actor_kind: String = row.get(2)?;
    let address: Option<String> = row.get(4)?;
    let target_kind: String = row.get(5)?;
    let details: String = row.get(7)?;
    let wrong = |error: serde_json::Error| unreadable("audit entry", error);
    Ok(AuditRow {
        id: AuditId(row.get(0)?),
        entry: AuditEntry {
            caller: Caller {
                actor: Actor::of(&actor_kind, row.get(3)?),
                address: address.and_then(|address| address.parse().ok()),
                at: Timestamp::from_ms(row.get(1)?),
            },
            action: serde_json::from_str(&details).map_err(wrong)?,
            target: AuditTarget {
                kind: serde_json::from_value(target_kind.into()).map_err(wrong)?,
                name: row.get(6)?,
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::model::audit::AuditAction;
    use crate::store::engine::{db, migrate};

    #[test]
    fn old_entries_go_a_few_at_a_time_and_the_others_are_not_looked_at() {
        let mut tx = db::open_in_memory().expect("a database");
        migrate::migrate(&mut tx).expect("a schema");
        let add_at = |ms: i64| {
            let entry = AuditEntry {
                caller: Caller::command_line(Timestamp::from_ms(ms)),
                action: AuditAction::Resume,
                target: AuditTarget::appliance(),
            };
            add(&tx, &entry).expect("an entry");
            let left = tx.query_row("SELECT count(*) FROM audit", [], |row| row.get(0));
            left.expect("a count")
        };
        let late = i64::try_from(AUDIT_LIFE.as_millis()).expect("a time") + 100;
        let left: Vec<i64> = [0, 1, 2, 3, 4, late, late, late].map(add_at).into();
        assert_eq!(left, [1, 2, 3, 4, 5, 2, 2, 3]);

        let steps = || {
            let statement = tx.prepare_cached(DELETE_OLD).expect("the statement");
            statement.reset_status(StatementStatus::VmStep);
            drop(statement);
            add_at(late);
            let statement = tx.prepare_cached(DELETE_OLD).expect("the statement");
            statement.get_status(StatementStatus::VmStep)
        };
        let few = steps();
        for _ in 0..500 {
            add_at(late);
        }
        assert_eq!(steps(), few);
    }

    #[test]
    fn all_entries_are_counted_now_and_then() {
        let mut tx = db::open_in_memory().expect("a database");
        migrate::migrate(&mut tx).expect("a schema");
        let by = Caller::command_line(Timestamp::from_ms(0));
        let add_many = |count: i64| {
            let statement = tx.prepare_cached(COUNT).expect("the statement");
            statement.reset_status(StatementStatus::Run);
            drop(statement);
            for _ in 0..count {
                let entry = by.did(AuditAction::Resume, AuditTarget::appliance());
                add(&tx, &entry).expect("an entry");
            }
            let statement = tx.prepare_cached(COUNT).expect("the statement");
            statement.get_status(StatementStatus::Run)
        };
        assert_eq!(add_many(COUNTED_EACH - 1), 0);
        assert_eq!(add_many(1), 1);
        assert_eq!(add_many(2 * COUNTED_EACH), 2);
    }

    #[test]
    fn what_is_done_with_keys_pushes_out_no_entries_of_others() {
        let mut tx = db::open_in_memory().expect("a database");
        migrate::migrate(&mut tx).expect("a schema");
        let add_by = |actor: &Actor| {
            let entry = AuditEntry {
                caller: Caller {
                    actor: actor.clone(),
                    ..Caller::command_line(Timestamp::from_ms(0))
                },
                action: AuditAction::Resume,
                target: AuditTarget::appliance(),
            };
            add(&tx, &entry).expect("an entry");
        };
        let left = |actor: &Actor| -> i64 {
            let count = "SELECT count(*) FROM audit WHERE actor_kind = ?1 AND actor = ?2";
            let values = params![actor.kind(), actor.name()];
            let left = tx.query_row(count, values, |row| row.get(0));
            left.expect("a count")
        };
        let name = || "jobs/listen".to_owned();
        let (ann, key) = (Actor::User(name()), Actor::AccessRule(name()));
        let other = Actor::AccessRule("jobs/send".to_owned());
        add_by(&ann);
        add_by(&other);
        for _ in 0..AUDIT_ROWS_PER_SHARE_MAX + 10 {
            add_by(&key);
        }
        // As if much more had been added and deleted since, so that all entries are counted after the next one.
        let go_on = || {
            let further = "UPDATE sqlite_sequence SET seq = (max(seq, ?1) / ?2 + 1) * ?2 - 1 WHERE name = 'audit'";
            tx.execute(further, [2 * AUDIT_ROWS_MAX, COUNTED_EACH])
                .expect("a sequence");
        };
        go_on();
        add_by(&key);
        let expected = [1, AUDIT_ROWS_PER_SHARE_MAX, 1];
        assert_eq!([&ann, &key, &other].map(left), expected);

        let fill = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) \
             INSERT INTO audit (at, actor_kind, actor, action, target_kind, target, details) \
             SELECT 0, 'User', 'bob', 'Resume', 'Appliance', '', '{}' FROM n";
        let free = AUDIT_ROWS_MAX - AUDIT_ROWS_PER_SHARE_MAX - 2;
        tx.execute(fill, [free]).expect("entries");
        go_on();
        add_by(&ann);
        let bob = Actor::User("bob".to_owned());
        assert_eq!(left(&bob), free);
        assert_eq!(left(&ann), 1, "the oldest went");
    }

    #[test]
    fn who_signs_in_again_and_again_pushes_out_nothing_else() {
        let mut tx = db::open_in_memory().expect("a database");
        migrate::migrate(&mut tx).expect("a schema");
        let add_by = |name: &str, action: AuditAction, target: &str, at_s: i64| {
            let by = Caller::user(name, None, Timestamp::from_ms(at_s * 1_000));
            add(&tx, &by.did(action, AuditTarget::user(target))).expect("an entry")
        };
        let too_many = AUDIT_ROWS_PER_SHARE_MAX + 10;
        let rejected = |name: &str| {
            let reason = "no role".to_owned();
            add_by(name, AuditAction::RejectSignIn { reason }, name, 0)
        };
        add_by("bob", AuditAction::SignIn, "bob", 0);
        add_by("ann", AuditAction::ChangePassword, "ann", 0);
        for number in 0..too_many {
            add_by("ann", AuditAction::SignIn, "ann", 0);
            add_by("ann", AuditAction::Disable, "bob", 0);
            rejected(&format!("stranger {number}"));
        }
        let left = |actor: &str, action: &str| -> i64 {
            let count = "SELECT count(*) FROM audit WHERE actor LIKE ?1 AND action = ?2";
            let left = tx.query_row(count, [actor, action], |row| row.get(0));
            left.expect("a count")
        };
        let own = [("bob", "SignIn"), ("ann", "ChangePassword")];
        assert_eq!(own.map(|(actor, action)| left(actor, action)), [1, 1]);
        assert_eq!(left("ann", "SignIn"), AUDIT_ROWS_PER_SHARE_MAX);
        assert_eq!(left("stranger%", "RejectSignIn"), AUDIT_ROWS_PER_SHARE_MAX);
        assert_eq!(left("ann", "Disable"), too_many, "what takes a role");
    }

    #[test]
    fn what_comes_too_often_has_no_lines_in_the_log() {
        let mut tx = db::open_in_memory().expect("a database");
        migrate::migrate(&mut tx).expect("a schema");
        let told = |actor: Actor, action: AuditAction, at_s: i64| {
            let caller = Caller {
                actor,
                ..Caller::command_line(Timestamp::from_ms(at_s * 1_000))
            };
            add(&tx, &caller.did(action, AuditTarget::user("ann"))).expect("an entry")
        };
        let ann = || Actor::User("ann".to_owned());
        let mut sign_ins = (0..LINES_PER_SHARE).map(|_| told(ann(), AuditAction::SignIn, 0));
        assert!(sign_ins.all(|told| told));
        assert!(!told(ann(), AuditAction::SignIn, 59));
        assert!(told(ann(), AuditAction::SignOut, 59), "another kind");
        assert!(told(
            Actor::User("bob".to_owned()),
            AuditAction::Disable,
            59
        ));
        assert!(told(ann(), AuditAction::SignIn, 60));
        let mut others = (0..LINES_PER_SHARE * 2).map(|_| told(ann(), AuditAction::Enable, 60));
        assert!(others.all(|told| told), "what takes a role");
    }
}
