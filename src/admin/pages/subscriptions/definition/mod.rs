//! The form of an event subscription, to and from the document of the management API.

pub(crate) mod clauses;

use std::fmt::Display;
use std::mem;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use crate::admin::form_error::{all_of, said};
use crate::admin::forms::document::{FieldGroups, Shape, is_kept, words};
use crate::admin::forms::faults::{Faults, FormProblem};
use crate::admin::forms::form::{Form, FormError};
use crate::admin::reader::PageReader;
use crate::admin::widgets::print;
use crate::model::blob_storage::BlobStorage;
use crate::model::destination::DeliveryMode;
use crate::model::limits::{DELIVERY_ATTRIBUTES_MAX, FILTERS_MAX};
use crate::model::probation::Health;
use crate::model::registry::TopicEntry;
use crate::model::subscription::{
    DeadLetterDestination, EventSubscription, SubscriptionDefinition,
};
use crate::wire::resource::places::{lookup, properties, slot};
use crate::wire::resource::{self, InvalidResource, Observed, SubscriptionContext};

#[cfg(test)]
mod tests;

/// The fields that code knows by their names.
pub(crate) const URL: &str = "endpointUrl";
/// The field that asks for a first signing secret to be made, and the one for a secret that was brought.
pub(crate) const SIGN: &str = "sign";
pub(crate) const SIGNING_SECRET: &str = "signingSecrets[0].secret";
/// The field for the destination of dead letters, and its values: a kind of storage, the built-in queue, or none.
pub(super) const DEAD_LETTERS: &str = "deadLetterDestination";
pub(super) const KEEP: &str = "keep";
pub(super) const DROP: &str = "drop";
pub(super) const DIRECTORY: &str = "directory";
pub(super) const S3: &str = "S3";
pub(super) const AZURE: &str = "AzureBlob";

/// The properties that have buttons of their own instead of a field in the form.
const BUTTONS: [&str; 2] = ["paused", "disabled"];

/// The path to the properties of a webhook.
const DESTINATION: &str = "destination.properties";

/// Where the id of a storage account stands.
const ACCOUNT: &str = "deadLetterDestination.properties.resourceId";
/// The id of a storage account that Azure's form has, and the directory of the server does not need.
pub(super) const RESOURCE_ID: &str = "everpost";

#[rustfmt::skip] // a table
pub(crate) const HEADERS: &FieldGroups =
    &FieldGroups { list: "deliveryAttributeMappings", noun: "header", first: "name", most: DELIVERY_ATTRIBUTES_MAX };
#[rustfmt::skip] // a table
pub(crate) const CLAUSES: &FieldGroups =
    &FieldGroups { list: "advancedFilters", noun: "clause", first: "key", most: FILTERS_MAX };

/// The kinds of subscriptions, whose documents have things in different places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DefinitionKind {
    #[default]
    Custom,
    Push,
    Queue,
}

impl DefinitionKind {
    pub(crate) fn of(topic: &TopicEntry, mode: DeliveryMode) -> Self {
        match (topic.namespace.is_some(), mode) {
            (false, _) => Self::Custom,
            (true, DeliveryMode::Push) => Self::Push,
            (true, DeliveryMode::Queue) => Self::Queue,
        }
    }

    pub(crate) fn is_pushed(self) -> bool {
        self != Self::Queue
    }

    fn shape(self) -> Shape {
        Shape {
            schema: resource::subscription_schema(self != Self::Custom),
            without: match self {
                Self::Custom => "",
                Self::Push => "queue",
                Self::Queue => "push",
            },
        }
    }

    /// The filter of the document, and its list of advanced filters.
    fn filter(self) -> (&'static str, &'static str) {
        match self {
            Self::Custom => ("filter", "filter.advancedFilters"),
            Self::Push | Self::Queue => ("filtersConfiguration", "filtersConfiguration.filters"),
        }
    }

