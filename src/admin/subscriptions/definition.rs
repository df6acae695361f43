//! The fields of an event subscription, to and from the document of the management API. Everything that
//! can be wrong with them is found there, so the form and the API say the same.

use serde_json::{Value, json};

use crate::admin::error::sentence;
use crate::admin::field::{Field, Section};
use crate::admin::form::{Form, Refusal};
use crate::model::blob_storage::BlobStorage;
use crate::model::limits::{
    ATTEMPTS_MAX, BATCH_EVENTS_MAX, BATCH_KILOBYTES_MAX, IN_FLIGHT_OWN_MAX,
    RESPONSE_DEADLINE_S_MAX, TIME_TO_LIVE_MINUTES_MAX,
};
use crate::model::probation::Health;
use crate::model::registry::TopicEntry;
use crate::model::subscription::{
    DeadLetterDestination, EventSubscription, SubscriptionDefinition,
};
use crate::model::topic::{DeliverySchema, InputSchema};
use crate::wire::resource::{self, InvalidResource, SubscriptionContext};

/// What the form is for.
#[derive(Clone, Copy)]
pub(super) enum Draft<'a> {
    New {
        input_schema: &'a InputSchema,
    },
    Change {
        input_schema: &'a InputSchema,
        current: &'a SubscriptionDefinition,
    },
}

/// The form for a new subscription.
pub(super) fn blank() -> Form {
    Form::of([
        ("maxDeliveryAttempts", ATTEMPTS_MAX.to_string()),
        (
            "eventTimeToLiveInMinutes",
            TIME_TO_LIVE_MINUTES_MAX.to_string(),
        ),
        ("deadLetterDestination", KEEP.to_owned()),
    ])
}

/// The form with what answers show of `subscription`: everything but its secrets.
pub(super) fn form_of(topic: &TopicEntry, subscription: &EventSubscription) -> Form {
    // Of the document only what was defined is used, not how things stand.
    let (health, now) = (Health::default(), subscription.updated_at);
    let document = resource::render_subscription(topic, subscription, &health, now);
    let properties = &document["properties"];
    let (filter, retry) = (&properties["filter"], &properties["retryPolicy"]);
    let destination = &properties["destination"]["properties"];
    Form::of([
        ("skipValidation", ticked(&destination["skipValidation"])),
        ("includedEventTypes", lines(&filter["includedEventTypes"])),
        ("subjectBeginsWith", text(&filter["subjectBeginsWith"])),
        ("subjectEndsWith", text(&filter["subjectEndsWith"])),
        (
            "isSubjectCaseSensitive",
            ticked(&filter["isSubjectCaseSensitive"]),
        ),
        ("advancedFilters", list(&filter["advancedFilters"])),
        (ON_ARRAYS, ticked(&filter[ON_ARRAYS])),
        (
            "eventDeliverySchema",
            text(&properties["eventDeliverySchema"]),
        ),
        ("maxEventsPerBatch", text(&destination["maxEventsPerBatch"])),
        (KILOBYTES, text(&destination[KILOBYTES])),
        (DEADLINE, text(&destination[DEADLINE])),
        (IN_FLIGHT, text(&destination[IN_FLIGHT])),
        (RATE, text(&destination[RATE])),
        (HEADERS, list(&destination[HEADERS])),
        ("maxDeliveryAttempts", text(&retry["maxDeliveryAttempts"])),
        (
            "eventTimeToLiveInMinutes",
            text(&retry["eventTimeToLiveInMinutes"]),
        ),
        ("schedule", lines(&retry["schedule"]).replace('\n', ", ")),
        (ON_GONE, ticked(&properties[ON_GONE])),
        (
            "deadLetterDestination",
            choice_of(&subscription.definition.dead_letter).to_owned(),
        ),
        (
            CONTAINER,
            container_of(&subscription.definition.dead_letter).to_owned(),
        ),
        ("labels", lines(&properties["labels"]).replace('\n', ", ")),
        (
            "expirationTimeUtc",
            moment(&properties["expirationTimeUtc"]),
        ),
    ])
}

const ON_ARRAYS: &str = "enableAdvancedFilteringOnArrays";
const KILOBYTES: &str = "preferredBatchSizeInKilobytes";
const HEADERS: &str = "deliveryAttributeMappings";
const DEADLINE: &str = "responseDeadlineInSeconds";
const IN_FLIGHT: &str = "maxRequestsInFlight";
const RATE: &str = "maxRequestsPerSecond";
const CONTAINER: &str = "blobContainerName";
const ON_GONE: &str = "disableOnGone";

