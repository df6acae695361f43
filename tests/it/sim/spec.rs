//! Random event subscriptions, and what they mean: written down a second time, plainly, so that the
//! product's rules are held against something.

use std::time::Duration;

use everpost::base::Timestamp;
use serde_json::{Value, json};

use super::dice::Dice;
use super::event::{Draft, Input, TENANTS, TYPES};

/// Whose rules hold, and who comes for the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Topic,
    Namespace,
    /// In a namespace; a receiver has so many seconds for what it takes.
    Pulled {
        lock_s: u64,
    },
}

impl Kind {
    pub(super) fn throw(dice: &Dice, input: Input) -> Self {
        match input {
            Input::EventGrid | Input::CloudEvents | Input::Custom => Self::Topic,
            Input::Namespace if dice.percent(50) => Self::Namespace,
            Input::Namespace => Self::pulled(dice),
        }
    }

    fn pulled(dice: &Dice) -> Self {
        let lock_s = *dice.pick(&[60, 61, 120, 300]);
        Self::Pulled { lock_s }
    }

    /// The mode of delivery cannot be changed.
    pub(super) fn changed(self, dice: &Dice) -> Self {
        match self {
            Self::Topic | Self::Namespace => self,
            Self::Pulled { .. } => Self::pulled(dice),
        }
    }

    pub(super) fn is_pulled(self) -> bool {
        matches!(self, Self::Pulled { .. })
    }
}

/// What an event subscription asks for.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) kind: Kind,
    pub(super) host: String,
    wanted: Wanted,
    schema: &'static str,
    pub(super) batch_events: Option<u32>,
    pub(super) batch_kilobytes: Option<u32>,
    pub(super) by_tenant: bool,
    pub(super) in_flight: Option<u32>,
    /// Requests in a hundred seconds.
    pub(super) rate: Option<u32>,
    deadline_s: Option<u32>,
    pub(super) attempts_max: u32,
    time_to_live_minutes: u32,
    schedule_s: Vec<u64>,
    pub(super) keeps_dead: bool,
    expires_at: Option<Timestamp>,
    pub(super) disable_on_gone: bool,
    pub(super) paused: bool,
    pub(super) disabled: bool,
}

/// Its filter.
#[derive(Clone, Debug, Default)]
struct Wanted {
    types: Option<Vec<&'static str>>,
    begins: Option<&'static str>,
    ends: Option<&'static str>,
    case_matters: bool,
    greater_than: Option<i64>,
    tenants: Option<Vec<&'static str>>,
}

/// The published waits after each failure (rule 7.1), in seconds.
const WAITS_S: [u64; 10] = [10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200];

/// When the attempts are due since the first one, in namespaces (rule N6.3), in seconds;
/// the others follow every five minutes.
const OFFSETS_S: [u64; 5] = [0, 10, 30, 60, 300];

/// The longest `Retry-After` that is obeyed, in seconds.
const RETRY_AFTER_MAX_S: u64 = 86_400;

/// What an attempt came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Status(u16, Option<u64>),
    TimedOut,
    Rejected,
    /// Counted, but not made.
    Skipped {
        client_error: bool,
    },
}

/// When a delivery was published, and when its first attempt began.
#[derive(Clone, Copy)]
pub(super) struct Life {
    pub(super) published_at: Timestamp,
    pub(super) first_at: Timestamp,
}

/// What must become of a delivery after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Delivered,
    Dead(&'static str),
    Again { from: Timestamp, to: Timestamp },
}

impl Spec {
    pub(super) fn throw(
        dice: &Dice,
        host: String,
        kind: Kind,
        input: Input,
        now: Timestamp,
    ) -> Self {
        let spec = Self::throw_pushed(dice, host, input, now);
        let spec = Self { kind, ..spec };
        match kind {
            Kind::Topic => spec,
            Kind::Namespace => spec.in_namespace(),
            Kind::Pulled { .. } => spec.in_namespace().without_receiver(),
        }
    }

