//! What is told of event subscriptions, of topics and of those of namespaces.

use axum::http::Method;
use serde_json::{Value, json};

use super::destination_schemas;
use super::operation::{Area, Operation, on};
use super::schema::{
    duration, list, list_of, moment, named, object, resources, schemas, text, url,
};
use super::subscription_schemas as documents;
use super::topics::deletion;
use crate::model::limits::{HANDSHAKE_PUT_WAIT, SIGNING_SECRETS_MAX, SUBSCRIPTIONS_PER_TOPIC_MAX};
use crate::model::limits::{SIGNING_GRACE, SIGNING_GRACE_MAX};
use crate::wire::duration::format;

pub(super) fn area() -> Area {
    let of_topics = operations(&Kind::OF_TOPICS);
    let of_namespaces = operations(&Kind::OF_NAMESPACES);
    let rotation = object([
        (
            "secret",
            text()
                .says("A secret of your own; without it, one is made.")
                .optional(),
        ),
        (
            "gracePeriod",
            duration()
                .by_default(format(SIGNING_GRACE))
                .says(format!(
                    "For how long the older secrets go on signing, up to {}.",
                    format(SIGNING_GRACE_MAX)
                ))
                .optional(),
        ),
    ]);
    let secret = object([
        ("fingerprint", text()),
        ("createdAt", moment()),
        ("expiresAt", moment().or_null()),
    ]);
    let mut all = schemas([
        ("FullUrl", object([("endpointUrl", url())])),
        ("DeliveryAttributes", list_of("DeliveryAttributeMapping")),
        ("SigningSecret", secret),
        ("SigningSecrets", list_of("SigningSecret")),
        ("SigningSecretRotation", rotation.open()),
        (
            "RotatedSigningSecret",
            object([
                (
                    "secret",
                    text().says("The new one; it is never shown again."),
                ),
                ("signingSecrets", list(named("SigningSecret"))),
            ]),
        ),
    ]);
    all.extend(documents::all());
    all.extend(destination_schemas::all());
    Area {
        name: "Event subscriptions",
        says: "Which events of a topic go to which receiver, and how.",
        operations: of_topics.into_iter().chain(of_namespaces).collect(),
        schemas: all,
    }
}

/// What differs between the subscriptions of topics and those of namespaces.
struct Kind {
    topic: &'static str,
    /// In the ids of operations.
    word: &'static str,
    shown: &'static str,
    definition: &'static str,
    update: &'static str,
    patched: u16,
    handshake: &'static str,
    put: fn() -> Value,
    patch: fn() -> Value,
}

impl Kind {
    const OF_TOPICS: Self = Self {
        topic: "/topics/{topic}",
        word: "",
        shown: "EventSubscription",
        definition: "EventSubscriptionDefinition",
        update: "EventSubscriptionUpdate",
        patched: 201,
        handshake: "The webhook is asked whether it agrees, and gets nothing before it has; \
            `provisioningState` tells.",
        put: documents::example,
        patch: || json!({ "labels": ["billing"], "retryPolicy": { "maxDeliveryAttempts": 10 } }),
    };

    const OF_NAMESPACES: Self = Self {
        topic: "/namespaces/{namespace}/topics/{topic}",
        word: "Namespace",
        shown: "NamespaceEventSubscription",
        definition: "NamespaceEventSubscriptionDefinition",
        update: "NamespaceEventSubscriptionDefinition",
        patched: 200,
        handshake: "A webhook is asked before anything is stored, and must agree.",
        put: documents::namespace_example,
        patch: || json!({ "properties": { "labels": ["billing"] } }),
    };
}

fn operations(kind: &Kind) -> Vec<Operation> {
    let (topic, word) = (kind.topic, kind.word);
    let one = format!("{topic}/eventSubscriptions/{{name}}");
    let shown = || named(kind.shown);
    let asked = |verb: &str, id: &str, summary| {
        let id = id.replace("{}", word);
        on(Method::POST, format!("{one}/{verb}"), id, summary)
    };
    let wait = HANDSHAKE_PUT_WAIT.as_secs();
    vec![
        on(
            Method::GET,
            format!("{topic}/eventSubscriptions"),
            format!("list{word}EventSubscriptions"),
            "List the event subscriptions of a topic",
        )
        .says("All event subscriptions of the topic.")
        .gives(200, "The event subscriptions.", resources(kind.shown)),
        on(
            Method::GET,
            &*one,
            format!("get{word}EventSubscription"),
            "Get an event subscription",
        )
        .says("Secrets are null, and the URL has no query: see `getFullUrl`.")
        .gives(200, "The event subscription.", shown()),
        on(
            Method::PUT,
            &*one,
            format!("put{word}EventSubscription"),
            "Create or replace an event subscription",
        )
        .says(format!(
            "{} The answer waits up to {wait} s for that. Secrets that are left out stay as they were. A \
             topic has at most {SUBSCRIPTIONS_PER_TOPIC_MAX}.",
            kind.handshake
        ))
        .takes(named(kind.definition), (kind.put)())
        .gives(201, "The event subscription, whether it was there before or not.", shown())
        .refuses(403, "The role does not suffice, or the topic is built in.")
        .refuses(409, "The topic has as many event subscriptions as it may have."),
        on(
            Method::PATCH,
            &*one,
            format!("patch{word}EventSubscription"),
            "Change an event subscription",
        )
        .says(
            "A property that is given replaces its whole old value, `null` restores its default, the \
             others stay.",
        )
        .takes(named(kind.update), (kind.patch)())
        .gives(kind.patched, "The event subscription.", shown()),
        deletion(
            on(
                Method::DELETE,
                &*one,
                format!("delete{word}EventSubscription"),
                "Delete an event subscription",
            ),
            "What is still to be delivered is dropped unless `pending` says otherwise.",
        ),
        asked("getFullUrl", "get{}FullUrl", "Show the webhook's URL with its query")
            .says("The query is left out elsewhere, since it often holds a secret.")
            .gives(200, "The URL.", named("FullUrl")),
        asked("getDeliveryAttributes", "get{}DeliveryAttributes", "List the headers of deliveries")
            .says("Values of secret headers are null.")
            .gives(200, "The headers.", named("DeliveryAttributes")),
        asked("listSigningSecrets", "list{}SigningSecrets", "List the signing secrets")
            .says("By their fingerprints: the first 16 digits of their SHA-256.")
            .gives(200, "The fingerprints, the newest first.", named("SigningSecrets")),
        asked("rotateSigningSecret", "rotate{}SigningSecret", "Make a new signing secret")
            .says(format!(
                "Deliveries are signed as Standard Webhooks says; at most {SIGNING_SECRETS_MAX} secrets \
                 sign at once."
            ))
            .may_take(named("SigningSecretRotation"), json!({ "gracePeriod": "PT1H" }))
            .gives(200, "The new secret.", named("RotatedSigningSecret"))
            .refuses(409, "There are as many secrets as may sign at once."),
        asked("validate", "validate{}EventSubscription", "Ask the webhook again")
            .says("Starts the handshake anew, for a webhook that has not agreed.")
            .gives(200, "The event subscription.", shown()),
        asked("pause", "pause{}EventSubscription", "Pause deliveries")
            .says("Events are still matched, and wait.")
            .gives(200, "The event subscription.", shown()),
        asked("resume", "resume{}EventSubscription", "Resume deliveries")
            .says("Ends a pause, a probation, and what disabled it.")
            .gives(200, "The event subscription.", shown()),
    ]
}
