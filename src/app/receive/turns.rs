//! Counters of the answers that were already given, in all or for each event, by which the next answer of the script is
//! chosen.

use std::collections::{HashMap, VecDeque};

use crate::wire::received::ReceivedProperties;

/// Maximum number of event ids that are remembered. The id that came first is forgotten first, and its count starts
/// over if it comes again.
const IDS_MAX: usize = 100_000;

/// Counts answers.
#[derive(Debug)]
pub(super) enum AnswerCounts {
    PerRequest(u32),
    PerEvent(EventTurns),
}

/// Counts answers by event id, and answers to requests without an event id in one common count.
#[derive(Debug, Default)]
pub(super) struct EventTurns {
    by_id: HashMap<String, u32>,
    /// The ids in the order in which they first came.
    oldest: VecDeque<String>,
    unnamed: u32,
}

impl AnswerCounts {
    pub(super) fn new(per_event: bool) -> Self {
        if per_event {
            Self::PerEvent(EventTurns::default())
        } else {
            Self::PerRequest(0)
        }
    }

    /// Counts an answer to a request with these events. Returns its turn: the number of answers that came before it.
    pub(super) fn take(&mut self, events: &[ReceivedProperties]) -> u32 {
        match self {
            Self::PerRequest(turn) => next(turn),
            Self::PerEvent(turns) => turns.take(events),
        }
    }
}

impl EventTurns {
    /// Counts an answer for each event of the request. Returns the lowest turn, which is that of the newest event: a
    /// batch gets one answer, and no event may skip an answer of the script.
    fn take(&mut self, events: &[ReceivedProperties]) -> u32 {
        let ids = events.iter().filter_map(|event| event.id.as_deref());
        let turns: Vec<u32> = ids.map(|id| self.take_one(id)).collect();
        match turns.into_iter().min() {
            Some(turn) => turn,
            None => next(&mut self.unnamed),
        }
    }

    fn take_one(&mut self, id: &str) -> u32 {
        if let Some(turn) = self.by_id.get_mut(id) {
            return next(turn);
        }
        if self.oldest.len() >= IDS_MAX
            && let Some(forgotten) = self.oldest.pop_front()
        {
            self.by_id.remove(&forgotten);
        }
        self.by_id.insert(id.to_owned(), 1);
        self.oldest.push_back(id.to_owned());
        0
    }
}

fn next(turn: &mut u32) -> u32 {
    let taken = *turn;
    *turn = turn.saturating_add(1);
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each word is a request: its event ids, joined by `+`; `-` for a request without any.
    fn check(per_event: bool, requests: &str, expected: &[u32]) {
        let mut turns = AnswerCounts::new(per_event);
        let taken: Vec<u32> = requests
            .split(' ')
            .map(|ids| turns.take(&events(ids)))
            .collect();
        assert_eq!(taken, expected, "{requests}");
    }

    fn events(ids: &str) -> Vec<ReceivedProperties> {
        ids.split('+')
            .map(|id| ReceivedProperties {
                id: (id != "-").then(|| id.to_owned()),
                event_type: None,
                subject: None,
            })
            .collect()
    }

    #[test]
    fn turns_are_counted_by_request_or_by_event() {
        check(false, "a a b -", &[0, 1, 2, 3]);
        check(true, "a b a b a c", &[0, 0, 1, 1, 2, 0]);
        check(true, "a a+b b a+b", &[0, 0, 1, 2]);
        check(true, "- - a -", &[0, 1, 0, 2]);
    }

    #[test]
    fn the_oldest_ids_are_forgotten() {
        let mut turns = EventTurns::default();
        for id in 0..=IDS_MAX {
            assert_eq!(turns.take(&events(&id.to_string())), 0);
        }
        assert_eq!(turns.by_id.len(), IDS_MAX);
        assert_eq!(turns.take(&events("0")), 0, "forgotten");
        assert_eq!(turns.take(&events("9")), 1, "remembered");
    }
}
