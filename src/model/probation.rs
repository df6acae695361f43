//! Health of a subscription's receiver, and its consequences: probation and delayed delivery (rule 7.4, section A), and
//! receivers that are gone.

use std::time::Duration;

use crate::base::{TimeScale, Timestamp};
use crate::model::delivery::Outcome;
use crate::model::limits::{PROBATION_FAILURES, PROBATION_LONGEST};

const fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

const fn minutes(m: u64) -> Duration {
    Duration::from_secs(m * 60)
}

/// Outcomes that count as failures of the receiver, and the length of the first probation that each of them causes
/// (rule 7.4). All other outcomes show that the receiver works: 200 to 204, and 400 and 413, which concern the event.
/// The rule does not list `GenericError`, `Disabled`, `Full`, `TokenError` and `Aborted`. `GenericError`, `Disabled`
/// and `Full` are treated like `Busy`, `TokenError` like `SocketError`. `Aborted` lasts until somebody changes the
/// address of a name.
const FIRST_LENGTHS: [(Outcome, Duration); 12] = [
    (Outcome::Busy, seconds(10)),
    (Outcome::TimedOut, seconds(10)),
    (Outcome::GenericError, seconds(10)),
    (Outcome::Disabled, seconds(10)),
    (Outcome::Full, seconds(10)),
    (Outcome::SocketError, seconds(30)),
    (Outcome::TokenError, seconds(30)),
    (Outcome::NotFound, minutes(5)),
    (Outcome::ResolutionError, minutes(5)),
    (Outcome::Unauthorized, minutes(5)),
    (Outcome::Forbidden, minutes(5)),
    (Outcome::Aborted, minutes(5)),
];

/// Causes of a probation for which skipped deliveries are dead-lettered in the mode `Azure` (section A).
const CLIENT_ERRORS: [Outcome; 3] = [Outcome::NotFound, Outcome::Unauthorized, Outcome::Forbidden];

/// Rules for the beginning and the longest length of a probation, and for the deliveries during it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbationRules {
    /// Number of consecutive failures that start a probation.
    pub failures: u32,
    pub longest: Duration,
    pub mode: ProbationMode,
}

impl Default for ProbationRules {
    fn default() -> Self {
        Self {
            failures: PROBATION_FAILURES,
            longest: PROBATION_LONGEST,
            mode: ProbationMode::Hold,
        }
    }
}

/// The treatment of deliveries that fall due during a probation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbationMode {
    /// Deliveries wait, and no attempt is counted.
    Hold,
    /// Every delivery counts an attempt that was not made. After a client error it is dead-lettered.
    Azure,
}

/// The health of a subscription's receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Consecutive failures.
    pub failures: u32,
    pub failing: Option<Failing>,
    pub probation: Option<Probation>,
    /// The time since which the receiver responds 410.
    pub gone_since: Option<Timestamp>,
}

/// A series of consecutive failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The time when the first failed request ended.
    pub since: Timestamp,
    /// The outcome of the last failed request.
    pub last: Outcome,
    /// The HTTP status of the last failed request, if there was a response.
    pub status: Option<u16>,
}

/// A time in which deliveries are not attempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probation {
    /// The outcome that started or prolonged the probation.
    pub cause: Outcome,
    /// The HTTP status of the failure that started or prolonged the probation, if there was a response.
    pub status: Option<u16>,
    pub since: Timestamp,
    /// The time from which one event probes the receiver. Its outcome ends or prolongs the probation.
    pub until: Timestamp,
    /// The length of the probation before the time scale is applied.
    length: Duration,
    /// Is true while the probe is on the wire.
    probing: bool,
}

/// The outcome of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    pub outcome: Outcome,
    /// Is true if the receiver says that it is gone for good; `None` if it did not respond.
    pub is_gone: Option<bool>,
    /// The HTTP status, if there was a response.
    pub status: Option<u16>,
    /// Is true if the request was the probe.
    pub is_probe: bool,
}

/// The decision on the due deliveries of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Deliver.
    Free,
    /// Deliver one event, whose outcome ends or prolongs the probation.
    Probe,
    /// Wait until `until`; `None` means until the probe has ended.
    Hold { until: Option<Timestamp> },
    /// Count attempts that are not made.
    Skip { cause: Outcome },
}

