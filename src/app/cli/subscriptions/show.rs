//! The output of `everpost subscriptions`.

use serde_json::{Value, json};

use crate::app::cli::credentials;
use crate::app::cli::output::{Screen, items, text};
use crate::app::cli::table::Cell::{Of, Text, Time, Word};
use crate::app::cli::table::{ListFormat, NamedValues};

pub(super) const SUBSCRIPTIONS: ListFormat = ListFormat {
    none: "no event subscriptions yet: create one with `everpost subscriptions create NAME --topic TOPIC \
           --endpoint URL`",
    columns: &[
        ("TOPIC", Of(topic_name)),
        ("NAME", Text("/name")),
        ("STATE", Word(STATE)),
        ("SCHEMA", Text("/properties/eventDeliverySchema")),
        ("ENDPOINT", Of(|each| endpoint(&in_one_shape(each)))),
    ],
};

/// Pointer to the state of an event subscription, a single word.
const STATE: &str = "/properties/everpost/state";

/// The names at the end of the topic's resource id: `orders`, `shop/orders`.
fn topic_name(subscription: &Value) -> String {
    let id = text(subscription, "/properties/topic");
    let parts: Vec<&str> = id.split('/').collect();
    match parts.as_slice() {
        [.., "namespaces", namespace, "topics", topic] => format!("{namespace}/{topic}"),
        parts => parts.last().copied().unwrap_or_default().to_owned(),
    }
}

/// Returns a subscription with the property names that it would have outside of a namespace.
fn in_one_shape(subscription: &Value) -> Value {
    let properties = &subscription["properties"];
    let delivery = &properties["deliveryConfiguration"];
    let Some(push) = delivery.get("push").or(delivery.get("queue")) else {
        return subscription.clone();
    };
    let mut shaped = subscription.clone();
    let place = &mut shaped["properties"];
    place["destination"] = push["destination"].clone();
    place["retryPolicy"] = json!({
        "maxDeliveryAttempts": push["maxDeliveryCount"],
        "schedule": push["schedule"],
    });
    place["timeToLive"] = push["eventTimeToLive"].clone();
    place["lock"] = push["receiveLockDurationInSeconds"].clone();
    let filters = &properties["filtersConfiguration"];
    place["filter"] = json!({
        "includedEventTypes": filters["includedEventTypes"],
        "advancedFilters": filters["filters"],
    });
    if let Some(wrapped) = push.get("deadLetterDestinationWithResourceIdentity") {
        place["deadLetterDestination"] = wrapped["deadLetterDestination"].clone();
    }
    shaped
}

/// One event subscription, line by line.
pub(super) fn details(subscription: &Value, _: Screen) -> String {
    let subscription = &in_one_shape(subscription);
    let mut lines = NamedValues::default();
    let mut line = |name: &str, value: String| lines.add(name, value);
    let property = |name: &str| text(subscription, &format!("/properties/{name}"));
    line("name", text(subscription, "/name"));
    line("topic", topic_name(subscription));
    line("state", text(subscription, STATE));
    line("reason", property("everpost/stateReason"));
    line("endpoint", endpoint(subscription));
    line("lock", lock(&property("lock")));
    line("schema", property("eventDeliverySchema"));
    for (name, value) in filter_lines(&subscription["properties"]["filter"]) {
        line(name, value);
    }
    line("attempts", property("retryPolicy/maxDeliveryAttempts"));
    line(
        "time to live",
        minutes(&property("retryPolicy/eventTimeToLiveInMinutes")) + &property("timeToLive"),
    );
    let schedule = &subscription["properties"]["retryPolicy"]["schedule"];
    line("schedule", list_of(schedule));
    line("pace", pace(subscription));
    line("if gone", if_gone(subscription));
    line("batch", batch(subscription));
    line("headers", headers(subscription));
    let webhook = &subscription["properties"]["destination"]["properties"];
    for (name, value) in credentials::lines(webhook) {
        line(name, value);
    }
    line("labels", list_of(&subscription["properties"]["labels"]));
    line("expires", property("expirationTimeUtc"));
    line("dead letters", dead_letters(subscription));
    line("resource id", text(subscription, "/id"));
    lines.to_string()
}

