//! Alert rules with their current alerts, alert channels, and the messages to the channels.

use rusqlite::{Connection, Row, params};

use crate::base::Timestamp;
use crate::model::alert::{
    Alert, AlertChannel, AlertChannelId, AlertMessage, AlertMessageId, AlertMessageState,
    AlertRule, AlertRuleId, AlertSent, StoredAlertChannel, StoredAlertMessage, StoredAlertRule,
    next_attempt,
};
use crate::model::audit::{AuditAction, AuditEntry, AuditTarget, Caller, TargetKind};
use crate::model::limits::{
    ALERT_CHANNELS_MAX, ALERT_MESSAGE_INTERVAL, ALERT_MESSAGES_AT_ONCE_MAX, ALERT_MESSAGES_KEPT,
    ALERT_RULES_MAX,
};
use crate::model::name::{AlertChannelName, AlertRuleName};
use crate::model::subscription::SubscriptionId;
use crate::store::engine::db::Db;
use crate::store::engine::encryption::{ALERT_CHANNEL, Encryption};
use crate::store::error::StoreError;
use crate::store::inspectors::PutOutcome;
use crate::store::row::unreadable;
use crate::store::sql::Sql;
use crate::store::views::{PAGE_ROWS_MAX, PageOf, Views};
use crate::wire::changes::changes;
use crate::wire::resource;

/// Number of pending deliveries to read at each end of a subscription's queue: the end with the earliest next attempts,
/// and the end with the latest next attempts.
const LOOKED_AT: usize = 20;

/// Alert rules, alert channels and messages.
#[derive(Clone)]
pub struct Alerts {
    pub(super) db: Db,
    pub(super) encryption: Encryption,
}

/// A message that is to be sent now.
#[derive(Clone, Debug)]
pub struct DueAlertMessage {
    pub id: AlertMessageId,
    pub rule: String,
    pub message: AlertMessage,
    pub attempts: u32,
    pub created_at: Timestamp,
    pub channel: StoredAlertChannel,
}

/// A database table of named definitions: alert rules or alert channels.
struct DefinitionTable {
    table: &'static str,
    most: usize,
}

const RULES: DefinitionTable = DefinitionTable {
    table: "alert_rule",
    most: ALERT_RULES_MAX,
};

const CHANNELS: DefinitionTable = DefinitionTable {
    table: "alert_channel",
    most: ALERT_CHANNELS_MAX,
};

const RULE: &str = "SELECT id, name, definition, told_at, created_at, updated_at FROM alert_rule";

const ALERTS: &str = "SELECT object, detail, firing_since, told, over FROM alert WHERE rule_id = ?1 \
     ORDER BY firing_since, object";

const CHANNEL: &str = "SELECT id, name, definition, sent_at, failed_at, error, created_at, updated_at \
     FROM alert_channel";

const MESSAGE: &str = "SELECT alert_message.id, rule, subject, body, firing, state, attempts, \
     alert_message.created_at, next_attempt_at, alert_message.sent_at, alert_message.error, name \
     FROM alert_message JOIN alert_channel ON alert_channel.id = channel_id";

/// Selects the messages that are due. Messages of one rule to one channel are sent in order, each at least
/// `ALERT_MESSAGE_INTERVAL` after the previous one.
const DUE: &str = "SELECT id, rule, subject, body, firing, attempts, channel_id, created_at FROM alert_message AS due \
     WHERE state = 'Pending' AND next_attempt_at <= ?1 AND NOT EXISTS (SELECT 1 FROM alert_message AS other \
         WHERE other.channel_id = due.channel_id AND other.rule = due.rule \
         AND (other.state = 'Pending' AND other.id < due.id OR other.sent_at > ?2 AND other.sent_at <= ?1)) \
     ORDER BY id LIMIT ?3";

