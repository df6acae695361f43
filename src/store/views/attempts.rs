//! The newest attempts of event subscriptions. Attempts are stored by delivery and not in the order of time, so they
//! are searched for among the deliveries that may have been attempted last.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::{Connection, params};

use crate::model::delivery::{DeliveryAttempt, DeliveryId, DeliveryState, Outcome};
use crate::model::event::EventKey;
use crate::model::subscription::SubscriptionId;
use crate::store::error::StoreError;
use crate::store::row;
use crate::store::sql::{Sql, as_json};
use crate::store::views::{ATTEMPT_COLUMNS, Views, attempt};

/// The maximum number of newest deliveries, of all subscriptions, that a search looks at.
const NEWEST_MAX: i64 = 20_000;

/// The maximum number of pending deliveries, and of dead letters, of a subscription that a search looks at. Deliveries
/// with the latest next attempt are looked at first, because they were attempted last.
const PENDING_MAX: i64 = 200;

/// An attempt with its delivery and event.
#[derive(Clone, Debug)]
pub struct RecentAttempt {
    pub delivery: DeliveryId,
    pub event: EventKey,
    pub event_type: String,
    pub subject: Option<String>,
    pub attempt: DeliveryAttempt,
}

impl Views {
    /// Returns the pending delivery of a subscription that is due first.
    pub async fn first_pending(
        &self,
        of: SubscriptionId,
    ) -> Result<Option<DeliveryId>, StoreError> {
        let select = "SELECT id FROM delivery WHERE subscription_id = ?1 AND state = 'Pending' \
             ORDER BY next_attempt_at, id LIMIT 1";
        self.db.read(move |tx| tx.find(select, [of])).await
    }

    /// Returns the `limit` newest attempts of a subscription, newest first, without headers and bodies of responses.
    /// Only attempts of the newest deliveries of the appliance, of pending deliveries and of dead letters are found.
    pub async fn recent_attempts(
        &self,
        of: SubscriptionId,
        limit: usize,
    ) -> Result<Vec<RecentAttempt>, StoreError> {
        self.db
            .read(move |tx| {
                let newest = newest_attempts(tx, &[of], limit)?.remove(&of);
                told(tx, &newest.unwrap_or_default())
            })
            .await
    }

    /// Returns the outcomes of the attempts that [`Views::recent_attempts`] finds, for each of several subscriptions.
    pub async fn recent_outcomes(
        &self,
        of: Vec<SubscriptionId>,
        limit: usize,
    ) -> Result<HashMap<SubscriptionId, Vec<Outcome>>, StoreError> {
        self.db
            .read(move |tx| {
                let newest = newest_attempts(tx, &of, limit)?.into_iter();
                let outcomes = |attempts: Vec<Attempted>| {
                    attempts.into_iter().map(|each| each.outcome).collect()
                };
                Ok(newest.map(|(id, each)| (id, outcomes(each))).collect())
            })
            .await
    }
}

/// An attempt and its outcome.
struct Attempted {
    delivery: DeliveryId,
    attempt: u32,
    outcome: Outcome,
}

/// Returns the statement that selects the deliveries in `state` that were attempted last, for each subscription. The
/// state is a literal, because SQLite uses a partial index only if the value is part of the statement.
fn select_tried_last(state: DeliveryState) -> String {
    format!(
        "SELECT value, (SELECT json_group_array(id) FROM ( \
             SELECT id FROM (SELECT id, attempts FROM delivery WHERE subscription_id = value \
                 AND state = '{}' ORDER BY next_attempt_at DESC LIMIT ?2) \
             WHERE attempts > 0 LIMIT ?3)) \
         FROM json_each(?1)",
        state.name()
    )
}

const NEWEST_DELIVERIES: &str = "SELECT subscription_id, id FROM delivery NOT INDEXED \
     WHERE id > (SELECT max(id) FROM delivery) - ?1 AND attempts > 0 ORDER BY id DESC";
const NEWEST_ATTEMPTS: &str = "SELECT subscription, delivery_id, attempt, outcome FROM (\
         SELECT tried.key AS subscription, delivery_id, attempt, outcome, row_number() OVER \
             (PARTITION BY tried.key ORDER BY started_at DESC, delivery_id DESC, attempt DESC) AS place \
         FROM json_each(?1) AS tried CROSS JOIN json_each(tried.value) AS candidate \
         CROSS JOIN delivery_attempt ON delivery_id = candidate.value) \
     WHERE place <= ?2 ORDER BY subscription, place";

/// Returns the newest attempts of each subscription. Runs four statements for any number of subscriptions. A
/// subscription without attempts has no entry.
fn newest_attempts(
    tx: &Connection,
    of: &[SubscriptionId],
    limit: usize,
) -> Result<HashMap<SubscriptionId, Vec<Attempted>>, StoreError> {
    let mut candidates = tried_last(tx, of, limit)?;
    add_newest(tx, &mut candidates, limit)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let candidates = serde_json::json!(candidates).to_string();
    let mut newest: HashMap<SubscriptionId, Vec<Attempted>> = HashMap::new();
    tx.all(NEWEST_ATTEMPTS, params![candidates, limit], |row| {
        let subscription: String = row.get(0)?; // the name of a member of a JSON object
        let of = SubscriptionId(subscription.parse().unwrap_or_default());
        newest.entry(of).or_default().push(Attempted {
            delivery: row.get(1)?,
            attempt: row.get(2)?,
            outcome: row.get(3)?,
        });
        Ok(())
    })?;
    Ok(newest)
}