fn filter_lines(filter: &Value) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("event types", list_of(&filter["includedEventTypes"])),
        ("subject begins", text(filter, "/subjectBeginsWith")),
        ("subject ends", text(filter, "/subjectEndsWith")),
    ];
    let advanced = items(filter, "/advancedFilters").iter();
    lines.extend(advanced.map(|each| ("filter", each.to_string())));
    lines
}

/// Where events go: to the webhook, a queue or a topic of Service Bus, or nowhere.
fn endpoint(subscription: &Value) -> String {
    match text(
        subscription,
        "/properties/deliveryConfiguration/deliveryMode",
    )
    .as_str()
    {
        "Queue" => "pulled by receivers".to_owned(),
        _ => {
            let properties = &subscription["properties"]["destination"]["properties"];
            let webhook = text(properties, "/endpointBaseUrl");
            match webhook.as_str() {
                "" => text(properties, "/resourceId"),
                _ => webhook,
            }
        }
    }
}

/// Returns the time for which a pulling receiver locks an event.
fn lock(seconds: &str) -> String {
    match seconds {
        "" => String::new(),
        seconds => format!("{seconds} s"),
    }
}

fn minutes(minutes: &str) -> String {
    match minutes {
        "" => String::new(),
        minutes => format!("{minutes} min"),
    }
}

fn batch(subscription: &Value) -> String {
    let property = |name| {
        text(
            subscription,
            &format!("/properties/destination/properties/{name}"),
        )
    };
    let if_rejected = match property("splitBatchOnError").as_str() {
        "true" => ", split on error",
        _ => "",
    };
    match property("maxEventsPerBatch").as_str() {
        "" | "1" => String::new(),
        events => match property("preferredBatchSizeInKilobytes").as_str() {
            "" => format!("{events} events{if_rejected}"),
            kilobytes => format!("{events} events, {kilobytes} KB{if_rejected}"),
        },
    }
}