impl Alerts {
    /// Stores a rule. Current alerts of the rule are kept and evaluated again.
    pub async fn put_rule(
        &self,
        name: AlertRuleName,
        rule: AlertRule,
        by: Caller,
    ) -> Result<PutOutcome, StoreError> {
        self.db
            .write_audited(move |tx| {
                let text = resource::alert_rule_to_text(&rule);
                let before = one_rule(tx, &name)?.map(|before| before.rule);
                let outcome = RULES.put(tx, name.as_str(), by.at, |_| text)?;
                let target = TargetKind::AlertRule.named(&name);
                let entry = entry(&by, target, name.as_str(), before.as_ref(), Some(&rule));
                Ok((outcome, entry.filter(|_| outcome != PutOutcome::TooMany)))
            })
            .await
    }

    /// Deletes a rule and its current alerts. Returns whether the rule existed.
    pub async fn delete_rule(&self, name: AlertRuleName, by: Caller) -> Result<bool, StoreError> {
        self.db
            .write_audited(move |tx| {
                let before = one_rule(tx, &name)?.map(|before| before.rule);
                RULES.delete(tx, name.as_str())?;
                let target = TargetKind::AlertRule.named(&name);
                let entry = entry(&by, target, name.as_str(), before.as_ref(), None);
                Ok((before.is_some(), entry))
            })
            .await
    }

    pub async fn put_channel(
        &self,
        name: AlertChannelName,
        channel: AlertChannel,
        by: Caller,
    ) -> Result<PutOutcome, StoreError> {
        let encryption = self.encryption.clone();
        self.db
            .write_audited(move |tx| {
                let text = resource::alert_channel_to_text(&channel);
                let encrypted = |id| encryption.encrypt(ALERT_CHANNEL, id, &text);
                let before = one_channel(tx, &encryption, &name)?.map(|before| before.channel);
                let outcome = CHANNELS.put(tx, name.as_str(), by.at, encrypted)?;
                let target = TargetKind::AlertChannel.named(&name);
                let entry = entry(&by, target, name.as_str(), before.as_ref(), Some(&channel));
                Ok((outcome, entry.filter(|_| outcome != PutOutcome::TooMany)))
            })
            .await
    }

    /// Deletes a channel and its messages. Returns whether the channel existed.
    pub async fn delete_channel(
        &self,
        name: AlertChannelName,
        by: Caller,
    ) -> Result<bool, StoreError> {
        let encryption = self.encryption.clone();
        self.db
            .write_audited(move |tx| {
                let before = one_channel(tx, &encryption, &name)?.map(|before| before.channel);
                CHANNELS.delete(tx, name.as_str())?;
                let target = TargetKind::AlertChannel.named(&name);
                let entry = entry(&by, target, name.as_str(), before.as_ref(), None);
                Ok((before.is_some(), entry))
            })
            .await
    }

