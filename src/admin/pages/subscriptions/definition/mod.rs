//! The fields of an event subscription, to and from the document of the management API. Everything that
//! can be wrong with them is found there, so the form and the API say the same.
//!
//! Each part of the form has a module: how a document fills it, what it writes into one, and its fields.

pub(crate) mod clauses;
pub(crate) mod credentials;
mod dead_letters;
mod delivery;
pub(crate) mod destination;
pub(crate) mod filter;
mod folds;
pub(crate) mod headers;
mod in_namespace;
mod notes;
mod retry;
mod rows;
mod value;

use std::time::Duration;

use filter::FilterFields;
pub(crate) use folds::Fold;
use folds::Folds;
use serde_json::{Value, json};

use crate::admin::forms::faults;
use crate::admin::forms::field::Section;
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::widgets::print::sentence;
use crate::model::destination::DeliveryMode;
use crate::model::name::SUBSCRIPTION_NAME_CHARACTERS;
use crate::model::probation::Health;
use crate::model::registry::TopicEntry;
use crate::model::subscription::{EventSubscription, SubscriptionDefinition};
use crate::wire::resource::{self, Fault, InvalidResource, Observed, SubscriptionContext};

/// The form for a new subscription.
pub(crate) fn blank(topic: &TopicEntry) -> Form {
    let mut form = Form::default();
    match topic.namespace {
        None => retry::blank(&mut form),
        Some(_) => in_namespace::blank(&mut form),
    }
    dead_letters::blank(&mut form);
    form
}

/// The form with what answers show of `subscription`: everything but its secrets.
pub(crate) fn form_of(topic: &TopicEntry, subscription: &EventSubscription) -> Form {
    // Of the document only what was defined is used, not how things stand.
    let observed = Observed {
        health: &Health::default(),
        outage: None,
        now: subscription.updated_at,
    };
    let document = resource::render_subscription(topic, subscription, observed);
    let properties = &document["properties"];
    let mut form = Form::default();
    if topic.namespace.is_some() {
        in_namespace::fill(&mut form, (topic, subscription), properties);
    } else {
        let destination = &subscription.definition.destination;
        destination::fill(&mut form, destination, properties);
        filter::fill(&mut form, properties);
        delivery::fill(&mut form, properties);
        headers::fill(&mut form, &properties["destination"]["properties"]);
        credentials::fill(&mut form, properties);
        retry::fill(&mut form, properties);
        dead_letters::fill(&mut form, &subscription.definition.dead_letter, properties);
    }
    notes::fill(&mut form, properties);
    form
}

/// What the form for a new subscription defines. Of a custom topic, all are pushed.
pub(crate) fn new(
    form: &Form,
    mode: DeliveryMode,
    context: &SubscriptionContext<'_>,
) -> Result<SubscriptionDefinition, Refusal> {
    let properties = match context.event_retention {
        None => properties(form)?,
        Some(_) => in_namespace::properties(form, mode)?,
    };
    let body = json!({ "properties": properties });
    let definition = resource::parse_subscription(&body, context);
    let definition = definition.map_err(|error| refusal(form, &error))?;
    Ok(dead_letters::settle(form, definition, None))
}

/// What the form makes of `current`. A URL, and secrets, that are left out stay.
pub(crate) fn changed(
    form: &Form,
    current: &SubscriptionDefinition,
    context: &SubscriptionContext<'_>,
) -> Result<SubscriptionDefinition, Refusal> {
    let mode = current.destination.delivery_mode();
    let body = match context.event_retention {
        None => properties(form)?,
        Some(_) => json!({ "properties": in_namespace::properties(form, mode)? }),
    };
    let definition = resource::patch_subscription(current, &body, context);
    let definition = definition.map_err(|error| refusal(form, &error))?;
    let before = Some(&current.dead_letter);
    Ok(dead_letters::settle(form, definition, before))
}

/// What `check` makes of the form, or all that is wrong with it.
pub(crate) fn gather<T>(
    topic: &TopicEntry,
    form: &Form,
    check: impl Fn(&Form) -> Result<T, Refusal>,
) -> Result<T, Vec<Refusal>> {
    let mut sound = blank(topic);
    destination::set_example(&mut sound);
    clauses::set_examples(&mut sound);
    headers::set_examples(&mut sound);
    faults::gather(form, &sound, check)
}

/// What the management API has against the document, at the field that it stems from.
pub(crate) fn refusal(form: &Form, error: &InvalidResource) -> Refusal {
    // Azure's words ask for https, which the rest does not.
    let Fault { path, problem } = error.first();
    let problem = problem
        .strip_prefix(resource::INVALID_URL)
        .unwrap_or(problem);
    let refusal = Refusal {
        target: in_namespace::as_of_custom(path),
        problem: sentence(problem),
    };
    clauses::place(form, headers::place(form, credentials::place(refusal)))
}

