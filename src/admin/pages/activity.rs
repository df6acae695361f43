//! The page of what anybody has changed.

use crate::admin::pages::queues::Queue;
use crate::admin::pages::*;
use crate::store::audit::AuditQuery;
use crate::wire::audit::AuditEntryBody;
use axum::Extension;

const PATH: &str = "/admin/activity";

/// Entries of one page.
const SHOWN: usize = 50;

/// Entries that are read at once for a file. Each may have a whole definition, as it was and as it is.
const FILE_ENTRIES: usize = 4;

/// Entries that one file has at most: as many as an editor still opens.
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
    let (query, form) = Filled::with(form).read(ActivityForm::query);
    let found = OptionFuture::from(query.map(|query| call.views.audit(query)));
    let found = found.await.transpose()?.unwrap_or_default();
    let next = found.next_before.map(|id| id.0);
    let mut list = List::new(PATH, &form).with_older(next, &form);
    list.recipe = Recipe::list(&call, "audit", "audit", &flags(&form));
    if !found.rows.is_empty() {
        list.export = Some(link(&format!("{PATH}/export"), &form.pairs()));
        let most = print::count(FILE_ENTRIES_MAX as u64);
        list.export_note = format!("The newest {most} at most");
    }
    list.of_page(found.rows.len(), ["entry", "entries"]);
    answer!("pages/activity.html", &call.visitor, "Activity", {
        list: List = list,
        form: Filled<ActivityForm> = form,
        rows: Vec<AuditRow> = found.rows,
        open: Option<i64> = name_of(&asked, "open").parse().ok(),
    })
}

/// Returns the filter as flags of `everpost`, which are also the query parameters of the management API.
fn flags(form: &Filled<ActivityForm>) -> Vec<(&str, String)> {
    let pairs = form.pairs().into_iter();
    let flags = pairs.filter(|(name, _)| *name != "before");
    let flags = flags.map(|(name, text)| match name {
        "from" | "to" => (name, in_utc(&text)),
        _ => (name, text.trim().to_owned()),
    });
    flags.collect()
}

/// The newest entries that are meant, each on a line as the management API shows it.
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
    /// For the next ones; `None` if there are none.
    query: Option<AuditQuery>,
    /// How many the file may still have.
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

/// The entries of each day, those together that one actor made in one minute of things of one kind.
fn days(rows: &[AuditRow]) -> Vec<(String, Vec<&[AuditRow]>)> {
    let day = |row: &AuditRow| Time::long_day(row.entry.caller.at);
    let act = |AuditRow { entry, .. }: &AuditRow| {
        let minute = entry.caller.at.as_ms() / 60_000;
        let (actor, kind) = (entry.caller.actor.clone(), entry.target.kind);
        (actor, entry.action.name(), kind, minute)
    };
    let days = rows.chunk_by(|a, b| day(a) == day(b));
    let days = days.map(|rows| {
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

/// All that is written out in a document, by the paths.
fn flatten(path: &str, value: &Value, into: &mut Vec<(String, String)>) {
    let mut inner = |name: &str, value| flatten(&format!("{path}.{name}"), value, into);
    match value {
        Value::Object(all) => all.iter().for_each(|(name, value)| inner(name, value)),
        Value::Array(all) if all.iter().any(Value::is_object) => {
            let numbered = all.iter().enumerate();
            numbered.for_each(|(index, value)| inner(&(index + 1).to_string(), value));
        }
        Value::Array(all) if !all.is_empty() => {
            let all = all.iter().map(text_of).collect::<Vec<_>>();
            into.push((property(path), all.join(", ")));
        }
        Value::Null | Value::Array(_) => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            into.push((property(path), text_of(value)));
        }
    }
}

/// A value as people read it; empty for what there was not.
fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(is_on) => (if *is_on { "on" } else { "off" }).to_owned(),
        Value::String(text) => print::visible(text),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => print::visible(&value.to_string()),
    }
}

/// `.properties.retryPolicy.maxDeliveryAttempts` in words: `Retry policy, max delivery attempts`.
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
fn opened(form: &Filled<ActivityForm>, id: AuditId) -> String {
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

/// The page of a target that there still is, or of all of its kind.
fn page_of(target: &Target, registry: &Registry) -> Option<String> {
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
            Queue::page_of(topic, found).or_else(|| {
                let topic = topic.topic.name.as_str();
                Some(paths::subscription_page(topic, found.name.as_str()))
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
