//! Event subscriptions, of topics and of those of namespaces.

use axum::handler::Handler;
use serde_json::{Value, json};

use crate::api::arm::listing::ListParameters;
use crate::api::manage::azure::{self, OperationStatus};
use crate::api::routes::route::{
    ADMIN, Area, OPERATOR, Route, RouteAccess, VIEWER, get, patch, post, put,
};
use crate::api::routes::topics::{UPDATES, deletion};
use crate::api::{ApiState, manage};
use crate::model::limits::{HANDSHAKE_PUT_WAIT, SIGNING_SECRETS_MAX, SUBSCRIPTIONS_PER_TOPIC_MAX};
use crate::wire::resource::Rotation;
use crate::wire::resource::bodies::{
    DeliveryAttributes, EventSubscriptionRequest, FullUrl, NamespaceEventSubscriptionRequest,
    ResourceList, RotatedSigningSecret, ShownNamespaceSubscription, ShownSubscription,
    SigningSecrets, SubscriptionProperties,
};

pub(crate) fn area() -> Area {
    Area {
        name: "Event subscriptions",
        description: "Which events of a topic go to which receiver, and how.",
        routes: of_topics().into_iter().chain(of_namespaces()).collect(),
    }
}

fn of_topics() -> Vec<Route> {
    let topic = "/topics/{topic}";
    let one = &*format!("{topic}/eventSubscriptions/{{name}}");
    let [get, put, patch] = resource(one, "");
    let mut routes = vec![
        list(topic, "").query::<ListParameters>()
            .answers::<ResourceList<ShownSubscription>>(200, "The event subscriptions."),
        get.answers::<ShownSubscription>(200, SHOWN),
        put.says(put_says(
            "The webhook is validated first and gets no events until it passes; `provisioningState` shows \
             the state.",
        ))
        .takes::<EventSubscriptionRequest>(example())
        .answers::<ShownSubscription>(201, PUT),
        patch
            .updates::<SubscriptionProperties>(
                json!({ "labels": ["billing"], "retryPolicy": { "maxDeliveryAttempts": 10 } }),
            )
            .answers::<ShownSubscription>(201, SHOWN),
    ];
    routes.extend(over_all_topics());
    let commands = commands(one, "").map(|each| each.answers::<ShownSubscription>(200, SHOWN));
    routes.extend(commands);
    routes.extend(others(one, ""));
    routes
}

/// Lists over all topics, by where they are and what type they have.
fn over_all_topics() -> impl Iterator<Item = Route> {
    let lists = [
        ("", ""),
        ("/locations/{location}", "ByLocation"),
        ("/topicTypes/{topic_type}", "ByTopicType"),
        (
            "/locations/{location}/topicTypes/{topic_type}",
            "ByLocationAndTopicType",
        ),
    ];
    lists.into_iter().map(|(narrowed, word)| {
        get(
            format!("{narrowed}/eventSubscriptions"),
            VIEWER,
            azure::list_subscriptions,
        )
        .doc(
            format!("listAllEventSubscriptions{word}"),
            "List event subscriptions over all topics",
        )
        .says("Those of topics that belong to no namespace.")
        .query::<ListParameters>()
        .answers::<ResourceList<ShownSubscription>>(200, "The event subscriptions.")
    })
}

fn of_namespaces() -> Vec<Route> {
    let topic = "/namespaces/{namespace}/topics/{topic}";
    let one = &*format!("{topic}/eventSubscriptions/{{name}}");
    let word = "Namespace";
    let [get, put, patch] = resource(one, word);
    let mut routes = vec![
        list(topic, word)
            .query::<ListParameters>()
            .answers::<ResourceList<ShownNamespaceSubscription>>(200, "The event subscriptions."),
        get.answers::<ShownNamespaceSubscription>(200, SHOWN),
        put.says(put_says(
            "A webhook is asked before anything is stored, and must agree.",
        ))
        .takes::<NamespaceEventSubscriptionRequest>(namespace_example())
        .answers::<ShownNamespaceSubscription>(201, PUT),
        patch
            .updates::<NamespaceEventSubscriptionRequest>(
                json!({ "properties": { "labels": ["billing"] } }),
            )
            .answers::<ShownNamespaceSubscription>(200, SHOWN),
    ];
    let commands = commands(one, word);
    routes.extend(commands.map(|each| each.answers::<ShownNamespaceSubscription>(200, SHOWN)));
    routes.extend(others(one, word));
    routes
}

const SHOWN: &str = "The event subscription.";
const PUT: &str = "The event subscription, whether it was there before or not.";

fn list(topic: &str, word: &str) -> Route {
    get(
        format!("{topic}/eventSubscriptions"),
        VIEWER,
        manage::list_subscriptions,
    )
    .doc(
        format!("list{word}EventSubscriptions"),
        "List the event subscriptions of a topic",
    )
    .says("All event subscriptions of the topic.")
}