    /// The document that leaves everything to the defaults but where events go.
    fn blank(self) -> Value {
        let webhook = json!({ "endpointType": "WebHook", "properties": {} });
        let mut document = match self {
            Self::Custom => {
                json!({ "destination": webhook, "eventDeliverySchema": null, "retryPolicy": null })
            }
            Self::Push => json!({ "deliveryConfiguration": { "deliveryMode": "Push",
                "push": { "maxDeliveryCount": null, "eventTimeToLive": null, "schedule": null,
                    "destination": webhook } } }),
            Self::Queue => json!({ "deliveryConfiguration": { "deliveryMode": "Queue",
                "queue": { "maxDeliveryCount": null, "eventTimeToLive": null, "schedule": null,
                    "receiveLockDurationInSeconds": null } } }),
        };
        let schema = self.shape().schema;
        let is_ticked = |(name, schema): &(&str, &Value)| {
            schema["type"] == "boolean" && !BUTTONS.contains(name)
        };
        let ticked = properties(schema).filter(is_ticked).map(|(name, _)| name);
        let others = ["labels", "expirationTimeUtc", self.filter().0];
        for name in ticked.chain(others) {
            document[name] = Value::Null;
        }
        document
    }
}

/// The form, with what is filled in: from the document while nobody has sent it.
#[derive(Default)]
pub(crate) struct SubscriptionDraft {
    pub(crate) kind: DefinitionKind,
    pub(crate) form: Form,
    is_sent: bool,
    /// The `properties` of what is changed, or of what is new.
    stored: Value,
    /// The draft with the default values; `None` in that one itself.
    blank: Option<Box<SubscriptionDraft>>,
    /// The URL that stays, query and all, where none is typed.
    pub(crate) kept_url: Option<String>,
    faults: Faults,
    drawn: Mutex<Vec<RenderedField>>,
}

/// A field that was drawn, with what is filled in.
struct RenderedField {
    label: String,
    value: String,
    /// The value in words; `None` for secrets, and for fields that other choices have hidden.
    said: Option<String>,
    is_choice: bool,
    differs: bool,
    is_faulty: bool,
}

pub(crate) struct Told(Vec<RenderedField>);

impl Told {
    /// Reports whether any of the fields has a value other than the default, or is at fault.
    pub(crate) fn is_open(&self) -> bool {
        let is_own = |each: &RenderedField| each.differs && each.said.is_some();
        self.0.iter().any(|each| is_own(each) || each.is_faulty)
    }

    /// Describes the values of the fields in a few words.
    pub(crate) fn summary(&self) -> String {
        let filled = self.0.iter().filter(|each| !each.value.is_empty());
        let words = filled.filter_map(|each| match (each.said.as_deref()?, each.is_choice) {
            ("Yes", true) => Some(each.label.clone()),
            (said, true) => Some(said.to_owned()),
            (said, false) => {
                let (label, said) = in_units(&each.label, said);
                Some(format!("{label}: {said}"))
            }
        });
        match words.collect::<Vec<_>>() {
            none if none.is_empty() => "None".to_owned(),
            words => words.join(", "),
        }
    }

    /// Labels, and what is set.
    pub(crate) fn facts(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().filter_map(|each| {
            let said = each.said.as_deref().filter(|said| !said.is_empty());
            Some(in_units(&each.label, said?))
        })
    }
}

/// The unit of a field stands behind its label while it is filled in, and behind its number afterwards.
fn in_units<'a>(label: &'a str, said: &str) -> (&'a str, String) {
    let (label, unit) = label.split_once(" (").unwrap_or((label, ""));
    let span = |seconds: u64| print::span(Duration::from_secs(seconds));
    let said = match (unit.trim_end_matches(')'), said.parse::<u32>()) {
        ("minutes", Ok(minutes)) => span(u64::from(minutes) * 60),
        ("seconds", Ok(seconds)) => span(seconds.into()),
        (unit, _) if said.parse::<f64>().is_ok() => format!("{said} {unit}").trim().to_owned(),
        _ => said.to_owned(),
    };
    (label, said)
}

