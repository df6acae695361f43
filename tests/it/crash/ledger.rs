//! What was sent, what was acknowledged, and whether that is what arrived.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use everpost::model::limits::{
    IN_FLIGHT_MAX, IN_FLIGHT_PER_SUBSCRIPTION, UNSTORED_MAX, UNSTORED_PER_SLOT,
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::PATIENCE;
use super::appliance::Appliance;
use super::load::{SUBSCRIPTIONS, TOPIC};
use super::receiver::{Addressed, Delivered};

/// Deliveries that can be on the wire, or answered and not stored, at a kill, each of which may come once more. (Fewer than the limit
/// over all subscriptions.)
const ON_THE_WIRE_MAX: usize =
    SUBSCRIPTIONS.len() * IN_FLIGHT_PER_SUBSCRIPTION * (1 + UNSTORED_PER_SLOT);
const _: () = assert!(ON_THE_WIRE_MAX <= IN_FLIGHT_MAX + UNSTORED_MAX);

/// Every publish request and its fate. Clones share one book.
#[derive(Clone, Default)]
pub(super) struct Ledger {
    requests: Arc<Mutex<Vec<Request>>>,
    /// How many events have been acknowledged.
    acknowledged: Arc<watch::Sender<u64>>,
}

struct Request {
    events: Vec<Value>,
    /// Unless it was, nobody can know yet whether the events are kept.
    acknowledged: bool,
}

/// The number of a request in the ledger.
#[derive(Clone, Copy)]
pub(super) struct RequestNumber(usize);

impl Ledger {
    /// Notes a request before it leaves.
    pub(super) fn send(&self, events: &[Value]) -> RequestNumber {
        let mut requests = self.requests.lock().unwrap();
        requests.push(Request {
            events: events.to_vec(),
            acknowledged: false,
        });
        RequestNumber(requests.len() - 1)
    }

    /// Notes that the appliance has taken a request.
    pub(super) fn acknowledge(&self, number: RequestNumber) {
        let mut requests = self.requests.lock().unwrap();
        let request = &mut requests[number.0];
        request.acknowledged = true;
        let events = request.events.len() as u64;
        self.acknowledged.send_modify(|count| *count += events);
    }

    /// Waits until `more` events have been acknowledged.
    pub(super) async fn grow_by(&self, more: u64) {
        let mut count = self.acknowledged.subscribe();
        let goal = *count.borrow() + more;
        let grown = timeout(PATIENCE, count.wait_for(|count| *count >= goal)).await;
        assert!(
            grown.is_ok(),
            "the appliance acknowledges {more} more events"
        );
    }

    /// The ids of all events that have been acknowledged so far.
    pub(super) fn acknowledged(&self) -> HashSet<String> {
        let requests = self.requests.lock().unwrap();
        let acknowledged = requests.iter().filter(|request| request.acknowledged);
        acknowledged
            .flat_map(|request| request.events.iter().map(id))
            .collect()
    }

    /// The ids of all events that have to arrive: those acknowledged, and those that the appliance
    /// stored but could no longer acknowledge. It stores a request whole or not at all.
    pub(super) async fn kept(&self, appliance: &Appliance) -> HashSet<String> {
        let mut kept = HashSet::new();
        let mut unanswered = Vec::new();
        for request in self.requests.lock().unwrap().iter() {
            let ids: Vec<String> = request.events.iter().map(id).collect();
            if request.acknowledged {
                kept.extend(ids);
            } else {
                unanswered.push(ids);
            }
        }
        println!(
            "{} events acknowledged, {} requests unanswered",
            kept.len(),
            unanswered.len()
        );
        for ids in unanswered {
            let stored = stored(appliance, &ids).await;
            assert!(
                stored.is_empty() || stored.len() == ids.len(),
                "of one request with {ids:?} only {stored:?} are stored"
            );
            kept.extend(stored);
        }
        kept
    }

    /// Compares what arrived with what was sent.
    pub(super) fn check(&self, delivered: &HashMap<Addressed, Delivered>) {
        let sent = self.sent();
        let mut duplicates: HashMap<u32, usize> = HashMap::new();
        for (to, delivery) in delivered {
            assert!(SUBSCRIPTIONS.contains(&to.subscription.as_str()), "{to:?}");
            let Some(event) = sent.get(&to.event) else {
                panic!("{to:?} arrived but was never sent");
            };
            assert_eq!(
                without_stamps(&delivery.event),
                *event,
                "{to:?} arrived as it was sent"
            );
            assert!(!delivery.changed, "{to:?} was not the same each time");
            for life in repeats(&delivery.lives, to) {
                *duplicates.entry(life).or_default() += 1;
            }
        }
        println!("duplicates by the kill before them: {duplicates:?}");
        for (kill, count) in duplicates {
            assert!(
                count <= ON_THE_WIRE_MAX,
                "kill {kill} cost {count} duplicates"
            );
        }
    }

    fn sent(&self) -> HashMap<String, Value> {
        let requests = self.requests.lock().unwrap();
        let events = requests.iter().flat_map(|request| &request.events);
        events.map(|event| (id(event), event.clone())).collect()
    }
}

fn id(event: &Value) -> String {
    event["id"].as_str().expect("an id").to_owned()
}

/// Those of the ids that the appliance knows.
async fn stored(appliance: &Appliance, ids: &[String]) -> Vec<String> {
    let mut stored = Vec::new();
    for id in ids {
        let path = format!("/everpost/events?topic={TOPIC}&id={id}");
        let found = appliance.get(&path).await;
        match found["value"].as_array().map(Vec::len) {
            Some(0) => {}
            Some(1) => stored.push(id.clone()),
            Some(_) | None => panic!("{id} is stored more than once: {found}"),
        }
    }
    stored
}

/// The event as its publisher wrote it.
fn without_stamps(event: &Value) -> Value {
    let mut event = event.clone();
    let fields = event.as_object_mut().expect("an object");
    assert!(fields.remove("topic").is_some(), "the topic is stamped");
    assert_eq!(fields.remove("metadataVersion"), Some(json!("1")));
    event
}

/// The lives in which a delivery came once more. Only a kill excuses that.
fn repeats<'a>(lives: &'a [u32], to: &Addressed) -> impl Iterator<Item = u32> + use<'a> {
    let distinct: HashSet<&u32> = lives.iter().collect();
    assert_eq!(
        distinct.len(),
        lives.len(),
        "{to:?} came twice between two kills: {lives:?}"
    );
    lives.iter().copied().skip(1)
}
