//! Deliveries to Service Bus: an event as a message, which has the headers of webhooks among its properties (rule 6.6).

use crate::model::destination::ServiceBusEntity;
use crate::model::event::{Event, StoredEvent};
use crate::model::limits::DELIVERY_ATTRIBUTE_BYTES_MAX;
use crate::outbound::{DeliveryRequest, webhook};
use crate::wire;
use crate::wire::amqp::DecodeError;
use crate::wire::service_bus::copy;

/// The message that the delivery of a single event is.
pub fn message(
    to: &ServiceBusEntity,
    delivery_request: &DeliveryRequest<'_>,
    event: &StoredEvent,
) -> Result<Event, DecodeError> {
    let topic = delivery_request.topic_resource_id;
    let schema = delivery_request.subscription.definition.delivery_schema;
    let dynamic = |field: &str| wire::attribute::dynamic_value(&event.event, topic, field);
    let headers = webhook::notification_headers(delivery_request);
    let own = headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        (name.to_string(), value.into_owned())
    });
    let mapped = to.attribute_mappings.iter().filter_map(|mapping| {
        let text = webhook::attribute_text(&mapping.value, dynamic)?;
        let fits = text.len() <= DELIVERY_ATTRIBUTE_BYTES_MAX;
        fits.then(|| (mapping.name.clone(), text))
    });
    let payload = wire::encode_message(schema, topic, event);
    let trace = event.event.trace_context();
    copy::delivered(&event.output_id(), payload, trace, own.chain(mapped))
}
