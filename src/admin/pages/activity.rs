//! The page of what anybody has changed.

use crate::admin::lists::download::{NDJSON, line, streamed};
use crate::admin::lists::filter::{Of, Reading, given, in_utc};
use crate::admin::page::*;
use crate::admin::paths::{subscription_page, topic_page};
use crate::admin::widgets::json_text;
use crate::model::audit::{Actor, AuditId, AuditRow, Target, TargetKind};
use crate::model::name::TopicName;
use crate::model::registry::Registry;
use crate::store::StoreError;
use crate::store::audit::AuditQuery;
use crate::wire::audit::AuditEntryBody;

const PATH: &str = "/admin/activity";

/// Entries of one page, and of one batch of a file.
const SHOWN: usize = 50;

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
    Query(form): Query<ActivityForm>,
    Query(Opened { open }): Query<Opened>,
    call: Call,
) -> PageResult {
    let (query, form) = Filled::with(form).read(ActivityForm::query);
    let (mut rows, mut next) = (Vec::new(), None);
    if let Some(query) = query {
        let found = call.views.audit(query).await?;
        (rows, next) = (found.rows, found.next_before.map(|id| id.0.to_string()));
    }
    let mut list = List::new(PATH, &form).with_older(next, &form);
    list.recipe = Recipe::list(&call, "audit", "audit", &flags(&form));
    if !rows.is_empty() {
        list.export = Some(link(&format!("{PATH}/export"), &form.pairs()));
        let most = print::count(FILE_ENTRIES_MAX as u64);
        list.export_note = format!("The newest {most} at most");
    }
    list.shown = print::plural(rows.len(), "entry", "entries");
    Ok(draw(&ActivityPage {
        frame: Frame::new(&call.visitor, "Activity"),
        rows,
        registry: call.visitor.standing.registry.clone(),
        empty: match list.is_whole() {
            true => Empty::new("activity", "Nothing has been changed yet.", ""),
            false => Empty::no_match("No activity matches this filter.", PATH),
        },
        list,
        form,
        open,
    }))
}

/// The same for `everpost` and the management API.
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
pub(crate) async fn export(Query(form): Query<ActivityForm>, call: Call) -> PageResult {
    let first = (form.query()?, FILE_ENTRIES_MAX);
    let next = move |(mut query, left): (AuditQuery, usize)| {
        let views = call.views.clone();
        async move {
            let found = views.audit(query.clone()).await?;
            let bodies = found.rows.iter().map(AuditEntryBody::from);
            let lines = bodies.flat_map(|body| line(&body)).collect();
            query.before = found.next_before;
            let left = left.saturating_sub(found.rows.len());
            let goes_on = query.before.is_some() && left > 0;
            Ok::<_, StoreError>((lines, goes_on.then_some((query, left))))
        }
    };
    Ok(streamed("activity.ndjson", NDJSON, first, next))
}

impl ActivityForm {
    fn query(&self) -> Result<AuditQuery, Vec<Refusal>> {
        let mut read = Reading::default();
        let query = AuditQuery {
            actor: given(&self.actor),
            action: given(&self.action),
            target_kind: given(&self.target_kind),
            target: given(&self.target),
            from: read.moment("from", &self.from),
            to: read.moment("to", &self.to),
            before: self.before.parse().ok().map(AuditId),
            limit: SHOWN,
        };
        read.end(query)
    }
}

impl ActivityPage {
    /// Whether anything of what is folded away is filled in, or wrong.
    fn asks_for_more(&self) -> bool {
        let folded = ["target", "action", "targetKind", "from", "to"];
        self.form.fills(&folded)
    }

    fn days(&self) -> Vec<(String, &[AuditRow])> {
        let day = |row: &AuditRow| Time::by("%A, %-d %B %Y", row.entry.caller.at).text();
        let days = self.rows.chunk_by(|a, b| day(a) == day(b));
        days.map(|rows| (day(&rows[0]), rows)).collect()
    }

    /// What was created or deleted, where it was not changed in parts.
    fn whole(row: &AuditRow) -> Option<String> {
        let mut changes = row.entry.action.changes().iter();
        let change = changes.find(|change| change.property.is_empty())?;
        let whole = [&change.after, &change.before];
        let whole = whole.into_iter().find(|whole| !whole.is_null());
        let whole = whole.unwrap_or(&Value::Null).to_string();
        Some(print::visible(&json_text::laid_out(&whole)))
    }

    /// The same page with the whole of this entry.
    fn opened(&self, id: AuditId) -> String {
        let mut pairs = self.form.pairs();
        pairs.push(("open", id.0.to_string()));
        format!("{}#entry-{}", link(PATH, &pairs), id.0)
    }

    /// What was done, in front of its target, the target with its page, and what comes behind.
    fn sentence(&self, row: &AuditRow) -> (String, String, Option<String>, String) {
        let (text, target) = (row.entry.describe(), row.entry.target.to_string());
        let first: String = text.chars().take(1).flat_map(char::to_lowercase).collect();
        let rest: String = text.chars().skip(1).collect();
        let text = print::visible(&(first + &rest));
        match text.split_once(&target).filter(|_| !target.is_empty()) {
            Some((before, after)) => {
                let page = self.page(&row.entry.target);
                (before.to_owned(), target, page, after.to_owned())
            }
            None => (text, String::new(), None, String::new()),
        }
    }

    /// The page of a target that there still is.
    fn page(&self, target: &Target) -> Option<String> {
        let (registry, name) = (&self.registry, target.name.as_str());
        match target.kind {
            TargetKind::Topic | TargetKind::Queue => {
                let topic = registry.topic(&TopicName::parse(name).ok()?)?;
                Some(topic_page(topic.topic.name.as_str()))
            }
            TargetKind::EventSubscription => {
                let id = Of::named(name, registry)?.subscription?;
                let (topic, found) = registry.subscription(id)?;
                let (topic, name) = (topic.topic.name.as_str(), found.name.as_str());
                Some(subscription_page(topic, name))
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
}
