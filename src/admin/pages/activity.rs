//! The page of what anybody has changed.

use axum::body::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::admin::forms::filled::Filled;
use crate::admin::lists::download::{Batches, NDJSON, line, streamed};
use crate::admin::lists::filter::{self, Of, given, in_utc};
use crate::admin::lists::recipe::command;
use crate::admin::page::*;
use crate::admin::paths::{subscription_page, topic_page};
use crate::admin::widgets::json_text;
use crate::model::audit::{Actor, AuditId, AuditRow, Target, TargetKind};
use crate::model::name::TopicName;
use crate::model::registry::Registry;
use crate::store::StoreError;
use crate::store::audit::AuditQuery;
use crate::store::views::Page;
use crate::wire::audit::AuditEntryBody;

/// The list.
const PATH: &str = "/admin/activity";

/// The file of it.
const EXPORT: &str = "/admin/activity/export";

/// Entries of one page, and of one batch of a file.
const SHOWN: usize = 50;

/// Entries that one file has at most: as many as an editor still opens.
const FILE_ENTRIES_MAX: usize = 10_000;

/// What the URL asks for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ActivityForm {
    actor: String,
    /// Such as `Create`.
    action: String,
    /// Such as `Topic`.
    #[serde(rename = "targetKind")]
    target_kind: String,
    /// Such as `orders/billing`.
    target: String,
    /// Moments as a reader types them, or in RFC 3339.
    from: String,
    to: String,
    before: String,
}

#[derive(Template)]
#[template(path = "pages/activity.html")]
struct ActivityPage {
    frame: Frame,
    list: List,
    form: Filled<ActivityForm>,
    rows: Vec<AuditRow>,
    empty: Empty,
    registry: Arc<Registry>,
    open: Option<i64>,
}

/// The entry whose whole definition is shown: all of them would make a page of megabytes.
#[derive(Deserialize)]
pub(crate) struct Opened {
    open: Option<i64>,
}

/// What has been changed, newest first.
pub(crate) async fn list(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(form): Query<ActivityForm>,
    Query(Opened { open }): Query<Opened>,
) -> PageResult {
    let form = Filled::with(form);
    let (found, form) = match form.values.query() {
        Ok(query) => (site.views.audit(query).await?, form),
        Err(fault) => (Page::default(), form.with_faults([fault])),
    };
    let next = found.next_before.map(|id| id.0.to_string());
    let mut list = List::new(PATH, &form).with_older(next, &form);
    let flags = form.values.flags();
    let url = site.management_url(&link("/everpost/audit", &flags));
    list.recipe = Recipe::get(&url).everpost(command("everpost audit", &flags));
    if !found.rows.is_empty() {
        list.export = Some(link(EXPORT, &form.pairs()));
        let most = print::count(FILE_ENTRIES_MAX as u64);
        list.export_note = format!("The newest {most} at most");
    }
    list.shown = print::plural(found.rows.len() as u64, "entry", "entries");
    Ok(draw(&ActivityPage {
        frame: Frame::new(&visitor, "Activity"),
        rows: found.rows,
        registry: visitor.standing.registry.clone(),
        empty: match list.is_whole() {
            true => Empty::new("activity", "Nothing has been changed yet.", ""),
            false => Empty::no_match("No activity matches this filter.", PATH),
        },
        list,
        form,
        open,
    }))
}

/// Entries on their way into a file.
struct Writing {
    site: Arc<Site>,
    query: AuditQuery,
    written: usize,
    is_over: bool,
}

/// The newest entries that are meant, each on a line as the management API shows it.
pub(crate) async fn export(
    _visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(form): Query<ActivityForm>,
) -> PageResult {
    let query = form.query();
    let writing = Writing {
        query: query.map_err(|fault| PageError::Unreadable(fault.problem))?,
        site,
        written: 0,
        is_over: false,
    };
    Ok(streamed("activity.ndjson", NDJSON, writing))
}

impl Batches for Writing {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        if self.is_over {
            return Ok(None);
        }
        let found = self.site.views.audit(self.query.clone()).await?;
        self.written += found.rows.len();
        self.query.before = found.next_before;
        self.is_over = found.next_before.is_none() || self.written >= FILE_ENTRIES_MAX;
        let lines = found
            .rows
            .iter()
            .flat_map(|row| line(&AuditEntryBody::from(row)));
        Ok(Some(lines.collect::<Vec<u8>>().into()))
    }
}

impl ActivityForm {
    fn query(&self) -> Result<AuditQuery, Refusal> {
        let moment = |name: &str, text: &str| {
            let read = |text: String| {
                let problem = format!("{text:?} is no moment such as 2026-11-21T06:40.");
                filter::moment(&text).ok_or_else(|| Refusal::of(name, problem))
            };
            given(text).map(read).transpose()
        };
        Ok(AuditQuery {
            actor: given(&self.actor),
            action: given(&self.action),
            target_kind: given(&self.target_kind),
            target: given(&self.target),
            from: moment("from", &self.from)?,
            to: moment("to", &self.to)?,
            before: self.before.parse().ok().map(AuditId),
            limit: SHOWN,
        })
    }

