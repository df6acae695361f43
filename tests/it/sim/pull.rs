//! What receivers of pulled subscriptions do: they take, settle and renew, sometimes two at once, and now and
//! then with tokens that are worth nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use everpost::broker::MessageReceiver;
use everpost::model::event::EventData;
use everpost::model::lease::SubQueue;
use everpost::model::subscription::SubscriptionId;
use everpost::store::Locked;
use everpost::wire::pull::token_to_text;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::ledger::{Ledger, Sub};
use super::pulled::Pulled;
use super::run::Simulation;
use super::spec::{Kind, seconds};

/// Events that one receiver takes at once at the end.
const ALL_OF_THEM: usize = 100;

/// What a receiver says of what it has.
#[derive(Clone, Copy, Debug)]
enum ReceiverAction {
    Acknowledge,
    Release(u64),
    Reject,
    RenewLock,
}

impl ReceiverAction {
    fn operation(self) -> String {
        match self {
            Self::Acknowledge => "acknowledge?".to_owned(),
            Self::Release(0) => "release?".to_owned(),
            Self::Release(delay_s) => format!("release?releaseDelayInSeconds={delay_s}&"),
            Self::Reject => "reject?".to_owned(),
            Self::RenewLock => "renewLock?".to_owned(),
        }
    }
}

/// An event in the hands of a receiver.
#[derive(Debug)]
struct Received {
    token: String,
    count: u32,
    id: String,
    data: String,
}

/// What a receiver heard; `None` where the store could not serve it.
type Taken = Option<Vec<Received>>;

impl Simulation {
    /// Some receiver does something.
    pub(super) fn pull(&mut self) {
        let subs = self.with(|ledger| pulled_subs(ledger));
        if subs.is_empty() {
            return self.publish();
        }
        let sub = *self.dice.pick(&subs);
        let limit = usize::try_from(self.dice.within(1, 4)).expect("small");
        match self.dice.weighted(&[40, 10, 40, 10]) {
            0 => drop(self.receive(sub, &[limit])),
            1 => drop(self.receive(sub, &[limit, 1])),
            2 => {
                let (action, tokens) = (self.throw_verdict(), self.throw_tokens(sub));
                self.settle(sub, action, &tokens);
            }
            _ => self.receive_while_settling(sub, limit),
        }
    }

    /// Receivers come at the same moment, each for so many. Returns the tokens that they get.
    fn receive(&mut self, sub: usize, limits: &[usize]) -> Vec<String> {
        let (expected, has_outlived) = self.with(|ledger| takeable(ledger, sub));
        let life = self.life();
        let taken: Vec<Taken> = match limits {
            // Who finds nothing would wait.
            [limit] if !expected.is_empty() && !has_outlived => {
                let request =
                    self.request(sub, &format!("receive?maxEvents={limit}&"), &Value::Null);
                let (status, text) = life.act(life.send(request));
                vec![self.understood(status, &text)]
            }
            limits => {
                let ids = self.with(|ledger| ledger.subs[sub].id);
                let Some(id) = ids else {
                    return Vec::new();
                };
                let one = self.take(id, limits[0]);
                match limits.get(1) {
                    None => vec![life.act(one)],
                    Some(other) => {
                        let other = self.take(id, *other);
                        let (one, other) = life.act(async { tokio::join!(one, other) });
                        vec![one, other]
                    }
                }
            }
        };
        let wished = limits.iter().sum::<usize>().min(expected.len());
        let all_served = taken.iter().all(Option::is_some);
        let tokens = self.hear_received(sub, taken);
        self.with(|ledger| {
            let got = tokens.len();
            let is_enough = match has_outlived {
                true => got >= 1.min(wished),
                false => got == wished,
            };
            if all_served && !is_enough {
                ledger.broken(format!("r{sub} gave out {got} of {wished}"));
            }
        });
        tokens
    }

    async fn take(&self, id: SubscriptionId, limit: usize) -> Taken {
        let broker = &self.life().broker;
        let registry = broker.registry();
        let (topic, subscription) = registry.subscription(id)?;
        let found = (Arc::clone(topic), Arc::clone(subscription));
        let receiver = MessageReceiver::of(broker, found, SubQueue::Active);
        let locked = receiver.receive(limit, None).await.ok()?;
        Some(locked.iter().map(Received::of).collect())
    }

