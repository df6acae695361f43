//! Searches for the deliveries that a replay job covers. Each search reads a bounded number of deliveries.

use rusqlite::{Connection, ToSql};

use crate::model::delivery::DeliveryId;
use crate::model::limits::REPLAY_BYTES_MAX;
use crate::model::replay::{ReplaySource, Replayed};
use crate::store::error::StoreError;
use crate::store::ledger::resubmit::{self, CANDIDATE_COLUMNS, ResubmitCandidate, candidate};
use crate::store::sql::Sql;
use crate::store::views::dead_letter_filter::{OF_ABOUT, OF_DELIVERY, values};
use crate::store::views::event_filter::{OF_EVENT, OF_TEXT};

/// A query for deliveries to replay.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each search, and nearly all of them are of a source"
)]
pub enum CandidateQuery {
    /// Deliveries by id, each with its event if the event is readable.
    Ids(Vec<DeliveryId>),
    /// The first deliveries of a source in a range, at most `limit`, or fewer if their events are large.
    Source {
        source: ReplaySource,
        range: IdRange,
        limit: usize,
        with_events: bool,
    },
}

/// A range of delivery ids: greater than `after`, up to and including `until`.
#[derive(Clone, Copy, Debug)]
pub struct IdRange {
    pub after: DeliveryId,
    /// The last id of the range. `None` for the newest delivery.
    pub until: Option<DeliveryId>,
    /// The maximum number of deliveries that one search looks at.
    pub window: usize,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Candidates {
    pub candidates: Vec<ResubmitCandidate>,
    /// The last delivery that was looked at.
    pub cursor: DeliveryId,
    /// Is true if the end of the range is reached.
    pub is_end: bool,
}

/// The result of counting a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeCount {
    pub matched: u64,
    /// The end of the range.
    pub until: DeliveryId,
    /// The last delivery that was looked at, after which the next search continues. `None` at the end of the range.
    pub cursor: Option<DeliveryId>,
}

/// Returns the condition by which SQLite reads the deliveries in the order of their ids. There is an index for the dead
/// letters of all subscriptions and of one. Delivered ones are read by id.
fn domain(source: &ReplaySource) -> &'static str {
    match (source.of, source.filter.subscription) {
        (Replayed::DeadLetters, None) => "delivery.state = 'DeadLettered'",
        (Replayed::DeadLetters, Some(_)) => {
            "delivery.subscription_id = :subscription AND delivery.state = 'DeadLettered'"
        }
        (Replayed::Delivered, _) => "true",
    }
}

/// The end of a range.
fn end_of(tx: &Connection, range: IdRange) -> Result<DeliveryId, StoreError> {
    match range.until {
        Some(until) => Ok(until),
        None => tx.value("SELECT coalesce(max(id), 0) FROM delivery", []),
    }
}

/// Returns the last delivery of the window, or `None` if the window reaches the end of the range.
fn end_of_window(
    tx: &Connection,
    source: &ReplaySource,
    range: IdRange,
    until: DeliveryId,
) -> Result<Option<DeliveryId>, StoreError> {
    let last = format!(
        "SELECT delivery.id FROM delivery WHERE {} AND delivery.id > :after AND delivery.id <= :until \
         ORDER BY delivery.id LIMIT 1 OFFSET :offset",
        domain(source)
    );
    let offset = range.window.saturating_sub(1);
    let mut values: Vec<(&str, &dyn ToSql)> = vec![
        (":after", &range.after),
        (":until", &until),
        (":offset", &offset),
    ];
    if last.contains(":subscription") {
        values.push((":subscription", &source.filter.subscription));
    }
    tx.find(&last, values.as_slice())
}

/// Returns the condition for the deliveries of a source in a range.
fn which(source: &ReplaySource) -> String {
    let state = source.of.state().name();
    // Excludes deliveries in transfer queues, whose subscription ids are negative: these follow a separate path.
    // The unary plus keeps SQLite from choosing an index for this condition.
    format!(
        "{} AND delivery.state = '{state}' AND delivery.id > :after AND delivery.id <= :until \
         AND +delivery.subscription_id > 0 AND {OF_DELIVERY}",
        domain(source)
    )
}

/// Returns the FROM and WHERE clauses for the deliveries of a source in a range. For dead letters an index has all
/// columns, unless the text of their events is searched.
fn chosen(source: &ReplaySource) -> String {
    let which = which(source);
    // CROSS JOIN makes the deliveries the outer loop, in the order of their ids. SQLite has no statistics that say so.
    let with_event = "FROM delivery CROSS JOIN event ON event.id = delivery.event_id";
    match (source.of, &source.filter.text) {
        (Replayed::DeadLetters, None) => format!("FROM delivery WHERE {which} AND {OF_ABOUT}"),
        (Replayed::DeadLetters, Some(_)) => {
            format!("{with_event} WHERE {which} AND {OF_ABOUT} AND {OF_TEXT}")
        }
        (Replayed::Delivered, _) => {
            format!("{with_event} WHERE {which} AND {OF_EVENT} AND {OF_TEXT}")
        }
    }
}

/// Returns the statement that counts the deliveries of a source in a range.
fn select_count(source: &ReplaySource) -> String {
    format!("SELECT count(*) {}", chosen(source))
}

/// Returns the statement that reads the first deliveries of a source in a range. It reads the columns of a candidate
/// for those deliveries only.
fn select_first(source: &ReplaySource) -> String {
    format!(
        "SELECT {CANDIDATE_COLUMNS} \
         FROM (SELECT delivery.id AS id {} ORDER BY delivery.id LIMIT :limit) AS chosen \
         CROSS JOIN delivery ON delivery.id = chosen.id \
         CROSS JOIN event ON event.id = delivery.event_id ORDER BY delivery.id",
        chosen(source)
    )
}