/// Lists the limits that the subscription sets itself, in place of the settings of the server.
fn pace(subscription: &Value) -> String {
    let limit = |name: &str, unit: &str| {
        let pointer = format!("/properties/destination/properties/{name}");
        let value = text(subscription, &pointer);
        (!value.is_empty()).then(|| format!("{value} {unit}"))
    };
    let all = [
        limit("responseDeadlineInSeconds", "s to answer"),
        limit("maxRequestsInFlight", "requests at once"),
        limit("maxRequestsPerSecond", "requests per second"),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn if_gone(subscription: &Value) -> String {
    match subscription["properties"]["disableOnGone"].as_bool() {
        Some(true) => "disabled".to_owned(),
        _ => String::new(),
    }
}

fn headers(subscription: &Value) -> String {
    let mappings = items(
        subscription,
        "/properties/destination/properties/deliveryAttributeMappings",
    );
    let headers = mappings.iter().map(|mapping| {
        let value = match mapping["type"].as_str() {
            Some("Dynamic") => format!("<{}>", text(mapping, "/properties/sourceField")),
            _ if mapping["properties"]["isSecret"] == true => "***".to_owned(),
            _ => text(mapping, "/properties/value"),
        };
        format!("{}={value}", text(mapping, "/name"))
    });
    headers.collect::<Vec<_>>().join(", ")
}

fn dead_letters(subscription: &Value) -> String {
    let destination = &subscription["properties"]["deadLetterDestination"];
    match text(destination, "/endpointType").as_str() {
        "" => "kept".to_owned(),
        "Drop" => "dropped".to_owned(),
        _ => text(destination, "/properties/blobContainerName"),
    }
}

fn list_of(values: &Value) -> String {
    let values = items(values, "").iter().map(|value| text(value, ""));
    values.collect::<Vec<_>>().join(", ")
}

/// The secrets that requests are signed with.
pub(super) const SECRETS: ListFormat = ListFormat {
    none: "requests are not signed: begin with `everpost subscriptions rotate-signing-secret`",
    columns: &[
        ("FINGERPRINT", Text("/fingerprint")),
        ("CREATED (UTC)", Time("/createdAt")),
        ("SIGNS UNTIL (UTC)", Time("/expiresAt")),
    ],
};

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::app::cli::output::View;

    pub(in super::super) fn billing() -> Value {
        json!({
            "name": "billing",
            "properties": {
                "topic": "/subscriptions/0/resourceGroups/everpost/providers/Microsoft.EventGrid/topics/orders",
                "provisioningState": "Failed",
                "everpost": { "state": "Failed", "stateReason": "the receiver answered 404" },
                "destination": { "endpointType": "WebHook", "properties": {
                    "endpointBaseUrl": "http://127.0.0.1:9000/",
                    "maxEventsPerBatch": 20,
                    "preferredBatchSizeInKilobytes": 128,
                    "splitBatchOnError": true,
                    "responseDeadlineInSeconds": 60,
                    "maxRequestsPerSecond": 0.5,
                    "authentication": { "type": "Basic", "username": "ada", "password": null },
                    "clientCertificate": { "certificate": "x", "key": null },
                    "signingSecrets": [
                        { "fingerprint": "ab", "createdAt": "c", "expiresAt": null },
                        { "fingerprint": "cd", "createdAt": "c", "expiresAt": "2030-01-01T00:00:00.000Z" },
                    ],
                    "deliveryAttributeMappings": [
                        { "name": "X-A", "type": "Static", "properties": { "value": "1", "isSecret": false } },
                        { "name": "X-B", "type": "Static", "properties": { "value": null, "isSecret": true } },
                        { "name": "X-C", "type": "Dynamic", "properties": { "sourceField": "data.id" } },
                    ],
                } },
                "eventDeliverySchema": "EventGridSchema",
                "filter": { "includedEventTypes": ["A", "B"], "subjectBeginsWith": "", "advancedFilters": [{ "key": "data.x" }] },
                "retryPolicy": { "maxDeliveryAttempts": 30, "eventTimeToLiveInMinutes": 1440, "schedule": ["PT1S", "PT1M"] },
                "disableOnGone": true,
                "labels": [],
                "expirationTimeUtc": null,
            },
        })
    }

    #[test]
    fn a_subscription_in_a_namespace_is_shown_like_others() {
        let shown = json!({
            "name": "billing",
            "properties": {
                "topic": "/subscriptions/0/resourceGroups/g/providers/Microsoft.EventGrid/namespaces/shop/topics/orders",
                "everpost": { "state": "Active" },
                "deliveryConfiguration": { "deliveryMode": "Push", "push": {
                    "maxDeliveryCount": 10, "eventTimeToLive": "P1D",
                    "destination": { "properties": { "endpointBaseUrl": "http://h/" } },
                    "deadLetterDestinationWithResourceIdentity": { "deadLetterDestination": { "endpointType": "Drop" } } } },
                "filtersConfiguration": { "includedEventTypes": ["A"], "filters": [{ "key": "subject" }] },
                "eventDeliverySchema": "CloudEventSchemaV1_0",
            },
        });
        assert_eq!(
            details(&shown, Screen::default()),
            "\
name          billing
topic         shop/orders
state         Active
endpoint      http://h/
schema        CloudEventSchemaV1_0
event types   A
filter        {\"key\":\"subject\"}
attempts      10
time to live  P1D
dead letters  dropped
"
        );
    }

    #[test]
    fn subscriptions_are_listed_in_columns() {
        assert_eq!(
            SUBSCRIPTIONS.text(&json!({ "value": [billing()] }), Screen::default()),
            "\
TOPIC   NAME     STATE   SCHEMA           ENDPOINT
orders  billing  Failed  EventGridSchema  http://127.0.0.1:9000/
"
        );
    }

    #[test]
    fn a_subscription_is_shown_line_by_line() {
        assert_eq!(
            details(&billing(), Screen::default()),
            "\
name            billing
topic           orders
state           Failed
reason          the receiver answered 404
endpoint        http://127.0.0.1:9000/
schema          EventGridSchema
event types     A, B
filter          {\"key\":\"data.x\"}
attempts        30
time to live    1440 min
schedule        PT1S, PT1M
pace            60 s to answer, 0.5 requests per second
if gone         disabled
batch           20 events, 128 KB, split on error
headers         X-A=1, X-B=***, X-C=<data.id>
authentication  basic, as ada
certificate     client certificate
signed with     ab, cd until 2030-01-01T00:00:00.000Z
dead letters    kept
"
        );
    }
}