/// The `properties` of the document that the form stands for.
fn properties(form: &Form) -> Result<Value, Refusal> {
    let mut properties = json!({ "filter": filter::document(form)? });
    destination::write(form, &mut properties);
    delivery::write(form, &mut properties);
    properties["destination"]["properties"][headers::HEADERS] = headers::document(form);
    credentials::write(form, &mut properties);
    retry::write(form, &mut properties);
    dead_letters::write(form, &mut properties);
    notes::write(form, &mut properties);
    Ok(properties)
}

/// The filter that the form stands for, as the document of a subscription of `topic` has it.
pub(crate) fn filter_of(topic: &TopicEntry, form: &Form) -> Result<Value, Refusal> {
    match topic.namespace {
        None => filter::document(form),
        Some(_) => in_namespace::filter(form),
    }
}

/// What the form is about.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) topic: &'a TopicEntry,
    pub(crate) mode: DeliveryMode,
    /// What the form changes; `None` for a new subscription.
    pub(crate) current: Option<&'a SubscriptionDefinition>,
    /// How long webhooks have to answer that have no time of their own.
    pub(crate) response_deadline: Duration,
    /// Whether there are receivers inside the appliance.
    pub(crate) has_inspectors: bool,
    /// Whether receivers on this machine must be allowed before they are called.
    pub(crate) shuts_out_this_machine: bool,
}

/// All fields, in sections.
pub(crate) struct Sections {
    pub(crate) destination: Section,
    pub(crate) filter: FilterFields,
    /// What follows the filter, and needs no thought at first.
    pub(crate) others: Vec<Fold>,
}

impl Sections {
    /// The sections of `form`.
    pub(crate) fn new(form: &Form, subject: &Subject<'_>) -> Self {
        if subject.topic.namespace.is_some() {
            return in_namespace::sections(form, subject);
        }
        let input = &subject.topic.topic.definition.input_schema;
        let folds = Folds::new(form, subject);
        let mut others = vec![
            folds.fold(
                ("fold-delivery", "Delivery"),
                &delivery::summary(form, subject.response_deadline),
                delivery::fields(form, input),
            ),
            folds.fold(
                ("fold-retries", "Retries"),
                &retry::summary(form),
                retry::fields(form),
            ),
        ];
        others.extend(folds.webhook(subject));
        others.extend(folds.end(subject));
        Self {
            destination: Section {
                title: "Destination",
                fields: destination::fields(form, subject, &SUBSCRIPTION_NAME_CHARACTERS),
            },
            filter: filter::fields(form),
            others,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::delivery::{DEADLINE, IN_FLIGHT, KILOBYTES, RATE};
    use super::retry::ON_GONE;
    use super::*;
    use crate::base::Timestamp;
    use crate::model::limits::ATTEMPTS_MAX;
    use crate::model::pace::{Rate, ReceiverLimits};
    use crate::model::subscription::DeadLetterDestination;
    use crate::model::topic::InputSchema;

    pub(crate) const CONTEXT: SubscriptionContext<'_> = SubscriptionContext {
        input_schema: &InputSchema::EventGridSchema,
        event_retention: None,
        now: Timestamp::from_ms(1_700_000_000_000),
        replaces: None,
        require_https: false,
    };

    pub(crate) fn form(fields: &[(&str, &str)]) -> Form {
        let all = [("endpointUrl", "https://shop.example/events?code=secret")];
        Form::of_pairs(all.iter().chain(fields))
    }

    #[test]
    fn a_blank_form_with_a_url_takes_everything_by_default() {
        let definition = new(&form(&[]), DeliveryMode::Push, &CONTEXT).expect("a definition");
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
            let refusal = new(&form, DeliveryMode::Push, &CONTEXT).expect_err(value);
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
        let definition = new(&form(&fields), DeliveryMode::Push, &CONTEXT).expect("a definition");
        let expected = ReceiverLimits {
            response_deadline: Some(Duration::from_secs(60)),
            in_flight_max: Some(2),
            rate: Rate::per_1000_s(500),
        };
        assert_eq!(definition.destination.pace(), &expected);
        let waits = [1, 60].map(Duration::from_secs);
        assert_eq!(definition.retry_policy.own_waits, waits);
        assert!(definition.disable_on_gone);
    }

    #[test]
    fn a_change_keeps_what_is_not_shown() {
        let first = form(&[
            ("deadLetterDestination", "drop"),
            ("authentication.type", "Bearer"),
            ("authentication.token", "hush"),
            (
                "signingSecrets.secret",
                "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            ),
        ]);
        let current = new(&first, DeliveryMode::Push, &CONTEXT).expect("a definition");
        assert_eq!(current.dead_letter, DeadLetterDestination::Drop);

        let second = Form::of_pairs(
            [
                ("deadLetterDestination", "keep"),
                ("labels", "a, b"),
                ("authentication.type", "Bearer"),
            ]
            .iter(),
        );
        let definition = changed(&second, &current, &CONTEXT).expect("a definition");
        assert_eq!(definition.destination, current.destination);
        assert_eq!(definition.dead_letter, DeadLetterDestination::BuiltInQueue);
        assert_eq!(definition.labels, ["a", "b"]);
    }
}
