//! What the form for a subscription of a namespace topic has of its own: the document has another shape
//! (rule N1.1), and receivers may come for the events.

use serde_json::{Value, json};

use super::clauses;
use super::filter::FilterFields;
use super::folds::Folds;
use super::value::{joined, text, ticked, words};
use super::{Subject, credentials, dead_letters, delivery, destination, headers, notes, retry};
use crate::admin::forms::field::{Field, Section};
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::pages::subscriptions::definition::Sections;
use crate::model::destination::DeliveryMode;
use crate::model::limits::{NAMESPACE_ATTEMPTS_MAX, RECEIVE_LOCK, RECEIVE_LOCK_SECONDS};
use crate::model::name::NAME_CHARACTERS;
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;

const DELIVERY: &str = "deliveryConfiguration";
const CONFIGURATION: &str = "filtersConfiguration";
const DESTINATION: &str = "destination";
const LOCK: &str = "receiveLockDurationInSeconds";
const ATTEMPTS: &str = "maxDeliveryCount";
const TIME_TO_LIVE: &str = "eventTimeToLive";
const TYPES: &str = "includedEventTypes";
const FILTERS: &str = "filters";
const WITH_IDENTITY: &str = "deadLetterDestinationWithResourceIdentity";

/// For a new subscription.
pub(crate) fn blank(form: &mut Form) {
    form.set(LOCK, RECEIVE_LOCK.as_secs().to_string());
    form.set(ATTEMPTS, NAMESPACE_ATTEMPTS_MAX.to_string());
}

/// `properties` are those of the answer that shows `subscription`.
pub(crate) fn fill(
    form: &mut Form,
    (topic, subscription): (&TopicEntry, &EventSubscription),
    properties: &Value,
) {
    let destination = &subscription.definition.destination;
    let mode = destination.delivery_mode();
    let own = &properties[DELIVERY][object_of(mode)];
    let as_of_custom = json!({ DESTINATION: own[DESTINATION] });
    destination::fill(form, destination, &as_of_custom);
    delivery::fill(form, &as_of_custom);
    headers::fill(form, &as_of_custom[DESTINATION]["properties"]);
    credentials::fill(form, &as_of_custom);
    dead_letters::fill(
        form,
        &subscription.definition.dead_letter,
        &own[WITH_IDENTITY],
    );
    form.set(LOCK, text(&own[LOCK]));
    form.set(ATTEMPTS, text(&own[ATTEMPTS]));
    let follows_topic = topic
        .topic
        .definition
        .event_retention
        .is_some_and(|most| subscription.definition.retry_policy.time_to_live >= most);
    let time_to_live = match follows_topic {
        true => String::new(),
        false => text(&own[TIME_TO_LIVE]),
    };
    form.set(TIME_TO_LIVE, time_to_live);
    form.set(retry::SCHEDULE, joined(&own[retry::SCHEDULE], ", "));
    form.set(retry::ON_GONE, ticked(&properties[retry::ON_GONE]));
    let filter = &properties[CONFIGURATION];
    form.set(TYPES, joined(&filter[TYPES], "\n"));
    clauses::fill(form, &filter[FILTERS]);
}

/// The object that tells the particulars of a mode.
fn object_of(mode: DeliveryMode) -> &'static str {
    match mode {
        DeliveryMode::Push => "push",
        DeliveryMode::Queue => "queue",
    }
}

/// Where a fault would be in the document of a custom topic's subscription, by which the fields are named.
pub(crate) fn as_of_custom(target: &str) -> String {
    let own = format!("{CONFIGURATION}.{FILTERS}");
    target.replace(&own, &format!("{CONFIGURATION}.{}", clauses::ADVANCED))
}

/// The `properties` of the document that the form stands for.
pub(crate) fn properties(form: &Form, mode: DeliveryMode) -> Result<Value, Refusal> {
    let mut own = json!({
        ATTEMPTS: form.number(ATTEMPTS),
        TIME_TO_LIVE: form.filled(TIME_TO_LIVE),
    });
    let mut properties = json!({ CONFIGURATION: filter(form)? });
    match mode {
        DeliveryMode::Queue => own[LOCK] = form.number(LOCK),
        DeliveryMode::Push => {
            let mut as_of_custom = json!({});
            destination::write(form, &mut as_of_custom);
            delivery::write(form, &mut as_of_custom);
            as_of_custom[DESTINATION]["properties"][headers::HEADERS] = headers::document(form);
            credentials::write(form, &mut as_of_custom);
            own[DESTINATION] = as_of_custom[DESTINATION].take();
            own[retry::SCHEDULE] = retry::schedule(form);
            properties[retry::ON_GONE] = form.is_on(retry::ON_GONE).into();
        }
    }
    let mut storage = json!({});
    dead_letters::write(form, &mut storage);
    if storage[dead_letters::DESTINATION].is_object() {
        own[WITH_IDENTITY] = storage;
    }
    properties[DELIVERY] = json!({ "deliveryMode": mode.name(), object_of(mode): own });
    notes::write(form, &mut properties);
    Ok(properties)
}