    fn throw_pushed(dice: &Dice, host: String, input: Input, now: Timestamp) -> Self {
        let quick = dice.percent(30);
        Self {
            kind: Kind::Topic,
            host,
            wanted: Wanted::throw(dice),
            schema: *dice.pick(input.deliveries()),
            batch_events: dice.maybe(40, || u32::try_from(dice.within(1, 4)).expect("small")),
            batch_kilobytes: dice.maybe(25, || 1),
            by_tenant: dice.percent(35),
            in_flight: throw_in_flight(dice, 30),
            rate: throw_rate(dice),
            deadline_s: dice.maybe(25, || u32::try_from(dice.within(1, 60)).expect("small")),
            attempts_max: *dice.pick(&[1, 2, 3, 5, 10, 30]),
            time_to_live_minutes: *dice.pick(&[1, 2, 10, 60, 600, 1_440]),
            schedule_s: match quick {
                true => (0..dice.within(1, 3)).map(|_| dice.within(1, 40)).collect(),
                false => Vec::new(),
            },
            keeps_dead: dice.percent(75),
            expires_at: dice.maybe(10, || now + seconds(dice.within(60, 20_000))),
            disable_on_gone: dice.percent(25),
            paused: dice.percent(4),
            disabled: dice.percent(3),
        }
    }

    /// Fewer attempts are granted there, and letter case never matters.
    fn in_namespace(mut self) -> Self {
        self.attempts_max = self.attempts_max.min(10);
        self.wanted.case_matters = false;
        self
    }

    /// Nothing of how a webhook is served.
    fn without_receiver(mut self) -> Self {
        (self.batch_events, self.batch_kilobytes) = (None, None);
        (self.in_flight, self.rate, self.deadline_s) = (None, None, None);
        (self.by_tenant, self.disable_on_gone) = (false, false);
        self.schedule_s.clear();
        self
    }

    /// The same with another pace, and without an end, which must not lie behind.
    pub(super) fn repaced(mut self, dice: &Dice) -> Self {
        self.expires_at = None;
        if !self.kind.is_pulled() {
            self.in_flight = throw_in_flight(dice, 70);
            self.rate = throw_rate(dice);
        }
        self
    }

    pub(super) fn paused(mut self) -> Self {
        self.paused = true;
        self
    }

    pub(super) fn resumed(mut self) -> Self {
        (self.paused, self.disabled) = (false, false);
        self
    }

    pub(super) fn disabled(mut self) -> Self {
        self.disabled = true;
        self
    }

    /// The body of a PUT.
    pub(super) fn body(&self) -> Value {
        match self.kind {
            Kind::Topic => self.body_in_topic(),
            Kind::Namespace | Kind::Pulled { .. } => self.body_in_namespace(),
        }
    }

