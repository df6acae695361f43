//! The newest attempts of event subscriptions. Attempts are stored with their deliveries, in no order of time,
//! so they are looked for among the deliveries that can have been tried last.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::{Connection, params};

use crate::model::delivery::{DeliveryAttempt, DeliveryId, DeliveryState};
use crate::model::event::EventKey;
use crate::model::subscription::SubscriptionId;
use crate::store::error::StoreError;
use crate::store::row;
use crate::store::sql::Sql;
use crate::store::views::{ATTEMPT_COLUMNS, Views, attempt};

/// The newest deliveries of the appliance that are looked through, of whomever they are.
const NEWEST_MAX: i64 = 20_000;

/// The pending deliveries of a subscription that are looked through: those whose next attempt lies farthest
/// ahead were tried last.
const PENDING_MAX: i64 = 200;

/// One attempt, and what was sent.
#[derive(Clone, Debug)]
pub struct RecentAttempt {
    pub delivery: DeliveryId,
    pub event: EventKey,
    pub event_type: String,
    pub subject: Option<String>,
    pub attempt: DeliveryAttempt,
}

impl Views {
    /// The pending delivery of a subscription that falls due first.
    pub async fn first_pending(
        &self,
        of: SubscriptionId,
    ) -> Result<Option<DeliveryId>, StoreError> {
        let select = "SELECT id FROM delivery WHERE subscription_id = ?1 AND state = 'Pending' \
             ORDER BY next_attempt_at, id LIMIT 1";
        self.db.read(move |tx| tx.find(select, [of])).await
    }

    /// The `limit` newest attempts of each of these subscriptions, newest first, as far as they lie among the
    /// newest deliveries of the appliance, among what is pending or among dead letters. One that has none is
    /// left out.
    pub async fn recent_attempts(
        &self,
        of: Vec<SubscriptionId>,
        limit: usize,
    ) -> Result<HashMap<SubscriptionId, Vec<RecentAttempt>>, StoreError> {
        self.db.read(move |tx| recent(tx, &of, limit)).await
    }
}

fn recent(
    tx: &Connection,
    of: &[SubscriptionId],
    limit: usize,
) -> Result<HashMap<SubscriptionId, Vec<RecentAttempt>>, StoreError> {
    let mut candidates: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    for subscription in of {
        let known = candidates.entry(subscription.0).or_default();
        known.extend(tried_last(tx, *subscription, limit)?);
    }
    add_newest(tx, &mut candidates, limit)?;
    let mut found = HashMap::new();
    for (subscription, deliveries) in candidates {
        let mut attempts = Vec::new();
        for delivery in deliveries {
            attempts.extend(attempts_of(tx, DeliveryId(delivery), limit)?);
        }
        attempts.sort_by_key(|each: &RecentAttempt| {
            std::cmp::Reverse((each.attempt.started_at, each.delivery, each.attempt.attempt))
        });
        attempts.truncate(limit);
        if !attempts.is_empty() {
            found.insert(SubscriptionId(subscription), attempts);
        }
    }
    Ok(found)
}

/// Deliveries of one subscription that are pending after an attempt, or were dead-lettered last.
fn tried_last(tx: &Connection, of: SubscriptionId, limit: usize) -> Result<Vec<i64>, StoreError> {
    let select = "SELECT id FROM (SELECT id, attempts FROM delivery \
         WHERE subscription_id = ?1 AND state = ?2 ORDER BY next_attempt_at DESC LIMIT ?3) \
         WHERE attempts > 0 LIMIT ?4";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut found = Vec::new();
    for state in [DeliveryState::Pending, DeliveryState::DeadLettered] {
        let values = params![of, state, PENDING_MAX, limit];
        found.extend(tx.all(select, values, |row| Ok(row.get::<_, i64>(0)?))?);
    }
    Ok(found)
}

/// Adds to each subscription the newest of its deliveries that have been tried.
fn add_newest(
    tx: &Connection,
    candidates: &mut BTreeMap<i64, BTreeSet<i64>>,
    limit: usize,
) -> Result<(), StoreError> {
    let newest = "SELECT subscription_id, id FROM delivery NOT INDEXED \
         WHERE id > (SELECT max(id) FROM delivery) - ?1 AND attempts > 0 ORDER BY id DESC";
    let mut newest = tx.prepare_cached(newest)?;
    let mut rows = newest.query([NEWEST_MAX])?;
    let mut counts: HashMap<i64, usize> = HashMap::new();
    let mut wanting = candidates.len();
    while wanting > 0
        && let Some(row) = rows.next()?
    {
        let subscription = row.get(0)?;
        let Some(known) = candidates.get_mut(&subscription) else {
            continue;
        };
        let count = counts.entry(subscription).or_default();
        if *count < limit {
            known.insert(row.get(1)?);
            *count += 1;
            wanting -= usize::from(*count == limit);
        }
    }
    Ok(())
}

/// The newest attempts of one delivery.
fn attempts_of(
    tx: &Connection,
    delivery: DeliveryId,
    limit: usize,
) -> Result<Vec<RecentAttempt>, StoreError> {
    let select = format!(
        "SELECT {ATTEMPT_COLUMNS}, event.id, event.event_type, event.subject FROM delivery_attempt \
         JOIN delivery ON delivery.id = delivery_id JOIN event ON event.id = delivery.event_id \
         WHERE delivery_id = ?1 ORDER BY attempt DESC LIMIT ?2"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    tx.all(&select, params![delivery, limit], |row| {
        Ok(RecentAttempt {
            delivery,
            event: row.get(12)?,
            event_type: row::text(row, 13)?,
            subject: row::text_or_null(row, 14)?,
            attempt: attempt(row)?,
        })
    })
}