    /// Replaces the current alerts of a rule, and stores `message` for every channel. Does nothing if the rule was
    /// changed or deleted after `rule` was read.
    pub async fn record(
        &self,
        rule: StoredAlertRule,
        alerts: Vec<Alert>,
        message: Option<AlertMessage>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                let same = "SELECT 1 FROM alert_rule WHERE id = ?1 AND updated_at = ?2";
                if !tx.is_any(same, params![rule.id, rule.updated_at])? {
                    return Ok(());
                }
                store_alerts(tx, rule.id, &alerts)?;
                if let Some(message) = message {
                    store_message(tx, &rule, &message, now)?;
                }
                Ok(())
            })
            .await
    }

    /// Returns the messages that are due at `now`.
    pub async fn due(&self, now: Timestamp) -> Result<Vec<DueAlertMessage>, StoreError> {
        let encryption = self.encryption.clone();
        self.db
            .read(move |tx| {
                let quiet_since = now - ALERT_MESSAGE_INTERVAL;
                let values = params![now, quiet_since, ALERT_MESSAGES_AT_ONCE_MAX];
                tx.readable(DUE, values, |row| {
                    let find = format!("{CHANNEL} WHERE id = ?1");
                    let id: AlertChannelId = row.get(6)?;
                    Ok(DueAlertMessage {
                        id: row.get(0)?,
                        rule: row.get(1)?,
                        message: message(row, 2)?,
                        attempts: row.get(5)?,
                        created_at: row.get(7)?,
                        channel: tx.one(&find, [id], |row| channel(row, &encryption))?,
                    })
                })
            })
            .await
    }

    /// Stores the result of sending a message, or of a test of the channel if `message` is `None`.
    pub async fn record_sent(
        &self,
        channel: AlertChannelId,
        message: Option<(AlertMessageId, u32)>,
        sent: AlertSent,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let error = sent.err();
        self.db
            .write(move |tx| {
                let sent_at = error.is_none().then_some(now);
                let failed_at = error.is_some().then_some(now);
                let of_channel = "UPDATE alert_channel SET sent_at = coalesce(?2, sent_at), \
                     failed_at = coalesce(?3, failed_at), error = coalesce(?4, error) WHERE id = ?1";
                tx.run(of_channel, params![channel, sent_at, failed_at, error])?;
                let Some((id, attempts)) = message else {
                    return Ok(());
                };
                let next = error.as_ref().and_then(|_| next_attempt(attempts, now));
                let state = match (&error, next) {
                    (None, _) => AlertMessageState::Sent,
                    (Some(_), Some(_)) => AlertMessageState::Pending,
                    (Some(_), None) => AlertMessageState::Failed,
                };
                let update = "UPDATE alert_message SET state = ?2, attempts = ?3, next_attempt_at = ?4, \
                     sent_at = ?5, error = ?6 WHERE id = ?1";
                tx.run(update, params![id, state, attempts, next, sent_at, error])?;
                Ok(())
            })
            .await
    }
}

impl Views {
    /// Returns all alert rules, sorted by name.
    pub async fn alert_rules(&self) -> Result<Vec<StoredAlertRule>, StoreError> {
        self.db
            .read(|tx| {
                let mut rules = tx.readable(&format!("{RULE} ORDER BY name"), [], rule)?;
                for each in &mut rules {
                    each.alerts = tx.all(ALERTS, [each.id], alert)?;
                }
                Ok(rules)
            })
            .await
    }

    /// Returns all alert channels, sorted by name.
    pub async fn alert_channels(&self) -> Result<Vec<StoredAlertChannel>, StoreError> {
        let encryption = self.ledger.encryption.clone();
        self.db
            .read(move |tx| {
                let all = format!("{CHANNEL} ORDER BY name");
                tx.readable(&all, [], |row| channel(row, &encryption))
            })
            .await
    }

    /// Returns messages to alert channels, newest first.
    pub async fn alert_messages(
        &self,
        before: Option<AlertMessageId>,
        limit: usize,
    ) -> Result<PageOf<StoredAlertMessage, AlertMessageId>, StoreError> {
        let bounded_limit = limit.clamp(1, PAGE_ROWS_MAX);
        let below = before.map_or(i64::MAX, |id| id.0);
        self.db
            .read(move |tx| {
                let select = format!(
                    "{MESSAGE} WHERE alert_message.id < ?1 ORDER BY alert_message.id DESC LIMIT ?2"
                );
                let rows = tx.all(&select, params![below, bounded_limit + 1], stored_message)?;
                Ok(PageOf::of(rows, bounded_limit, |row| row.id))
            })
            .await
    }

    /// Returns the publish time of the oldest pending delivery of each event subscription. The time is an estimate from
    /// a few deliveries at each end of the queue.
    pub async fn oldest_pending(&self) -> Result<Vec<(SubscriptionId, Timestamp)>, StoreError> {
        let end = |order| {
            format!(
                "SELECT min(published_at) FROM (SELECT published_at FROM delivery \
                 WHERE delivery.subscription_id = subscription_total.subscription_id AND state = 'Pending' \
                 ORDER BY next_attempt_at {order}, id {order} LIMIT ?1)"
            )
        };
        let (first, last) = (end("ASC"), end("DESC"));
        self.db
            .read(move |tx| {
                let oldest = format!(
                    "SELECT subscription_id, ({first}), ({last}) FROM subscription_total WHERE pending > 0"
                );
                let found = tx.all(&oldest, [LOOKED_AT], |row| {
                    let id = row.get(0)?;
                    let ends: [Option<Timestamp>; 2] = [row.get(1)?, row.get(2)?];
                    let oldest = ends.into_iter().flatten().min();
                    Ok(oldest.map(|at| (id, at)))
                })?;
                Ok(found.into_iter().flatten().collect())
            })
            .await
    }