    fn destination(&self) -> Value {
        let mut webhook =
            json!({"endpointUrl": format!("http://{}/", self.host), "skipValidation": true});
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                webhook[name] = value;
            }
        };
        put("maxEventsPerBatch", self.batch_events.map(Value::from));
        let kilobytes = self.batch_kilobytes.map(Value::from);
        put("preferredBatchSizeInKilobytes", kilobytes);
        put("maxRequestsInFlight", self.in_flight.map(Value::from));
        let rate = self.rate.map(|rate| Value::from(f64::from(rate) / 100.0));
        put("maxRequestsPerSecond", rate);
        put(
            "responseDeadlineInSeconds",
            self.deadline_s.map(Value::from),
        );
        let dynamic = json!([{"name": "X-Tenant", "type": "Dynamic",
            "properties": {"sourceField": "data.tenant"}}]);
        put(
            "deliveryAttributeMappings",
            self.by_tenant.then_some(dynamic),
        );
        json!({"endpointType": "WebHook", "properties": webhook})
    }

    fn schedule(&self) -> Value {
        let waits = self.schedule_s.iter().map(|wait| format!("PT{wait}S"));
        waits.collect()
    }

    fn body_in_namespace(&self) -> Value {
        let mut delivery = json!({"maxDeliveryCount": self.attempts_max,
            "eventTimeToLive": format!("PT{}M", self.time_to_live_minutes)});
        if !self.keeps_dead {
            delivery["deadLetterDestinationWithResourceIdentity"] =
                json!({"deadLetterDestination": {"endpointType": "Drop"}});
        }
        let configuration = match self.kind {
            Kind::Pulled { lock_s } => {
                delivery["receiveLockDurationInSeconds"] = lock_s.into();
                json!({"deliveryMode": "Queue", "queue": delivery})
            }
            Kind::Topic | Kind::Namespace => {
                delivery["destination"] = self.destination();
                if !self.schedule_s.is_empty() {
                    delivery["schedule"] = self.schedule();
                }
                json!({"deliveryMode": "Push", "push": delivery})
            }
        };
        let mut properties = json!({
            "deliveryConfiguration": configuration, "filtersConfiguration": self.wanted.configuration(),
            "paused": self.paused, "disabled": self.disabled, "disableOnGone": self.disable_on_gone,
        });
        if let Some(at) = self.expires_at {
            properties["expirationTimeUtc"] = at.to_string().into();
        }
        json!({ "properties": properties })
    }

    fn body_in_topic(&self) -> Value {
        let mut retry = json!({"maxDeliveryAttempts": self.attempts_max,
            "eventTimeToLiveInMinutes": self.time_to_live_minutes});
        if !self.schedule_s.is_empty() {
            retry["schedule"] = self.schedule();
        }
        let mut properties = json!({
            "destination": self.destination(),
            "filter": self.wanted.body(), "eventDeliverySchema": self.schema, "retryPolicy": retry,
            "paused": self.paused, "disabled": self.disabled, "disableOnGone": self.disable_on_gone,
        });
        if !self.keeps_dead {
            properties["deadLetterDestination"] = json!({"endpointType": "Drop"});
        }
        if let Some(at) = self.expires_at {
            properties["expirationTimeUtc"] = at.to_string().into();
        }
        json!({ "properties": properties })
    }

    pub(super) fn takes(&self, event: &Draft, now: Timestamp) -> bool {
        let expired = self.expires_at.is_some_and(|at| at <= now);
        !self.disabled && !expired && self.wanted.matches(event)
    }

    pub(super) fn delivers(&self) -> bool {
        !self.paused && !self.disabled
    }

    pub(super) fn original(&self) -> bool {
        self.schema == "CustomInputSchema"
    }

    pub(super) fn events_max(&self) -> usize {
        match (self.batch_events, self.batch_kilobytes) {
            (Some(events), _) => events as usize,
            (None, Some(_)) => 5_000,
            (None, None) => 1,
        }
    }

    pub(super) fn time_to_live(&self) -> Duration {
        seconds(u64::from(self.time_to_live_minutes) * 60)
    }

    /// What must follow from the attempt of this number that ended at `now`. Another one is due when it is planned, or
    /// when the delivery expires, if that is before.
    pub(super) fn fate(&self, attempt: u32, said: Said, life: Life, now: Timestamp) -> Fate {
        let in_namespace = self.kind != Kind::Topic;
        match said {
            Said::Status(200..=204, _) => return Fate::Delivered,
            Said::Status(400 | 401 | 403 | 404 | 413 | 414, _) if in_namespace => {
                return Fate::Dead("UndeliverableDueToClientError");
            }
            Said::Status(400, _) => return Fate::Dead("UndeliverableDueToHttpBadRequest"),
            Said::Status(401, _) => return Fate::Dead("UndeliverableDueToHttpUnauthorized"),
            Said::Status(403, _) => return Fate::Dead("UndeliverableDueToHttpForbidden"),
            Said::Status(413, _) => {
                return Fate::Dead("UndeliverableDueToHttpRequestEntityTooLarge");
            }
            Said::Skipped { client_error: true } => {
                return Fate::Dead("UndeliverableDueToProbationCausedByClientError");
            }
            Said::Status(..) | Said::TimedOut | Said::Rejected | Said::Skipped { .. } => {}
        }
        if attempt >= self.attempts_max {
            return Fate::Dead("MaxDeliveryAttemptsExceeded");
        }
        let at = attempt as usize - 1;
        let (planned, least) = match self.schedule_s.last() {
            Some(last) => (now + seconds(*self.schedule_s.get(at).unwrap_or(last)), 0),
            None if in_namespace => (life.first_at + offset(attempt), least_wait(said)),
            None => {
                let wait = WAITS_S[at.min(WAITS_S.len() - 1)];
                (now + seconds(wait), least_wait(said))
            }
        };
        let asked = match said {
            Said::Status(429 | 503, Some(asked)) => asked.min(RETRY_AFTER_MAX_S),
            Said::Status(..) | Said::TimedOut | Said::Rejected | Said::Skipped { .. } => 0,
        };
        let least = seconds(least.max(asked));
        let wait = planned.since(now).max(least);
        let earliest = wait.mul_f64(0.9).saturating_sub(Duration::from_millis(1));
        let expires_at = life.published_at + self.time_to_live();
        Fate::Again {
            from: (now + earliest.max(least)).min(expires_at),
            to: (now + wait.mul_f64(1.1) + Duration::from_millis(1)).min(expires_at),
        }
    }
}

