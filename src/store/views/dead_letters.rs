//! Searches in the dead-letter queues, newest delivery first.

use rusqlite::{Connection, OptionalExtension, params};

use crate::base::Timestamp;
use crate::model::delivery::{DeliveryId, Outcome};
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::error::StoreError;
use crate::store::views::{DeliveryRow, PAGE_ROWS_MAX, Page, Views, deliveries};

/// Dead letters that one search looks at before it answers with what it has, where an index alone decides.
const SEARCH_MAX: i64 = 100_000;

/// The same where the event of each has to be read.
const SEARCH_EVENTS_MAX: i64 = 20_000;

/// Numbers that one question answers with at most.
pub const NUMBERS_MAX: usize = 5_000;

/// Which dead letters.
#[derive(Clone, Debug, Default)]
pub struct DeadLetterQuery {
    /// `None` means those of every subscription.
    pub subscription: Option<SubscriptionId>,
    pub topic: Option<TopicId>,
    /// Azure's reason or a receiver's own, exactly.
    pub reason: Option<String>,
    pub outcome: Option<Outcome>,
    /// The HTTP status of the last attempt.
    pub status: Option<u16>,
    /// Given up at this moment or later.
    pub from: Option<Timestamp>,
    /// Given up before this moment.
    pub to: Option<Timestamp>,
    /// The event type, exactly, or its beginning when it ends in `*`.
    pub event_type: Option<String>,
    /// The subject, likewise.
    pub subject: Option<String>,
    /// Part of the event's id, type or subject, in any letter case of ASCII.
    pub text: Option<String>,
    /// Only deliveries older than this one.
    pub before: Option<DeliveryId>,
    pub limit: usize,
}

impl Views {
    /// Dead letters. A search looks at a bounded number of them; where the page is short and `next_before`
    /// is set, it has not reached the end yet.
    pub async fn dead_letters(
        &self,
        query: DeadLetterQuery,
    ) -> Result<Page<DeliveryRow, DeliveryId>, StoreError> {
        let query = DeadLetterQuery {
            limit: query.limit.clamp(1, PAGE_ROWS_MAX),
            ..query
        };
        self.db
            .read(move |tx| {
                let numbers = numbers(tx, &query)?;
                let mut rows = Vec::with_capacity(numbers.rows.len());
                for id in numbers.rows {
                    rows.extend(deliveries(tx, "WHERE delivery.id = ?1", params![id])?);
                }
                let next_before = numbers.next_before;
                Ok(Page { rows, next_before })
            })
            .await
    }

    /// The numbers alone, up to [`NUMBERS_MAX`] of them; otherwise the same.
    pub async fn dead_letter_numbers(
        &self,
        query: DeadLetterQuery,
    ) -> Result<Page<DeliveryId, DeliveryId>, StoreError> {
        let query = DeadLetterQuery {
            limit: query.limit.clamp(1, NUMBERS_MAX),
            ..query
        };
        self.db.read(move |tx| numbers(tx, &query)).await
    }