impl Health {
    /// Returns the health after one more request, which ended at `now`.
    #[must_use]
    pub fn observed(
        self,
        seen: Observation,
        rules: &ProbationRules,
        now: Timestamp,
        scale: TimeScale,
    ) -> Self {
        let gone_since = match seen.is_gone {
            Some(true) => self.gone_since.or(Some(now)),
            Some(false) => None,
            None => self.gone_since,
        };
        let Some(first) = first_length(seen.outcome) else {
            return Self {
                gone_since,
                ..Self::default()
            };
        };
        let failures = self.failures.saturating_add(1);
        let length = match self.probation {
            None if failures >= rules.failures => Some(first),
            Some(probation) if seen.is_probe => Some((probation.length * 2).max(first)),
            // Before enough failures there is no probation. During a probation, a request other than the probe was in
            // flight when the probation began.
            None | Some(_) => None,
        };
        let prolonged = length.map(|wanted| {
            let length = wanted.min(rules.longest);
            Probation {
                cause: seen.outcome,
                status: seen.status,
                since: self.probation.map_or(now, |before| before.since),
                until: now + scale.shrink(length),
                length,
                probing: false,
            }
        });
        Self {
            failures,
            failing: Some(Failing {
                since: self.failing.map_or(now, |before| before.since),
                last: seen.outcome,
                status: seen.status,
            }),
            probation: prolonged.or(self.probation),
            gone_since,
        }
    }

    /// Returns what the subscription may do at `now`.
    pub fn admission(&self, mode: ProbationMode, now: Timestamp) -> Admission {
        let Some(probation) = self.probation else {
            return Admission::Free;
        };
        match (probation.probing, mode) {
            (true, _) => Admission::Hold { until: None },
            (false, _) if now >= probation.until => Admission::Probe,
            (false, ProbationMode::Hold) => Admission::Hold {
                until: Some(probation.until),
            },
            (false, ProbationMode::Azure) => Admission::Skip {
                cause: probation.cause,
            },
        }
    }

    /// Shortens a probation that lasts beyond `now`, so that the probe may be made at `now`.
    #[must_use]
    pub fn probing_at(self, now: Timestamp) -> Self {
        Self {
            probation: self.probation.map(|probation| Probation {
                until: probation.until.min(now),
                ..probation
            }),
            ..self
        }
    }

    /// Returns the health without a probation, and as if the receiver had not said that it is gone.
    #[must_use]
    pub fn without_probation(self) -> Self {
        Self {
            probation: None,
            gone_since: None,
            ..self
        }
    }

    /// Returns the health with the probe marked as in flight or not.
    #[must_use]
    pub fn probing(self, probing: bool) -> Self {
        Self {
            probation: self.probation.map(|probation| Probation {
                probing,
                ..probation
            }),
            ..self
        }
    }
}

/// Returns whether deliveries that are skipped because of this outcome are dead-lettered (section A).
pub fn is_client_error(cause: Outcome) -> bool {
    CLIENT_ERRORS.contains(&cause)
}

