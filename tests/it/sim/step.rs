//! What people and programs do to the appliance: publish, change subscriptions, resubmit dead letters.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::{Method, Request};
use everpost::base::Timestamp;
use everpost::model::delivery::DeliveryState;
use serde_json::{Value, json};

use super::event::{Draft, Input};
use super::ledger::{Event, Ledger, Pair, Standing, Sub};
use super::run::Simulation;
use super::spec::Spec;

/// A change of a subscription.
#[derive(Clone, Debug)]
enum Change {
    Put(Box<Spec>),
    Pause,
    Resume,
    Delete { keeps_pending: bool },
}

impl Simulation {
    pub(super) fn publish(&mut self) {
        let topic = self.dice.index(self.with(|ledger| ledger.topics.len()));
        let events = self.draft(topic);
        // Now and then somebody changes a subscription at the same time.
        match self.dice.percent(12) {
            true => self.publish_while_changing(topic, &events),
            false => {
                self.offer(topic, &events, None);
                let life = self.life();
                let status = life.act(life.send(self.publish_request(topic, &events))).0;
                self.hear(&events, status);
            }
        }
    }

    fn draft(&mut self, topic: usize) -> Vec<Draft> {
        let (first, input) = self.with(|ledger| (ledger.events.len(), ledger.topics[topic].input));
        let count = usize::try_from(*self.dice.pick(&[1, 1, 1, 2, 5])).expect("small");
        let ids = (first..first + count).map(|number| format!("e{number}"));
        ids.map(|id| Draft::throw(&self.dice, id, input)).collect()
    }

    fn publish_request(&self, topic: usize, events: &[Draft]) -> Request<Body> {
        let texts: Vec<&str> = events.iter().map(|event| event.text.as_str()).collect();
        let body = format!("[{}]", texts.join(" , "));
        self.with(|ledger| {
            let topic = &ledger.topics[topic];
            Request::post(topic.publish_path())
                .header("aeg-sas-key", &topic.key)
                .header("content-type", topic.input.content_type())
                .header("x-ms-client-request-id", &events[0].id)
                .body(Body::from(body))
                .expect("a request")
        })
    }

    /// Enters events that are about to be published. Of the `uncertain` subscription nobody can tell
    /// what it asks for when they come; it may be about to ask for something else.
    fn offer(&self, topic: usize, events: &[Draft], uncertain: Option<(usize, Option<&Spec>)>) {
        self.with(|ledger| {
            for draft in events {
                let pairs = pairs(ledger, topic, draft, uncertain);
                let names: Vec<String> = pairs.keys().map(|sub| format!("r{sub}")).collect();
                ledger.note(format!("publish {} for {}", draft.id, names.join(" ")));
                let event = ledger.add_event(Event {
                    draft: draft.clone(),
                    topic,
                    key: None,
                    offered_at: ledger.now,
                    standing: Standing::Offered,
                    pairs,
                });
                ledger.live.insert(event);
            }
        });
    }

    /// Enters what the publisher heard, which must be so in the store.
    fn hear(&self, events: &[Draft], status: u16) {
        let newest = self.newest(events.len());
        self.with(|ledger| {
            ledger.note(format!("answer to the publisher: {status}"));
            let accepted = status == 200;
            if !(accepted || status == 503 && ledger.disk_was_full) {
                ledger.broken(format!("{status} to a publisher"));
            }
            for draft in events {
                let index = ledger.event_by_id(&draft.id).expect("an offered event");
                let found = newest.iter().find(|(id, _)| *id == draft.id);
                let event = &mut ledger.events[index];
                event.key = found.map(|(_, key)| *key);
                event.standing = match accepted {
                    true => Standing::Accepted,
                    false => Standing::Rejected,
                };
                if accepted != found.is_some() {
                    let stored = found.is_some();
                    ledger.broken(format!("{}: {status}, but stored: {stored}", draft.id));
                }
                if !accepted {
                    ledger.live.remove(&index);
                }
            }
        });
        if status == 200 && self.dice.percent(15) {
            self.repeat(events);
        }
    }

    /// A publisher that missed the answer sends the same again, which must change nothing.
    fn repeat(&self, events: &[Draft]) {
        let topic = self.with(|ledger| {
            let event = ledger.event_by_id(&events[0].id).expect("an event");
            ledger.events[event].topic
        });
        let before = self.newest(1);
        let life = self.life();
        let status = life.act(life.send(self.publish_request(topic, events))).0;
        let after = self.newest(1);
        self.with(|ledger| {
            ledger.note(format!("answer to the repetition: {status}"));
            if before != after {
                ledger.broken("a repeated request is stored again");
            }
        });
    }