    /// How many there are, exactly: it asks as often as it takes, so that no question takes long.
    pub async fn count_dead_letters(&self, query: DeadLetterQuery) -> Result<u64, StoreError> {
        let mut query = DeadLetterQuery {
            limit: NUMBERS_MAX,
            ..query
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
}

/// Of what an index knows about a dead letter.
const FITS: &str = "(?4 IS NULL OR reason = ?4 OR own_reason = ?4) AND (?5 IS NULL OR outcome = ?5) \
     AND (?6 IS NULL OR status = ?6) AND (?7 IS NULL OR ended_at >= ?7) \
     AND (?8 IS NULL OR ended_at < ?8) AND (?9 IS NULL OR subscription_id IN \
         (SELECT id FROM event_subscription WHERE topic_id = ?9))";

/// Of its event.
const EVENT_FITS: &str = "(?10 IS NULL OR event.event_type = ?10) \
     AND (?11 IS NULL OR substr(event.event_type, 1, length(?11)) = ?11) \
     AND (?12 IS NULL OR event.subject = ?12) \
     AND (?13 IS NULL OR substr(event.subject, 1, length(?13)) = ?13) \
     AND (?14 IS NULL OR instr(lower(event.event_id), ?14) OR instr(lower(event.event_type), ?14) \
         OR instr(lower(coalesce(event.subject, '')), ?14))";

fn numbers(
    tx: &Connection,
    query: &DeadLetterQuery,
) -> Result<Page<DeliveryId, DeliveryId>, StoreError> {
    let newest = query
        .before
        .map_or(i64::MAX, |before| before.0.saturating_sub(1));
    let reads_events =
        query.event_type.is_some() || query.subject.is_some() || query.text.is_some();
    let looked_at = match reads_events {
        true => SEARCH_EVENTS_MAX,
        false => SEARCH_MAX,
    };
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let (event_type, type_start) = whole_or_start(query.event_type.as_deref());
    let (subject, subject_start) = whole_or_start(query.subject.as_deref());
    let (events, of_event) = match reads_events {
        true => ("JOIN event ON event.id = looked_at.event_id", EVENT_FITS),
        // The parameters must be there nevertheless.
        false => ("", "coalesce(?10, ?11, ?12, ?13, ?14) IS NULL"),
    };
    let select = format!(
        "SELECT looked_at.id FROM ({}) AS looked_at {events} WHERE {FITS} AND {of_event} \
         ORDER BY looked_at.id DESC LIMIT ?15",
        candidates(query)
    );
    let mut select = tx.prepare_cached(&select)?;
    let found = select.query_map(
        params![
            newest,
            looked_at,
            query.subscription,
            query.reason,
            query.outcome.map(Outcome::name),
            query.status,
            query.from.map(Timestamp::as_ms),
            query.to.map(Timestamp::as_ms),
            query.topic,
            event_type,
            type_start,
            subject,
            subject_start,
            query.text.as_deref().map(str::to_ascii_lowercase),
            limit
        ],
        |row| row.get(0).map(DeliveryId),
    )?;
    let rows: Vec<DeliveryId> = found.collect::<Result<_, _>>()?;
    let next_before = match rows.last() {
        Some(last) if rows.len() == query.limit => Some(*last),
        _ => end_of_search(tx, query, newest, looked_at)?,
    };
    Ok(Page { rows, next_before })
}

/// What a search looks at: out of an index that has all that is asked of a dead letter itself.
fn candidates(query: &DeadLetterQuery) -> &'static str {
    match query.subscription {
        Some(_) => {
            "SELECT id, subscription_id, event_id, dead_letter_reason AS reason, \
             dead_letter_own_reason AS own_reason, last_outcome AS outcome, \
             last_status AS status, ended_at \
             FROM delivery INDEXED BY delivery_dead_subscription \
             WHERE state = 2 AND subscription_id = ?3 AND id <= ?1 ORDER BY id DESC LIMIT ?2"
        }
        None => {
            "SELECT id, subscription_id, event_id, dead_letter_reason AS reason, \
             dead_letter_own_reason AS own_reason, last_outcome AS outcome, \
             last_status AS status, ended_at \
             FROM delivery INDEXED BY delivery_dead \
             WHERE state = 2 AND ?3 IS NULL AND id <= ?1 ORDER BY id DESC LIMIT ?2"
        }
    }
}

fn whole_or_start(text: Option<&str>) -> (Option<&str>, Option<&str>) {
    match text.map(|text| text.strip_suffix('*').ok_or(text)) {
        None => (None, None),
        Some(Ok(start)) => (None, Some(start)),
        Some(Err(whole)) => (Some(whole), None),
    }
}

/// Where a search that found less than a page stopped looking; `None` at the oldest dead letter.
fn end_of_search(
    tx: &Connection,
    query: &DeadLetterQuery,
    newest: i64,
    looked_at: i64,
) -> Result<Option<DeliveryId>, StoreError> {
    let last = format!(
        "SELECT id FROM ({}) LIMIT 1 OFFSET ?2 - 1",
        candidates(query)
    );
    let last = tx
        .prepare_cached(&last)?
        .query_row(params![newest, looked_at, query.subscription], |row| {
            row.get(0)
        })
        .optional()?;
    Ok(last.map(DeliveryId))
}
