//! What the simulation knows: who subscribed to what, what was published, what was sent where and what
//! was said to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use everpost::base::Timestamp;
use everpost::model::delivery::DeliveryState;
use everpost::model::event::EventKey;
use everpost::model::subscription::SubscriptionId;

use super::event::{Draft, Input};
use super::pulled::Pulled;
use super::spec::{Said, Spec};

/// Everything that is known.
pub(super) struct Ledger {
    pub(super) topics: Vec<Topic>,
    pub(super) subs: Vec<Sub>,
    pub(super) events: Vec<Event>,
    by_id: BTreeMap<String, usize>,
    /// Events of which something is not at its end, or was changed a moment ago.
    pub(super) live: BTreeSet<usize>,
    /// Lives of the appliance so far.
    pub(super) life: u32,
    /// The clock was set back while the appliance was down: moments do not order anything any more.
    pub(super) clock_went_back: bool,
    /// The disk has been full since the last moment at which everything was found in order.
    pub(super) disk_was_full: bool,
    /// The clock jumps at this moment: what fell due on the way happens in any order.
    pub(super) clock_jumps: bool,
    pub(super) limits: Limits,
    started_at: Timestamp,
    pub(super) now: Timestamp,
    trace: Vec<String>,
    hash: u64,
    /// The first rule that was broken.
    pub(super) violation: Option<String>,
}

pub(super) struct Topic {
    pub(super) name: String,
    pub(super) input: Input,
    pub(super) key: String,
}

/// Where all namespace topics are.
pub(super) const NAMESPACE: &str = "/namespaces/shop";

impl Topic {
    pub(super) fn path(&self) -> String {
        match self.input {
            Input::Namespace => format!("{NAMESPACE}/topics/{}", self.name),
            Input::EventGrid | Input::CloudEvents | Input::Custom => {
                format!("/topics/{}", self.name)
            }
        }
    }

    /// What opens it.
    pub(super) fn keys_path(&self) -> String {
        match self.input {
            Input::Namespace => format!("{NAMESPACE}/listKeys"),
            Input::EventGrid | Input::CloudEvents | Input::Custom => {
                format!("{}/listKeys", self.path())
            }
        }
    }

    pub(super) fn publish_path(&self) -> String {
        match self.input {
            Input::Namespace => format!("{}:publish?api-version=2024-06-01", self.path()),
            Input::EventGrid | Input::CloudEvents | Input::Custom => {
                format!("{}/api/events", self.path())
            }
        }
    }
}

/// An event subscription from its creation to its deletion.
pub(super) struct Sub {
    pub(super) topic: usize,
    pub(super) name: String,
    pub(super) id: Option<SubscriptionId>,
    /// What it asked for, and since when.
    pub(super) specs: Vec<(Timestamp, Spec)>,
    /// Since when, and whether its pending deliveries are kept as dead letters.
    pub(super) deleted: Option<(Timestamp, bool)>,
    /// Requests of the present life, newest last.
    pub(super) starts: Vec<Timestamp>,
    pub(super) on_wire: usize,
    /// Its newest request of the present life, or the change of its rate since then.
    pub(super) paced_since: Option<Timestamp>,
    /// As it was found last.
    pub(super) probation_until: Option<Timestamp>,
    /// Since then something happened that may end a probation.
    pub(super) changed: bool,
    /// A late success of the present life that a full disk may keep from being heard.
    pub(super) owes_success: bool,
    /// What its receivers were given with events, oldest first.
    pub(super) tokens: Vec<String>,
}

/// How many requests may be on the wire.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) per_subscription: usize,
    pub(super) overall: usize,
}

pub(super) struct Event {
    pub(super) draft: Draft,
    pub(super) topic: usize,
    pub(super) key: Option<EventKey>,
    pub(super) offered_at: Timestamp,
    pub(super) standing: Standing,
    /// By subscription.
    pub(super) pairs: BTreeMap<usize, Pair>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its publisher waits for the answer.
    Offered,
    Accepted,
    Rejected,
    /// It had ended long ago.
    Gone,
}

/// An event and a subscription that it matched.
#[derive(Default)]
pub(super) struct Pair {
    /// The subscription was changed at the same time: it may have come too late, or too early.
    pub(super) maybe: bool,
    /// The subscription was deleted when the delivery may still have had to be created.
    pub(super) may_be_skipped: bool,
    pub(super) sent: Vec<Sent>,
    /// As it was found last.
    pub(super) seen: Option<Seen>,
    /// Somebody asks for its resubmission.
    pub(super) resubmitting: bool,
    pub(super) on_wire: bool,
    /// Something happened to it since it was seen.
    pub(super) touched: bool,
    /// It was answered late with a success while it waited.
    pub(super) must_be_delivered: bool,
    /// Of a pulled subscription: what must be so, by the number of the delivery.
    pub(super) pulled: BTreeMap<i64, Pulled>,
}

/// One event in a request.
pub(super) struct Sent {
    pub(super) life: u32,
    pub(super) count: u32,
    pub(super) started_at: Timestamp,
    pub(super) ended: Option<(Timestamp, Said)>,
    /// It need not be recorded: a crash came between.
    pub(super) excused: bool,
    /// It was answered while the disk was full: what ends the delivery meanwhile comes before its record.
    pub(super) put_off: bool,
    pub(super) recorded: bool,
    pub(super) late: Option<(Timestamp, u16)>,
}

