//! Notices that are stored in the same transaction as the change that they are about, and dead letters that
//! are still to be notified.

use std::time::Duration;

use rusqlite::{Connection, params};

use crate::base::Timestamp;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::DeliveryId;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::notice::{DeadLettersAdded, Subscribed};
use crate::model::subscription::SubscriptionId;
use crate::model::system_topic::SystemTopic;
use crate::model::topic::TopicId;
use crate::store::engine::db::Db;
use crate::store::error::StoreError;
use crate::store::ledger::append::{AppendRequest, append};
use crate::store::row;

/// Notices that one change makes.
const BATCH: i64 = 100;

/// Notices of dead letters.
#[derive(Clone)]
pub struct Notices {
    pub(in crate::store) db: Db,
}

/// What an [`AppendRequest`] is for, to be used once it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendSummary {
    pub topic: TopicId,
    /// A subscription is listed once for each event that it gets.
    pub targets: Vec<SubscriptionId>,
    pub events: usize,
    /// Events that match no subscription.
    pub unmatched: usize,
}

impl AppendSummary {
    /// The summary of a request.
    pub fn of(accepted: &AppendRequest) -> Self {
        let events = &accepted.events;
        Self {
            topic: accepted.topic,
            targets: events.iter().flat_map(|(_, to)| to).copied().collect(),
            events: events.len(),
            unmatched: events.iter().filter(|(_, to)| to.is_empty()).count(),
        }
    }
}

impl Notices {
    /// Stores a notice for each subscription and reason that has new dead letters, and marks them as notified
    /// in the same transaction; at most one per `quiet` for the same subscription and reason. Returns what
    /// was stored. There may be more if it returns as many as one change makes.
    pub async fn publish_dead_letter_notices(
        &self,
        now: Timestamp,
        quiet: Duration,
        tell: impl Fn(&DeadLettersAdded) -> AppendRequest + Send + 'static,
    ) -> Result<Vec<AppendSummary>, StoreError> {
        let is_any = move |tx: &Connection| {
            let mut any = tx.prepare_cached("SELECT 1 FROM dead_letter_notice WHERE dead_letters > 0 AND quiet_until <= ?1 LIMIT 1")?;
            Ok::<bool, StoreError>(any.exists([now.as_ms()])?)
        };
        if !self.db.read(move |tx| is_any(tx)).await? {
            return Ok(Vec::new()); // as nearly always
        }
        self.db
            .write(move |tx| {
                let due = due(tx, now)?;
                let told = due.iter().map(|(subscription, added)| {
                    let values = params![subscription, added.reason.name(), (now + quiet).as_ms()];
                    tx.prepare_cached(TOLD)?.execute(values)?;
                    store(tx, Some(tell(added)))
                });
                let told: Result<Vec<_>, StoreError> = told.collect();
                Ok(told?.into_iter().flatten().collect())
            })
            .await
    }

    /// Deletes what needs no notice any more, and everything while nobody subscribes.
    pub async fn forget(&self, now: Timestamp) -> Result<(), StoreError> {
        let forget = "DELETE FROM dead_letter_notice \
             WHERE (dead_letters = 0 AND quiet_until <= ?1) OR NOT EXISTS \
                 (SELECT 1 FROM event_subscription WHERE topic_id = ?2 AND deleted_at IS NULL)";
        self.db
            .write(move |tx| {
                let values = params![now.as_ms(), SystemTopic::Everpost.id()];
                tx.prepare_cached(forget)?.execute(values)?;
                Ok(())
            })
            .await
    }
}

/// Stores the notice of the change that this transaction makes.
pub(in crate::store) fn store(
    tx: &Connection,
    told: Option<AppendRequest>,
) -> Result<Option<AppendSummary>, StoreError> {
    let Some(told) = told else {
        return Ok(None);
    };
    let arrival = AppendSummary::of(&told);
    append(tx, told)?;
    Ok(Some(arrival))
}

const TOLD: &str = "UPDATE dead_letter_notice SET dead_letters = 0, quiet_until = ?3 \
     WHERE subscription_id = ?1 AND reason = ?2";

const DUE: &str = "SELECT subscription_id, reason, dead_letters, first_at, last_at, \
     last_delivery_id, topic.name, event_subscription.name FROM dead_letter_notice \
     JOIN event_subscription ON event_subscription.id = subscription_id \
     JOIN topic ON topic.id = topic_id WHERE dead_letters > 0 AND quiet_until <= ?1 LIMIT ?2";

fn due(
    tx: &Connection,
    now: Timestamp,
) -> Result<Vec<(SubscriptionId, DeadLettersAdded)>, StoreError> {
    let mut select = tx.prepare_cached(DUE)?;
    let mut rows = select.query(params![now.as_ms(), BATCH])?;
    let mut due = Vec::new();
    let unreadable = |what: &str| StoreError::Unreadable(format!("a stored {what} is none"));
    while let Some(row) = rows.next()? {
        let reason: String = row.get(1)?;
        let (topic, name): (String, String) = (row.get(6)?, row.get(7)?);
        let added = DeadLettersAdded {
            of: Subscribed {
                topic: TopicName::parse(&topic).map_err(|_| unreadable("name of a topic"))?,
                name: SubscriptionName::parse(&name)
                    .map_err(|_| unreadable("name of a subscription"))?,
            },
            reason: DeadLetterReason::from_name(&reason).ok_or_else(|| unreadable("reason"))?,
            count: row.get::<_, i64>(2)?.unsigned_abs(),
            first_at: row::timestamp(row, 3)?,
            last_at: row::timestamp(row, 4)?,
            last_delivery: DeliveryId(row.get(5)?),
        };
        due.push((SubscriptionId(row.get(0)?), added));
    }
    Ok(due)
}
