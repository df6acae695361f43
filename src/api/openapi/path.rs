//! The parameters in paths.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use crate::model::name::{
    ENTITY_NAME_CHARACTERS, NAME_CHARACTERS, RULE_NAME_CHARACTERS, SUBSCRIPTION_NAME_CHARACTERS,
};

/// The actions on locks that paths name.
const VERBS: [&str; 5] = ["complete", "abandon", "defer", "deadLetter", "renew"];

/// The parameters of a path, in its order.
pub(super) fn parameters(path: &str) -> Vec<Value> {
    let in_namespace = path.contains("{namespace}");
    let mut before = "";
    let mut found = Vec::new();
    for segment in path.split('/') {
        let name = segment
            .strip_prefix('{')
            .and_then(|rest| rest.split('}').next());
        if let Some(name) = name {
            found.push(parameter(before, name, in_namespace));
        }
        before = segment;
    }
    found
}

fn parameter(before: &str, name: &str, in_namespace: bool) -> Value {
    let (schema, example, says) = meaning(before, name, in_namespace);
    json!({
        "in": "path",
        "name": name,
        "required": true,
        "description": says,
        "schema": schema,
        "example": example,
    })
}

/// A part of a name of Service Bus.
const PART: &str = "[A-Za-z0-9_-][A-Za-z0-9._-]*";

fn fitting(characters: &RangeInclusive<usize>, pattern: &str) -> Value {
    json!({
        "type": "string",
        "minLength": characters.start(),
        "maxLength": characters.end(),
        "pattern": format!("^{pattern}$"),
    })
}

/// Returns the schema, an example and the description of the parameter `name` that follows the segment `before`.
fn meaning(before: &str, name: &str, in_namespace: bool) -> (Value, Value, &'static str) {
    let text = || json!({ "type": "string" });
    let number = || json!({ "type": "integer" });
    let named = |characters: &RangeInclusive<usize>| fitting(characters, "[A-Za-z0-9-]+");
    let entity = || fitting(&ENTITY_NAME_CHARACTERS, &format!("{PART}(/{PART})*"));
    match (before, name) {
        (_, "namespace") => (
            named(&NAME_CHARACTERS),
            json!("shop"),
            "The name of a namespace.",
        ),
        ("serviceBusTopics", "topic") | (_, "serviceBusTopic") => {
            (entity(), json!("sales"), "The name of a Service Bus topic.")
        }
        (_, "topic") => (
            named(&NAME_CHARACTERS),
            json!("orders"),
            "The name of a topic.",
        ),
        (_, "entity") => (
            entity(),
            json!("invoices"),
            "The name of a queue or a Service Bus topic.",
        ),
        (_, "queue") => (entity(), json!("jobs"), "The name of a queue."),
        (_, "subscriptionId") => (
            text(),
            json!("00000000-0000-0000-0000-000000000000"),
            "An Azure subscription that azure.subscription_id names.",
        ),
        (_, "resourceGroupName") => (
            text(),
            json!("everpost"),
            "A resource group that azure.resource_group names.",
        ),
        (_, "location") => (
            text(),
            json!("local"),
            "The location of topics, with or without its spaces.",
        ),
        (_, "topic_type") => (
            text(),
            json!("Microsoft.EventGrid.Topics"),
            "A type of topics.",
        ),
        (_, "rule") => (
            fitting(&RULE_NAME_CHARACTERS, "[A-Za-z0-9._$-]+"),
            json!("large"),
            "The name of a rule.",
        ),
        ("subscriptions", "name") => (
            fitting(&RULE_NAME_CHARACTERS, PART),
            json!("billing"),
            "The name of a subscription.",
        ),
        (_, "subscription") => (
            fitting(&RULE_NAME_CHARACTERS, PART),
            json!("audit"),
            "The name of a subscription.",
        ),
        ("inspectors", "name") => (
            named(&NAME_CHARACTERS),
            json!("bin"),
            "The name of an inspector.",
        ),
        ("users", "name") => (text(), json!("ann"), "The name of a user."),
        ("settings", "name") => (text(), json!("retention.hours"), "The name of a setting."),
        ("tokens", "name") => (text(), json!("deploy"), "The name of an API token."),
        (_, "name") => (
            named(if in_namespace {
                &NAME_CHARACTERS
            } else {
                &SUBSCRIPTION_NAME_CHARACTERS
            }),
            json!("billing"),
            "The name of an event subscription.",
        ),
        (_, "key") => (
            number(),
            json!(1),
            "The appliance's own number of an event.",
        ),
        ("replays", "id") => (number(), json!(1), "The number of a replay job."),
        ("rejectedEvents", "id") => (number(), json!(1), "The number of a rejected request."),
        ("sessions", "id") => (text(), json!("c2Vzc2lvbg"), "The id of a session."),
        (_, "id") => (number(), json!(1), "The number of a delivery."),
        ("requests", "number") => (number(), json!(1), "The number of a request."),
        (_, "verb") => (
            json!({ "type": "string", "enum": VERBS }),
            json!("complete"),
            "What is to become of them.",
        ),
        (_, "numberOrId") => (
            text(),
            json!("1"),
            "The number of the delivery, or the id of the event.",
        ),
        (_, "lockToken") => (
            text(),
            json!("7c9e6679-7425-40de-944b-e07fc1f90ae7"),
            "The token of the lock.",
        ),
        _ => (text(), json!(""), ""),
    }
}
