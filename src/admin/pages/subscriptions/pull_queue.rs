//! What lies in the queue of a pulled subscription, on its page.

use askama::Template;

use crate::admin::paths::event_page;
use crate::admin::widgets::print;
use crate::admin::widgets::{Badge, Due, Moment, Tone, part};
use crate::base::Timestamp;
use crate::store::views::{DeliveryRow, PullQueue, PullQueueState, QUEUE_COUNTED_MAX};

/// Rows shown of what is held, and of what comes next.
pub(crate) const ROWS: usize = 20;

/// The queue ready to print.
pub(crate) struct PullQueueText {
    pub(crate) facts: QueueFacts,
    pub(crate) rows: PulledRows,
}

/// How much lies in it.
#[derive(Clone, Debug, Template)]
#[template(path = "admin/parts/pull_queue.html")]
pub(crate) struct QueueFacts {
    waiting: String,
    locked: String,
    /// Empty for none.
    released: String,
    /// How many were handed out how often; empty where nothing lies there.
    by_attempts: String,
    oldest: Option<(Moment, String)>,
    /// What is to be said where not all was counted.
    note: String,
}

/// What is held, and what is handed out next.
#[derive(Clone, Debug, Template)]
#[template(path = "admin/parts/pulled_rows.html")]
pub(crate) struct PulledRows {
    rows: Vec<PulledRow>,
    /// Whether there are more.
    has_more: bool,
}

part!(QueueFacts, PulledRows);

#[derive(Clone, Debug)]
struct PulledRow {
    href: String,
    event_type: String,
    event_id: String,
    published_at: Moment,
    handed_out: String,
    state: Badge,
    /// When its lock lapses.
    until: Option<Due>,
}

impl PullQueueText {
    /// As it is seen at `now`.
    pub(crate) fn new(queue: PullQueue, now: Timestamp) -> Self {
        let facts = QueueFacts::new(&queue.state, now);
        let pending = queue.state.waiting + queue.state.locked + queue.state.released;
        let rows = queue.locked.into_iter().chain(queue.next);
        let rows: Vec<PulledRow> = rows.map(|row| PulledRow::new(&row, now)).collect();
        let shown = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        Self {
            facts,
            rows: PulledRows {
                rows,
                has_more: shown < pending,
            },
        }
    }
}

impl QueueFacts {
    fn new(state: &PullQueueState, now: Timestamp) -> Self {
        let counted = u64::try_from(QUEUE_COUNTED_MAX).unwrap_or(u64::MAX);
        Self {
            waiting: print::count(state.waiting),
            locked: print::count(state.locked),
            released: match state.released {
                0 => String::new(),
                released => print::count(released),
            },
            by_attempts: by_attempts(&state.by_attempts),
            oldest: state
                .oldest_at
                .map(|at| (Moment::at(at), print::relative(at, now))),
            note: match state.is_partial {
                true => format!("{} of a kind are counted at most", print::count(counted)),
                false => String::new(),
            },
        }
    }
}

impl PulledRow {
    fn new(row: &DeliveryRow, now: Timestamp) -> Self {
        let until = row.locked_until.filter(|until| *until > now);
        Self {
            href: event_page(row.event),
            event_type: print::visible(&row.event_type),
            event_id: print::visible(&row.event_id),
            published_at: Moment::at(row.published_at),
            handed_out: times(row.attempts),
            state: match until {
                Some(_) => Badge::new(Tone::Waiting, "Locked"),
                None => Badge::new(Tone::Neutral, "Waiting"),
            },
            until: until.map(|until| Due::new(until, now)),
        }
    }
}

/// `never`, `once`, `3 times`.
fn times(attempts: u32) -> String {
    match attempts {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        more => format!("{} times", print::count(more.into())),
    }
}

/// `never: 12, once: 3`.
fn by_attempts(counts: &[(u32, u64)]) -> String {
    let each = counts
        .iter()
        .map(|(attempts, count)| format!("{}: {}", times(*attempts), print::count(*count)));
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_often_is_said_in_words() {
        assert_eq!(by_attempts(&[]), "");
        let counts = [(0, 12), (1, 3), (4, 1)];
        assert_eq!(by_attempts(&counts), "never: 12, once: 3, 4 times: 1");
    }
}