fn throw_in_flight(dice: &Dice, percent: u64) -> Option<u32> {
    dice.maybe(percent, || u32::try_from(dice.within(1, 3)).expect("small"))
}

fn throw_rate(dice: &Dice) -> Option<u32> {
    dice.maybe(15, || *dice.pick(&[10, 50, 100, 500, 3_000]))
}

/// The shortest wait after a status (rule 6.5), in seconds.
fn least_wait(said: Said) -> u64 {
    match said {
        Said::Status(404, _) => 300,
        Said::Status(408, _) => 120,
        Said::Status(503, _) => 30,
        Said::Status(..) | Said::TimedOut | Said::Rejected | Said::Skipped { .. } => 10,
    }
}

impl Wanted {
    fn throw(dice: &Dice) -> Self {
        if dice.percent(35) {
            return Self::default();
        }
        let some = |from: &[&'static str]| -> Vec<&'static str> {
            (0..dice.within(1, 2)).map(|_| *dice.pick(from)).collect()
        };
        Self {
            types: dice.maybe(30, || some(&TYPES)),
            begins: dice.maybe(30, || *dice.pick(&["/orders", "/ORDERS/2", "/Stock", "/"])),
            ends: dice.maybe(15, || *dice.pick(&["1", "LINES", "9"])),
            case_matters: dice.percent(20),
            greater_than: dice.maybe(25, || {
                i64::try_from(dice.within(0, 15)).expect("a small number") - 5
            }),
            tenants: dice.maybe(25, || some(&TENANTS)),
        }
    }

    fn body(&self) -> Value {
        let mut advanced = Vec::new();
        if let Some(than) = self.greater_than {
            advanced
                .push(json!({"operatorType": "NumberGreaterThan", "key": "data.n", "value": than}));
        }
        if let Some(tenants) = &self.tenants {
            advanced
                .push(json!({"operatorType": "StringIn", "key": "data.tenant", "values": tenants}));
        }
        json!({
            "includedEventTypes": self.types, "subjectBeginsWith": self.begins,
            "subjectEndsWith": self.ends, "isSubjectCaseSensitive": self.case_matters,
            "advancedFilters": advanced,
        })
    }

    /// The same as namespaces write it.
    fn configuration(&self) -> Value {
        let mut filters = Vec::new();
        for (operator, text) in [
            ("StringBeginsWith", self.begins),
            ("StringEndsWith", self.ends),
        ] {
            if let Some(text) = text {
                filters.push(json!({"operatorType": operator, "key": "subject", "values": [text]}));
            }
        }
        let Value::Array(advanced) = self.body()["advancedFilters"].take() else {
            unreachable!("a list of filters");
        };
        filters.extend(advanced);
        json!({"includedEventTypes": self.types, "filters": filters})
    }

    fn matches(&self, event: &Draft) -> bool {
        let fold = |text: &str| match self.case_matters {
            true => text.to_owned(),
            false => text.to_ascii_lowercase(),
        };
        let subject = fold(event.subject);
        self.types
            .as_ref()
            .is_none_or(|types| types.contains(&event.event_type))
            && self
                .begins
                .is_none_or(|begin| subject.starts_with(&fold(begin)))
            && self.ends.is_none_or(|end| subject.ends_with(&fold(end)))
            && self.greater_than.is_none_or(|than| event.number > than)
            && self
                .tenants
                .as_ref()
                .is_none_or(|tenants| tenants.contains(&event.tenant))
    }
}

/// When the attempt after the one of this number is due, since the first one.
fn offset(attempt: u32) -> Duration {
    let (at, last) = (attempt as usize, OFFSETS_S.len() - 1);
    let beyond = at.saturating_sub(last) as u64 * 300;
    seconds(OFFSETS_S[at.min(last)] + beyond)
}

pub(super) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