impl SubscriptionDraft {
    /// Makes the draft of an existing subscription, or of a new one.
    pub(crate) fn of(
        topic: &TopicEntry,
        kind: DefinitionKind,
        current: Option<&EventSubscription>,
    ) -> Self {
        let blank = Self::blank(topic, kind);
        let draft = current.map_or_else(|| Self::blank(topic, kind), |it| Self::filled(topic, it));
        Self {
            blank: Some(Box::new(blank)),
            ..draft
        }
    }

    fn blank(topic: &TopicEntry, kind: DefinitionKind) -> Self {
        let example = Form::of([(URL, "https://receiver.example/".to_owned())]);
        let now = topic.topic.created_at;
        let context = SubscriptionContext::of(topic, now, false);
        let mut draft = Self {
            kind,
            ..Self::default().sent(example)
        };
        if let Ok(definition) = draft.define(None, &context) {
            draft = Self::filled(topic, &EventSubscription::unstored(definition, now));
        }
        draft.form.set(URL, "");
        draft
    }

    fn filled(topic: &TopicEntry, subscription: &EventSubscription) -> Self {
        let definition = &subscription.definition;
        // Only what was defined is used, not how things stand.
        let observed = Observed {
            health: &Health::default(),
            outage: None,
            now: subscription.updated_at,
        };
        let mut shown = resource::whole_subscription(topic, subscription, observed);
        let kind = DefinitionKind::of(topic, definition.destination.delivery_mode());
        let mut draft = Self {
            kind,
            stored: shown["properties"].take(),
            ..Self::default()
        };
        let advanced = draft.advanced();
        clauses::fill(&mut draft.form, &advanced);
        // The query may hold a key.
        let url = definition.destination.endpoint_url();
        let plain = url.and_then(|url| url.without_query());
        draft.kept_url = url
            .filter(|_| plain.is_none())
            .map(|url| url.base().to_owned());
        let dead_letters = choice_of(&definition.dead_letter);
        draft.form.set(URL, plain.unwrap_or_default());
        draft.form.set(DEAD_LETTERS, dead_letters);
        // It stays as long as the topic's retention, whatever that will be.
        let retention = topic.topic.kind.event_retention();
        if retention.is_some_and(|most| definition.retry_policy.time_to_live >= most) {
            draft.form.set("eventTimeToLive", "");
        }
        draft
    }

    /// The advanced filters as they are stored.
    pub(crate) fn advanced(&self) -> Value {
        let advanced = lookup(&self.stored, self.kind.filter().1);
        advanced.cloned().unwrap_or_default()
    }

    /// Replaces the values by those that somebody has sent.
    pub(crate) fn sent(self, form: Form) -> Self {
        Self {
            form,
            is_sent: true,
            ..self
        }
    }

    pub(crate) fn with_faults(self, form_errors: Vec<FormError>) -> Self {
        let faults = Faults::new(form_errors);
        Self { faults, ..self }
    }

    /// Returns the definition that the form makes of `current`, or of nothing, or everything that is wrong with the
    /// form. A URL, and secrets, that are left out keep their value.
    pub(crate) fn define(
        &self,
        current: Option<&SubscriptionDefinition>,
        context: &SubscriptionContext<'_>,
    ) -> Result<SubscriptionDefinition, Vec<FormError>> {
        let (properties, unread) = self.document();
        let body = match (current, self.kind) {
            (Some(_), DefinitionKind::Custom) => properties,
            _ => json!({ "properties": properties }),
        };
        let read = match current {
            None => resource::parse_subscription(&body, context),
            Some(current) => resource::patch_subscription(current, &body, context),
        };
        let parsed = read.map_err(|invalid| self.form_errors(&invalid));
        let mut definition = all_of(unread, parsed)?;
        // In a document, leaving the destination out means one thing in a new subscription and another in a change.
        match self.form.text(DEAD_LETTERS) {
            DIRECTORY | S3 | AZURE => {}
            DROP => definition.dead_letter = DeadLetterDestination::Drop,
            _ => definition.dead_letter = DeadLetterDestination::BuiltInQueue,
        }
        Ok(definition)
    }

