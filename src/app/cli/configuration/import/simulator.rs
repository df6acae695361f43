//! Translation of `appsettings.json` of AzureEventGridSimulator, up to version 4 of the simulator.

use serde_json::{Map, Value, json};

use super::{Translation, list, member, name_of};
use crate::app::cli::schema::SchemaArgument;

/// Lists the subscriber kinds of simulator version 4 for which Everpost has no destination, each with an alternative.
const NOT_HERE: [(&str, &str); 2] = [
    (
        "storageQueue",
        "give it a queue: --endpoint-type servicebusqueue",
    ),
    (
        "eventHub",
        "give it a topic of Service Bus: --endpoint-type servicebustopic",
    ),
];

/// Lists the topic properties that are translated or that have no meaning in Everpost.
const OF_TOPICS: [&str; 6] = [
    "name",
    "port",
    "httpsPort",
    "key",
    "disabled",
    "subscribers",
];

/// Translates the simulator's `appsettings.json` into configuration objects, and adds them to `to`.
pub(super) fn of_simulator(file: &Value, to: &mut Translation) {
    for topic in list(file, "topics") {
        of_topic(topic, to);
    }
    if member(file, "dangerousAcceptAnyServerCertificateValidator").as_bool() == Some(true) {
        let instead = "give event subscriptions the certificate authorities of their receivers";
        to.leave_out(format!(
            "dangerousAcceptAnyServerCertificateValidator is left out: {instead}"
        ));
    }
}

fn of_topic(topic: &Value, to: &mut Translation) {
    let name = name_of(topic);
    let title = format!("topic {name}");
    let schemas = TopicSchemas {
        input: schema_of(topic, "inputSchema", &title, to),
        output: schema_of(topic, "outputSchema", &title, to),
    };
    let mut object = json!({ "kind": "Topic", "name": name, "location": "local" });
    if schemas.input == Some(SchemaArgument::Cloudevents) {
        object["properties"] = json!({ "inputSchema": "CloudEventSchemaV1_0" });
    }
    to.objects.push(object);
    to.note(format!(
        "{title}: publish to /topics/{name}/api/events instead of port {}, with a key of `everpost topics keys {name}` \
         instead of the one in the file",
        first(topic, ["port", "httpsPort"])
    ));
    if member(topic, "disabled").as_bool() == Some(true) {
        to.leave_out(format!(
            "{title}: topics cannot be disabled; it takes events"
        ));
    }
    let known = OF_TOPICS.into_iter().chain(["inputSchema", "outputSchema"]);
    to.leave_out_others(topic, &known.collect::<Vec<_>>(), &title);
    let subscribers = member(topic, "subscribers");
    let of = |kind| list(subscribers, kind);
    // In files up to version 3, `subscribers` is an array, and all subscribers are webhooks.
    let webhooks = subscribers.as_array().map_or(&[][..], Vec::as_slice);
    for subscriber in webhooks.iter().chain(of("http")) {
        let webhook = json!({
            "endpointUrl": member(subscriber, "endpoint"),
            "skipValidation": member(subscriber, "disableValidation").as_bool() == Some(true),
        });
        let destination = json!({ "endpointType": "WebHook", "properties": webhook });
        let known = ["endpoint", "disableValidation"];
        of_subscriber(name, subscriber, schemas, &destination, &known, to);
    }
    for subscriber in of("serviceBus") {
        let (kind, entity) = match text(subscriber, "queue") {
            "" => ("ServiceBusTopic", text(subscriber, "topic")),
            queue => ("ServiceBusQueue", queue),
        };
        let entities = json!({
            "resourceId": entity,
            "deliveryAttributeMappings": headers(member(subscriber, "properties")),
        });
        let destination = json!({ "endpointType": kind, "properties": entities });
        let known = [
            "queue",
            "topic",
            "properties",
            "connectionString",
            "namespace",
            "sharedAccessKeyName",
            "sharedAccessKey",
        ];
        to.note(format!(
            "event subscription {name}/{}: the {} {entity} of this appliance takes the place of the one in the file",
            name_of(subscriber),
            if kind == "ServiceBusQueue" { "queue" } else { "topic" },
        ));
        of_subscriber(name, subscriber, schemas, &destination, &known, to);
    }
    for (kind, instead) in NOT_HERE {
        for subscriber in of(kind) {
            let subscriber = name_of(subscriber);
            to.leave_out(format!(
                "event subscription {name}/{subscriber} is left out: there is no destination {kind}; {instead}"
            ));
        }
    }
    let kinds = ["http", "serviceBus", "storageQueue", "eventHub"];
    to.leave_out_others(subscribers, &kinds, &format!("{title}: subscribers"));
}