/// Returns the deliveries of each subscription that are pending after an attempt, or were dead-lettered last.
fn tried_last(
    tx: &Connection,
    of: &[SubscriptionId],
    limit: usize,
) -> Result<BTreeMap<i64, BTreeSet<i64>>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let wanted = as_json(of.iter().map(|id| id.0));
    let mut found: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    for state in [DeliveryState::Pending, DeliveryState::DeadLettered] {
        tx.all(
            &select_tried_last(state),
            params![wanted, PENDING_MAX, limit],
            |row| {
                let tried: String = row.get(1)?;
                let tried: Vec<i64> = serde_json::from_str(&tried).unwrap_or_default();
                found.entry(row.get(0)?).or_default().extend(tried);
                Ok(())
            },
        )?;
    }
    Ok(found)
}

/// Adds the newest deliveries with an attempt, at most `limit` for each subscription.
fn add_newest(
    tx: &Connection,
    candidates: &mut BTreeMap<i64, BTreeSet<i64>>,
    limit: usize,
) -> Result<(), StoreError> {
    let mut newest = tx.prepare_cached(NEWEST_DELIVERIES)?;
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

/// Reads attempts with their events, in the order of `of`.
fn told(tx: &Connection, of: &[Attempted]) -> Result<Vec<RecentAttempt>, StoreError> {
    let columns = ATTEMPT_COLUMNS.replace("response_headers, response_body", "NULL, NULL");
    let select = format!(
        "SELECT {columns}, event.id, event.event_type, event.subject, delivery_id \
         FROM json_each(?1) AS wanted CROSS JOIN delivery_attempt \
             ON delivery_id = wanted.value ->> 0 AND attempt = wanted.value ->> 1 \
         JOIN delivery ON delivery.id = delivery_id JOIN event ON event.id = delivery.event_id \
         ORDER BY wanted.key"
    );
    let wanted: Vec<_> = of
        .iter()
        .map(|each| (each.delivery.0, each.attempt))
        .collect();
    tx.all(&select, [serde_json::json!(wanted).to_string()], |row| {
        Ok(RecentAttempt {
            delivery: row.get(16)?,
            event: row.get(13)?,
            event_type: row::text(row, 14)?,
            subject: row::text_or_null(row, 15)?,
            attempt: attempt(row)?,
        })
    })
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::base::Timestamp;
    use crate::store::engine::{db, migrate};

    const SUBSCRIPTIONS: i64 = 40;
    const LIMIT: usize = 30;

    /// Subscriptions with three dead letters each, each of which was tried twenty times.
    fn tried() -> Connection {
        let mut connection = db::open_in_memory().expect("a database");
        migrate::migrate(&mut connection).expect("a schema");
        let fill = format!(
            "INSERT INTO event (id, topic_id, received_at, event_id, event_type, matched, checksum)
                 VALUES (1, 1, 0, 'e', 'Order.Paid', 1, 0);
             WITH number (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM number WHERE n < 3 * {SUBSCRIPTIONS})
             INSERT INTO delivery (id, event_id, subscription_id, next_attempt_at, published_at, attempts, checksum)
                 SELECT n, 1, 1 + n % {SUBSCRIPTIONS}, n, 0, 20, 0 FROM number;
             WITH number (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM number WHERE n < 20)
             INSERT INTO delivery_attempt (delivery_id, attempt, started_at, duration_ms, outcome, status, response_body)
                 SELECT id, n, 1000 * id + n, 1, CASE n WHEN 20 THEN 'Delivered' ELSE 'Busy' END, 503, X'6e6f'
                 FROM delivery, number;"
        );
        connection.execute_batch(&fill).expect("attempts");
        connection
    }

    #[test]
    fn many_subscriptions_cost_as_many_statements_as_one() {
        let connection = tried();
        let of: Vec<SubscriptionId> = (1..=SUBSCRIPTIONS).map(SubscriptionId).collect();
        let found = newest_attempts(&connection, &of, LIMIT).expect("attempts");
        assert_eq!(found.len(), of.len());
        for attempts in found.values() {
            let delivered = attempts
                .iter()
                .map(|each| each.outcome == Outcome::Delivered);
            let delivered: Vec<usize> = delivered
                .enumerate()
                .filter(|(_, is)| *is)
                .map(|(at, _)| at)
                .collect();
            assert_eq!((attempts.len(), delivered), (LIMIT, vec![0, 20]));
        }
        let runs = |sql: &str| {
            let statement = connection.prepare_cached(sql).expect("a statement");
            i64::from(statement.get_status(StatementStatus::Run))
        };
        let of_state = [DeliveryState::Pending, DeliveryState::DeadLettered];
        let of_state = of_state.map(|state| runs(&select_tried_last(state)));
        let for_all = [NEWEST_DELIVERIES, NEWEST_ATTEMPTS].map(runs);
        assert_eq!((of_state, for_all), ([1, 1], [1, 1]));
    }

    #[test]
    fn an_attempt_is_told_without_what_was_answered() {
        let connection = tried();
        let of = [3, 2].map(|attempt| Attempted {
            delivery: DeliveryId(7),
            attempt,
            outcome: Outcome::Busy,
        });
        let all = told(&connection, &of).expect("rows");
        let [told, _] = &all[..] else {
            panic!("{all:?}");
        };
        let response = told.attempt.result.response.as_ref().expect("a status");
        assert_eq!((response.status, response.body.len()), (503, 0));
        assert_eq!(told.attempt.started_at, Timestamp::from_ms(7_003));
    }
}