    fn publish_while_changing(&mut self, topic: usize, events: &[Draft]) {
        let Some((sub, change)) = self.throw_change(Some(topic)) else {
            return;
        };
        let new = match &change {
            Change::Put(spec) => Some((**spec).clone()),
            Change::Resume => Some(self.spec(sub).resumed()),
            Change::Pause | Change::Delete { .. } => None,
        };
        self.offer(topic, events, Some((sub, new.as_ref())));
        let request = self.change_request(sub, &change);
        self.begin_change(sub, &change);
        let life = self.life();
        let publish = life.send(self.publish_request(topic, events));
        let (method, path, body) = request;
        let manage = life.manage(method, &path, &body);
        let ((published, _), (changed, _)) = life.act(async { tokio::join!(publish, manage) });
        self.end_change(sub, &change, changed);
        self.hear(events, published);
    }

    pub(super) fn change_subscription(&mut self) {
        if let Some((sub, change)) = self.throw_change(None) {
            self.change(sub, &change);
        }
    }

    pub(super) fn resume(&mut self, sub: usize) {
        if self.with(|ledger| ledger.subs[sub].deleted.is_none()) {
            self.change(sub, &Change::Resume);
        }
    }

    fn change(&mut self, sub: usize, change: &Change) {
        self.begin_change(sub, change);
        let (method, path, body) = self.change_request(sub, change);
        let life = self.life();
        let (status, _) = life.act(life.manage(method, &path, &body));
        self.end_change(sub, change, status);
    }

    fn spec(&self, sub: usize) -> Spec {
        self.with(|ledger| ledger.subs[sub].spec().clone())
    }

    fn throw_change(&mut self, topic: Option<usize>) -> Option<(usize, Change)> {
        let there: Vec<usize> = self.with(|ledger| {
            let fits =
                |sub: &Sub| sub.deleted.is_none() && topic.is_none_or(|topic| sub.topic == topic);
            let subs = ledger.subs.iter().enumerate();
            subs.filter(|(_, sub)| fits(sub))
                .map(|(index, _)| index)
                .collect()
        });
        if there.is_empty() {
            return None;
        }
        let sub = *self.dice.pick(&there);
        let change = match self.dice.weighted(&[25, 18, 32, 9, 16]) {
            0 => {
                let input = self.with(|ledger| ledger.topics[ledger.subs[sub].topic].input);
                let host = match self.dice.percent(60) {
                    true => self.spec(sub).host,
                    false => {
                        self.receivers += 1;
                        format!("r{}.test", self.receivers)
                    }
                };
                let kind = self.spec(sub).kind.changed(&self.dice);
                let spec = Spec::throw(&self.dice, host, kind, input, self.clock.now());
                Change::Put(Box::new(spec))
            }
            1 => Change::Pause,
            2 => Change::Resume,
            3 => Change::Delete {
                keeps_pending: self.dice.percent(50),
            },
            _ => Change::Put(Box::new(self.spec(sub).repaced(&self.dice))),
        };
        Some((sub, change))
    }

    fn change_request(&self, sub: usize, change: &Change) -> (Method, String, Value) {
        let (topic, name) = self.with(|ledger| {
            let sub = &ledger.subs[sub];
            (sub.topic, sub.name.clone())
        });
        let path = self.path(topic, &name);
        match change {
            Change::Put(spec) => (Method::PUT, path, spec.body()),
            Change::Pause => (Method::POST, format!("{path}/pause"), Value::Null),
            Change::Resume => (Method::POST, format!("{path}/resume"), Value::Null),
            Change::Delete { keeps_pending } => {
                let fate = if *keeps_pending {
                    "deadLetter"
                } else {
                    "discard"
                };
                (
                    Method::DELETE,
                    format!("{path}?pending={fate}"),
                    Value::Null,
                )
            }
        }
    }

    /// From now on the change may be in force.
    fn begin_change(&self, sub: usize, change: &Change) {
        self.with(|ledger| {
            let now = ledger.now;
            ledger.note(format!("change of r{sub}: {change:?}"));
            let sub = &mut ledger.subs[sub];
            sub.changed = true;
            sub.starts.clear();
            sub.paced_since = sub.paced_since.map(|_| now);
            let old = sub.spec().clone();
            match change {
                Change::Put(spec) => sub.specs.push((now, (**spec).clone())),
                Change::Pause => sub.specs.push((now, old.paused())),
                Change::Resume => sub.specs.push((now, old.resumed())),
                Change::Delete { keeps_pending } => sub.deleted = Some((now, *keeps_pending)),
            }
        });
    }

