//! The last 24 hours of all topics or event subscriptions, which lists show in each row. One query for all
//! rows.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use crate::base::Timestamp;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::error::StoreError;
use crate::store::ledger::counters::HOUR_MS;
use crate::store::sql::Sql;
use crate::store::views::Views;

/// Hours that lists show.
pub const HOURS: usize = 24;

/// The last hours of a topic, oldest first; the last one is the current hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicDay {
    pub published: [u64; HOURS],
    /// When its newest event came: exactly if it is among the newest of all topics, else to the minute, hour or day of
    /// its roll-up. `None` if there is no roll-up of it.
    pub last_event_at: Option<Timestamp>,
}

impl TopicDay {
    /// Returns the hours of both topics together, with the later of their last events.
    pub fn plus(self, other: &Self) -> Self {
        Self {
            published: std::array::from_fn(|hour| self.published[hour] + other.published[hour]),
            last_event_at: self.last_event_at.max(other.last_event_at),
        }
    }
}

/// The last hours of an event subscription, oldest first; the last one is the current hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionDay {
    pub delivered: [u64; HOURS],
    pub attempts: [u64; HOURS],
}

impl Views {
    /// The last hours of each topic.
    pub async fn topic_days(
        &self,
        now: Timestamp,
    ) -> Result<HashMap<TopicId, TopicDay>, StoreError> {
        self.db
            .read(move |tx| topic_days(tx, first_hour(now)))
            .await
    }

    /// When the newest event of each topic came, as in [`TopicDay::last_event_at`].
    pub async fn last_events(&self) -> Result<HashMap<TopicId, Timestamp>, StoreError> {
        let newest = self.db.read(|tx| {
            tx.all(NEWEST, [], |row| {
                Ok((row.get(0)?, row.get::<_, Option<Timestamp>>(1)?))
            })
        });
        let found = newest.await?.into_iter();
        Ok(found.filter_map(|(id, at)| Some((id, at?))).collect())
    }

    /// The last hours of each event subscription, or of those of one topic, without those to which nothing
    /// happened.
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

/// The beginning of the first of the hours.
fn first_hour(now: Timestamp) -> i64 {
    let hour = now.as_ms() - now.as_ms().rem_euclid(HOUR_MS);
    hour - (HOURS as i64 - 1) * HOUR_MS
}

/// Searched by key: the newest events of all topics, of which a few hundred are read in a millisecond; and the roll-ups of
/// a topic, which are adjacent, in the order of time.
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

/// The index of an hour; past the end for a future hour, which a clock that was set back leaves behind.
fn index(hour: i64) -> usize {
    usize::try_from(hour).unwrap_or(usize::MAX)
}
