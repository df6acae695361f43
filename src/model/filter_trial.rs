//! Trying a filter on events that were published before, compared with the current filter.

use crate::base::Timestamp;
use crate::model::event::{EventKey, StoredEvent};
use crate::model::filter::{EventView, Filter, PartResult};

/// A filter that is tried.
#[derive(Clone, Debug)]
pub struct FilterTrial {
    proposed: Filter,
    /// The filter to compare `proposed` with.
    current: Option<Filter>,
    findings: TrialFindings,
}

/// The result of a trial.
#[derive(Clone, Debug, Default)]
pub struct TrialFindings {
    pub matched: SampleCount,
    pub unmatched: SampleCount,
    /// Present if there is a filter to compare with.
    pub comparison: Option<FilterComparison>,
    /// The oldest event that was tried.
    pub oldest: Option<(EventKey, Timestamp)>,
}

/// The differences between the results of the proposed and the current filter.
#[derive(Clone, Debug, Default)]
pub struct FilterComparison {
    /// Events that the current filter matches.
    pub current_matched: usize,
    pub newly_matched: SampleCount,
    pub no_longer_matched: SampleCount,
}

/// A count of events, and the first few of them.
#[derive(Clone, Debug, Default)]
pub struct SampleCount {
    pub count: usize,
    pub samples: Vec<SampleEvent>,
}

/// An event as an example.
#[derive(Clone, Debug)]
pub struct SampleEvent {
    pub key: EventKey,
    pub received_at: Timestamp,
    pub id: String,
    pub event_type: String,
    pub subject: Option<String>,
    /// The first part of the proposed filter that fails.
    pub failed: Option<PartResult>,
    /// The reason why a rule cannot be evaluated for the event.
    pub problem: Option<String>,
}

impl SampleEvent {
    fn of(stored: &StoredEvent) -> Self {
        Self {
            key: stored.key,
            received_at: stored.received_at,
            id: stored.event.id.clone(),
            event_type: stored.event.event_type.clone(),
            subject: stored.event.subject.clone(),
            failed: None,
            problem: None,
        }
    }
}

impl FilterTrial {
    /// Creates a trial of `proposed`, compared with `current` if there is one.
    pub fn new(proposed: Filter, current: Option<Filter>) -> Self {
        let comparison = current.as_ref().map(|_| FilterComparison::default());
        Self {
            proposed,
            current,
            findings: TrialFindings {
                comparison,
                ..TrialFindings::default()
            },
        }
    }

    /// Tries one event. The caller adds events from the newest to the oldest.
    pub fn add(&mut self, stored: &StoredEvent, view: &EventView<'_>) {
        let matches = self.proposed.matches(view);
        let sample = || SampleEvent {
            failed: self.proposed.explain(view).first_failed().cloned(),
            ..SampleEvent::of(stored)
        };
        let findings = &mut self.findings;
        findings.oldest = Some((stored.key, stored.received_at));
        if matches {
            findings.matched.add(sample);
        } else {
            findings.unmatched.add(sample);
        }
        if let (Some(current), Some(comparison)) = (&self.current, &mut findings.comparison) {
            let matched = current.matches(view);
            comparison.current_matched += usize::from(matched);
            match (matched, matches) {
                (false, true) => comparison.newly_matched.add(sample),
                (true, false) => comparison.no_longer_matched.add(sample),
                (true, true) | (false, false) => {}
            }
        }
    }

    /// The result.
    pub fn findings(self) -> TrialFindings {
        self.findings
    }
}

impl TrialFindings {
    /// Counts an event that a rule was tried on. The caller adds events from the newest to the oldest.
    pub fn add(&mut self, stored: &StoredEvent, matches: Result<bool, String>) {
        self.oldest = Some((stored.key, stored.received_at));
        match matches {
            Ok(true) => self.matched.add(|| SampleEvent::of(stored)),
            Ok(false) => self.unmatched.add(|| SampleEvent::of(stored)),
            Err(problem) => self.unmatched.add(|| SampleEvent {
                problem: Some(problem),
                ..SampleEvent::of(stored)
            }),
        }
    }

    /// Events that were tried.
    pub fn tried(&self) -> usize {
        self.matched.count + self.unmatched.count
    }
}

impl SampleCount {
    /// The most sample events to keep: enough to see what kind of events matched.
    pub const SAMPLES_MAX: usize = 5;

    fn add(&mut self, sample: impl FnOnce() -> SampleEvent) {
        self.count += 1;
        if self.samples.len() < Self::SAMPLES_MAX {
            self.samples.push(sample());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::{Event, EventData};
    use crate::model::filter::FilterPart;

    /// Tries a filter by event type on events of these types.
    fn trial(current: Option<&str>, proposed: &str, types: &[&str]) -> TrialFindings {
        let by_type = |event_type: &str| Filter {
            included_event_types: Some(vec![event_type.to_owned()]),
            ..Filter::default()
        };
        let mut trial = FilterTrial::new(by_type(proposed), current.map(by_type));
        for (number, event_type) in (1..).zip(types) {
            let stored = StoredEvent {
                key: EventKey(number),
                received_at: Timestamp::from_ms(number),
                event: Event {
                    id: number.to_string(),
                    source: None,
                    event_type: (*event_type).to_owned(),
                    subject: None,
                    time: None,
                    data_version: None,
                    attributes: Vec::new(),
                    data: EventData::Absent,
                },
            };
            trial.add(&stored, &EventView::new(&stored.event, "/topic"));
        }
        trial.findings()
    }

    fn keys(count: &SampleCount) -> Vec<i64> {
        count.samples.iter().map(|sample| sample.key.0).collect()
    }

    #[test]
    fn events_are_counted_on_both_sides_and_few_are_shown() {
        let types = ["A", "B", "B", "B", "B", "B", "B", "A"];
        let found = trial(None, "A", &types);
        assert_eq!((found.matched.count, found.unmatched.count), (2, 6));
        assert_eq!(keys(&found.matched), [1, 8]);
        assert_eq!(keys(&found.unmatched), [2, 3, 4, 5, 6]);
        assert_eq!(
            (found.tried(), found.oldest.map(|(key, _)| key.0)),
            (8, Some(8))
        );
        assert!(found.comparison.is_none());
        assert!(found.matched.samples[0].failed.is_none());
        let failed = found.unmatched.samples[0].failed.as_ref().expect("why");
        assert_eq!(failed.part, FilterPart::IncludedEventTypes);
    }

    #[test]
    fn filters_are_compared() {
        let found = trial(Some("B"), "A", &["A", "B", "C", "B"]);
        let compared = found.comparison.expect("a comparison");
        assert_eq!(compared.current_matched, 2);
        assert_eq!(keys(&compared.newly_matched), [1]);
        assert_eq!(keys(&compared.no_longer_matched), [2, 4]);
    }
}