/// A delivery as the store tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) id: i64,
    pub(super) state: DeliveryState,
    pub(super) attempts: u32,
    pub(super) next_attempt_at: Option<Timestamp>,
    pub(super) published_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
}

impl Ledger {
    pub(super) fn new(now: Timestamp, limits: Limits) -> Self {
        Self {
            topics: Vec::new(),
            subs: Vec::new(),
            events: Vec::new(),
            by_id: BTreeMap::new(),
            live: BTreeSet::new(),
            life: 0,
            clock_went_back: false,
            disk_was_full: false,
            clock_jumps: false,
            limits,
            started_at: now,
            now,
            trace: Vec::new(),
            hash: 0xcbf2_9ce4_8422_2325,
            violation: None,
        }
    }

    /// Writes a line of the trace.
    pub(super) fn note(&mut self, line: impl AsRef<str>) {
        let since = self.now.as_ms() - self.started_at.as_ms();
        let mut text = String::new();
        let _ = write!(
            text,
            "{:>5}.{:03}s  {}",
            since.div_euclid(1_000),
            since.rem_euclid(1_000),
            line.as_ref()
        );
        for byte in text.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.trace.push(text);
    }

    /// Notes that a rule is broken.
    pub(super) fn broken(&mut self, rule: impl Into<String>) {
        let rule = rule.into();
        self.note(format!("VIOLATION {rule}"));
        self.violation.get_or_insert(rule);
    }

    pub(super) fn trace(&self) -> String {
        self.trace.join("\n")
    }

    /// Of the whole trace.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn add_event(&mut self, event: Event) -> usize {
        let index = self.events.len();
        self.by_id.insert(event.draft.id.clone(), index);
        self.events.push(event);
        index
    }

    pub(super) fn event_by_id(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    pub(super) fn sub_by_host(&self, host: &str) -> Option<usize> {
        let mut subs = self.subs.iter();
        subs.position(|sub| sub.specs.iter().any(|(_, spec)| spec.host == host))
    }

    /// What subscription `sub` may have asked for at `at`. Changes of the same moment are not told apart.
    pub(super) fn specs_at(&self, sub: usize, at: Timestamp) -> Vec<&Spec> {
        let specs = &self.subs[sub].specs;
        if self.clock_went_back {
            return specs.iter().map(|(_, spec)| spec).collect();
        }
        let held = |index: usize| {
            let until = specs.get(index + 1).map(|(until, _)| *until);
            specs[index].0 <= at && until.is_none_or(|until| until >= at)
        };
        let held: Vec<_> = (0..specs.len())
            .filter(|index| held(*index))
            .map(|index| &specs[index].1)
            .collect();
        assert!(!held.is_empty(), "a subscription always asks for something");
        held
    }

    /// The events of which something was touched or fell due: no others have any reason to move.
    pub(super) fn may_have_moved(&self) -> Vec<usize> {
        let moved = |(sub, pair): (&usize, &Pair)| {
            // Nobody sends what is pulled: it may be due for long.
            let is_sent = !self.subs[*sub].spec().kind.is_pulled();
            let is_due = |next: Timestamp| is_sent && next <= self.now;
            let due = |seen: &Seen| seen.next_attempt_at.is_some_and(is_due);
            pair.touched || pair.seen.as_ref().is_none_or(due)
        };
        let live = self.live.iter().copied();
        live.filter(|event| self.events[*event].pairs.iter().any(moved))
            .collect()
    }

    /// The appliance is gone: nobody hears the answers any more.
    pub(super) fn crash(&mut self) {
        for sub in &mut self.subs {
            sub.on_wire = 0;
            sub.starts.clear();
            sub.paced_since = None;
            sub.probation_until = None;
            sub.owes_success = false;
        }
        for pair in self
            .events
            .iter_mut()
            .flat_map(|event| event.pairs.values_mut())
        {
            pair.on_wire = false;
            pair.must_be_delivered = false;
            for sent in pair.sent.iter_mut().filter(|sent| !sent.recorded) {
                sent.excused = true;
            }
        }
        self.life += 1;
    }
}

impl Sub {
    pub(super) fn new(topic: usize, name: String, spec: (Timestamp, Spec)) -> Self {
        Self {
            topic,
            name,
            id: None,
            specs: vec![spec],
            deleted: None,
            starts: Vec::new(),
            on_wire: 0,
            paced_since: None,
            probation_until: None,
            changed: true,
            owes_success: false,
            tokens: Vec::new(),
        }
    }

    pub(super) fn spec(&self) -> &Spec {
        &self
            .specs
            .last()
            .expect("a subscription asks for something")
            .1
    }
}

impl Event {
    /// Whether everything is at its end, as far as the store was asked.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.standing, Standing::Rejected | Standing::Gone)
            || self.pairs.values().all(|pair| {
                let ended = |seen: &Seen| seen.state != DeliveryState::Pending;
                let is_skipped = pair.seen.is_none() && pair.may_be_skipped;
                !pair.touched
                    && !pair.on_wire
                    && (is_skipped || pair.seen.as_ref().is_some_and(ended))
            })
    }
}
