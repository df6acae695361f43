//! Searches for dead letters, newest delivery first.

use rusqlite::{Connection, Row, ToSql};

use crate::base::Timestamp;
use crate::base::named::named_enum;
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::DeliveryId;
use crate::model::subscription::SubscriptionId;
use crate::store::error::StoreError;
use crate::store::ledger::counters::DAY_MS;
use crate::store::sql::{Sql, as_json};
use crate::store::views::dead_letter_filter::{OF_ABOUT, OF_DELIVERY, values};
use crate::store::views::event_filter::OF_TEXT;
use crate::store::views::{DeliveryRow, PAGE_ROWS_MAX, PageOf, Views, deliveries};

/// The maximum number of dead letters that a search looks at, if an index has all columns.
const SEARCH_MAX: i64 = 100_000;

/// The maximum number of dead letters that a search looks at, if it reads the data of their events.
const SEARCH_DATA_MAX: i64 = 2_000;

/// The maximum number of ids that a query returns.
pub const NUMBERS_MAX: usize = 5_000;

/// The maximum number of groups that a query returns. The largest groups are returned.
const GROUPS_MAX: i64 = 50;

/// A query for a page of dead letters.
#[derive(Clone, Debug, Default)]
pub struct DeadLetterQuery {
    pub filter: DeadLetterFilter,
    /// Only deliveries older than this one.
    pub before: Option<DeliveryId>,
    pub limit: usize,
}

named_enum! {
    /// The property by which dead letters are grouped. The names are used in URLs.
    pub enum GroupBy {
        /// The source of their events, or the topic for events without a source.
        Source = "source",
        /// Azure's reason, or the receiver's own.
        Reason = "reason",
        EventType = "type",
        /// The day of dead-lettering, in UTC.
        Day = "day",
    }
}

impl GroupBy {
    fn key(self) -> String {
        match self {
            Self::Source => "coalesce(delivery.event_source, '')".to_owned(),
            Self::Reason => {
                "coalesce(delivery.receiver_reason, delivery.dead_letter_reason)".to_owned()
            }
            Self::EventType => "coalesce(delivery.event_type, '')".to_owned(),
            Self::Day => format!("CAST(delivery.ended_at - delivery.ended_at % {DAY_MS} AS TEXT)"),
        }
    }
}

/// A group of dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupedDeadLetters {
    pub key: String,
    pub dead_letters: u64,
    /// The times at which the first and the last dead letter of the group were dead-lettered: `from` and `to`.
    pub from: Timestamp,
    pub to: Timestamp,
}

/// Groups, largest first.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    pub groups: Vec<GroupedDeadLetters>,
    /// Is true if the search stopped at its limit and did not look at older dead letters.
    pub is_partial: bool,
}

/// The number of dead letters of a subscription with one reason on one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterGroup {
    pub subscription: SubscriptionId,
    pub reason: String,
    /// The beginning of the day.
    pub day: Timestamp,
    pub dead_letters: u64,
}

impl Views {
    /// Searches for dead letters. A search looks at a bounded number of dead letters. If the page is not full and
    /// `next_before` is set, there may be more.
    pub async fn dead_letters(
        &self,
        query: DeadLetterQuery,
    ) -> Result<PageOf<DeliveryRow, DeliveryId>, StoreError> {
        let query = DeadLetterQuery {
            limit: query.limit.clamp(1, PAGE_ROWS_MAX),
            ..query
        };
        self.db
            .read(move |tx| {
                let numbers = numbers(tx, &query)?;
                let these = "WHERE delivery.id IN (SELECT value FROM json_each(?1)) \
                     ORDER BY delivery.id DESC";
                let rows = deliveries(tx, these, [as_json(numbers.rows.iter().map(|id| id.0))])?;
                let next_before = numbers.next_before;
                Ok(PageOf { rows, next_before })
            })
            .await
    }