    /// The filter, as the document of a subscription has it.
    pub(crate) fn filter(&self) -> Result<Value, FormError> {
        let (mut document, unread) = self.document();
        if let Some(unread) = unread.into_iter().find(|each| each.target == CLAUSES.list) {
            return Err(unread);
        }
        let filter = document[self.kind.filter().0].take();
        Ok(if filter.is_null() { json!({}) } else { filter })
    }

    /// The `properties` of the document that it stands for, and what of the form cannot be read.
    fn document(&self) -> (Value, Vec<FormError>) {
        let (mut form, shape) = (self.form.clone(), self.kind.shape());
        let mut document = self.kind.blank();
        // What a form leaves empty is to be as by default, and not as it was.
        if let Some((path, schema)) = shape.find(DESTINATION).filter(|_| self.kind.is_pushed()) {
            let webhook = properties(schema).map(|(name, _)| (name, Value::Null));
            *slot(&mut document, &path) = webhook.collect();
        }
        let container = shape.find("blobContainerName");
        if let (fate @ (DIRECTORY | S3 | AZURE), Some((path, _))) =
            (self.form.text(DEAD_LETTERS), container)
        {
            let kind = path.replace("properties.blobContainerName", "endpointType");
            *slot(&mut document, &kind) = json!("StorageBlob");
            let storage = path.replace("blobContainerName", "storage");
            *slot(&mut document, &storage) = Value::Null;
            // The id of one of Azure's stays.
            let stored = shape.text(ACCOUNT, &self.stored);
            let is_own = fate == DIRECTORY && stored.is_empty();
            form.set(ACCOUNT, if is_own { RESOURCE_ID } else { &stored });
            form.set("storage.type", if fate == DIRECTORY { "" } else { fate });
        }
        for at in 0..HEADERS.count(&form) {
            // Left out, a value that was secret would be kept.
            let name = format!("{}[{at}].properties.isSecret", HEADERS.list);
            if let Some((path, _)) = shape.find(&name) {
                *slot(&mut document, &path) = json!(form.is_on(&name));
            }
        }
        let mut unread = shape.write(&form, &mut document);
        match clauses::read(&form) {
            Ok(None) => {}
            Ok(Some(advanced)) => *slot(&mut document, self.kind.filter().1) = advanced,
            Err(problem) => unread.push(FormError::of(CLAUSES.list, problem)),
        }
        (document, unread)
    }

    /// All that the API has against the document.
    pub(crate) fn form_errors(&self, invalid: &InvalidResource) -> Vec<FormError> {
        let (filter, advanced) = self.kind.filter();
        let faults = invalid.faults.iter().map(|fault| {
            let whole = fault.path.as_str();
            let path = whole.strip_prefix("properties.").unwrap_or(whole);
            // A trial calls it the same for all topics.
            let path = match path.strip_prefix("filter.") {
                Some(inside) => format!("{filter}.{inside}"),
                None => path.to_owned(),
            };
            // Azure's words ask for https, which the rest does not.
            let problem = fault.problem.strip_prefix(resource::INVALID_URL);
            let problem = said(problem.unwrap_or(&fault.problem));
            match path.strip_prefix(advanced) {
                None => FormError::of(&path, problem),
                Some(inside) => clauses::place(&self.form, inside, &problem),
            }
        });
        faults.collect()
    }
}

/// For the macros of `forms.html`.
impl SubscriptionDraft {
    pub(crate) fn value(&self, name: &str) -> String {
        if self.is_sent || self.form.has(name) {
            self.form.raw(name).to_owned()
        } else {
            self.kind.shape().text(name, &self.stored)
        }
    }

    pub(crate) fn is(&self, name: &str, value: impl AsRef<str>) -> bool {
        self.value(name) == value.as_ref()
    }

    pub(crate) fn moment(&self, name: &str) -> String {
        let (zone, text) = (&PageReader::current().zone, self.value(name));
        zone.moment(&text).map_or(text, |at| zone.typed(at))
    }

