//! Batching: deliveries with equal headers share a request (rule 8, section A). Pure, without I/O.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::broker::dispatch::agenda::InMemory;
use crate::model::batch::BatchPolicy;
use crate::model::delivery::{Delivery, DeliveryId};
use crate::model::destination::{AttributeValue, DeliveryAttributeMapping};
use crate::model::event::StoredEvent;
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::wire;
use crate::wire::attribute::dynamic_value;

/// A delivery that is due, with its event.
pub(in crate::broker) type Due = (Delivery, Arc<StoredEvent>);

impl InMemory for Due {
    fn id(&self) -> DeliveryId {
        self.0.id
    }

    fn weight(&self) -> usize {
        event_weight(&self.1)
    }
}

fn event_weight(event: &StoredEvent) -> usize {
    event.event.size() + size_of::<StoredEvent>()
}

/// One request to one subscription: its deliveries and their events, in the same order.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Batch {
    pub(in crate::broker) topic: Arc<TopicEntry>,
    pub(in crate::broker) subscription: Arc<EventSubscription>,
    pub(in crate::broker) deliveries: Vec<Delivery>,
    pub(in crate::broker) events: Vec<Arc<StoredEvent>>,
    /// True for a probe: its outcome decides whether a probation ends.
    pub(in crate::broker) is_probe: bool,
}

impl Batch {
    pub(in crate::broker) fn ids(&self) -> Vec<DeliveryId> {
        self.deliveries.iter().map(|delivery| delivery.id).collect()
    }

    /// Returns the bytes of the events of the batch, in flight and in memory.
    pub(super) fn weight(&self) -> usize {
        self.events.iter().map(|event| event_weight(event)).sum()
    }
}

/// The number of deliveries considered for each delivery that can be sent. It is large enough to fill batches although
/// headers differ, and small enough not to go through a long queue at every turn.
const LOOK_AHEAD: usize = 4;

/// The requests that one turn may send, and the limits of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendBudget {
    pub(super) requests: usize,
    pub(super) batch: BatchPolicy,
    pub(super) is_probe: bool,
}

impl SendBudget {
    /// A probe: one request with one event. Its outcome decides whether a probation ends.
    pub(super) const PROBE: SendBudget = SendBudget {
        requests: 1,
        batch: BatchPolicy {
            max_events: Some(1),
            preferred_kilobytes: None,
            split_on_error: false,
        },
        is_probe: true,
    };

    /// Returns the most deliveries that the turn can send.
    pub(super) fn deliveries_max(&self) -> usize {
        self.batch.events_max() * self.requests
    }

    /// Returns the most deliveries to consider for the turn.
    pub(super) fn looked_at_max(&self) -> usize {
        if self.batch.is_on() {
            self.deliveries_max().saturating_mul(LOOK_AHEAD)
        } else {
            self.deliveries_max()
        }
    }
}

/// Fills requests with due deliveries. Each request begins with the oldest delivery that is left. Returns the requests
/// and the deliveries that are left, in their order. Deliveries share a request only if they have equal numbers of
/// attempts (so that `aeg-delivery-count` is exact), equal batch limits after splits, and equal dynamic header values.
pub(super) fn fill(
    topic: &Arc<TopicEntry>,
    subscription: &Arc<EventSubscription>,
    due: Vec<Due>,
    send_budget: SendBudget,
) -> (Vec<Batch>, Vec<Due>) {
    let mut groups = groups(topic, subscription, due, send_budget.batch);
    let mut batches = Vec::new();
    while batches.len() < send_budget.requests
        && let Some(group) = groups.iter_mut().min_by_key(|group| oldest(group))
        && !group.is_empty()
    {
        let split_to = group.front().and_then(|(_, due)| due.0.batch_max);
        let most = split_to.map_or(usize::MAX, |most| most.max(1) as usize);
        let fitting = group.iter().take(most);
        let sizes = fitting.map(|(_, due)| size(topic, subscription, due));
        let filled = send_budget.batch.fill(sizes);
        let (deliveries, events) = group.drain(..filled).map(|(_, due)| due).unzip();
        batches.push(Batch {
            topic: Arc::clone(topic),
            subscription: Arc::clone(subscription),
            deliveries,
            events,
            is_probe: send_budget.is_probe,
        });
    }
    let mut rest: Vec<_> = groups.into_iter().flatten().collect();
    rest.sort_by_key(|(place, _)| *place);
    (batches, rest.into_iter().map(|(_, due)| due).collect())
}

/// Deliveries that may share requests, oldest first, with their positions among all.
type Group = VecDeque<(usize, Due)>;

fn oldest(group: &Group) -> usize {
    group.front().map_or(usize::MAX, |(place, _)| *place)
}

/// Returns the bytes of an event in the body of a request, including the comma that separates events.
fn size(topic: &TopicEntry, subscription: &EventSubscription, due: &Due) -> usize {
    let schema = subscription.definition.delivery_schema;
    wire::encoded_size(schema, &topic.resource_id, &due.1) + 1
}