fn resource(one: &str, word: &str) -> [Route; 3] {
    [
        get(one, VIEWER, manage::get_subscription)
            .doc(
                format!("get{word}EventSubscription"),
                "Get an event subscription",
            )
            .says("Secrets are null, and the URL has no query: see `getFullUrl`."),
        put(one, ADMIN, manage::put_subscription)
            .doc(
                format!("put{word}EventSubscription"),
                "Create or replace an event subscription",
            )
            .rejects(403, "The role does not suffice, or the topic is built in.")
            .rejects(
                409,
                "The topic has as many event subscriptions as it may have.",
            ),
        patch(one, ADMIN, manage::patch_subscription)
            .doc(
                format!("patch{word}EventSubscription"),
                "Change an event subscription",
            )
            .says(UPDATES),
    ]
}

fn put_says(handshake: &str) -> String {
    let wait = HANDSHAKE_PUT_WAIT.as_secs();
    format!(
        "{handshake} The answer waits up to {wait} s for that. Secrets that are left out stay as they were. A \
         topic takes at most {SUBSCRIPTIONS_PER_TOPIC_MAX} event subscriptions."
    )
}

fn command<T: 'static>(
    one: &str,
    verb: &str,
    access: RouteAccess,
    handler: impl Handler<T, ApiState>,
) -> Route {
    post(format!("{one}/{verb}"), access, handler)
}

/// Returns the routes of commands that change an event subscription and answer with it.
fn commands(one: &str, word: &str) -> [Route; 3] {
    let id = |verb: &str| format!("{verb}{word}EventSubscription");
    [
        command(one, "validate", OPERATOR, manage::validate)
            .doc(id("validate"), "Validate again")
            .says("Repeats the handshake with a webhook that is not validated."),
        command(one, "pause", OPERATOR, manage::pause)
            .doc(id("pause"), "Pause deliveries")
            .says("Events are still matched, and stay pending."),
        command(one, "resume", OPERATOR, manage::resume)
            .doc(id("resume"), "Resume deliveries")
            .says("Ends a pause or a probation, and enables a disabled event subscription."),
    ]
}

fn others(one: &str, word: &str) -> [Route; 6] {
    [
        get(format!("{one}/operationStatus"), VIEWER, azure::operation_status)
            .doc(format!("get{word}OperationStatus"), "Get the state of the newest change")
            .says("As Azure's clients ask for it while a webhook is asked whether it agrees.")
            .answers::<OperationStatus>(200, "The state."),
        deletion(one, manage::delete_subscription)
            .doc(format!("delete{word}EventSubscription"), "Delete an event subscription")
            .says("Nothing happens if it is not there."),
        command(one, "getFullUrl", ADMIN, manage::get_full_url)
            .doc(format!("get{word}FullUrl"), "Show the webhook's URL with its query")
            .says("The query is left out elsewhere, since it often holds a secret.")
            .answers::<FullUrl>(200, "The URL."),
        command(one, "getDeliveryAttributes", ADMIN, manage::get_delivery_attributes)
            .doc(format!("get{word}DeliveryAttributes"), "List the headers of deliveries")
            .says("Values of secret headers are null.")
            .answers::<DeliveryAttributes>(200, "The headers."),
        command(one, "listSigningSecrets", ADMIN, manage::list_signing_secrets)
            .doc(format!("list{word}SigningSecrets"), "List the signing secrets")
            .says("By their fingerprints: the first 16 digits of their SHA-256.")
            .answers::<SigningSecrets>(200, "The fingerprints, the newest first."),
        command(one, "rotateSigningSecret", ADMIN, manage::rotate_signing_secret)
            .doc(format!("rotate{word}SigningSecret"), "Rotate the signing secret")
            .says(format!(
                "Deliveries are signed as Standard Webhooks says; at most {SIGNING_SECRETS_MAX} secrets sign \
                 at once."
            ))
            .may_take::<Rotation>(json!({ "gracePeriod": "PT1H" }))
            .answers::<RotatedSigningSecret>(200, "The new secret.")
            .rejects(409, "There are as many secrets as may sign at once."),
    ]
}

/// A subscription that works with an inspector named `bin`.
fn example() -> Value {
    json!({
        "properties": {
            "destination": {
                "endpointType": "WebHook",
                "properties": { "endpointUrl": "https://inspector.everpost.internal/bin" },
            },
            "filter": { "includedEventTypes": ["Order.Paid"], "subjectBeginsWith": "/orders/" },
            "retryPolicy": { "maxDeliveryAttempts": 10, "eventTimeToLiveInMinutes": 240 },
        },
    })
}

/// A subscription whose events are pulled.
fn namespace_example() -> Value {
    json!({
        "properties": {
            "deliveryConfiguration": {
                "deliveryMode": "Queue",
                "queue": {
                    "receiveLockDurationInSeconds": 60,
                    "maxDeliveryCount": 10,
                    "eventTimeToLive": "P1D",
                },
            },
            "filtersConfiguration": { "includedEventTypes": ["Order.Paid"] },
        },
    })
}
