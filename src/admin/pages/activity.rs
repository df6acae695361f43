//! The page of the audit log.

use axum::Extension;
use axum::extract::Query;
use futures_util::future::OptionFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::admin::action::{Call, Names, Subject, name_of};
use crate::admin::error::PageResult;
use crate::admin::forms::filled::FilledForm;
use crate::admin::forms::form::FormError;
use crate::admin::lists::download::{LINES, Rows, line, streamed};
use crate::admin::lists::filter::{Of, Reading, given, in_utc};
use crate::admin::lists::link;
use crate::admin::lists::list::{ListPage, cursor};
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::answer;
use crate::admin::pages::queues::QueueName;
use crate::admin::paths;
use crate::admin::widgets::{Empty, Icon, Time, filters, print};
use crate::base::request_memory::RequestMemory;
use crate::model::audit::{Actor, AuditEntry, AuditId, AuditRow, AuditTarget, TargetKind};
use crate::model::name::{NamespaceName, TopicName};
use crate::model::registry::Registry;
use crate::model::topic::EntityKind;
use crate::store::StoreError;
use crate::store::audit::AuditQuery;
use crate::store::views::Views;
use crate::wire::audit::AuditEntryBody;

const PATH: &str = "/admin/activity";

/// Number of entries on a page.
const SHOWN: usize = 50;

/// Number of entries that are read at once for a file. Each entry may hold a whole definition, before and after the
/// change.
const FILE_ENTRIES: usize = 4;

/// Maximum number of entries in a file. An editor can still open a file of this size.
const FILE_ENTRIES_MAX: usize = 10_000;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ActivityForm {
    actor: String,
    /// Such as `Create`.
    action: String,
    /// Such as `Topic`.
    target_kind: String,
    /// Such as `orders/billing`.
    target: String,
    /// Moments as a reader types them, or in RFC 3339.
    from: String,
    to: String,
    before: String,
}

/// Lists the audit log, newest entries first. The whole definition is shown for one entry only: for all of them the
/// page would have megabytes.
pub(crate) async fn list(
    Query(form): Query<ActivityForm>,
    Query(asked): Query<Names>,
    call: Call,
) -> PageResult {
    let (query, form) = FilledForm::with(form).read(ActivityForm::query);
    let found = OptionFuture::from(query.map(|query| call.views.audit(query)))
        .await
        .transpose()?
        .unwrap_or_default();
    let next = found.next_before.map(|id| id.0);
    let mut list = ListPage::new(PATH, &form).with_older(next, &form);
    list.recipe = Recipe::list(&call, "audit", "audit", &flags(&form));
    if !found.rows.is_empty() {
        list.export = Some(link(&format!("{PATH}/export"), &form.pairs()));
        let most = print::count(FILE_ENTRIES_MAX as u64);
        list.export_note = format!("The newest {most} at most");
    }
    list.of_page(found.rows.len(), ["entry", "entries"]);
    answer!("pages/activity.html", &call.visitor, "Activity", {
        list: ListPage = list,
        form: FilledForm<ActivityForm> = form,
        rows: Vec<AuditRow> = found.rows,
        open: Option<i64> = name_of(&asked, "open").parse().ok(),
    })
}

/// Returns the filter as flags of `everpost`, which are also the query parameters of the management API.
fn flags(form: &FilledForm<ActivityForm>) -> Vec<(&str, String)> {
    let pairs = form.pairs().into_iter();
    let flags = pairs
        .filter(|(name, _)| *name != "before")
        .map(|(name, text)| match name {
            "from" | "to" => (name, in_utc(&text)),
            _ => (name, text.trim().to_owned()),
        });
    flags.collect()
}

/// Downloads the newest entries that match the filter, one per line, as the management API shows them.
pub(crate) async fn export(
    memory: Option<Extension<RequestMemory>>,
    Query(form): Query<ActivityForm>,
    call: Call,
) -> PageResult {
    let query = AuditQuery {
        limit: FILE_ENTRIES,
        ..form.query()?
    };
    let entries = Entries {
        views: call.views.clone(),
        query: Some(query),
        left: FILE_ENTRIES_MAX,
    };
    Ok(streamed("activity.ndjson", LINES, memory, entries))
}

/// Entries that are still to be written to a file.
struct Entries {
    views: Views,
    /// The query for the next entries; `None` if there are no more.
    query: Option<AuditQuery>,
    /// Number of entries that may still be added to the file.
    left: usize,
}

impl Rows for Entries {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(mut query) = self.query.take() else {
            return Ok(None);
        };
        let found = self.views.audit(query.clone()).await?;
        let bodies = found.rows.iter().map(AuditEntryBody::from);
        let lines = bodies.flat_map(|body| line(&body)).collect();
        query.before = found.next_before;
        self.left = self.left.saturating_sub(found.rows.len());
        let goes_on = query.before.is_some() && self.left > 0;
        self.query = goes_on.then_some(query);
        Ok(Some(lines))
    }
}

impl ActivityForm {
    fn query(&self) -> Result<AuditQuery, Vec<FormError>> {
        let mut read = Reading::default();
        let query = AuditQuery {
            actor: given(&self.actor),
            action: given(&self.action),
            target_kind: given(&self.target_kind),
            target: given(&self.target),
            from: read.moment("from", &self.from),
            to: read.moment("to", &self.to),
            before: cursor(&self.before).map(AuditId),
            limit: SHOWN,
        };
        read.end(query)
    }
}