/// Groups deliveries that may share requests. If batching is off, all deliveries form one group.
fn groups(
    topic: &TopicEntry,
    subscription: &EventSubscription,
    due: Vec<Due>,
    policy: BatchPolicy,
) -> Vec<Group> {
    let places = due.into_iter().enumerate();
    if !policy.is_on() {
        return vec![places.collect()];
    }
    let mappings = subscription.definition.destination.attribute_mappings();
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<_, usize> = HashMap::new();
    for (place, due) in places {
        let headers = dynamic_headers(mappings, &due.1, &topic.resource_id);
        let shared = (due.0.attempts, due.0.batch_max, headers);
        let group = *known.entry(shared).or_insert_with(|| {
            groups.push(Group::new());
            groups.len() - 1
        });
        groups[group].push_back((place, due));
    }
    groups
}

/// Returns the values of the dynamic delivery attributes, which are taken from the event.
fn dynamic_headers(
    mappings: &[DeliveryAttributeMapping],
    event: &StoredEvent,
    topic: &str,
) -> Vec<Option<String>> {
    let value = |mapping: &DeliveryAttributeMapping| match &mapping.value {
        AttributeValue::Static { .. } => None,
        AttributeValue::Dynamic { source_field } => {
            Some(dynamic_value(&event.event, topic, source_field))
        }
    };
    mappings.iter().filter_map(value).collect()
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;
    use crate::base::{Entropy, Timestamp};
    use crate::model::access::AccessKeys;
    use crate::model::event::{Event, EventData, EventKey};
    use crate::model::name::{SubscriptionName, TopicName};
    use crate::model::subscription::{SubscriptionId, Validation};
    use crate::model::topic::{CustomTopic, ServiceBusNamespace, Topic, TopicId, TopicKind};
    use crate::wire::resource::{self, SubscriptionContext};

    const NOW: Timestamp = Timestamp::from_ms(1_000_000);

    /// A topic and a subscription with these properties of its webhook.
    fn scene(webhook: &serde_json::Value) -> (Arc<TopicEntry>, Arc<EventSubscription>) {
        let kind = TopicKind::Custom(CustomTopic::default());
        let mut properties = json!({"endpointUrl": "http://a.test/"});
        for (name, value) in webhook.as_object().expect("an object") {
            properties[name] = value.clone();
        }
        let body = json!({"properties": {"destination":
            {"endpointType": "WebHook", "properties": properties}}});
        let context = SubscriptionContext {
            input_schema: kind.input_schema(),
            event_retention: None,
            now: NOW,
            replaces: None,
            require_https: false,
        };
        let subscription = EventSubscription {
            id: SubscriptionId(1),
            topic_id: TopicId(1),
            name: SubscriptionName::parse("billing").expect("a name"),
            definition: resource::parse_subscription(&body, &context).expect("a subscription"),
            validation: Validation::succeeded(None),
            created_at: NOW,
            updated_at: NOW,
        };
        let topic = Topic {
            id: TopicId(1),
            service_bus_namespace: ServiceBusNamespace::DEFAULT,
            name: TopicName::parse("orders").expect("a name"),
            kind,
            keys: Some(AccessKeys::generate(&Entropy::seeded(1))),
            created_at: NOW,
            updated_at: NOW,
        };
        let entry = TopicEntry {
            resource_id: "/t".into(),
            ..TopicEntry::without_subscriptions(topic)
        };
        (Arc::new(entry), Arc::new(subscription))
    }

    /// A delivery by its id, the attempts made, the event's `data.t` and how far it was split.
    fn due(id: i64, attempts: u32, tenant: &str, batch_max: Option<u32>) -> Due {
        let delivery = Delivery {
            id: DeliveryId(id),
            number: id,
            event: EventKey(id),
            attempts,
            published_at: NOW,
            first_attempt_at: None,
            batch_max,
        };
        let event = Event {
            id: id.to_string(),
            source: None,
            event_type: "T".to_owned(),
            subject: Some("/s".to_owned()),
            time: Some("2026-11-21T06:40:53Z".to_owned()),
            data_version: Some("1".to_owned()),
            attributes: Vec::new(),
            data: EventData::Json(json!({ "t": tenant }).to_string()),
        };
        let stored = StoredEvent {
            key: EventKey(id),
            received_at: NOW,
            event,
        };
        (delivery, Arc::new(stored))
    }

    /// `due` are words `id/attempts/tenant`, with `/split` behind them. `expected` has the batches and, after a bar, the
    /// rest.
    fn check(webhook: &serde_json::Value, requests: usize, words: &str, expected: &str) {
        let (topic, subscription) = scene(webhook);
        let send_budget = SendBudget {
            requests,
            batch: subscription.definition.destination.batch(),
            is_probe: false,
        };
        let all = words.split(' ').map(|word| {
            let parts: Vec<&str> = word.split('/').collect();
            let number = |at: usize| parts[at].parse::<u32>().expect("a number");
            let split_to = (parts.len() > 3).then(|| number(3));
            due(number(0).into(), number(1), parts[2], split_to)
        });
        let mut all: Vec<Due> = all.collect();
        let unseen = all.split_off(send_budget.looked_at_max().min(all.len()));
        let (batches, rest) = fill(&topic, &subscription, all, send_budget);
        let rest: Vec<Due> = rest.into_iter().chain(unseen).collect();
        let told = |deliveries: &mut dyn Iterator<Item = &Delivery>| {
            let ids: Vec<String> = deliveries.map(|each| each.id.to_string()).collect();
            ids.join("+")
        };
        let batches: Vec<String> = batches
            .iter()
            .map(|batch| told(&mut batch.deliveries.iter()))
            .collect();
        let rest = told(&mut rest.iter().map(|(delivery, _)| delivery));
        assert_eq!(
            format!("{} | {rest}", batches.join(" ")),
            expected,
            "{words}"
        );
    }

    #[test]
    fn batches_never_mix_counts_or_dynamic_values() {
        let off = json!({});
        let dynamic = json!([{"name": "X-T", "type": "Dynamic",
            "properties": {"sourceField": "data.t"}}]);
        let batched = json!({"maxEventsPerBatch": 3});
        let by_tenant = json!({"maxEventsPerBatch": 3, "deliveryAttributeMappings": dynamic});
        check(&off, 2, "1/0/a 2/0/a 3/0/a", "1 2 | 3");
        check(&batched, 1, "1/0/a 2/0/b 3/0/a 4/0/a", "1+2+3 | 4");
        check(&batched, 9, "1/0/a 2/1/a 3/0/a 4/1/a", "1+3 2+4 | ");
        check(&batched, 9, "1/1/a 2/0/a 3/1/a", "1+3 2 | ");
        check(
            &by_tenant,
            9,
            "1/0/a 2/0/b 3/0/a 4/0/b 5/0/b 6/0/b",
            "1+3 2+4+5 6 | ",
        );
        check(&by_tenant, 1, "1/0/a 2/0/b 3/0/a 4/1/a", "1+3 | 2+4");
        check(
            &by_tenant,
            9,
            "1/0/a 2/0/b 3/0/a 4/0/a 5/0/a 6/0/b",
            "1+3+4 2+6 5 | ",
        );
        check(&by_tenant, 9, "1/0/a 2/1/a 3/1/b 4/1/a", "1 2+4 3 | ");
    }

    #[test]
    fn what_was_split_goes_apart_and_in_requests_of_its_size() {
        let off = json!({});
        let batched = json!({"maxEventsPerBatch": 3});
        check(&batched, 9, "1/0/a/2 2/0/a/2 3/0/a/2 4/0/a", "1+2 3 4 | ");
        check(&batched, 1, "1/0/a/2 2/0/a/2 3/0/a/2 4/0/a", "1+2 | 3+4");
        check(&batched, 9, "1/0/a/1 2/0/a/1 3/0/a 4/0/a", "1 2 3+4 | ");
        check(&batched, 9, "1/0/a/2 2/0/a/1 3/0/a/2", "1+3 2 | ");
        // The subscription may allow fewer by now.
        check(&batched, 9, "1/0/a/9 2/0/a/9 3/0/a/9 4/0/a/9", "1+2+3 4 | ");
        check(&off, 9, "1/0/a/2 2/0/a/2", "1 2 | ");
    }

    #[test]
    fn a_long_queue_is_not_read_through() {
        let by_tenant = json!({"maxEventsPerBatch": 2, "deliveryAttributeMappings": [{"name": "X-T",
            "type": "Dynamic", "properties": {"sourceField": "data.t"}}]});
        let words = "1/0/a 2/0/b 3/0/c 4/0/d 5/0/e 6/0/f 7/0/g 8/0/h 9/0/a";
        check(&by_tenant, 1, words, "1 | 2+3+4+5+6+7+8+9");
    }

    #[test]
    fn sizes_are_those_of_the_body() {
        // Five such events exceed a kilobyte as Event Grid events, but not without what the schema adds to
        // them.
        let policy = json!({"preferredBatchSizeInKilobytes": 1});
        let words = "1/0/a 2/0/a 3/0/a 4/0/a 5/0/a 6/0/a 7/0/a";
        let (topic, subscription) = scene(&policy);
        let one = size(&topic, &subscription, &due(1, 0, "a", None));
        assert!((1_024 / 7..1_024 / 5).contains(&one), "{one}");
        check(
            &policy,
            1,
            words,
            &format!("{} | {}", first(1_024 / one), rest(1_024 / one)),
        );
    }

    fn first(count: usize) -> String {
        (1..=count)
            .map(|id| id.to_string())
            .collect::<Vec<_>>()
            .join("+")
    }

    fn rest(count: usize) -> String {
        (count + 1..=7)
            .map(|id| id.to_string())
            .collect::<Vec<_>>()
            .join("+")
    }

    #[test]
    fn a_probe_is_one_event() {
        let (topic, subscription) = scene(&json!({"maxEventsPerBatch": 3}));
        let all = vec![due(1, 0, "a", None), due(2, 0, "a", None)];
        let (batches, rest) = fill(&topic, &subscription, all, SendBudget::PROBE);
        assert_eq!(
            (batches.len(), batches[0].events.len(), rest.len()),
            (1, 1, 1)
        );
        assert!(batches[0].is_probe);
    }
}