    fn request(&self, sub: usize, operation: &str, body: &Value) -> Request<Body> {
        let (topic, name) = self.with(|ledger| {
            let sub = &ledger.subs[sub];
            (sub.topic, sub.name.clone())
        });
        let path = self.path(topic, &name);
        let key = self.with(|ledger| ledger.topics[topic].key.clone());
        Request::post(format!("{path}:{operation}api-version=2024-06-01"))
            .header("authorization", format!("SharedAccessKey {key}"))
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .expect("a request")
    }

    fn understood(&self, status: u16, text: &str) -> Taken {
        let full = self.with(|ledger| ledger.disk_was_full);
        match (status, full) {
            (200, _) => Some(received(text)),
            (503, true) => None,
            _ => {
                self.with(|ledger| ledger.broken(format!("{status} to a receiver: {text}")));
                None
            }
        }
    }

    /// Enters what receivers got, which must be theirs alone.
    fn hear_received(&mut self, sub: usize, taken: Vec<Taken>) -> Vec<String> {
        self.with(|ledger| {
            if taken.iter().any(Option::is_none) {
                doubt(ledger, sub);
                if !ledger.disk_was_full {
                    ledger.broken(format!("r{sub} gives out nothing because of an error"));
                }
            }
            let mut tokens = Vec::new();
            for received in taken.into_iter().flatten().flatten() {
                let token = received.token.clone();
                let (id, count) = (received.id.clone(), received.count);
                ledger.note(format!("r{sub} gives out {id} (time {count})"));
                if let Err(rule) = enter(ledger, sub, received) {
                    ledger.broken(format!("{id} -> r{sub}: {rule}"));
                }
                tokens.push(token);
            }
            tokens
        })
    }

    fn throw_verdict(&self) -> ReceiverAction {
        let delay = *self.dice.pick(&[0, 0, 10, 60, 600, 3_600]);
        match self.dice.weighted(&[40, 25, 10, 25]) {
            0 => ReceiverAction::Acknowledge,
            1 => ReceiverAction::Release(delay),
            2 => ReceiverAction::Reject,
            _ => ReceiverAction::RenewLock,
        }
    }

    /// Tokens that this subscription gave out, be they worth anything or not, and some of others.
    fn throw_tokens(&self, sub: usize) -> Vec<String> {
        let (own, others) = self.with(|ledger| {
            let own = ledger.subs[sub].tokens.clone();
            let others = ledger.subs.iter().enumerate();
            let others = others.filter(|(index, _)| *index != sub);
            let others: Vec<String> = others.flat_map(|(_, each)| each.tokens.clone()).collect();
            (own, others)
        });
        let mut tokens = BTreeSet::new();
        // Mostly of the newest, which are worth something.
        let newest = &own[own.len().saturating_sub(4)..];
        for _ in 0..self.dice.within(1, 4) {
            let from = match self.dice.weighted(&[70, 15, 10]) {
                0 => newest,
                1 => own.as_slice(),
                _ => others.as_slice(),
            };
            if !from.is_empty() {
                tokens.insert(self.dice.pick(from).clone());
            }
        }
        if tokens.is_empty() || self.dice.percent(10) {
            tokens.insert("nonsense".to_owned());
        }
        tokens.into_iter().collect()
    }

    fn settle(&mut self, sub: usize, action: ReceiverAction, tokens: &[String]) {
        let request = self.settlement(sub, action, tokens);
        let life = self.life();
        let (status, text) = life.act(life.send(request));
        self.hear_settled(sub, action, tokens, (status, &text));
    }

    fn settlement(&self, sub: usize, action: ReceiverAction, tokens: &[String]) -> Request<Body> {
        let body = json!({ "lockTokens": tokens });
        self.request(sub, &action.operation(), &body)
    }

    fn receive_while_settling(&mut self, sub: usize, limit: usize) {
        let (action, tokens) = (self.throw_verdict(), self.throw_tokens(sub));
        let Some(id) = self.with(|ledger| ledger.subs[sub].id) else {
            return;
        };
        let life = self.life();
        let settle = life.send(self.settlement(sub, action, &tokens));
        let take = self.take(id, limit);
        let ((status, text), taken) = life.act(async { tokio::join!(settle, take) });
        // What is taken may have been released at the same moment, and not the other way round.
        self.hear_settled(sub, action, &tokens, (status, &text));
        self.hear_received(sub, vec![taken]);
    }

