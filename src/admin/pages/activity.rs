//! The page of what anybody has changed.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::admin::bare::draw;
use crate::admin::error::PageResult;
use crate::admin::forms::filled::Filled;
use crate::admin::forms::form::Refusal;
use crate::admin::frame::Frame;
use crate::admin::lists::filter::{self, given, in_utc};
use crate::admin::lists::link;
use crate::admin::lists::list::List;
use crate::admin::lists::recipe::{Recipe, command};
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::{Empty, Icon, Time, filters, print};
use crate::model::audit::{Actor, AuditId, AuditRow};
use crate::store::audit::AuditQuery;
use crate::store::views::Page;

/// The list.
const PATH: &str = "/admin/activity";

/// Entries of one page.
const SHOWN: usize = 50;

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
}

/// What has been changed, newest first.
pub(crate) async fn list(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(form): Query<ActivityForm>,
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
    list.shown = print::plural(found.rows.len() as u64, "entry", "entries");
    Ok(draw(&ActivityPage {
        frame: Frame::new(&visitor, "Activity"),
        rows: found.rows,
        empty: match list.is_whole() {
            true => Empty::new("activity", "Nothing has been changed yet.", ""),
            false => Empty::no_match("No activity matches this filter.", PATH),
        },
        list,
        form,
    }))
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

    /// A value as people read it; `None` for what there was not.
    fn value(value: &Value) -> Option<String> {
        (!value.is_null()).then(|| print::visible(&value.to_string()))
    }

    fn is_person(row: &AuditRow) -> bool {
        matches!(row.entry.caller.actor, Actor::User(_))
    }

    fn initial(row: &AuditRow) -> String {
        let initial = row.entry.caller.actor.name().chars().next();
        initial.map_or_else(String::new, |initial| initial.to_uppercase().to_string())
    }
}
