//! The form of an event subscription, to and from the document of the management API.

pub(crate) mod clauses;
mod layout;
#[rustfmt::skip] // tables
mod properties;
#[cfg(test)]
mod tests;

pub(crate) use layout::{Facts, Fold, Layout};
use properties::{AZURE, DEAD_LETTERS, DIRECTORY, DROP, KEEP, S3, TIME_TO_LIVE};
pub(crate) use properties::{
    CLAUSES, HEADERS, INSPECTORS_ID, KEYS_ID, SCHEMA, SIGN, SIGNING_SECRET, URL,
};
use serde_json::{Value, json};

use crate::admin::forms::form::{Form, Refusal};
use crate::admin::forms::rows::{all_of, lookup, set};
use crate::admin::widgets::print::sentence;
use crate::model::blob_storage::BlobStorage;
use crate::model::destination::DeliveryMode;
use crate::model::probation::Health;
use crate::model::registry::TopicEntry;
use crate::model::subscription::{
    DeadLetterDestination, EventSubscription, SubscriptionDefinition,
};
use crate::wire::resource::{self, InvalidResource, Observed, SubscriptionContext};

/// The id of a storage account that Azure's form has, and the directory of the server does not need.
const RESOURCE_ID: &str = "everpost";

/// The form for a new subscription, with what is the default.
pub(crate) fn blank(topic: &TopicEntry, mode: DeliveryMode) -> Form {
    let example = Form::of([(URL, "https://receiver.example/".to_owned())]);
    let now = topic.topic.created_at;
    let context = SubscriptionContext::of(topic, now, false);
    let definition = new(&example, Layout::of(topic, mode), &context);
    let mut form = definition.map_or_else(
        |_| Form::default(),
        |definition| form_of(topic, &EventSubscription::unstored(definition, now)),
    );
    form.set(URL, "");
    form
}

/// What answers show of `subscription`: everything but its secrets.
pub(crate) fn shown(topic: &TopicEntry, subscription: &EventSubscription) -> Value {
    // Only what was defined is used, not how things stand.
    let observed = Observed {
        health: &Health::default(),
        outage: None,
        now: subscription.updated_at,
    };
    resource::render_subscription(topic, subscription, observed)["properties"].take()
}

/// The form with what answers show of `subscription`.
pub(crate) fn form_of(topic: &TopicEntry, subscription: &EventSubscription) -> Form {
    let definition = &subscription.definition;
    let layout = Layout::of(topic, definition.destination.delivery_mode());
    let mut properties = shown(topic, subscription);
    if let Some(webhook) = layout.webhook {
        // The query may hold a key.
        let url = definition.destination.endpoint_url();
        let url = json!(url.and_then(|url| url.without_query()));
        set(&mut properties, &format!("{webhook}.{URL}"), url);
    }
    let mut form = Form::default();
    layout
        .parts()
        .for_each(|part| part.fill(&mut form, &properties));
    if let Some(headers) = layout.headers() {
        HEADERS.fill(&mut form, &properties, &headers);
    }
    clauses::fill(
        &mut form,
        lookup(&properties, layout.clauses).unwrap_or(&Value::Null),
    );
    form.set(DEAD_LETTERS, choice_of(&definition.dead_letter));
    // It stays as long as the topic's retention, whatever that will be.
    let retention = topic.topic.definition.event_retention;
    if retention.is_some_and(|most| definition.retry_policy.time_to_live >= most) {
        form.set(TIME_TO_LIVE, "");
    }
    form
}

fn choice_of(destination: &DeadLetterDestination) -> &'static str {
    match destination {
        DeadLetterDestination::BuiltInQueue => KEEP,
        DeadLetterDestination::Drop => DROP,
        DeadLetterDestination::StorageBlob { storage, .. } => match storage {
            BlobStorage::Directory => DIRECTORY,
            BlobStorage::S3(_) => S3,
            BlobStorage::AzureBlob(_) => AZURE,
        },
    }
}

/// What the form for a new subscription defines.
pub(crate) fn new(
    form: &Form,
    layout: &Layout,
    context: &SubscriptionContext<'_>,
) -> Result<SubscriptionDefinition, Vec<Refusal>> {
    let (properties, refusals) = document(form, layout);
    let body = json!({ "properties": properties });
    let parsed = resource::parse_subscription(&body, context);
    let parsed = parsed.map_err(|invalid| layout.refusals(form, &invalid));
    let definition = all_of(refusals, parsed)?;
    Ok(settle(form, definition, None))
}