    /// Enters what became of locks: those that are held do what they are told, all others nothing.
    fn hear_settled(
        &mut self,
        sub: usize,
        action: ReceiverAction,
        tokens: &[String],
        (status, text): (u16, &str),
    ) {
        self.with(|ledger| {
            ledger.note(format!(
                "r{sub} hears {action:?} of {}: {status}",
                tokens.len()
            ));
            match (status, ledger.disk_was_full) {
                (200, _) => {}
                (503, true) => return doubt(ledger, sub),
                _ => return ledger.broken(format!("{status} to a settlement: {text}")),
            }
            let answer: Value = serde_json::from_str(text).expect("JSON");
            for token in tokens {
                let expected = settle(ledger, sub, action, token);
                let told = told(&answer, token);
                if told != expected {
                    let rule = format!("{action:?} came to {told:?}, not {expected:?}");
                    ledger.broken(format!("r{sub}: {rule}"));
                }
            }
        });
    }

    /// Receivers who are well take all that there is.
    pub(super) fn drain(&mut self) {
        let subs = self.with(|ledger| pulled_subs(ledger));
        if subs.is_empty() {
            return;
        }
        // Whoever still holds something has lost it by then.
        let end = self.clock.now() + seconds(301);
        self.run_until(end, usize::MAX);
        for sub in subs {
            loop {
                let tokens = self.receive(sub, &[ALL_OF_THEM]);
                if tokens.is_empty() || self.is_broken() {
                    break;
                }
                self.settle(sub, ReceiverAction::Acknowledge, &tokens);
                self.check();
            }
        }
    }
}

impl Received {
    fn of(locked: &Locked) -> Self {
        let event = &locked.event.event;
        Self {
            token: token_to_text(locked.token),
            count: locked.delivery.attempts + 1,
            id: event.id.clone(),
            data: match &event.data {
                EventData::Json(json) => json.clone(),
                EventData::Binary(_) | EventData::Absent => String::new(),
            },
        }
    }
}

fn received(text: &str) -> Vec<Received> {
    #[derive(Deserialize)]
    struct AttemptResult<'a> {
        #[serde(borrow)]
        value: Vec<Item<'a>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Item<'a> {
        broker_properties: Properties,
        #[serde(borrow)]
        event: Event<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Properties {
        lock_token: String,
        delivery_count: u32,
    }
    #[derive(Deserialize)]
    struct Event<'a> {
        id: String,
        #[serde(borrow)]
        data: &'a RawValue,
    }
    let answer: AttemptResult<'_> = serde_json::from_str(text).expect("received events");
    let items = answer.value.into_iter();
    let received = items.map(|item| Received {
        token: item.broker_properties.lock_token,
        count: item.broker_properties.delivery_count,
        id: item.event.id,
        data: item.event.data.get().to_owned(),
    });
    received.collect()
}

/// What the answer says of a token: the code of its failure, or `None`.
fn told(answer: &Value, token: &str) -> Option<String> {
    let failed = answer["failedLockTokens"].as_array().expect("a list");
    let failure = failed.iter().find(|each| each["lockToken"] == token);
    let code = failure.map(|each| each["error"]["code"].as_str().unwrap_or("?").to_owned());
    let mut succeeded = answer["succeededLockTokens"]
        .as_array()
        .expect("a list")
        .iter();
    match succeeded.any(|each| each == token) {
        true => code,
        false => code.or(Some("neither".to_owned())),
    }
}

fn pulled_subs(ledger: &Ledger) -> Vec<usize> {
    let there =
        |sub: &Sub| sub.deleted.is_none() && sub.id.is_some() && sub.spec().kind.is_pulled();
    let subs = ledger.subs.iter().enumerate();
    let subs = subs.filter(|(_, sub)| there(sub));
    subs.map(|(index, _)| index).collect()
}

