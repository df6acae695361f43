//! Counts of the last 24 hours for lists of topics and event subscriptions. One query reads the counts for all rows of
//! a list.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use crate::base::Timestamp;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::error::StoreError;
use crate::store::ledger::counters::HOUR_MS;
use crate::store::sql::Sql;
use crate::store::views::Views;

/// The number of hours that lists show.
pub const HOURS: usize = 24;

/// The counts of a topic in the last hours, oldest first. The last hour is the current one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicDay {
    pub published: [u64; HOURS],
    /// The time of the newest event of the topic. It is exact if the event is among the newest events of all topics,
    /// else it is the start of the minute, hour or day of the newest roll-up. `None` if there is neither.
    pub last_event_at: Option<Timestamp>,
}

impl TopicDay {
    /// Returns the sums of the hours of two topics, with the later time of their newest events.
    pub fn plus(self, other: &Self) -> Self {
        Self {
            published: std::array::from_fn(|hour| self.published[hour] + other.published[hour]),
            last_event_at: self.last_event_at.max(other.last_event_at),
        }
    }
}

/// The counts of an event subscription in the last hours, oldest first. The last hour is the current one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionDay {
    pub delivered: [u64; HOURS],
    pub attempts: [u64; HOURS],
}

impl Views {
    /// Returns the counts of each topic in the last hours.
    pub async fn topic_days(
        &self,
        now: Timestamp,
    ) -> Result<HashMap<TopicId, TopicDay>, StoreError> {
        self.db
            .read(move |tx| topic_days(tx, first_hour(now)))
            .await
    }

    /// Returns the time of the newest event of each topic, as in [`TopicDay::last_event_at`].
    pub async fn last_events(&self) -> Result<HashMap<TopicId, Timestamp>, StoreError> {
        let newest = self.db.read(|tx| {
            tx.all(NEWEST, [], |row| {
                Ok((row.get(0)?, row.get::<_, Option<Timestamp>>(1)?))
            })
        });
        let found = newest.await?.into_iter();
        Ok(found.filter_map(|(id, at)| Some((id, at?))).collect())
    }

    /// Returns the counts of event subscriptions in the last hours, of all or of those of one topic. Subscriptions
    /// without any counts are left out.
    pub async fn subscription_days(
        &self,
        of: Option<TopicId>,
        now: Timestamp,
    ) -> Result<HashMap<SubscriptionId, SubscriptionDay>, StoreError> {
        let from = first_hour(now);
        self.db
            .read(move |tx| subscription_days(tx, of, from))
            .await
    }
}

/// Returns the start of the first hour that lists show, in milliseconds.
fn first_hour(now: Timestamp) -> i64 {
    let hour = now.as_ms() - now.as_ms().rem_euclid(HOUR_MS);
    hour - (HOURS as i64 - 1) * HOUR_MS
}

/// Selects the time of the newest event of each topic. Both tables are searched by key: a few hundred of the newest
/// events of all topics are read in a millisecond, and the roll-ups of a topic are adjacent and in the order of time.
const NEWEST: &str = "WITH recent AS MATERIALIZED (SELECT topic_id, max(received_at) AS at \
         FROM (SELECT topic_id, received_at FROM event ORDER BY id DESC LIMIT 200) GROUP BY 1) \
     SELECT id, coalesce(recent.at, (SELECT max(start_at) FROM topic_rollup WHERE topic_id = topic.id)) \
     FROM topic LEFT JOIN recent ON recent.topic_id = topic.id WHERE deleted_at IS NULL";
const PUBLISHED: &str = "SELECT topic.id, (start_at - ?1) / ?2, sum(published) \
     FROM topic CROSS JOIN topic_rollup ON topic_id = topic.id AND start_at >= ?1 \
     WHERE deleted_at IS NULL GROUP BY 1, 2";
const ATTEMPTED: &str = "SELECT event_subscription.id, (start_at - ?1) / ?2, sum(delivered), sum(attempts) \
     FROM event_subscription CROSS JOIN subscription_rollup \
         ON subscription_id = event_subscription.id AND start_at >= ?1 \
     WHERE deleted_at IS NULL AND (?3 IS NULL OR topic_id = ?3) GROUP BY 1, 2";

fn topic_days(tx: &Connection, from: i64) -> Result<HashMap<TopicId, TopicDay>, StoreError> {
    let mut days: HashMap<TopicId, TopicDay> = HashMap::new();
    tx.all(NEWEST, [], |row| {
        days.entry(row.get(0)?).or_default().last_event_at = row.get(1)?;
        Ok(())
    })?;
    tx.all(PUBLISHED, [from, HOUR_MS], |row| {
        let day = days.entry(row.get(0)?).or_default();
        if let Some(hour) = day.published.get_mut(index(row.get(1)?)) {
            *hour = row.get(2)?;
        }
        Ok(())
    })?;
    Ok(days)
}

fn subscription_days(
    tx: &Connection,
    of: Option<TopicId>,
    from: i64,
) -> Result<HashMap<SubscriptionId, SubscriptionDay>, StoreError> {
    let mut days: HashMap<SubscriptionId, SubscriptionDay> = HashMap::new();
    tx.all(ATTEMPTED, params![from, HOUR_MS, of], |row| {
        let day = days.entry(row.get(0)?).or_default();
        let hour = index(row.get(1)?);
        if hour < HOURS {
            day.delivered[hour] = row.get(2)?;
            day.attempts[hour] = row.get(3)?;
        }
        Ok(())
    })?;
    Ok(days)
}

/// Returns the index of an hour. The index of a future hour is past the end. Future hours exist after the clock was set
/// back.
fn index(hour: i64) -> usize {
    usize::try_from(hour).unwrap_or(usize::MAX)
}