    /// Counts the deliveries of each event subscription that were dead-lettered since `from`. The counts come from
    /// roll-ups of a minute or an hour; a roll-up that starts before `from` is not counted. Subscriptions without such
    /// deliveries are left out.
    pub async fn dead_lettered_since(
        &self,
        from: Timestamp,
    ) -> Result<Vec<(SubscriptionId, u64)>, StoreError> {
        self.db
            .read(move |tx| {
                let count = "SELECT subscription_id, sum(dead_lettered) AS found FROM subscription_rollup \
                     WHERE start_at >= ?1 GROUP BY subscription_id HAVING found > 0";
                tx.all(count, [from], |row| Ok((row.get(0)?, row.get(1)?)))
            })
            .await
    }
}

impl DefinitionTable {
    fn put(
        &self,
        tx: &Connection,
        name: &str,
        now: Timestamp,
        definition: impl FnOnce(i64) -> String,
    ) -> Result<PutOutcome, StoreError> {
        let Self { table, most } = self;
        let find = format!("SELECT id FROM {table} WHERE name = ?1");
        let (id, outcome) = match tx.find(&find, [name])? {
            Some(id) => (id, PutOutcome::Replaced),
            None => {
                if tx.value::<usize>(&format!("SELECT count(*) FROM {table}"), [])? >= *most {
                    return Ok(PutOutcome::TooMany);
                }
                let insert = format!(
                    "INSERT INTO {table} (name, definition, created_at, updated_at) VALUES (?1, '', ?2, ?2)"
                );
                tx.run(&insert, params![name, now])?;
                (tx.last_insert_rowid(), PutOutcome::Created)
            }
        };
        let update = format!("UPDATE {table} SET definition = ?2, updated_at = ?3 WHERE id = ?1");
        tx.run(&update, params![id, definition(id), now])?;
        Ok(outcome)
    }

    fn delete(&self, tx: &Connection, name: &str) -> Result<(), StoreError> {
        let delete = format!("DELETE FROM {} WHERE name = ?1", self.table);
        tx.run(&delete, [name])?;
        Ok(())
    }
}

/// Returns the audit entry for a definition that was created, updated or deleted; `None` if nothing was deleted.
fn entry<D: serde::Serialize>(
    by: &Caller,
    target: AuditTarget,
    name: &str,
    before: Option<&D>,
    after: Option<&D>,
) -> Option<AuditEntry> {
    let rendered = |each: Option<&D>| each.map(|it| resource::render_alert_definition(name, it));
    let changes = changes(rendered(before).as_ref(), rendered(after).as_ref());
    let action = match (before, after) {
        (None, None) => return None,
        (None, Some(_)) => AuditAction::Create { changes },
        (Some(_), Some(_)) => AuditAction::Update { changes },
        (Some(_), None) => AuditAction::Delete { changes },
    };
    Some(by.did(action, target))
}

fn one_rule(tx: &Connection, name: &AlertRuleName) -> Result<Option<StoredAlertRule>, StoreError> {
    tx.first(&format!("{RULE} WHERE name = ?1"), [name.as_str()], rule)
}

fn one_channel(
    tx: &Connection,
    encryption: &Encryption,
    name: &AlertChannelName,
) -> Result<Option<StoredAlertChannel>, StoreError> {
    let find = format!("{CHANNEL} WHERE name = ?1");
    tx.first(&find, [name.as_str()], |row| channel(row, encryption))
}