/// The newest delivery of each pair of the subscription, with its event.
fn deliveries(ledger: &Ledger, sub: usize) -> impl Iterator<Item = (usize, &Pulled)> {
    let events = ledger.live.iter().copied();
    events.filter_map(move |event| {
        let pair = ledger.events[event].pairs.get(&sub)?;
        let (_, newest) = pair.pulled.last_key_value()?;
        Some((event, newest))
    })
}

/// The events that a receiver can take now, and whether there are others in the way that are to be given up.
fn takeable(ledger: &Ledger, sub: usize) -> (Vec<usize>, bool) {
    let (now, spec) = (ledger.now, ledger.subs[sub].spec());
    if !spec.delivers() {
        return (Vec::new(), false);
    }
    let due = deliveries(ledger, sub).filter(|(_, pulled)| pulled.can_be_taken(now));
    let (outlived, takeable): (Vec<_>, Vec<_>) =
        due.partition(|(_, pulled)| pulled.is_outlived(spec, now));
    let takeable = takeable.into_iter().map(|(event, _)| event).collect();
    (takeable, !outlived.is_empty())
}

/// Enters an event that was given out.
fn enter(ledger: &mut Ledger, sub: usize, received: Received) -> Result<(), String> {
    let now = ledger.now;
    let spec = ledger.subs[sub].spec().clone();
    let Kind::Pulled { lock_s } = spec.kind else {
        return Err("it is sent, and not given out".to_owned());
    };
    let event = ledger.event_by_id(&received.id);
    let event = event.ok_or_else(|| "nobody published it".to_owned())?;
    if ledger.events[event].draft.data != received.data {
        return Err(format!(
            "its data is not what was published: {}",
            received.data
        ));
    }
    ledger.live.insert(event);
    ledger.subs[sub].tokens.push(received.token.clone());
    let pair = ledger.events[event].pairs.get_mut(&sub);
    let pair = pair.ok_or("it does not match")?;
    pair.touched = true;
    let mut newest = pair.pulled.last_entry().ok_or("it was never seen")?;
    let pulled = newest.get_mut();
    if pulled.is_uncertain {
        pulled.hold(received.token, lock_s, now);
        return Ok(());
    }
    if !spec.delivers() {
        return Err("the subscription delivers nothing".to_owned());
    }
    if !pulled.can_be_taken(now) || pulled.is_outlived(&spec, now) {
        return Err(format!("it cannot be taken: {pulled:?}"));
    }
    if received.count != pulled.count + 1 {
        let (told, count) = (received.count, pulled.count);
        return Err(format!("time {told} after {count}"));
    }
    pulled.take(received.token, lock_s, now);
    Ok(())
}

/// What must come of a verdict: the code of a failure, or `None`. It is entered.
fn settle(ledger: &mut Ledger, sub: usize, action: ReceiverAction, token: &str) -> Option<String> {
    let (now, spec) = (ledger.now, ledger.subs[sub].spec().clone());
    if token == "nonsense" {
        return Some("BadToken".to_owned());
    }
    let lost = Some("TokenLost".to_owned());
    let held = deliveries(ledger, sub).find(|(_, pulled)| pulled.is_held_by(token, now));
    let Some(event) = held.map(|(event, _)| event) else {
        return lost;
    };
    let pair = ledger.events[event].pairs.get_mut(&sub)?;
    pair.touched = true;
    let mut newest = pair.pulled.last_entry()?;
    let pulled = newest.get_mut();
    match (action, spec.kind) {
        (ReceiverAction::Acknowledge, _) => pulled.acknowledge(now),
        (ReceiverAction::Reject, _) => pulled.reject(&spec, now),
        (ReceiverAction::Release(delay_s), _) => pulled.release(delay_s, &spec, now),
        (ReceiverAction::RenewLock, Kind::Pulled { lock_s }) if pulled.is_renewable(now) => {
            pulled.renew(lock_s, now);
        }
        (ReceiverAction::RenewLock, _) => return lost,
    }
    None
}

/// The store could not do something: nobody can tell how far it came.
fn doubt(ledger: &mut Ledger, sub: usize) {
    let live = &ledger.live;
    for event in live {
        if let Some(pair) = ledger.events[*event].pairs.get_mut(&sub) {
            pair.touched = true;
            for pulled in pair.pulled.values_mut() {
                pulled.is_uncertain = true;
            }
        }
    }
}