    /// Where faults are told that are those of a field.
    pub(crate) fn path(&self, name: &str) -> String {
        match self.kind.shape().find(name) {
            // What is wrong with the object lies in other fields.
            _ if name == DEAD_LETTERS => String::new(),
            Some((path, _)) if !name.starts_with(CLAUSES.list) => path,
            _ => name.to_owned(),
        }
    }

    pub(crate) fn count(&self, rows: &FieldGroups) -> usize {
        if self.is_sent || rows.list == CLAUSES.list {
            return rows.count(&self.form);
        }
        let first = format!("{}[0].{}", rows.list, rows.first);
        let first = self.kind.shape().find(&first);
        let list = first.and_then(|(path, _)| lookup(&self.stored, path.split('[').next()?));
        list.and_then(Value::as_array).map_or(0, Vec::len)
    }

    /// Begins to draw a field: what is wrong with it; empty for nothing. `only` has the classes of choices that it is
    /// asked for with, `unset` is what an empty one means.
    pub(crate) fn field(&self, name: &str, label: impl Display, only: &str, unset: &str) -> String {
        let (label, value) = (label.to_string(), self.value(name));
        let found = self.kind.shape().find(name);
        let fault = self.faults.at(&self.path(name), name, &label);
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        let is_chosen = |class: &str| {
            let word = class.trim_start_matches("only-");
            let mut choices = drawn.iter().filter(|each| each.is_choice);
            choices.any(|each| each.value.eq_ignore_ascii_case(word))
        };
        let is_asked = only.is_empty() || only.split(' ').any(is_chosen);
        let schema = found.as_ref().map_or(&Value::Null, |(_, schema)| schema);
        let is_secret = name == SIGNING_SECRET || is_kept(schema);
        let in_list = name.contains("].") && name != SIGNING_SECRET;
        let is_told = is_asked && !is_secret && (!in_list || name.ends_with("].name"));
        let said = || match value.as_str() {
            "" => unset.to_owned(),
            pem if pem.contains("-----BEGIN") => "Set".to_owned(),
            _ if schema["format"] == "date-time" => self.moment(name).replace('T', " "),
            text => print::visible(&words(text, '\n').join(", ")),
        };
        let blank = self.blank.as_ref();
        drawn.push(RenderedField {
            said: is_told.then(said),
            is_choice: in_list,
            differs: in_list || blank.is_some_and(|blank| !blank.is(name, &value)),
            is_faulty: !fault.is_empty(),
            label,
            value,
        });
        fault
    }

    /// Says what is chosen in the field that is being drawn. Prints nothing.
    pub(crate) fn chose(&self, text: impl Display) -> &'static str {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = drawn.last_mut() {
            let is_set = !last.value.is_empty();
            let said = last.said.as_mut().filter(|_| is_set);
            said.into_iter().for_each(|said| *said = text.to_string());
            last.is_choice = true;
        }
        ""
    }

    /// Returns the fields that have been drawn since the last call.
    pub(crate) fn told(&self) -> Told {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        Told(mem::take(&mut *drawn))
    }

    /// Returns what the schema says about a field, with a blank behind each sentence.
    pub(crate) fn help(&self, name: &str) -> String {
        let Some((path, schema)) = self.kind.shape().find(name) else {
            return String::new();
        };
        let header = name.strip_suffix(".value");
        let is_hidden = header.is_some_and(|it| !self.is(&format!("{it}.isSecret"), ""));
        let is_stored = is_kept(schema) && lookup(&self.stored, &path).is_some();
        let limit = |name: &str| schema[name].as_u64().map_or_else(String::new, print::count);
        match (schema["type"] == "integer", is_stored || is_hidden) {
            (true, _) => format!("{} to {}. ", limit("minimum"), limit("maximum")),
            (_, true) => "Leave it empty to keep the stored one. ".to_owned(),
            _ => String::new(),
        }
    }

    pub(crate) fn problem(&self) -> Option<FormProblem> {
        self.faults.told()
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.faults.status()
    }
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