const CREDENTIALS: [&str; 3] = [
    "authentication",
    "clientCertificate",
    "certificateAuthorities",
];

/// Choices of what becomes of dead letters.
const KEEP: &str = "keep";
const DROP: &str = "drop";
const STORAGE: &str = "storage";

fn choice_of(destination: &DeadLetterDestination) -> &'static str {
    match destination {
        DeadLetterDestination::BuiltInQueue => KEEP,
        DeadLetterDestination::Drop => DROP,
        DeadLetterDestination::StorageBlob { .. } => STORAGE,
    }
}

fn container_of(destination: &DeadLetterDestination) -> &str {
    match destination {
        DeadLetterDestination::StorageBlob { container, .. } => container,
        DeadLetterDestination::BuiltInQueue | DeadLetterDestination::Drop => "",
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

fn ticked(value: &Value) -> String {
    let on = value.as_bool().unwrap_or(false);
    if on { "on".to_owned() } else { String::new() }
}

fn lines(value: &Value) -> String {
    let texts = value.as_array().into_iter().flatten();
    let texts: Vec<&str> = texts.filter_map(Value::as_str).collect();
    texts.join("\n")
}

fn list(value: &Value) -> String {
    match value.as_array().map(Vec::as_slice) {
        None | Some([]) => String::new(),
        Some(_) => format!("{value:#}"),
    }
}

/// As an input for date and time wants it: `2026-11-21T06:40`.
fn moment(value: &Value) -> String {
    text(value).chars().take(16).collect()
}

/// What the form for a new subscription defines.
pub(super) fn new(
    form: &Form,
    context: &SubscriptionContext<'_>,
) -> Result<SubscriptionDefinition, Refusal> {
    let body = json!({ "properties": properties(form)? });
    let definition = resource::parse_subscription(&body, context).map_err(refusal)?;
    Ok(with_dead_letters(form, definition, None))
}

/// What the form makes of `current`. A URL, and the values of secret headers, that are left out stay, and
/// so do credentials, which the form does not have.
pub(super) fn changed(
    form: &Form,
    current: &SubscriptionDefinition,
    context: &SubscriptionContext<'_>,
) -> Result<SubscriptionDefinition, Refusal> {
    let mut body = properties(form)?;
    let known = resource::render_destination(current);
    for name in CREDENTIALS {
        body["destination"]["properties"][name] = known["properties"][name].clone();
    }
    let definition = resource::patch_subscription(current, &body, context).map_err(refusal)?;
    Ok(with_dead_letters(
        form,
        definition,
        Some(&current.dead_letter),
    ))
}

/// In a document, leaving the destination of dead letters out means one thing in a new subscription and
/// another in a change, so it is set here for both.
fn with_dead_letters(
    form: &Form,
    definition: SubscriptionDefinition,
    current: Option<&DeadLetterDestination>,
) -> SubscriptionDefinition {
    let dead_letter = match (form.text("deadLetterDestination"), current) {
        (DROP, _) => DeadLetterDestination::Drop,
        (STORAGE, Some(current)) => in_container(current, container_of(&definition.dead_letter)),
        (STORAGE, None) => definition.dead_letter,
        _ => DeadLetterDestination::BuiltInQueue,
    };
    SubscriptionDefinition {
        dead_letter,
        ..definition
    }
}

/// The form has no storage, so that of before stays.
fn in_container(current: &DeadLetterDestination, name: &str) -> DeadLetterDestination {
    let (resource_id, storage) = match current {
        DeadLetterDestination::StorageBlob {
            resource_id,
            storage,
            ..
        } => (resource_id.clone(), storage.clone()),
        DeadLetterDestination::BuiltInQueue | DeadLetterDestination::Drop => {
            (RESOURCE_ID.to_owned(), BlobStorage::Directory)
        }
    };
    DeadLetterDestination::StorageBlob {
        resource_id,
        container: name.to_owned(),
        storage,
    }
}

/// The id of a storage account that Azure's form has, and the directory does not need.
const RESOURCE_ID: &str = "everpost";

fn refusal(error: InvalidResource) -> Refusal {
    Refusal {
        target: error.target,
        problem: sentence(&error.problem),
    }
}

/// The `properties` of the document that the form stands for.
fn properties(form: &Form) -> Result<Value, Refusal> {
    let schedule = words(form.text("schedule"), ',');
    let mut properties = json!({
        "destination": {
            "endpointType": "WebHook",
            "properties": {
                "endpointUrl": form.filled("endpointUrl"),
                "skipValidation": form.is_on("skipValidation"),
                "maxEventsPerBatch": form.number("maxEventsPerBatch"),
                KILOBYTES: form.number(KILOBYTES),
                DEADLINE: form.number(DEADLINE),
                IN_FLIGHT: form.number(IN_FLIGHT),
                RATE: form.decimal(RATE),
                HEADERS: form.json(HEADERS)?,
            },
        },
        "filter": filter(form)?,
        "eventDeliverySchema": form.filled("eventDeliverySchema"),
        "retryPolicy": {
            "maxDeliveryAttempts": form.number("maxDeliveryAttempts"),
            "eventTimeToLiveInMinutes": form.number("eventTimeToLiveInMinutes"),
            "schedule": (!schedule.is_empty()).then_some(schedule),
        },
        ON_GONE: form.is_on(ON_GONE),
        "labels": words(form.text("labels"), ','),
        "expirationTimeUtc": form.filled("expirationTimeUtc").map(with_seconds),
    });
    if form.text("deadLetterDestination") == STORAGE {
        let place = json!({ "resourceId": RESOURCE_ID, CONTAINER: form.filled(CONTAINER) });
        properties["deadLetterDestination"] =
            json!({ "endpointType": "StorageBlob", "properties": place });
    }
    Ok(properties)
}

fn filter(form: &Form) -> Result<Value, Refusal> {
    let types = words(form.text("includedEventTypes"), '\n');
    let mut filter = json!({
        "includedEventTypes": (!types.is_empty()).then_some(types),
        "subjectBeginsWith": form.text("subjectBeginsWith"),
        "subjectEndsWith": form.text("subjectEndsWith"),
        "isSubjectCaseSensitive": form.is_on("isSubjectCaseSensitive"),
    });
    let advanced = form.json("advancedFilters")?;
    if !advanced.is_null() {
        filter["advancedFilters"] = advanced;
        filter[ON_ARRAYS] = form.is_on(ON_ARRAYS).into();
    }
    Ok(filter)
}

fn words(text: &str, separator: char) -> Vec<&str> {
    let words = text.split(separator).map(str::trim);
    words.filter(|word| !word.is_empty()).collect()
}

/// Browsers leave the seconds out, and know no time zones here: it is UTC.
fn with_seconds(text: &str) -> String {
    match text.len() {
        16 => format!("{text}:00Z"),
        _ => text.to_owned(),
    }
}

/// The fields, in sections.
pub(super) fn sections(form: &Form, draft: Draft<'_>) -> Vec<Section> {
    let (schema, current) = match draft {
        Draft::New { input_schema } => (input_schema, None),
        Draft::Change {
            input_schema,
            current,
        } => (input_schema, Some(current)),
    };
    vec![
        Section {
            title: "Destination",
            fields: destination_fields(form, current),
        },
        Section {
            title: "Filter",
            fields: filter_fields(form),
        },
        Section {
            title: "Delivery",
            fields: delivery_fields(form, schema),
        },
        Section {
            title: "Retries and dead letters",
            fields: retry_fields(form),
        },
        Section {
            title: "Notes and end",
            fields: note_fields(form),
        },
    ]
}

fn destination_fields(form: &Form, current: Option<&SubscriptionDefinition>) -> Vec<Field> {
    let skip = Field::tick("skipValidation", "Skip validation", form)
        .hint("Only for a webhook of your own: it is not asked whether it wants events.");
    let url = Field::url("endpointUrl", "Webhook URL", form).mono();
    match current {
        None => vec![
            Field::line("name", "Name", form)
                .hint("3 to 64 letters, digits and hyphens, such as billing.")
                .mono()
                .required(),
            url.hint("Absolute, http or https. A key in its query is kept secret.")
                .required(),
            skip,
        ],
        Some(definition) => {
            let webhook = definition.destination.webhook();
            let base = webhook.map(|webhook| webhook.endpoint_url.base());
            let base = base.unwrap_or_default();
            let hint = format!("Leave it empty to keep {base} with whatever its query holds.");
            vec![url.hint(hint), skip]
        }
    }
}

fn filter_fields(form: &Form) -> Vec<Field> {
    vec![
        Field::area("includedEventTypes", "Event types", 3, form)
            .hint("One per line, in their exact spelling. Empty takes every type."),
        Field::line("subjectBeginsWith", "Subject begins with", form).mono(),
        Field::line("subjectEndsWith", "Subject ends with", form).mono(),
        Field::tick(
            "isSubjectCaseSensitive",
            "Letter case of the subject counts",
            form,
        ),
        Field::area("advancedFilters", "Advanced filters", 4, form).hint(
            "A JSON array in Azure's form, such as \
             [{\"operatorType\": \"NumberGreaterThan\", \"key\": \"data.total\", \"value\": 100}].",
        ),
        Field::tick(ON_ARRAYS, "Advanced filters look into arrays", form),
    ]
}

fn delivery_fields(form: &Form, input: &InputSchema) -> Vec<Field> {
    let possible = DeliverySchema::ALL.into_iter();
    let possible = possible.filter(|schema| schema.can_express(input));
    let mut schemas = vec![("", "As published")];
    schemas.extend(possible.map(|schema| (schema.name(), schema.name())));
    vec![
        Field::choice("eventDeliverySchema", "Events are sent as", &schemas, form),
        Field::number("maxEventsPerBatch", "Events per request", form).hint(format!(
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

fn retry_fields(form: &Form) -> Vec<Field> {
    let kept = [
        (KEEP, "Keep them in the queue of dead letters"),
        (DROP, "Drop them: nothing is kept"),
        (STORAGE, "Export them to a container"),
    ];
    vec![
        Field::number("maxDeliveryAttempts", "Attempts", form)
            .hint(format!("1 to {ATTEMPTS_MAX}, the first one included.")),
        Field::number("eventTimeToLiveInMinutes", "Time to live in minutes", form).hint(format!(
            "1 to {TIME_TO_LIVE_MINUTES_MAX}, from the publishing."
        )),
        Field::line("schedule", "Waits between attempts", form).hint(
            "ISO 8601, separated by commas, such as PT10S, PT1M, PT1H; the last one repeats. Empty \
             follows the published schedule.",
        ),
        Field::tick(ON_GONE, "Disable it when the webhook answers 410", form),
        Field::choice(
            "deadLetterDestination",
            "Deliveries that are given up",
            &kept,
            form,
        ),
        Field::line(CONTAINER, "Container of exported dead letters", form).hint(
            "3 to 63 lower-case letters, digits and inner hyphens. It is in the directory that the server \
             has opened for exports, unless the management API has named other storage.",
        ),
    ]
}

fn note_fields(form: &Form) -> Vec<Field> {
    vec![
        Field::line("labels", "Labels", form).hint("Separated by commas."),
        Field::moment("expirationTimeUtc", "Ends at (UTC)", form)
            .hint("From then on it matches nothing. Empty means never."),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::Timestamp;
    use crate::model::access::Secret;
    use crate::model::blob_storage::S3Account;
    use crate::model::destination::Destination;
    use crate::model::pace::{Pace, Rate};

    const CONTEXT: SubscriptionContext<'_> = SubscriptionContext {
        input_schema: &InputSchema::EventGridSchema,
        event_retention: None,
        now: Timestamp::from_ms(1_700_000_000_000),
        replaces: None,
        require_https: false,
    };

    fn form(fields: &[(&str, &str)]) -> Form {
        let all = [("endpointUrl", "https://shop.example/events?code=secret")];
        Form::of_pairs(all.iter().chain(fields))
    }

    #[test]
    fn a_blank_form_with_a_url_takes_everything_by_default() {
        let definition = new(&form(&[]), &CONTEXT).expect("a definition");
        assert_eq!(definition.filter.included_event_types, None);
        assert_eq!(definition.retry_policy.attempts_max, ATTEMPTS_MAX);
        assert_eq!(definition.dead_letter, DeadLetterDestination::BuiltInQueue);
        assert_eq!(definition.expires_at, None);
    }

    #[test]
    fn what_is_wrong_is_told_by_its_field() {
        for (field, value) in [
            ("endpointUrl", "no url"),
            ("maxEventsPerBatch", "many"),
            ("maxEventsPerBatch", "0"),
            (KILOBYTES, "9999"),
            ("maxDeliveryAttempts", "31"),
            ("eventTimeToLiveInMinutes", "0"),
            ("eventDeliverySchema", "CustomInputSchema"),
            ("expirationTimeUtc", "2020-01-01T00:00"),
            (HEADERS, "[{\"name\": \"Host\"}]"),
            (HEADERS, "{"),
            ("advancedFilters", "{}"),
            (DEADLINE, "301"),
            (IN_FLIGHT, "0"),
            (RATE, "fast"),
            (RATE, "0"),
            ("schedule", "10"),
            ("schedule", "PT0S"),
        ] {
            let form =
                Form::of_pairs([(field, value), ("endpointUrl", "https://shop.example/")].iter());
            let refusal = new(&form, &CONTEXT).expect_err(value);
            assert!(refusal.is_about(field), "{field} = {value}: {refusal:?}");
        }
    }

    #[test]
    fn waits_and_paces_of_ones_own_come_back() {
        let fields = [
            (DEADLINE, "60"),
            (IN_FLIGHT, "2"),
            (RATE, "0.5"),
            ("schedule", "PT1S, PT1M"),
            (ON_GONE, "on"),
        ];
        let definition = new(&form(&fields), &CONTEXT).expect("a definition");
        let webhook = definition.destination.webhook().expect("a webhook");
        let expected = Pace {
            response_deadline: Some(Duration::from_secs(60)),
            in_flight_max: Some(2),
            rate: Rate::per_1000_s(500),
        };
        assert_eq!(webhook.pace, expected);
        let waits = [1, 60].map(Duration::from_secs);
        assert_eq!(definition.retry_policy.own_waits, waits);
        assert!(definition.disable_on_gone);
    }

    fn with_credentials(current: &SubscriptionDefinition) -> SubscriptionDefinition {
        let authentication = json!({"type": "Bearer", "token": "hush"});
        let patch = json!({"destination": {"endpointType": "WebHook", "properties": {
            "authentication": authentication,
            "signingSecrets": [{"secret": "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}],
        }}});
        let given = resource::patch_subscription(current, &patch, &CONTEXT).expect("valid");
        let Destination::WebHook(given) = given.destination else {
            panic!("a webhook");
        };
        let mut definition = current.clone();
        let Destination::WebHook(webhook) = &mut definition.destination else {
            panic!("a webhook");
        };
        webhook.credentials = given.credentials;
        definition
    }

    #[test]
    fn a_change_keeps_what_is_not_shown() {
        let secret = r#"[{"name": "X-Key", "type": "Static",
            "properties": {"value": "hush", "isSecret": true}}]"#;
        let first = form(&[(HEADERS, secret), ("deadLetterDestination", DROP)]);
        let current = new(&first, &CONTEXT).expect("a definition");
        let current = with_credentials(&current);
        assert_eq!(current.dead_letter, DeadLetterDestination::Drop);

        let hidden = r#"[{"name": "X-Key", "type": "Static",
            "properties": {"value": null, "isSecret": true}}]"#;
        let second = Form::of_pairs(
            [
                (HEADERS, hidden),
                ("deadLetterDestination", KEEP),
                ("labels", "a, b"),
            ]
            .iter(),
        );
        let definition = changed(&second, &current, &CONTEXT).expect("a definition");
        assert_eq!(definition.destination, current.destination);
        assert_eq!(definition.dead_letter, DeadLetterDestination::BuiltInQueue);
        assert_eq!(definition.labels, ["a", "b"]);
    }

    #[test]
    fn dead_letters_can_go_to_a_container_and_keep_their_storage() {
        let exported = |name: &str| {
            let url = ("endpointUrl", "http://h.test/");
            form(&[url, ("deadLetterDestination", STORAGE), (CONTAINER, name)])
        };
        let mut current = new(&exported("dead"), &CONTEXT).expect("a definition");
        assert_eq!(container_of(&current.dead_letter), "dead");
        assert!(new(&exported("No!"), &CONTEXT).is_err());
        let account = S3Account {
            endpoint: None,
            region: "eu".to_owned(),
            access_key_id: "id".to_owned(),
            secret_access_key: Secret::new("secret"),
        };
        current.dead_letter = DeadLetterDestination::StorageBlob {
            resource_id: String::new(),
            container: "dead".to_owned(),
            storage: BlobStorage::S3(Box::new(account.clone())),
        };
        let moved = changed(&exported("letters"), &current, &CONTEXT).expect("a definition");
        let expected = DeadLetterDestination::StorageBlob {
            resource_id: String::new(),
            container: "letters".to_owned(),
            storage: BlobStorage::S3(Box::new(account)),
        };
        assert_eq!(moved.dead_letter, expected);
    }
}