    /// Like [`Views::dead_letters`], but returns only ids, up to [`NUMBERS_MAX`].
    pub async fn dead_letter_numbers(
        &self,
        query: DeadLetterQuery,
    ) -> Result<PageOf<DeliveryId, DeliveryId>, StoreError> {
        let query = DeadLetterQuery {
            limit: query.limit.clamp(1, NUMBERS_MAX),
            ..query
        };
        self.db.read(move |tx| numbers(tx, &query)).await
    }

    /// Counts dead letters exactly, in a sequence of short queries.
    pub async fn count_dead_letters(&self, filter: DeadLetterFilter) -> Result<u64, StoreError> {
        let mut query = DeadLetterQuery {
            filter,
            before: None,
            limit: NUMBERS_MAX,
        };
        let mut count = 0;
        loop {
            let page = self.dead_letter_numbers(query.clone()).await?;
            count += page.rows.len() as u64;
            match page.next_before {
                Some(next) => query.before = Some(next),
                None => return Ok(count),
            }
        }
    }

    /// Groups the newest dead letters, up to the number that a search looks at.
    pub async fn group_dead_letters(
        &self,
        filter: DeadLetterFilter,
        by: GroupBy,
    ) -> Result<Groups, StoreError> {
        self.db.read(move |tx| groups(tx, &filter, by)).await
    }

    /// Returns the groups of dead letters in all dead-letter queues, newest day first.
    pub async fn dead_letter_groups(&self) -> Result<Vec<DeadLetterGroup>, StoreError> {
        // Counts dead letters in a transfer queue for the subscription that owns the queue.
        let all = "SELECT abs(subscription_id), reason, day_at, dead_letters FROM dead_letter_total \
             WHERE dead_letters > 0 ORDER BY day_at DESC, dead_letters DESC";
        let group = |row: &Row<'_>| {
            Ok(DeadLetterGroup {
                subscription: row.get(0)?,
                reason: row.get(1)?,
                day: row.get(2)?,
                dead_letters: row.get(3)?,
            })
        };
        self.db.read(move |tx| tx.all(all, [], group)).await
    }
}

fn numbers(
    tx: &Connection,
    query: &DeadLetterQuery,
) -> Result<PageOf<DeliveryId, DeliveryId>, StoreError> {
    let before = query.before;
    let newest = before.map_or(i64::MAX, |before| before.0.saturating_sub(1));
    let filter = &query.filter;
    let (looked_at, which) = (looked_at(filter), which(filter));
    let select = format!("SELECT delivery.id {which} ORDER BY delivery.id DESC LIMIT :limit");
    let filter_values = values(filter);
    let bounds: [(&str, &dyn ToSql); 3] = [
        (":newest", &newest),
        (":looked_at", &looked_at),
        (":limit", &query.limit),
    ];
    let values = filter_values.in_sql(&select, &bounds);
    let rows = tx.all(&select, values.as_slice(), |row| Ok(row.get(0)?))?;
    let next_before = match rows.last() {
        Some(last) if rows.len() == query.limit => Some(*last),
        _ => end_of_search(tx, filter, newest, looked_at)?,
    };
    Ok(PageOf { rows, next_before })
}

/// Returns the maximum number of dead letters that a search looks at.
fn looked_at(filter: &DeadLetterFilter) -> i64 {
    match filter.text {
        Some(_) => SEARCH_DATA_MAX,
        None => SEARCH_MAX,
    }
}

/// Returns the FROM and WHERE clauses for the matching dead letters among those that a search looks at.
fn which(filter: &DeadLetterFilter) -> String {
    let candidates = candidates(filter);
    let of_delivery = format!("{OF_DELIVERY} AND {OF_ABOUT}");
    match filter.text {
        Some(_) => format!(
            "FROM ({candidates}) AS delivery JOIN event ON event.id = delivery.event_id \
             WHERE {of_delivery} AND {OF_TEXT}"
        ),
        None => format!("FROM ({candidates}) AS delivery WHERE {of_delivery}"),
    }
}

