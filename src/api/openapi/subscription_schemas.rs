//! The documents of event subscriptions: what is sent, and what is shown.

use serde_json::{Value, json};

use super::schema::{
    Schema, Schemas, anything, count, duration, flag, integer, list, moment, named, object,
    schemas, text, words,
};
use super::topics::{INERT, resource};
use crate::model::destination::DeliveryMode;
use crate::model::filter::Operator;
use crate::model::limits::{
    ATTEMPTS_MAX, DEAD_LETTER_RETRY_DAYS_MAX, FILTER_STRING_MAX, FILTER_VALUES_MAX, FILTERS_MAX,
    NAMESPACE_ATTEMPTS_MAX, NAMESPACE_TIME_TO_LIVE_MAX, OWN_WAIT_LONGEST, OWN_WAIT_SHORTEST,
    OWN_WAITS_MAX, RECEIVE_LOCK, RECEIVE_LOCK_SECONDS, TIME_TO_LIVE_MINUTES_MAX,
};
use crate::model::retry::{DeliveryProfile, RetryPolicy};
use crate::model::subscription::{Disabled, SubscriptionStatus, ValidationState};
use crate::model::topic::DeliverySchema;
use crate::wire::duration::format;

/// All of them by their names.
pub(super) fn all() -> Schemas {
    schemas([
        ("EventSubscription", shown()),
        ("EventSubscriptionDefinition", definition()),
        ("EventSubscriptionUpdate", update()),
        ("NamespaceEventSubscription", namespace_shown()),
        (
            "NamespaceEventSubscriptionDefinition",
            namespace_definition(),
        ),
        ("Filter", filter()),
        ("FiltersConfiguration", filters_configuration()),
        ("AdvancedFilter", advanced_filter()),
        ("RetryPolicy", retry_policy()),
        ("SubscriptionStanding", standing()),
    ])
}

fn delivery_schema() -> Schema {
    words(DeliverySchema::ALL.map(DeliverySchema::name))
}