/// The schema of the events published to a topic, and the default schema of the events delivered to its subscribers.
/// Each is `None` if the file names no known schema.
#[derive(Clone, Copy)]
struct TopicSchemas {
    input: Option<SchemaArgument>,
    output: Option<SchemaArgument>,
}

/// Translates the application properties of a Service Bus subscriber into delivery attribute mappings.
fn headers(properties: &Value) -> Vec<Value> {
    let named = properties.as_object().into_iter().flatten();
    let header = |(name, given): (&String, &Value)| {
        let value = member(given, "value");
        match member(given, "type").as_str() {
            Some(kind) if kind.eq_ignore_ascii_case("dynamic") => {
                json!({ "name": name, "type": "Dynamic", "properties": { "sourceField": value } })
            }
            _ => json!({ "name": name, "type": "Static", "properties": { "value": value } }),
        }
    };
    named.map(header).collect()
}

/// Translates a subscriber into an event subscription with `destination`, and adds it to `to`. `read` lists the
/// properties of the subscriber that the caller has handled.
fn of_subscriber(
    topic: &str,
    subscriber: &Value,
    schemas: TopicSchemas,
    destination: &Value,
    read: &[&str],
    to: &mut Translation,
) {
    let name = format!("{topic}/{}", name_of(subscriber));
    let title = format!("event subscription {name}");
    let mut properties = json!({ "destination": destination });
    if member(subscriber, "disabled").as_bool() == Some(true) {
        properties["disabled"] = true.into();
    }
    if let Value::Object(filter) = member(subscriber, "filter") {
        properties["filter"] = Value::Object(filter.clone());
    }
    match (schema_of(subscriber, "deliverySchema", &title, to).or(schemas.output), schemas.input) {
        (Some(SchemaArgument::Eventgrid), Some(SchemaArgument::Cloudevents)) => to.leave_out(format!(
            "{title}: deliverySchema is left out: CloudEvents cannot be delivered as events of Event Grid"
        )),
        (Some(schema), _) => properties["eventDeliverySchema"] = schema.delivery().into(),
        (None, _) => {}
    }
    let retry = member(subscriber, "retryPolicy");
    if let Some(policy) = retry_policy(retry) {
        properties["retryPolicy"] = policy;
    }
    let of_retries = ["enabled", "maxDeliveryAttempts", "eventTimeToLiveInMinutes"];
    to.leave_out_others(retry, &of_retries, &format!("{title}: retryPolicy"));
    dead_letters(
        member(subscriber, "deadLetter"),
        &title,
        &mut properties,
        to,
    );
    let common = [
        "name",
        "disabled",
        "filter",
        "deliverySchema",
        "retryPolicy",
        "deadLetter",
    ];
    let known: Vec<&str> = read.iter().copied().chain(common).collect();
    to.leave_out_others(subscriber, &known, &title);
    to.objects.push(json!({
        "kind": "EventSubscription", "name": name, "properties": properties,
    }));
}

fn retry_policy(retry: &Value) -> Option<Value> {
    let is_off = member(retry, "enabled").as_bool() == Some(false);
    let named = ["maxDeliveryAttempts", "eventTimeToLiveInMinutes"].map(|name| {
        let value = member(retry, name);
        (!value.is_null()).then(|| (name.to_owned(), value.clone()))
    });
    let mut policy: Map<String, Value> = named.into_iter().flatten().collect();
    if is_off {
        policy.insert("maxDeliveryAttempts".to_owned(), 1.into());
    }
    (!policy.is_empty()).then_some(Value::Object(policy))
}

/// Translates the dead-letter settings of a subscriber. The simulator writes dead letters to files; Everpost keeps them
/// in the queue of the event subscription.
fn dead_letters(given: &Value, title: &str, properties: &mut Value, to: &mut Translation) {
    if given.is_null() {
        return;
    }
    if member(given, "enabled").as_bool() == Some(false) {
        properties["deadLetterDestination"] = json!({ "endpointType": "Drop" });
        return;
    }
    to.note(format!(
        "{title}: dead letters stay in the queue of the event subscription; for files give it a container, \
         --dead-letter-container"
    ));
    let folder = member(given, "folderPath");
    if !folder.is_null() {
        to.leave_out(format!(
            "{title}: deadLetter.folderPath is left out: files go to the directory of the setting dead_letter.export_dir"
        ));
    }
    to.leave_out_others(
        given,
        &["enabled", "folderPath"],
        &format!("{title}: deadLetter"),
    );
}

/// Returns the schema that the property `name` specifies; `None` if it is missing or unknown. The simulator and
/// Everpost have different names for schemas.
fn schema_of(of: &Value, name: &str, title: &str, to: &mut Translation) -> Option<SchemaArgument> {
    let written = text(of, name);
    match written.to_ascii_lowercase().as_str() {
        "" => None,
        "eventgridschema" => Some(SchemaArgument::Eventgrid),
        "cloudeventv1_0" | "cloudeventschemav1_0" => Some(SchemaArgument::Cloudevents),
        _ => {
            to.leave_out(format!(
                "{title}: {name} is left out: there is no schema {written}"
            ));
            None
        }
    }
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    member(of, name).as_str().unwrap_or_default()
}