fn store_alerts(tx: &Connection, rule: AlertRuleId, alerts: &[Alert]) -> Result<(), StoreError> {
    tx.run("DELETE FROM alert WHERE rule_id = ?1", [rule])?;
    for each in alerts {
        let insert = "INSERT INTO alert (rule_id, object, detail, firing_since, told, over) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let values = params![
            rule,
            each.object,
            each.detail,
            each.since,
            each.is_told,
            each.is_over
        ];
        tx.run(insert, values)?;
    }
    Ok(())
}

/// Stores a message of a rule to every channel, and deletes the oldest messages beyond `ALERT_MESSAGES_KEPT`.
fn store_message(
    tx: &Connection,
    rule: &StoredAlertRule,
    message: &AlertMessage,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.run(
        "UPDATE alert_rule SET told_at = ?2 WHERE id = ?1",
        params![rule.id, now],
    )?;
    let insert = "INSERT INTO alert_message (channel_id, rule, subject, body, firing, state, created_at, \
         next_attempt_at) SELECT id, ?1, ?2, ?3, ?4, 'Pending', ?5, ?5 FROM alert_channel ORDER BY id";
    let values = params![
        rule.name.as_str(),
        message.subject,
        message.text,
        message.is_firing,
        now
    ];
    tx.run(insert, values)?;
    let excess = "DELETE FROM alert_message WHERE id <= \
         (SELECT id FROM alert_message ORDER BY id DESC LIMIT 1 OFFSET ?1)";
    tx.run(excess, [ALERT_MESSAGES_KEPT])?;
    Ok(())
}

/// Reads an alert rule from a row, without its alerts.
fn rule(row: &Row<'_>) -> Result<StoredAlertRule, StoreError> {
    let wrong = |error: &dyn std::fmt::Display| unreadable("alert rule", error);
    let (name, definition): (String, String) = (row.get(1)?, row.get(2)?);
    Ok(StoredAlertRule {
        id: row.get(0)?,
        name: AlertRuleName::parse(&name).map_err(|error| wrong(&error))?,
        rule: resource::alert_rule_from_text(&definition).map_err(|error| wrong(&error))?,
        alerts: Vec::new(),
        told_at: row.get(3)?,
        created_at: row.get(4)?,
        updated_at: row.get(5)?,
    })
}

fn alert(row: &Row<'_>) -> Result<Alert, StoreError> {
    Ok(Alert {
        object: row.get(0)?,
        detail: row.get(1)?,
        since: row.get(2)?,
        is_told: row.get(3)?,
        is_over: row.get(4)?,
    })
}

fn channel(row: &Row<'_>, encryption: &Encryption) -> Result<StoredAlertChannel, StoreError> {
    let wrong = |error: &dyn std::fmt::Display| unreadable("alert channel", error);
    let id: AlertChannelId = row.get(0)?;
    let (name, encrypted): (String, String) = (row.get(1)?, row.get(2)?);
    let definition = encryption.open(ALERT_CHANNEL, id.0, &encrypted)?;
    Ok(StoredAlertChannel {
        id,
        name: AlertChannelName::parse(&name).map_err(|error| wrong(&error))?,
        channel: resource::alert_channel_from_text(&definition).map_err(|error| wrong(&error))?,
        sent_at: row.get(3)?,
        failed_at: row.get(4)?,
        error: row.get(5)?,
        created_at: row.get(6)?,
        updated_at: row.get(7)?,
    })
}

/// Reads a message from three columns, the first of which is at `index`.
fn message(row: &Row<'_>, index: usize) -> Result<AlertMessage, StoreError> {
    Ok(AlertMessage {
        subject: row.get(index)?,
        text: row.get(index + 1)?,
        is_firing: row.get(index + 2)?,
    })
}

fn stored_message(row: &Row<'_>) -> Result<StoredAlertMessage, StoreError> {
    Ok(StoredAlertMessage {
        id: row.get(0)?,
        rule: row.get(1)?,
        message: message(row, 2)?,
        state: row.get(5)?,
        attempts: row.get(6)?,
        created_at: row.get(7)?,
        next_attempt_at: row.get(8)?,
        sent_at: row.get(9)?,
        error: row.get(10)?,
        channel: row.get(11)?,
    })
}