/// What subscriptions of both kinds have besides where and what; in answers all of it is there.
fn common() -> [(&'static str, Schema); 5] {
    [
        ("labels", list(text())),
        (
            "expirationTimeUtc",
            moment().or_null().says("From then on it matches nothing."),
        ),
        ("paused", flag().says("Events are matched, and wait.")),
        ("disabled", flag().says("Nothing is matched or delivered.")),
        (
            "disableOnGone",
            flag().says("An answer of 410 disables it."),
        ),
    ]
}

/// The same where it may be left out or restored.
fn common_request() -> [(&'static str, Schema); 5] {
    common().map(|(name, schema)| {
        let may_be_null = name == "expirationTimeUtc";
        let schema = if may_be_null {
            schema
        } else {
            schema.or_null()
        };
        (name, schema.optional())
    })
}

/// What answers alone have.
fn answered() -> [(&'static str, Schema); 3] {
    let states = ValidationState::ALL.map(ValidationState::name);
    [
        ("topic", text().says("The resource id of the topic.")),
        (
            "provisioningState",
            words(states).says("Where the handshake with the webhook stands."),
        ),
        ("everpost", named("SubscriptionStanding")),
    ]
}

fn shown() -> Schema {
    let properties = object([
        ("destination", named("WebHookDestination")),
        ("filter", named("Filter")),
        ("eventDeliverySchema", delivery_schema()),
        ("retryPolicy", named("RetryPolicy")),
        (
            "deadLetterDestination",
            named("DeadLetterDestination").or_null().optional(),
        ),
    ]);
    resource("Microsoft.EventGrid/topics/eventSubscriptions")
        .with([("properties", properties.with(common()).with(answered()))])
}

fn requested() -> Schema {
    object([
        ("filter", named("Filter").or_null().optional()),
        (
            "eventDeliverySchema",
            delivery_schema()
                .says("The topic's own unless chosen.")
                .or_null()
                .optional(),
        ),
        ("retryPolicy", named("RetryPolicy").or_null().optional()),
        (
            "deadLetterDestination",
            named("DeadLetterDestination")
                .or_null()
                .says("Left out, dead letters stay in the queue; null drops them.")
                .optional(),
        ),
    ])
    .with(common_request())
    .open()
}

fn definition() -> Schema {
    let properties = requested().with([("destination", named("WebHookDestinationDefinition"))]);
    object([("properties", properties)]).open()
}

fn update() -> Schema {
    let destination = named("WebHookDestinationDefinition").or_null();
    requested()
        .with([("destination", destination.optional())])
        .says("Flat: what stands in `properties` elsewhere.")
}

fn event_types() -> Schema {
    list(text())
        .or_null()
        .says("Types to be delivered; null for all.")
        .optional()
}

fn filter() -> Schema {
    let filters = list(named("AdvancedFilter")).elements(&(0..=FILTERS_MAX));
    object([
        ("includedEventTypes", event_types()),
        ("subjectBeginsWith", text().optional()),
        ("subjectEndsWith", text().optional()),
        (
            "isSubjectCaseSensitive",
            flag().by_default(false).optional(),
        ),
        (
            "enableAdvancedFilteringOnArrays",
            flag().by_default(false).optional(),
        ),
        ("advancedFilters", filters.optional()),
    ])
    .says(filter_words())
}

fn filters_configuration() -> Schema {
    let filters = list(named("AdvancedFilter")).elements(&(0..=FILTERS_MAX));
    object([
        ("includedEventTypes", event_types()),
        ("filters", filters.optional()),
    ])
    .says(filter_words())
}

fn filter_words() -> String {
    format!(
        "All parts must hold. There are at most {FILTER_VALUES_MAX} values over all advanced filters, of up \
         to {FILTER_STRING_MAX} characters each."
    )
}

fn advanced_filter() -> Schema {
    let operators = Operator::ALL.iter().map(|row| row.name);
    object([
        ("operatorType", words(operators)),
        ("key", text().such_as("data.order.total")),
        (
            "value",
            anything().says("Of operators that take one.").optional(),
        ),
        (
            "values",
            list(anything())
                .says("Of operators that take several.")
                .optional(),
        ),
    ])
    .says("An operator, where it looks, and what it compares with.")
}

fn schedule() -> Schema {
    list(duration()).elements(&(1..=OWN_WAITS_MAX)).says(format!(
        "Waits after each failed attempt, {} to {}, the last of which repeats; left out for the published \
         schedule.",
        format(OWN_WAIT_SHORTEST),
        format(OWN_WAIT_LONGEST)
    ))
}

fn retry_policy() -> Schema {
    let default = RetryPolicy::of(DeliveryProfile::Basic);
    object([
        (
            "maxDeliveryAttempts",
            integer()
                .up_to(ATTEMPTS_MAX)
                .by_default(default.attempts_max)
                .optional(),
        ),
        (
            "eventTimeToLiveInMinutes",
            integer()
                .up_to(TIME_TO_LIVE_MINUTES_MAX)
                .by_default(default.time_to_live.as_secs() / 60)
                .optional(),
        ),
        ("schedule", schedule().optional()),
    ])
}

fn standing() -> Schema {
    let own = [
        SubscriptionStatus::Active,
        SubscriptionStatus::Expired,
        SubscriptionStatus::Disabled(Disabled::ByOperator),
        SubscriptionStatus::Paused,
        SubscriptionStatus::OnProbation,
        SubscriptionStatus::Gone,
    ];
    let waiting = ValidationState::ALL
        .into_iter()
        .map(SubscriptionStatus::NotValidated);
    let states = own.into_iter().chain(waiting).map(SubscriptionStatus::name);
    let probation = object([
        ("cause", text()),
        ("since", moment()),
        ("until", moment()),
        ("failures", count()),
    ]);
    let gone = object([("since", moment()), ("reason", text())]);
    let outage = object([
        ("unavailableSince", moment()),
        ("failures", count()),
        ("nextTryAt", moment()),
        ("error", text()),
    ]);
    object([
        ("state", words(states)),
        ("stateReason", text().or_null()),
        ("validatedOnce", flag()),
        ("validationExpiresAt", moment().or_null()),
        ("validationFailure", text().or_null()),
        ("allowedRequestsPerMinute", count().or_null()),
        ("probation", probation.or_null()),
        ("gone", gone.or_null()),
        (
            "deadLetterStorage",
            outage
                .or_null()
                .says("Storage for dead letters that is away."),
        ),
    ])
    .says("Where the subscription stands, for which Azure has no place.")
}

fn modes() -> Schema {
    words(DeliveryMode::ALL.map(DeliveryMode::name))
}

/// What push and pull have in common.
fn delivery(in_answers: bool) -> Schema {
    let wrapped = object([
        ("deadLetterDestination", named("DeadLetterDestination")),
        ("identity", object([]).open().says(INERT).optional()),
        (
            "deliveryRetryPeriodInDays",
            integer()
                .up_to(DEAD_LETTER_RETRY_DAYS_MAX)
                .says(INERT)
                .optional(),
        ),
    ]);
    let default = RetryPolicy::of(DeliveryProfile::Namespace);
    let attempts = integer()
        .up_to(NAMESPACE_ATTEMPTS_MAX)
        .by_default(default.attempts_max);
    let life = duration().says(format!(
        "Whole minutes, up to the topic's retention of at most {}.",
        format(NAMESPACE_TIME_TO_LIVE_MAX)
    ));
    let or_less = |schema: Schema| {
        if in_answers {
            schema
        } else {
            schema.or_null().optional()
        }
    };
    object([
        ("maxDeliveryCount", or_less(attempts)),
        ("eventTimeToLive", or_less(life)),
        (
            "deadLetterDestinationWithResourceIdentity",
            wrapped
                .or_null()
                .says("Left out, dead letters stay in the queue; null drops them.")
                .optional(),
        ),
    ])
}

fn configuration(in_answers: bool) -> Schema {
    let lock = integer()
        .within(&RECEIVE_LOCK_SECONDS)
        .by_default(RECEIVE_LOCK.as_secs())
        .says("How long a receiver holds an event.");
    let (destination, lock, mode) = match in_answers {
        true => (named("WebHookDestination"), lock, modes()),
        false => (
            named("WebHookDestinationDefinition").or_null().optional(),
            lock.or_null().optional(),
            modes().optional(),
        ),
    };
    let push = delivery(in_answers).with([
        ("destination", destination),
        ("schedule", schedule().optional()),
    ]);
    let queue = delivery(in_answers).with([("receiveLockDurationInSeconds", lock)]);
    object([
        ("deliveryMode", mode.says("For good.")),
        ("push", push.optional()),
        ("queue", queue.optional()),
    ])
}

fn namespace_shown() -> Schema {
    let properties = object([
        ("deliveryConfiguration", configuration(true)),
        ("filtersConfiguration", named("FiltersConfiguration")),
        ("eventDeliverySchema", words(["CloudEventSchemaV1_0"])),
    ]);
    resource("Microsoft.EventGrid/namespaces/topics/eventSubscriptions")
        .with([("properties", properties.with(common()).with(answered()))])
}

fn namespace_definition() -> Schema {
    let properties = object([
        (
            "deliveryConfiguration",
            configuration(false)
                .says("May be left out in an update.")
                .optional(),
        ),
        (
            "filtersConfiguration",
            named("FiltersConfiguration").or_null().optional(),
        ),
        (
            "eventDeliverySchema",
            words(["CloudEventSchemaV1_0"]).or_null().optional(),
        ),
    ]);
    object([("properties", properties.with(common_request()).open())]).open()
}

/// A subscription that works with an inspector named `bin`.
pub(super) fn example() -> Value {
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
pub(super) fn namespace_example() -> Value {
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