/// `None` for an outcome that is no failure of the receiver.
fn first_length(outcome: Outcome) -> Option<Duration> {
    let mut lengths = FIRST_LENGTHS.iter();
    let found = lengths.find(|(cause, _)| *cause == outcome)?;
    Some(found.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: ProbationRules = ProbationRules {
        failures: 3,
        longest: minutes(60),
        mode: ProbationMode::Hold,
    };

    /// Plays requests one after the other, each as early as allowed. The words are statuses, `timeout`,
    /// `rejected` or `unknown`. Returns the length of each probation in seconds.
    fn lengths(words: &str) -> String {
        let (mut health, mut now) = (Health::default(), Timestamp::from_ms(0));
        let mut told = Vec::new();
        for word in words.split(' ') {
            let is_probe = match health.admission(RULES.mode, now) {
                Admission::Free => false,
                Admission::Probe => true,
                admission @ (Admission::Hold { .. } | Admission::Skip { .. }) => {
                    panic!("{words}: not before {admission:?}")
                }
            };
            if is_probe {
                health = health.probing(true);
                let waiting = health.admission(RULES.mode, now);
                assert_eq!(waiting, Admission::Hold { until: None }, "{words}");
            }
            let seen = Observation {
                is_probe,
                ..observation(word)
            };
            health = health.observed(seen, &RULES, now, TimeScale::REAL);
            told.push(match health.probation {
                None => "-".to_owned(),
                Some(probation) => {
                    let length = probation.until.since(now).as_secs();
                    now = probation.until;
                    length.to_string()
                }
            });
        }
        told.join(" ")
    }

    fn observation(word: &str) -> Observation {
        let (outcome, is_gone) = match word {
            "timeout" => (Outcome::TimedOut, None),
            "rejected" => (Outcome::SocketError, None),
            "unknown" => (Outcome::ResolutionError, None),
            "denied" => (Outcome::Aborted, None),
            status => {
                let status = status.parse().expect("a status");
                (Outcome::of_status(status), Some(status == 410))
            }
        };
        Observation {
            outcome,
            is_gone,
            status: word.parse().ok(),
            is_probe: false,
        }
    }

    fn check(words: &str, expected: &str) {
        assert_eq!(lengths(words), expected, "{words}");
    }

    #[test]
    fn the_cause_decides_how_long_the_first_one_lasts() {
        // The table of rule 7.4.
        check("503 503 503", "- - 10");
        check("429 429 429", "- - 10");
        check("timeout timeout timeout", "- - 10");
        check("408 408 408", "- - 10");
        check("rejected rejected rejected", "- - 30");
        check("404 404 404", "- - 300");
        check("unknown unknown unknown", "- - 300");
        check("401 401 401", "- - 300");
        check("403 403 403", "- - 300");
        // Not in the table.
        check("500 409 410", "- - 10");
        check("denied denied denied", "- - 300");
        // The failure that starts it is the cause.
        check("404 404 503", "- - 10");
    }

    #[test]
    fn each_failed_probe_doubles_it_and_success_ends_it() {
        check("503 503 503 503 503 503", "- - 10 20 40 80");
        check("503 503 503 404 404", "- - 10 300 600");
        check("404 404 404 503 503", "- - 300 600 1200");
        check(
            "404 404 404 404 404 404 404 404",
            "- - 300 600 1200 2400 3600 3600",
        );
        check("503 503 503 200 503 503 503", "- - 10 - - - 10");
    }

    #[test]
    fn only_failures_of_the_receiver_in_a_row_count() {
        check("503 503 200 503 503 503", "- - - - - 10");
        // 400 and 413 are about the event.
        check("400 400 400 413 413 413", "- - - - - -");
        check("503 503 400 503 503", "- - - - -");
        check("503 503 503 413 503 503", "- - 10 - - -");
    }

    #[test]
    fn requests_on_the_wire_when_it_began_do_not_prolong_it() {
        let mut health = Health::default();
        let at = |ms| Timestamp::from_ms(ms);
        for ms in 0..5 {
            health = health.observed(observation("503"), &RULES, at(ms), TimeScale::REAL);
        }
        let probation = health.probation.expect("a probation");
        assert_eq!((health.failures, probation.until), (5, at(10_002)));
        // But one that succeeds shows that the receiver works again.
        let healthy = health.observed(observation("200"), &RULES, at(9), TimeScale::REAL);
        assert_eq!(healthy, Health::default());
    }

    #[test]
    fn the_mode_decides_what_due_deliveries_do() {
        let mut health = Health::default();
        let at = |ms| Timestamp::from_ms(ms);
        for _ in 0..3 {
            health = health.observed(observation("404"), &RULES, at(0), TimeScale::REAL);
        }
        let until = at(300_000);
        let hold = Admission::Hold { until: Some(until) };
        let cause = Outcome::NotFound;
        for (mode, now, expected) in [
            (ProbationMode::Hold, at(299_999), hold),
            (ProbationMode::Hold, until, Admission::Probe),
            (ProbationMode::Azure, at(0), Admission::Skip { cause }),
            (ProbationMode::Azure, until, Admission::Probe),
        ] {
            assert_eq!(health.admission(mode, now), expected, "{mode:?} {now}");
        }
        let given_up = Outcome::ALL
            .into_iter()
            .filter(|each| is_client_error(*each));
        assert_eq!(
            given_up.collect::<Vec<_>>(),
            [Outcome::Unauthorized, Outcome::Forbidden, Outcome::NotFound]
        );
    }

    #[test]
    fn it_shrinks_with_the_time_scale() {
        let scale = TimeScale::new(10).expect("a factor");
        let mut health = Health::default();
        for _ in 0..3 {
            health = health.observed(observation("404"), &RULES, Timestamp::from_ms(0), scale);
        }
        let until = health.probation.map(|probation| probation.until);
        assert_eq!(until, Some(Timestamp::from_ms(30_000)));
    }

    #[test]
    fn the_newest_answer_tells_whether_the_receiver_is_gone() {
        let mut health = Health::default();
        for (ms, word, gone_since) in [
            (1, "500", None),
            (2, "410", Some(2)),
            (3, "410", Some(2)),
            (4, "timeout", Some(2)),
            (5, "500", None),
            (6, "410", Some(6)),
            (7, "200", None),
        ] {
            let now = Timestamp::from_ms(ms);
            health = health.observed(observation(word), &RULES, now, TimeScale::REAL);
            let expected = gone_since.map(Timestamp::from_ms);
            assert_eq!(health.gone_since, expected, "{ms} {word}");
        }
    }
}