/// The `filtersConfiguration` of the document.
pub(crate) fn filter(form: &Form) -> Result<Value, Refusal> {
    let types = words(form.text(TYPES), '\n');
    let mut filter = json!({ TYPES: (!types.is_empty()).then_some(types) });
    let filters = clauses::document(form)?;
    if !filters.is_null() {
        filter[FILTERS] = filters;
    }
    Ok(filter)
}

/// All fields, in sections.
pub(crate) fn sections(form: &Form, subject: &Subject<'_>) -> Sections {
    let folds = Folds::new(form, subject);
    let retries = folds.fold(
        ("fold-retries", "Retries"),
        &retry_summary(form, subject.mode),
        retry_fields(form, subject.mode),
    );
    let mut others = Vec::new();
    match subject.mode {
        DeliveryMode::Push => {
            others.push(folds.fold(
                ("fold-delivery", "Delivery"),
                &delivery::summary(form, subject.response_deadline),
                delivery::request_fields(form),
            ));
            others.push(retries);
            others.extend(folds.webhook(subject));
        }
        DeliveryMode::Queue => others.push(retries),
    }
    others.extend(folds.end(subject));
    Sections {
        destination: destination_section(form, subject),
        filter: FilterFields {
            basic: vec![
                Field::area(TYPES, "Event types", 3, form)
                    .hint("One per line. Empty takes every type."),
            ],
            clauses: clauses::fields(form),
            on_arrays: None,
        },
        others,
    }
}

fn destination_section(form: &Form, subject: &Subject<'_>) -> Section {
    match subject.mode {
        DeliveryMode::Push => Section {
            title: "Destination",
            fields: destination::fields(form, subject, &NAME_CHARACTERS),
        },
        DeliveryMode::Queue => {
            let is_new = subject.current.is_none();
            let name = is_new.then(|| destination::name_field(form, &NAME_CHARACTERS));
            Section {
                title: "Receiving",
                fields: name.into_iter().chain([lock_field(form)]).collect(),
            }
        }
    }
}

/// In a few words.
fn retry_summary(form: &Form, mode: DeliveryMode) -> String {
    let attempts = form.text(ATTEMPTS);
    let life = match form.filled(TIME_TO_LIVE) {
        None => "for as long as the topic keeps events".to_owned(),
        Some(life) => format!("within {life}"),
    };
    match mode {
        DeliveryMode::Push => {
            let others = retry::webhook_summary(form);
            format!("up to {attempts} attempts {life}{others}")
        }
        DeliveryMode::Queue => format!("handed out up to {attempts} times, {life}"),
    }
}

fn lock_field(form: &Form) -> Field {
    let (least, most) = (RECEIVE_LOCK_SECONDS.start(), RECEIVE_LOCK_SECONDS.end());
    Field::number(LOCK, "Seconds that a receiver holds an event", form).hint(format!(
        "{least} to {most}. Who needs longer renews the lock; when it lapses, the event waits for \
         a receiver again."
    ))
}

fn retry_fields(form: &Form, mode: DeliveryMode) -> Vec<Field> {
    let attempts = match mode {
        DeliveryMode::Push => "Attempts",
        DeliveryMode::Queue => "Times that an event is handed out",
    };
    let mut fields = vec![
        Field::number(ATTEMPTS, attempts, form).hint(format!(
            "1 to {NAMESPACE_ATTEMPTS_MAX}, the first one included."
        )),
        Field::line(TIME_TO_LIVE, "Time to live", form)
            .hint(
                "ISO 8601, in whole minutes, such as PT4H or P1D. Empty is as long as the topic keeps \
                 events.",
            )
            .mono(),
    ];
    if mode == DeliveryMode::Push {
        fields.extend(retry::webhook_fields(form));
    }
    fields
}
