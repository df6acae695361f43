//! How events are sent: their schema, how many at once, and how fast.

use std::time::Duration;

use serde_json::Value;

use super::value::text;
use crate::admin::forms::field::Field;
use crate::admin::forms::form::Form;
use crate::admin::widgets::print;
use crate::model::limits::{
    BATCH_EVENTS_MAX, BATCH_KILOBYTES_MAX, IN_FLIGHT_OWN_MAX, RESPONSE_DEADLINE_S_MAX,
};
use crate::model::topic::{DeliverySchema, InputSchema};

const SCHEMA: &str = "eventDeliverySchema";
const EVENTS: &str = "maxEventsPerBatch";
pub(crate) const KILOBYTES: &str = "preferredBatchSizeInKilobytes";
pub(crate) const DEADLINE: &str = "responseDeadlineInSeconds";
pub(crate) const IN_FLIGHT: &str = "maxRequestsInFlight";
pub(crate) const RATE: &str = "maxRequestsPerSecond";

pub(crate) fn fill(form: &mut Form, properties: &Value) {
    let destination = &properties["destination"]["properties"];
    form.set(SCHEMA, text(&properties[SCHEMA]));
    for name in [EVENTS, KILOBYTES, DEADLINE, IN_FLIGHT, RATE] {
        form.set(name, text(&destination[name]));
    }
}

pub(crate) fn write(form: &Form, properties: &mut Value) {
    properties[SCHEMA] = form.filled(SCHEMA).into();
    let destination = &mut properties["destination"]["properties"];
    for name in [EVENTS, KILOBYTES, DEADLINE, IN_FLIGHT] {
        destination[name] = form.number(name);
    }
    destination[RATE] = form.decimal(RATE);
}

/// In a few words; `deadline` is the setting for who answers how soon.
pub(crate) fn summary(form: &Form, deadline: Duration) -> String {
    let events = match form.filled(EVENTS) {
        None | Some("1") => "one event per request".to_owned(),
        Some(events) => format!("up to {events} events per request"),
    };
    let schema = form.filled(SCHEMA).map(|schema| format!("as {schema}"));
    let deadline = match form.filled(DEADLINE) {
        None => print::span(deadline),
        Some(seconds) => format!("{seconds} s"),
    };
    let answers = format!("answers within {deadline}");
    let in_flight = form.filled(IN_FLIGHT);
    let in_flight = in_flight.map(|most| format!("at most {most} requests at once"));
    let rate = form.filled(RATE);
    let rate = rate.map(|rate| format!("at most {rate} requests per second"));
    let parts = [Some(events), schema, Some(answers), in_flight, rate];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// `input` is what the topic takes in.
pub(crate) fn fields(form: &Form, input: &InputSchema) -> Vec<Field> {
    let possible = DeliverySchema::ALL.into_iter();
    let possible = possible.filter(|schema| schema.can_express(input));
    let mut schemas = vec![("", "As published")];
    schemas.extend(possible.map(|schema| (schema.name(), schema.name())));
    let mut fields = vec![Field::choice(SCHEMA, "Delivery schema", &schemas, form)];
    fields.extend(request_fields(form));
    fields
}

/// What one request is like, and how fast they follow each other.
pub(crate) fn request_fields(form: &Form) -> Vec<Field> {
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
    ]
}