/// Groups the entries by day, and within a day by actor, action, kind of target and minute.
fn days(rows: &[AuditRow]) -> Vec<(String, Vec<&[AuditRow]>)> {
    let day = |row: &AuditRow| Time::long_day(row.entry.caller.at);
    let act = |AuditRow { entry, .. }: &AuditRow| {
        let minute = entry.caller.at.as_ms() / 60_000;
        let (actor, kind) = (entry.caller.actor.clone(), entry.target.kind);
        (actor, entry.action.name(), kind, minute)
    };
    let days = rows.chunk_by(|a, b| day(a) == day(b)).map(|rows| {
        let acts = rows.chunk_by(|a, b| act(a) == act(b));
        (day(&rows[0]), acts.collect())
    });
    days.collect()
}

/// Returns all properties of something that was created or deleted, and whether it was created; `None` for a change of
/// single properties.
fn whole(row: &AuditRow) -> Option<(bool, Vec<(String, String)>)> {
    let mut changes = row.entry.action.changes().iter();
    let change = changes.find(|change| change.property.is_empty())?;
    let mut sides = [(true, &change.after), (false, &change.before)].into_iter();
    let (is_there, whole) = sides.find(|(_, side)| !side.is_null())?;
    let mut properties = Vec::new();
    flatten("", whole, &mut properties);
    Some((is_there, properties))
}

/// Collects all values of a JSON document with their paths.
fn flatten(path: &str, value: &Value, into: &mut Vec<(String, String)>) {
    let mut inner = |name: &str, value| flatten(&format!("{path}.{name}"), value, into);
    match value {
        Value::Object(all) => all.iter().for_each(|(name, value)| inner(name, value)),
        Value::Array(all) if all.iter().any(Value::is_object) => {
            let numbered = all.iter().enumerate();
            numbered.for_each(|(index, value)| inner(&(index + 1).to_string(), value));
        }
        Value::Array(all) if !all.is_empty() => {
            let texts = all.iter().map(text_of).collect::<Vec<_>>();
            into.push((property(path), texts.join(", ")));
        }
        Value::Null | Value::Array(_) => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            into.push((property(path), text_of(value)));
        }
    }
}

/// Returns a JSON value as readable text; empty if there was no value.
fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(is_on) => (if *is_on { "on" } else { "off" }).to_owned(),
        Value::String(text) => print::visible(text),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => print::visible(&value.to_string()),
    }
}

/// Converts a path such as `.properties.retryPolicy.maxDeliveryAttempts` to words: `Retry policy, max delivery
/// attempts`.
fn property(path: &str) -> String {
    let mut words = String::new();
    for letter in path.replace("properties.", "").trim_matches('.').chars() {
        match letter {
            '.' => words.push_str(", "),
            letter if letter.is_ascii_uppercase() => {
                words.extend([' ', letter.to_ascii_lowercase()]);
            }
            letter => words.push(letter),
        }
    }
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    words
}

/// Returns the address of this page with the whole definition of one entry shown.
fn opened(form: &FilledForm<ActivityForm>, id: AuditId) -> String {
    let mut pairs = form.pairs();
    pairs.push(("open", id.0.to_string()));
    format!("{}#entry-{}", link(PATH, &pairs), id.0)
}

/// Describes an entry in words that follow the name of its actor.
fn did(entry: &AuditEntry) -> String {
    let mut text = print::visible(&entry.describe());
    text[..1].make_ascii_lowercase();
    text
}

/// Returns the page of a target that still exists, or the page for all targets of its kind.
fn page_of(target: &AuditTarget, registry: &Registry) -> Option<String> {
    let name = target.name.as_str();
    let topic = || registry.topic(&TopicName::parse(name).ok()?);
    match target.kind {
        TargetKind::Topic => Some(topic()?.page()),
        TargetKind::ServiceBusTopic | TargetKind::Queue => {
            let entity = topic()?.topic.kind.entity();
            let page = match entity {
                EntityKind::Topic => return None,
                EntityKind::Queue => paths::queue_page(name),
                EntityKind::ServiceBusTopic => paths::service_bus_topic_page(name),
            };
            (target.kind == entity.into()).then_some(page)
        }
        TargetKind::EventSubscription | TargetKind::ServiceBusSubscription | TargetKind::Rule => {
            let of = if target.kind == TargetKind::Rule {
                name.rsplit_once('/')?.0
            } else {
                name
            };
            let id = Of::named(of, registry)?.subscription?;
            let (topic, found) = registry.subscription(id)?;
            QueueName::page_of(topic, found).or_else(|| {
                let topic_name = topic.topic.name.as_str();
                Some(paths::subscription_page(topic_name, found.name.as_str()))
            })
        }
        TargetKind::AccessRule => Some(paths::access_rule_page(name)),
        TargetKind::Namespace => {
            let namespace = registry.namespace(&NamespaceName::parse(name).ok()?)?;
            Some(namespace.page())
        }
        TargetKind::DeadLetter => Some(paths::dead_letter_page(name)),
        TargetKind::ReplayJob => Some(paths::replay_page(name)),
        TargetKind::Inspector => Some("/admin/inspectors".to_owned()),
        TargetKind::AlertRule | TargetKind::AlertChannel => Some("/admin/alerts".to_owned()),
        TargetKind::User => Some("/admin/users".to_owned()),
        TargetKind::ApiToken => Some("/admin/tokens".to_owned()),
        TargetKind::Setting => Some("/admin/settings".to_owned()),
        TargetKind::Appliance | TargetKind::Delivery | TargetKind::Url => None,
    }
}