    /// The same for `everpost` and the management API.
    fn flags(&self) -> [(&'static str, String); 6] {
        [
            ("actor", self.actor.trim().to_owned()),
            ("action", self.action.trim().to_owned()),
            ("targetKind", self.target_kind.trim().to_owned()),
            ("target", self.target.trim().to_owned()),
            ("from", in_utc(&self.from)),
            ("to", in_utc(&self.to)),
        ]
    }

    /// Whether anything of what is folded away is filled in.
    fn asks_for_more(&self) -> bool {
        let folded = [
            &self.action,
            &self.target_kind,
            &self.target,
            &self.from,
            &self.to,
        ];
        folded.iter().any(|value| !value.trim().is_empty())
    }
}

impl ActivityPage {
    /// The rows of each day.
    fn days(&self) -> Vec<(String, &[AuditRow])> {
        let day = |row: &AuditRow| Time::by("%A, %-d %B %Y", row.entry.caller.at).text();
        let days = self.rows.chunk_by(|a, b| day(a) == day(b));
        days.map(|rows| (day(&rows[0]), rows)).collect()
    }

    fn clock(row: &AuditRow) -> Time {
        Time::by("%H:%M:%S", row.entry.caller.at)
    }

    /// Whether something was created or deleted, and not changed in parts.
    fn is_whole(row: &AuditRow) -> bool {
        let changes = row.entry.action.changes();
        changes.iter().any(|change| change.property.is_empty())
    }

    /// What was created or deleted.
    fn whole(row: &AuditRow) -> String {
        let whole = row.entry.action.changes().iter().map(|change| {
            let whole = match change.after.is_null() {
                true => &change.before,
                false => &change.after,
            };
            print::visible(&json_text::laid_out(&whole.to_string()))
        });
        whole.collect()
    }

    fn is_open(&self, row: &AuditRow) -> bool {
        self.open == Some(row.id.0)
    }

    /// The same page with the whole of this entry.
    fn opened(&self, row: &AuditRow) -> String {
        let mut pairs = self.form.pairs();
        pairs.push(("open", row.id.0.to_string()));
        format!("{}#entry-{}", link(PATH, &pairs), row.id.0)
    }

    /// A value as people read it; empty for what there was not.
    fn value(value: &Value) -> String {
        match value {
            Value::Null => String::new(),
            Value::String(text) => print::visible(text),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                print::visible(&value.to_string())
            }
        }
    }

    fn is_person(row: &AuditRow) -> bool {
        matches!(row.entry.caller.actor, Actor::User(_))
    }

    /// What was done, in front of its target, the target with its page, and what comes behind.
    fn sentence(&self, row: &AuditRow) -> (String, String, Option<String>, String) {
        let (text, target) = (row.entry.describe(), row.entry.target.to_string());
        let mut letters = text.chars();
        let first = letters
            .next()
            .map_or_else(String::new, |first| first.to_lowercase().to_string());
        let text = print::visible(&format!("{first}{}", letters.as_str()));
        match text.split_once(&target) {
            Some((before, after)) if !target.is_empty() => (
                before.to_owned(),
                target,
                self.page(&row.entry.target),
                after.to_owned(),
            ),
            Some(_) | None => (text, String::new(), None, String::new()),
        }
    }

    /// The page of a target that there still is.
    fn page(&self, target: &Target) -> Option<String> {
        let (registry, name) = (&self.registry, target.name.as_str());
        match target.kind {
            TargetKind::Topic => {
                let topic = registry.topic(&TopicName::parse(name).ok()?)?;
                Some(topic_page(topic.topic.name.as_str()))
            }
            TargetKind::EventSubscription => {
                let id = Of::named(name, registry)?.subscription?;
                let (topic, found) = registry.subscription(id)?;
                Some(subscription_page(
                    topic.topic.name.as_str(),
                    found.name.as_str(),
                ))
            }
            TargetKind::DeadLetter => Some(format!("/admin/dead-letters/{name}")),
            TargetKind::ReplayJob => Some(format!("/admin/replays/{name}")),
            TargetKind::Appliance
            | TargetKind::Namespace
            | TargetKind::Inspector
            | TargetKind::Delivery
            | TargetKind::User
            | TargetKind::ApiToken
            | TargetKind::Url => None,
        }
    }

    fn initial(row: &AuditRow) -> String {
        let initial = row.entry.caller.actor.name().chars().next();
        initial.map_or_else(String::new, |initial| initial.to_uppercase().to_string())
    }
}