/// Returns the query for the dead letters that a search looks at. It reads an index that has all columns.
fn candidates(filter: &DeadLetterFilter) -> &'static str {
    match filter.subscription {
        Some(_) => {
            "SELECT id, subscription_id, event_id, dead_letter_reason, receiver_reason, \
             last_outcome, last_status, ended_at, event_type, event_source, event_subject \
             FROM delivery INDEXED BY delivery_dead_subscription \
             WHERE state = 'DeadLettered' AND subscription_id = :subscription AND id <= :newest \
             ORDER BY id DESC LIMIT :looked_at"
        }
        None => {
            "SELECT id, subscription_id, event_id, dead_letter_reason, receiver_reason, \
             last_outcome, last_status, ended_at, event_type, event_source, event_subject \
             FROM delivery INDEXED BY delivery_dead \
             WHERE state = 'DeadLettered' AND id <= :newest ORDER BY id DESC LIMIT :looked_at"
        }
    }
}

/// Returns the dead letter at which a search stopped before its page was full, or `None` if it has reached the oldest
/// dead letter.
fn end_of_search(
    tx: &Connection,
    filter: &DeadLetterFilter,
    newest: i64,
    looked_at: i64,
) -> Result<Option<DeliveryId>, StoreError> {
    let last = format!(
        "SELECT id FROM ({}) LIMIT 1 OFFSET :looked_at - 1",
        candidates(filter)
    );
    let mut values: Vec<(&str, &dyn ToSql)> =
        vec![(":newest", &newest), (":looked_at", &looked_at)];
    if filter.subscription.is_some() {
        values.push((":subscription", &filter.subscription));
    }
    tx.find(&last, values.as_slice())
}

fn groups(tx: &Connection, filter: &DeadLetterFilter, by: GroupBy) -> Result<Groups, StoreError> {
    let (looked_at, newest) = (looked_at(filter), i64::MAX);
    let select = format!(
        "SELECT {} AS key, count(*), min(delivery.ended_at), max(delivery.ended_at) {} \
         GROUP BY key ORDER BY 2 DESC, 1 LIMIT {GROUPS_MAX}",
        by.key(),
        which(filter)
    );
    let filter_values = values(filter);
    let values = filter_values.in_sql(&select, &[(":newest", &newest), (":looked_at", &looked_at)]);
    let groups = tx.all(&select, values.as_slice(), |row| {
        Ok(GroupedDeadLetters {
            key: row.get(0)?,
            dead_letters: row.get(1)?,
            from: row.get(2)?,
            to: row.get(3)?,
        })
    })?;
    Ok(Groups {
        groups,
        is_partial: end_of_search(tx, filter, newest, looked_at)?.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::{db, migrate};

    #[test]
    fn an_index_alone_tells_which_dead_letters_are_meant() {
        let mut connection = db::open_in_memory().expect("a database");
        migrate::migrate(&mut connection).expect("the present schema");
        for subscription in [None, Some(SubscriptionId(1))] {
            let filter = DeadLetterFilter {
                subscription,
                event_type: Some("Order.*".to_owned()),
                subject: Some("/orders/7".to_owned()),
                reason: Some("Application".to_owned()),
                ..DeadLetterFilter::default()
            };
            for by in GroupBy::ALL {
                let plan = format!(
                    "EXPLAIN QUERY PLAN SELECT {} AS key, count(*) {} GROUP BY key",
                    by.key(),
                    which(&filter)
                );
                let values = values(&filter);
                let bounds: [(&str, &dyn ToSql); 2] =
                    [(":newest", &i64::MAX), (":looked_at", &SEARCH_MAX)];
                let values = values.in_sql(&plan, &bounds);
                let mut plan = connection.prepare(&plan).expect("a plan");
                let steps = plan.query_map(values.as_slice(), |row| row.get::<_, String>(3));
                let steps: Vec<_> = steps.expect("steps").map(Result::unwrap).collect();
                let reads = steps.iter().filter(|step| step.contains(" delivery "));
                let reads: Vec<_> = reads.collect();
                assert!(!reads.is_empty(), "{steps:?}");
                assert!(
                    reads.iter().all(|step| step.contains("COVERING INDEX")),
                    "{steps:?}"
                );
                let of_event = |step: &String| step.contains(" event ");
                assert!(!steps.iter().any(of_event), "{steps:?}");
            }
        }
    }
}