/// Counts the deliveries of a source in a range.
pub(in crate::store) fn count(
    tx: &Connection,
    source: &ReplaySource,
    range: IdRange,
) -> Result<RangeCount, StoreError> {
    let until = end_of(tx, range)?;
    let cursor = end_of_window(tx, source, range, until)?;
    let last = cursor.unwrap_or(until);
    let filter_values = values(&source.filter);
    let count = select_count(source);
    let values = filter_values.in_sql(&count, &[(":after", &range.after), (":until", &last)]);
    Ok(RangeCount {
        matched: tx.value(&count, values.as_slice())?,
        until,
        cursor,
    })
}

pub(in crate::store) fn candidates(
    tx: &Connection,
    query: &CandidateQuery,
) -> Result<Candidates, StoreError> {
    match query {
        CandidateQuery::Ids(ids) => Ok(Candidates {
            candidates: resubmit::candidates(tx, ids)?,
            cursor: ids.last().copied().unwrap_or(DeliveryId(0)),
            is_end: true,
        }),
        CandidateQuery::Source {
            source,
            range,
            limit,
            with_events,
        } => find(tx, source, *range, *limit, *with_events),
    }
}

/// Returns the first deliveries of a source in a range, at most `limit`, or fewer if their events are large.
fn find(
    tx: &Connection,
    source: &ReplaySource,
    range: IdRange,
    limit: usize,
    with_events: bool,
) -> Result<Candidates, StoreError> {
    let until = end_of(tx, range)?;
    let end = end_of_window(tx, source, range, until)?;
    let until = end.unwrap_or(until);
    let select = select_first(source);
    let filter_values = values(&source.filter);
    let values = filter_values.in_sql(
        &select,
        &[
            (":after", &range.after),
            (":until", &until),
            (":limit", &limit),
        ],
    );
    let mut select = tx.prepare_cached(&select)?;
    let mut rows = select.query(values.as_slice())?;
    let (mut candidates, mut bytes) = (Vec::new(), 0);
    while bytes < REPLAY_BYTES_MAX
        && let Some(row) = rows.next()?
    {
        let candidate = candidate(tx, row, with_events)?;
        bytes += candidate.event.as_ref().map_or(0, |each| each.event.size());
        candidates.push(candidate);
    }
    let is_cut = candidates.len() == limit || bytes >= REPLAY_BYTES_MAX;
    let last = candidates.last().filter(|_| is_cut);
    Ok(Candidates {
        cursor: last.map_or(until, |last| last.delivery),
        is_end: !is_cut && end.is_none(),
        candidates,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::dead_letter_filter::DeadLetterFilter;
    use crate::model::event_filter::TextSearch;
    use crate::model::subscription::SubscriptionId;
    use crate::store::engine::{db, migrate};

    /// SQLite's query plan for `select`.
    fn plan(source: &ReplaySource, select: &str) -> Vec<String> {
        let mut connection = db::open_in_memory().expect("a database");
        migrate::migrate(&mut connection).expect("the present schema");
        let plan = format!("EXPLAIN QUERY PLAN {select}");
        let values = values(&source.filter);
        let bounds: [(&str, &dyn ToSql); 3] = [(":after", &0), (":until", &9), (":limit", &7)];
        let bounds: Vec<_> = bounds
            .into_iter()
            .filter(|(name, _)| select.contains(name))
            .collect();
        let values = values.in_sql(&plan, &bounds);
        let mut plan = connection.prepare(&plan).expect("a plan");
        let steps = plan.query_map(values.as_slice(), |row| row.get::<_, String>(3));
        steps.expect("steps").map(Result::unwrap).collect()
    }

    fn dead_letters(subscription: Option<SubscriptionId>) -> ReplaySource {
        ReplaySource {
            of: Replayed::DeadLetters,
            filter: DeadLetterFilter {
                subscription,
                event_type: Some("Order.*".to_owned()),
                subject: Some("/orders/7".to_owned()),
                reason: Some("Application".to_owned()),
                ..DeadLetterFilter::default()
            },
        }
    }

    #[test]
    fn an_index_alone_tells_which_dead_letters_a_job_covers() {
        for subscription in [None, Some(SubscriptionId(1))] {
            let source = dead_letters(subscription);
            let counting = plan(&source, &select_count(&source));
            let finding = plan(&source, &select_first(&source));
            // The steps after this one are done for chosen rows only.
            let chosen = finding.iter().position(|step| step == "SCAN chosen");
            let choosing = &finding[..chosen.expect("a choice")];
            for steps in [&counting[..], choosing] {
                let reads = steps.iter().filter(|step| step.contains(" delivery "));
                let reads: Vec<_> = reads.collect();
                assert!(!reads.is_empty(), "{steps:?}");
                let mut reads = reads.into_iter();
                let is_covered = |step: &String| step.contains("COVERING INDEX");
                assert!(reads.all(is_covered), "{steps:?}");
                assert!(
                    !steps.iter().any(|step| step.contains(" event ")),
                    "{steps:?}"
                );
            }
        }
    }

    #[test]
    fn words_are_sought_in_the_events_of_dead_letters_that_fit_otherwise() {
        let mut source = dead_letters(None);
        source.filter.text = Some(TextSearch::everywhere("refund".to_owned()));
        let steps = plan(&source, &select_count(&source));
        assert!(
            steps[0].contains("COVERING INDEX delivery_dead"),
            "{steps:?}"
        );
        assert!(
            steps.iter().any(|step| step.contains(" event ")),
            "{steps:?}"
        );
    }
}
