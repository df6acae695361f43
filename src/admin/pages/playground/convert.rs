//! The request that a webhook would get for an event, written by the code that delivers.

use super::*;
use crate::wire::received::header_texts;
use crate::wire::resource::parse_subscription;

/// The webhook that nothing is sent to.
const WEBHOOK: &str = "https://receiver.example/";

/// Max events per batch of a subscription that takes batches.
const BATCHED: u32 = 10;

/// The request for the event, by a subscription that takes what is published like it in the way that the form chooses,
/// if there could be one.
pub(super) async fn write(call: &Call, pasted: &Pasted) -> Result<Option<Outcome>, FormError> {
    let topic = given(&pasted.topic).map(|name| call.topic(&name));
    let topic = topic.transpose();
    let topic = topic.map_err(|_| FormError::of("topic", "There is no such topic any more."))?;
    let read = PastedEvent::read(call, &pasted.event, topic).await?;
    let batched = (!pasted.batch.is_empty()).then_some(BATCHED);
    let webhook = json!({ "endpointUrl": WEBHOOK, "maxEventsPerBatch": batched });
    let document = json!({ "properties": {
        "eventDeliverySchema": given(&pasted.event_delivery_schema),
        "destination": { "endpointType": "WebHook", "properties": webhook },
    } });
    let context = SubscriptionContext {
        input_schema: &read.schema,
        event_retention: None,
        now: call.visitor.now,
        replaces: None,
        require_https: false,
    };
    let definition = parse_subscription(&document, &context).map_err(|invalid| {
        let problem = sentence(&invalid.first().problem);
        FormError::of("eventDeliverySchema", problem)
    })?;
    let subscription = EventSubscription::unstored(definition, call.visitor.now);
    let stored = StoredEvent {
        key: EventKey(1),
        received_at: call.visitor.now,
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
    Ok(Some(Outcome::Request {
        from: read.schema.name(),
        into: subscription.definition.delivery_schema.name(),
        headers,
        body: body.to_vec(),
    }))
}
