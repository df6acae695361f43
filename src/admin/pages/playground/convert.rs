//! What a webhook would be sent for an event: written by the code that delivers.

use serde_json::json;

use crate::admin::lists::filter;
use crate::admin::page::*;
use crate::admin::pages::playground::Pasted;
use crate::admin::pages::playground::pasted::PastedEvent;
use crate::model::event::{EventKey, StoredEvent};
use crate::model::subscription::{EventSubscription, SubscriptionDefinition};
use crate::model::topic::InputSchema;
use crate::outbound::DeliveryRequest;
use crate::wire::received::header_texts;
use crate::wire::resource::{SubscriptionContext, parse_subscription};

/// The webhook that nothing is sent to.
const WEBHOOK: &str = "https://receiver.example/";

/// Events per request of a subscription that takes batches.
const BATCHED: u32 = 10;

/// A request to look at.
pub(super) struct RequestText {
    /// The schemas from which and into which.
    pub(super) from: &'static str,
    pub(super) into: &'static str,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// The request for the event.
pub(super) fn write(call: &Call, pasted: &Pasted) -> Result<RequestText, Refusal> {
    let registry = call.broker.registry();
    let topic = filter::topic(&registry, &pasted.topic)
        .map_err(|_| Refusal::of("topic", "There is no such topic any more."))?;
    let topic = topic.and_then(|id| registry.topic_by_id(id)).cloned();
    let read = PastedEvent::read(call, &pasted.event, topic)?;
    let now = call.visitor.now;
    let definition = definition(pasted, &read.schema, now)?;
    let subscription = EventSubscription::unstored(definition, now);
    let stored = StoredEvent {
        key: EventKey(1),
        received_at: now,
        event: read.event,
    };
    let request = call.broker.draft_request(&DeliveryRequest {
        subscription: &subscription,
        topic_resource_id: &read.resource_id,
        events: &[&stored],
        delivery_count: 0,
        deadline: call.broker.options().response_deadline,
    });
    let (headers, body) = request.expect("its destination is a webhook");
    let mut headers = header_texts(&headers);
    headers.sort();
    Ok(RequestText {
        from: read.schema.name(),
        into: subscription.definition.delivery_schema.name(),
        headers,
        body: body.to_vec(),
    })
}

/// What a subscription says that takes events which are published as `input` in the way that the form chooses,
/// if there could be one.
fn definition(
    pasted: &Pasted,
    input: &InputSchema,
    now: Timestamp,
) -> Result<SubscriptionDefinition, Refusal> {
    let batched = (!pasted.batch.is_empty()).then_some(BATCHED);
    let document = json!({ "properties": {
        "eventDeliverySchema": filter::given(&pasted.event_delivery_schema),
        "destination": {
            "endpointType": "WebHook",
            "properties": { "endpointUrl": WEBHOOK, "maxEventsPerBatch": batched },
        },
    } });
    let context = SubscriptionContext {
        input_schema: input,
        event_retention: None,
        now,
        replaces: None,
        require_https: false,
    };
    parse_subscription(&document, &context).map_err(|invalid| {
        let problem = sentence(&invalid.first().problem);
        Refusal::of("eventDeliverySchema", problem)
    })
}