fn first<'a, const N: usize>(of: &'a Value, names: [&str; N]) -> &'a Value {
    let mut found = names.into_iter().map(|name| member(of, name));
    found.find(|value| !value.is_null()).unwrap_or(&Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(file: &Value) -> Translation {
        let mut to = Translation::default();
        of_simulator(file, &mut to);
        to
    }

    fn names(to: &Translation) -> Vec<String> {
        let name = |each: &Value| {
            format!(
                "{} {}",
                each["kind"].as_str().unwrap_or(""),
                each["name"].as_str().unwrap_or("")
            )
        };
        to.objects.iter().map(name).collect()
    }

    #[test]
    fn subscribers_of_version_4_are_taken_over() {
        let to = translated(
            &json!({ "topics": [{ "name": "orders", "port": 1, "inputSchema": "CloudEventV1_0", "subscribers": {
            "http": [{ "name": "hook", "endpoint": "http://127.0.0.1:9/", "deadLetter": { "enabled": false },
                "retryPolicy": { "maxDeliveryAttempts": 3, "eventTimeToLiveInMinutes": 5, "backoff": "none" } }],
            "serviceBus": [{ "name": "jobs", "queue": "jobs", "connectionString": "Endpoint=sb://h/",
                "properties": { "OrderId": { "type": "dynamic", "value": "data.id" }, "From": { "type": "static", "value": "s" } } }],
            "storageQueue": [{ "name": "audit", "queueName": "a" }],
            "eventHub": [{ "name": "hub" }],
            "carrierPigeon": [{ "name": "p" }],
        } }] }),
        );
        assert_eq!(
            names(&to),
            [
                "Topic orders",
                "EventSubscription orders/hook",
                "EventSubscription orders/jobs"
            ]
        );
        let hook = &to.objects[1]["properties"];
        assert_eq!(
            to.objects[0]["properties"]["inputSchema"],
            "CloudEventSchemaV1_0"
        );
        assert_eq!(
            hook["retryPolicy"],
            json!({ "maxDeliveryAttempts": 3, "eventTimeToLiveInMinutes": 5 })
        );
        assert_eq!(
            hook["deadLetterDestination"],
            json!({ "endpointType": "Drop" })
        );
        assert_eq!(
            to.objects[2]["properties"]["destination"],
            json!({
                "endpointType": "ServiceBusQueue", "properties": { "resourceId": "jobs", "deliveryAttributeMappings": [
                    { "name": "From", "type": "Static", "properties": { "value": "s" } },
                    { "name": "OrderId", "type": "Dynamic", "properties": { "sourceField": "data.id" } },
                ] },
            })
        );
        for part in [
            "orders/audit is left out",
            "orders/hub is left out",
            "carrierPigeon",
            "retryPolicy.backoff",
        ] {
            let found = to.left_out.iter().filter(|each| each.contains(part));
            assert_eq!(found.count(), 1, "{part}: {:?}", to.left_out);
        }
        assert_eq!(to.left_out.len(), 4);
    }

    #[test]
    fn nothing_of_older_files_is_passed_over_in_silence() {
        let to = translated(
            &json!({ "topics": [{ "name": "orders", "httpsPort": 1, "outputSchema": "CloudEventV1_0",
            "disabled": true, "subscribers": [
                { "name": "a", "endpoint": "http://127.0.0.1:9/", "deadLetter": { "folderPath": "./d" }, "colour": "red" },
                { "name": "b", "endpoint": "http://127.0.0.1:9/", "deliverySchema": "EventGridSchema", "retryPolicy": { "enabled": false } },
                { "name": "c", "endpoint": "http://127.0.0.1:9/", "deliverySchema": "Morse" },
            ] }] }),
        );
        let schemas: Vec<&Value> = to.objects[1..]
            .iter()
            .map(|each| &each["properties"]["eventDeliverySchema"])
            .collect();
        assert_eq!(
            schemas,
            [
                "CloudEventSchemaV1_0",
                "EventGridSchema",
                "CloudEventSchemaV1_0"
            ]
        );
        assert_eq!(
            to.objects[2]["properties"]["retryPolicy"],
            json!({ "maxDeliveryAttempts": 1 })
        );
        for part in [
            "cannot be disabled",
            "folderPath",
            "colour",
            "no schema Morse",
        ] {
            let found = to.left_out.iter().filter(|each| each.contains(part));
            assert_eq!(found.count(), 1, "{part}: {:?}", to.left_out);
        }
    }
}
