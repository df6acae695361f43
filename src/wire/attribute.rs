//! The values of delivery headers that are taken from the event (rule 6.4).

use crate::model::event::{Event, EventData};
use crate::wire::json::{scalar_text, value_at};

/// The value that `source_field` leads to in `event`, published to the topic whose resource id is
/// `default_source`. `None` where there is nothing, or no string, number or boolean: the header is then
/// left out.
///
/// The names of the envelope are those of both schemas, in any letter case; then come the CloudEvents
/// attributes; what starts with `data.` is a path into the data.
pub fn dynamic_value(event: &Event, default_source: &str, source_field: &str) -> Option<String> {
    match source_field.to_ascii_lowercase().as_str() {
        "id" => Some(event.id.clone()),
        "topic" | "source" => Some(event.source.as_deref().unwrap_or(default_source).to_owned()),
        "subject" => event.subject.clone(),
        "eventtype" | "type" => Some(event.event_type.clone()),
        "eventtime" | "time" => event.time.clone(),
        "dataversion" => event.data_version.clone(),
        name => attribute(event, name).or_else(|| in_data(event, source_field)),
    }
}

fn attribute(event: &Event, lower_name: &str) -> Option<String> {
    let mut attributes = event.attributes.iter();
    let attribute = attributes.find(|each| each.name.eq_ignore_ascii_case(lower_name))?;
    scalar_text(&attribute.value)
}

fn in_data(event: &Event, source_field: &str) -> Option<String> {
    let EventData::Json(json) = &event.data else {
        return None;
    };
    let mut steps = source_field.split('.');
    if !steps.next()?.eq_ignore_ascii_case("data") {
        return None;
    }
    let path: Vec<&str> = steps.collect();
    scalar_text(value_at(json, &path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::Attribute;

    fn event() -> Event {
        Event {
            id: "id-1".to_owned(),
            source: None,
            event_type: "Order.Paid".to_owned(),
            subject: Some("/orders/1".to_owned()),
            time: Some("2026-11-21T06:40:53Z".to_owned()),
            data_version: Some("2".to_owned()),
            attributes: vec![Attribute {
                name: "tenant".to_owned(),
                value: "\"north\"".to_owned(),
            }],
            data: EventData::Json(
                r#"{"orderId":"o\u00df","total":1.50,"paid":true,"none":null,"a":{"B":[1]}}"#
                    .to_owned(),
            ),
        }
    }

    #[test]
    fn source_fields_lead_into_the_event() {
        for (source_field, expected) in [
            ("id", Some("id-1")),
            ("ID", Some("id-1")),
            ("topic", Some("/the/topic")),
            ("source", Some("/the/topic")),
            ("subject", Some("/orders/1")),
            ("eventtype", Some("Order.Paid")),
            ("EventType", Some("Order.Paid")),
            ("type", Some("Order.Paid")),
            ("time", Some("2026-11-21T06:40:53Z")),
            ("dataversion", Some("2")),
            ("tenant", Some("north")),
            ("data.orderId", Some("oß")),
            ("data.total", Some("1.50")),
            ("Data.paid", Some("true")),
            ("data.none", None),
            ("data.a", None),
            ("data.a.b", None),
            ("data", None),
            ("data.missing", None),
            ("total", None),
            ("", None),
        ] {
            let value = dynamic_value(&event(), "/the/topic", source_field);
            assert_eq!(value.as_deref(), expected, "{source_field}");
        }
    }

    #[test]
    fn the_event_is_not_made_up() {
        let event = Event {
            source: Some("/own".to_owned()),
            subject: None,
            time: None,
            data_version: None,
            data: EventData::Binary(vec![0, 0].into()),
            ..event()
        };
        assert_eq!(
            dynamic_value(&event, "/the/topic", "topic").as_deref(),
            Some("/own")
        );
        for source_field in ["subject", "time", "dataversion", "data", "data.a"] {
            assert_eq!(dynamic_value(&event, "/the/topic", source_field), None);
        }
    }
}
