//! Requests to webhooks about their subscription: the validation handshake and the farewell.

use serde_json::json;
use uuid::Uuid;

use crate::base::Timestamp;
use crate::wire::json::{JsonMembers, string};

/// The type of the event that opens Event Grid's handshake (rule 5.1).
pub(super) const VALIDATION_EVENT_TYPE: &str = "Microsoft.EventGrid.SubscriptionValidationEvent";

/// The body of a validation request: one event in the Event Grid schema, whatever the delivery schema
/// (rule 5.1).
pub fn validation_event(
    topic_resource_id: &str,
    code: &str,
    validation_url: &str,
    id: Uuid,
    now: Timestamp,
) -> Vec<u8> {
    let data = json!({ "validationCode": code, "validationUrl": validation_url });
    system_event(topic_resource_id, VALIDATION_EVENT_TYPE, &data, id, now)
}

/// The body of the farewell to the webhook of a deleted subscription (rule 5.3).
pub fn deletion_event(
    topic_resource_id: &str,
    subscription_resource_id: &str,
    id: Uuid,
    now: Timestamp,
) -> Vec<u8> {
    let data = json!({ "eventSubscriptionId": subscription_resource_id });
    let event_type = "Microsoft.EventGrid.SubscriptionDeletedEvent";
    system_event(topic_resource_id, event_type, &data, id, now)
}

/// The code that a webhook answered with; the name of its property counts in any letter case (rule A).
pub fn validation_response(body: &[u8]) -> Option<String> {
    const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
    // ASP.NET writes it in front of what it encodes as UTF-8.
    let text = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    let members: JsonMembers<'_> = serde_json::from_slice(text).ok()?;
    string(members.find("validationResponse")?)
}

fn system_event(
    topic_resource_id: &str,
    event_type: &str,
    data: &serde_json::Value,
    id: Uuid,
    now: Timestamp,
) -> Vec<u8> {
    let event = json!([{
        "id": id.to_string(),
        "topic": topic_resource_id,
        "subject": "",
        "data": data,
        "eventType": event_type,
        "eventTime": now.to_azure(),
        "metadataVersion": "1",
        "dataVersion": "1",
    }]);
    event.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handshake_is_one_event_in_an_array() {
        let now = Timestamp::from_ms(1_795_243_253_138);
        let body = validation_event("/t", "CODE", "http://h/validate?id=1", Uuid::nil(), now);
        let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(
            body,
            json!([{
                "id": "00000000-0000-0000-0000-000000000000",
                "topic": "/t",
                "subject": "",
                "data": { "validationCode": "CODE", "validationUrl": "http://h/validate?id=1" },
                "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
                "eventTime": "2026-11-21T06:40:53.1380000Z",
                "metadataVersion": "1",
                "dataVersion": "1",
            }])
        );
    }

    #[test]
    fn the_farewell_names_the_subscription() {
        let body = deletion_event(
            "/t",
            "/t/eventSubscriptions/s",
            Uuid::nil(),
            Timestamp::default(),
        );
        let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(
            body[0]["eventType"],
            "Microsoft.EventGrid.SubscriptionDeletedEvent"
        );
        assert_eq!(
            body[0]["data"],
            json!({ "eventSubscriptionId": "/t/eventSubscriptions/s" })
        );
    }

    #[test]
    fn answers_are_read_in_any_letter_case() {
        for (body, expected) in [
            (r#"{"validationResponse":"CODE"}"#, Some("CODE")),
            ("\u{feff}{\"validationResponse\":\"CODE\"}", Some("CODE")),
            (
                r#" {"more":[1],"ValidationResponse":"CODE"} "#,
                Some("CODE"),
            ),
            (
                r#"{"VALIDATIONRESPONSE":"a","validationResponse":"b"}"#,
                Some("b"),
            ),
            (r#"{"validationResponse":7}"#, None),
            (r#"{"validationResponse":null}"#, None),
            (r#"{"validationCode":"CODE"}"#, None),
            (r#""CODE""#, None),
            ("<html>", None),
            ("", None),
        ] {
            let response = validation_response(body.as_bytes());
            assert_eq!(response.as_deref(), expected, "{body}");
        }
        assert_eq!(validation_response(b"\xff"), None);
    }
}