/// What the form makes of `current`. A URL, and secrets, that are left out stay.
pub(crate) fn changed(
    form: &Form,
    layout: &Layout,
    current: &SubscriptionDefinition,
    context: &SubscriptionContext<'_>,
) -> Result<SubscriptionDefinition, Vec<Refusal>> {
    let (properties, refusals) = document(form, layout);
    let body = match context.event_retention {
        None => properties,
        Some(_) => json!({ "properties": properties }),
    };
    let parsed = resource::patch_subscription(current, &body, context);
    let parsed = parsed.map_err(|invalid| layout.refusals(form, &invalid));
    let definition = all_of(refusals, parsed)?;
    Ok(settle(form, definition, Some(&current.dead_letter)))
}

impl Layout {
    /// All that the API has against the document of the form.
    pub(crate) fn refusals(&self, form: &Form, invalid: &InvalidResource) -> Vec<Refusal> {
        let faults = invalid.faults.iter().map(|fault| {
            let path = fault
                .path
                .strip_prefix("properties.")
                .unwrap_or(&fault.path);
            // A trial calls it the same for all topics.
            let path = match path.strip_prefix("filter.") {
                Some(inside) => format!("{}.{inside}", self.filter_at()),
                None => path.to_owned(),
            };
            // Azure's words ask for https, which the rest does not.
            let problem = fault.problem.strip_prefix(resource::INVALID_URL);
            let problem = sentence(problem.unwrap_or(&fault.problem));
            clauses::place(form, self.clauses, Refusal::of(&path, problem))
        });
        faults.collect()
    }
}

/// The `properties` of the document that the form stands for.
fn document(form: &Form, layout: &Layout) -> (Value, Vec<Refusal>) {
    let mut document = json!({});
    for (path, word) in layout.constants {
        set(&mut document, path, json!(word));
    }
    layout
        .parts()
        .for_each(|part| part.write(form, &mut document));
    let refused = clauses::write(form, layout.clauses, &mut document).err();
    if let Some(headers) = layout.headers() {
        HEADERS.write(form, &mut document, &headers);
    }
    // Left out, those that sign go on.
    if let (Some(webhook), Some(secret)) = (layout.webhook, form.filled(SIGNING_SECRET)) {
        let secrets = json!([{ "secret": secret }]);
        set(&mut document, &format!("{webhook}.signingSecrets"), secrets);
    }
    write_storage(form, layout, &mut document);
    (document, refused.into_iter().collect())
}

/// What there is no row for: which kind of storage it is.
fn write_storage(form: &Form, layout: &Layout, document: &mut Value) {
    let at = layout.dead_letters;
    match form.text(DEAD_LETTERS) {
        kind @ (S3 | AZURE) => set(
            document,
            &format!("{at}.properties.storage.type"),
            json!(kind),
        ),
        DIRECTORY => set(
            document,
            &format!("{at}.properties.resourceId"),
            json!(RESOURCE_ID),
        ),
        _ => return,
    }
    set(
        document,
        &format!("{at}.endpointType"),
        json!("StorageBlob"),
    );
}

/// In a document, leaving the destination of dead letters out means one thing in a new subscription and another in a
/// change, so it is set here for both. An id of Azure's that `current` has stays.
fn settle(
    form: &Form,
    mut definition: SubscriptionDefinition,
    current: Option<&DeadLetterDestination>,
) -> SubscriptionDefinition {
    match (
        form.text(DEAD_LETTERS),
        &mut definition.dead_letter,
        current,
    ) {
        (
            DIRECTORY | S3 | AZURE,
            DeadLetterDestination::StorageBlob { resource_id, .. },
            Some(DeadLetterDestination::StorageBlob {
                resource_id: known, ..
            }),
        ) if !known.is_empty() => resource_id.clone_from(known),
        (DIRECTORY | S3 | AZURE, ..) => {}
        (DROP, dead_letter, _) => *dead_letter = DeadLetterDestination::Drop,
        (_, dead_letter, _) => *dead_letter = DeadLetterDestination::BuiltInQueue,
    }
    definition
}

/// The filter that the form stands for, as the document of a subscription has it.
pub(crate) fn filter_of(form: &Form, layout: &Layout) -> Result<Value, Refusal> {
    let mut document = json!({});
    for part in layout.filter.parts {
        part.write(form, &mut document);
    }
    clauses::write(form, layout.clauses, &mut document)?;
    Ok(document[layout.filter_at()].take())
}
