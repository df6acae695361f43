//! Notices of new dead letters, and of replay jobs that have ended. The content of a notice is known only inside the
//! change that causes it, so this change leaves a mark. The notice is made from the mark later, and is stored in the
//! transaction that clears the mark.
//!
//! Marks are made only while the built-in topic has a subscription.

use std::time::Duration;

use rusqlite::{Connection, Row, params};

use crate::base::Timestamp;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::notice::{DeadLettersAdded, Notice, ReplayFinished, Subscribed};
use crate::model::replay::ReplayJobId;
use crate::model::subscription::SubscriptionId;
use crate::model::system_topic::SystemTopic;
use crate::store::engine::encryption::Encryption;
use crate::store::error::StoreError;
use crate::store::replay;
use crate::store::row::unreadable;
use crate::store::sql::Sql;

/// The mark that a notice is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeMark {
    /// A number of dead letters of one subscription with the same reason, and the time of the last one.
    DeadLetters {
        subscription: SubscriptionId,
        reason: DeadLetterReason,
        count: u64,
        last_at: Timestamp,
        /// The time before which no other notice for this subscription and reason is made.
        quiet_until: Timestamp,
    },
    ReplayJob(ReplayJobId),
}

/// A notice to publish, and the mark to clear in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwedNotice {
    pub notice: Notice,
    pub mark: NoticeMark,
}

const DEAD_LETTERS: &str = "SELECT topic.name, event_subscription.name, reason, dead_letters, first_at, \
         last_at, last_delivery_id, subscription_id \
     FROM dead_letter_notice JOIN event_subscription ON event_subscription.id = subscription_id \
     JOIN topic ON topic.id = topic_id WHERE dead_letters > 0 AND quiet_until <= ?1 LIMIT ?2";

/// Returns the SQL condition that the built-in topic has a subscription.
pub(in crate::store) fn is_subscribed() -> String {
    let topic = SystemTopic::Everpost.id();
    format!(
        "EXISTS (SELECT 1 FROM event_subscription WHERE topic_id = {topic} AND deleted_at IS NULL)"
    )
}

pub(super) fn owed(
    tx: &Connection,
    encryption: &Encryption,
    now: Timestamp,
    quiet: Duration,
    limit: usize,
) -> Result<Vec<OwedNotice>, StoreError> {
    let read = |row: &Row<'_>| dead_letters(row, now + quiet);
    let mut owed = tx.readable(DEAD_LETTERS, params![now, limit], read)?;
    for job in replay::jobs(tx, encryption, "WHERE notice_owed = 1 LIMIT ?1", [limit])? {
        owed.push(OwedNotice {
            mark: NoticeMark::ReplayJob(job.id),
            notice: Notice::ReplayFinished(ReplayFinished {
                job: job.id,
                state: job.state,
                total: job.request.total,
                progress: job.progress,
            }),
        });
    }
    Ok(owed)
}

fn dead_letters(row: &Row<'_>, quiet_until: Timestamp) -> Result<OwedNotice, StoreError> {
    let (topic, name): (String, String) = (row.get(0)?, row.get(1)?);
    let added = DeadLettersAdded {
        of: Subscribed {
            topic: TopicName::parse(&topic).map_err(|error| unreadable("topic", error))?,
            name: SubscriptionName::parse(&name)
                .map_err(|error| unreadable("event subscription", error))?,
        },
        reason: row.get(2)?,
        count: row.get(3)?,
        first_at: row.get(4)?,
        last_at: row.get(5)?,
        last_delivery: row.get(6)?,
    };
    Ok(OwedNotice {
        mark: NoticeMark::DeadLetters {
            subscription: row.get(7)?,
            reason: added.reason,
            count: added.count,
            last_at: added.last_at,
            quiet_until,
        },
        notice: Notice::DeadLettersAdded(added),
    })
}

const IS_OWED: &str = "SELECT 1 FROM dead_letter_notice \
     WHERE subscription_id = ?1 AND reason = ?2 AND dead_letters >= ?3";
// Dead letters that were added after the notice was made stay counted for the next notice.
const NOTIFIED: &str = "UPDATE dead_letter_notice SET dead_letters = dead_letters - ?3, \
     first_at = ?4, quiet_until = ?5 WHERE subscription_id = ?1 AND reason = ?2";

/// Clears marks. Returns `false` and clears none if one of the marks is already cleared.
pub(super) fn mark_notified(tx: &Connection, marks: &[NoticeMark]) -> Result<bool, StoreError> {
    for mark in marks {
        let is_owed = match mark {
            NoticeMark::DeadLetters {
                subscription,
                reason,
                count,
                ..
            } => tx.is_any(IS_OWED, params![subscription, reason, count])?,
            NoticeMark::ReplayJob(job) => {
                let owed = "SELECT 1 FROM replay_job WHERE id = ?1 AND notice_owed = 1";
                tx.is_any(owed, [job])?
            }
        };
        if !is_owed {
            return Ok(false);
        }
    }
    for mark in marks {
        match mark {
            NoticeMark::DeadLetters {
                subscription,
                reason,
                count,
                last_at,
                quiet_until,
            } => {
                let values = params![subscription, reason, count, last_at, quiet_until];
                tx.run(NOTIFIED, values)?
            }
            NoticeMark::ReplayJob(job) => {
                tx.run("UPDATE replay_job SET notice_owed = 0 WHERE id = ?1", [job])?
            }
        };
    }
    Ok(true)
}

/// Deletes marks that are not needed any more. Deletes all marks while the built-in topic has no subscription.
pub(super) fn tidy(tx: &Connection, now: Timestamp) -> Result<(), StoreError> {
    let is_subscribed = is_subscribed();
    let delete = format!(
        "DELETE FROM dead_letter_notice \
         WHERE (dead_letters = 0 AND quiet_until <= ?1) OR NOT {is_subscribed}"
    );
    tx.run(&delete, [now])?;
    let clear = format!(
        "UPDATE replay_job SET notice_owed = 0 WHERE notice_owed = 1 AND NOT {is_subscribed}"
    );
    tx.run(&clear, [])?;
    Ok(())
}
