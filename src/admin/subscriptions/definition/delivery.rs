//! How events are sent: their schema, how many at once, how fast, and with which headers.

use serde_json::Value;

use super::value::{list, text};
use crate::admin::field::Field;
use crate::admin::form::{Form, Refusal};
use crate::model::limits::{
    BATCH_EVENTS_MAX, BATCH_KILOBYTES_MAX, IN_FLIGHT_OWN_MAX, RESPONSE_DEADLINE_S_MAX,
};
use crate::model::topic::{DeliverySchema, InputSchema};

const SCHEMA: &str = "eventDeliverySchema";
const EVENTS: &str = "maxEventsPerBatch";
pub(super) const KILOBYTES: &str = "preferredBatchSizeInKilobytes";
pub(super) const DEADLINE: &str = "responseDeadlineInSeconds";
pub(super) const IN_FLIGHT: &str = "maxRequestsInFlight";
pub(super) const RATE: &str = "maxRequestsPerSecond";
pub(super) const HEADERS: &str = "deliveryAttributeMappings";

pub(super) fn fill(form: &mut Form, properties: &Value) {
    let destination = &properties["destination"]["properties"];
    form.set(SCHEMA, text(&properties[SCHEMA]));
    for name in [EVENTS, KILOBYTES, DEADLINE, IN_FLIGHT, RATE] {
        form.set(name, text(&destination[name]));
    }
    form.set(HEADERS, list(&destination[HEADERS]));
}

pub(super) fn write(form: &Form, properties: &mut Value) -> Result<(), Refusal> {
    properties[SCHEMA] = form.filled(SCHEMA).into();
    let destination = &mut properties["destination"]["properties"];
    for name in [EVENTS, KILOBYTES, DEADLINE, IN_FLIGHT] {
        destination[name] = form.number(name);
    }
    destination[RATE] = form.decimal(RATE);
    destination[HEADERS] = form.json(HEADERS)?;
    Ok(())
}

/// `input` is what the topic takes in.
pub(super) fn fields(form: &Form, input: &InputSchema) -> Vec<Field> {
    let possible = DeliverySchema::ALL.into_iter();
    let possible = possible.filter(|schema| schema.can_express(input));
    let mut schemas = vec![("", "As published")];
    schemas.extend(possible.map(|schema| (schema.name(), schema.name())));
    let mut fields = vec![Field::choice(SCHEMA, "Events are sent as", &schemas, form)];
    fields.extend(request_fields(form));
    fields
}

/// What one request is like, and how fast they follow each other.
pub(super) fn request_fields(form: &Form) -> Vec<Field> {
    vec![
        Field::number(EVENTS, "Events per request", form).hint(format!(
            "1 to {BATCH_EVENTS_MAX}. Empty or 1 sends every event alone."
        )),
        Field::number(KILOBYTES, "Preferred size of a request in KiB", form).hint(format!(
            "1 to {BATCH_KILOBYTES_MAX}. A bigger event still goes, alone."
        )),
        Field::number(DEADLINE, "Seconds to answer", form).hint(format!(
            "1 to {RESPONSE_DEADLINE_S_MAX}. Empty leaves it to the setting \
             delivery.response_deadline_s."
        )),
        Field::number(IN_FLIGHT, "Requests at once", form).hint(format!(
            "1 to {IN_FLIGHT_OWN_MAX}. Empty leaves it to the setting \
             delivery.in_flight_per_subscription."
        )),
        Field::line(RATE, "Requests per second", form)
            .hint("Such as 5 or 0.5. Empty sends as fast as the webhook answers."),
        Field::area(HEADERS, "Headers of your own", 4, form).hint(
            "A JSON array in Azure's form, such as [{\"name\": \"X-Tenant\", \"type\": \"Static\", \
             \"properties\": {\"value\": \"north\", \"isSecret\": true}}]. A secret value that is \
             null stays as it is.",
        ),
    ]
}