    fn end_change(&self, sub: usize, change: &Change, status: u16) {
        let was_stored = self.is_in_force(sub, change);
        self.with(|ledger| {
            ledger.note(format!("change of r{sub}: {status}"));
            let full = ledger.disk_was_full;
            let books = &mut ledger.subs[sub];
            // What began meanwhile may have gone at the former pace.
            books.starts.clear();
            match (status, full) {
                (200..=204, _) => {}
                // A deletion may have been stored, and only the end of what was pending not.
                (503, true) if was_stored => {}
                (503, true) => match change {
                    Change::Put(_) | Change::Pause | Change::Resume => drop(books.specs.pop()),
                    Change::Delete { .. } => books.deleted = None,
                },
                _ => ledger.broken(format!("{status} to a change of r{sub}")),
            }
        });
    }

    fn is_in_force(&self, sub: usize, change: &Change) -> bool {
        let id = self.with(|ledger| ledger.subs[sub].id);
        let registry = self.life().broker.registry();
        let there = id.is_some_and(|id| registry.subscription(id).is_some());
        matches!(change, Change::Delete { .. }) && !there
    }

    /// Puts a dead letter back, whichever.
    pub(super) fn resubmit(&mut self) {
        let dead: Vec<(usize, usize, i64)> = self.with(|ledger| {
            let there = ledger.events.iter().enumerate();
            let there = there.filter(|(_, event)| event.standing == Standing::Accepted);
            let pairs = there.flat_map(|(event, each)| {
                each.pairs
                    .iter()
                    .map(move |(sub, pair)| (event, *sub, pair))
            });
            let dead = pairs.filter_map(|(event, sub, pair)| {
                let seen = pair.seen.as_ref()?;
                (seen.state == DeliveryState::DeadLettered).then_some((event, sub, seen.id))
            });
            dead.collect()
        });
        if dead.is_empty() {
            return;
        }
        let (event, sub, id) = *self.dice.pick(&dead);
        let deleted = self.with(|ledger| {
            ledger.live.insert(event);
            let pair = ledger.events[event].pairs.get_mut(&sub).expect("a pair");
            pair.resubmitting = true;
            pair.touched = true;
            ledger.note(format!("resubmit e{event} to r{sub}"));
            ledger.subs[sub].deleted.is_some()
        });
        let life = self.life();
        let path = format!("/everpost/deadLetters/{id}/resubmit");
        let (status, _) = life.act(life.manage(Method::POST, &path, &Value::Null));
        self.with(|ledger| {
            let expected = match (deleted, ledger.disk_was_full) {
                (true, _) => status != 200,
                (false, true) => status == 200 || status == 503,
                (false, false) => status == 200,
            };
            if !expected {
                ledger.broken(format!("{status} to a resubmission"));
            }
        });
    }
}

impl Input {
    pub(super) fn topic_body(self) -> Value {
        let properties = match self {
            Self::EventGrid | Self::Namespace => json!({}),
            Self::CloudEvents => json!({"inputSchema": "CloudEventSchemaV1_0"}),
            Self::Custom => json!({"inputSchema": "CustomEventSchema", "inputSchemaMapping": {
                "inputSchemaMappingType": "Json", "properties": {
                    "id": {"sourceField": "no"}, "eventType": {"sourceField": "kind"},
                    "subject": {"sourceField": "path"}, "dataVersion": {"defaultValue": "1"}}}}),
        };
        json!({"location": "local", "properties": properties})
    }
}

/// The subscriptions that want an event, if it comes now.
fn pairs(
    ledger: &Ledger,
    topic: usize,
    event: &Draft,
    uncertain: Option<(usize, Option<&Spec>)>,
) -> BTreeMap<usize, Pair> {
    let now: Timestamp = ledger.now;
    let mut pairs = BTreeMap::new();
    for (index, sub) in ledger.subs.iter().enumerate() {
        if sub.topic != topic || sub.deleted.is_some() {
            continue;
        }
        let takes = sub.spec().takes(event, now);
        let (may, must) = match uncertain {
            Some((changing, new)) if changing == index => {
                let will = new.is_some_and(|new| new.takes(event, now));
                (takes || will, false)
            }
            _ => (takes, takes),
        };
        if may {
            let pair = Pair {
                maybe: !must,
                ..Pair::default()
            };
            pairs.insert(index, pair);
        }
    }
    pairs
}
