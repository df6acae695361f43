//! The page of what anybody has changed.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::Value;
use time::macros::format_description;
use time::{Date, PrimitiveDateTime, Time};

use crate::admin::bare::draw;
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::field::Field;
use crate::admin::forms::form::Form;
use crate::admin::frame::Frame;
use crate::admin::lists::filter_form::FilterForm;
use crate::admin::lists::recipe::Recipe;
use crate::admin::lists::{Pager, link};
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::print;
use crate::admin::widgets::{Empty, Moment};
use crate::base::Timestamp;
use crate::model::audit::{AuditId, AuditRow};
use crate::store::audit::AuditQuery;

/// The list.
const PATH: &str = "/admin/activity";

/// Entries of one page.
const SHOWN: usize = 50;

/// What the URL asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    actor: String,
    action: String,
    #[serde(rename = "targetKind")]
    target_kind: String,
    target: String,
    from: String,
    to: String,
    before: Option<i64>,
}

#[derive(Template)]
#[template(path = "admin/activity.html")]
struct ActivityPage {
    frame: Frame,
    filters: FilterForm,
    rows: Vec<Row>,
    empty: Empty,
    pager: Pager,
    recipe: Recipe,
}

struct Row {
    at: Moment,
    who: String,
    address: String,
    /// What was done.
    sentence: String,
    changes: Vec<ChangeText>,
}

struct ChangeText {
    property: String,
    before: String,
    after: String,
}

/// What has been changed, newest first.
pub(crate) async fn list(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(asked): Query<Asked>,
) -> PageResult {
    let page = site.views.audit(asked.query()?).await?;
    let filters = asked.filters();
    let is_filtered = filters.iter().any(|(_, value)| !value.is_empty());
    let next = page.next_before.map(|id| id.0.to_string());
    let url = link("/everpost/audit", &asked.api_filters()?);
    Ok(draw(&ActivityPage {
        frame: Frame::new(&visitor, "Activity"),
        filters: FilterForm::new(PATH, asked.fields(), &filters),
        rows: page.rows.iter().map(Row::new).collect(),
        empty: Empty {
            text: match is_filtered {
                true => "Nothing fits.",
                false => "Nothing has been changed yet.",
            },
            step: None,
        },
        pager: Pager::new(PATH, &filters, asked.before.is_some(), next),
        recipe: Recipe::get(&site.management_url(&url)).everpost(asked.command()),
    }))
}

impl Asked {
    fn query(&self) -> Result<AuditQuery, PageError> {
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        Ok(AuditQuery {
            actor: given(&self.actor),
            action: given(&self.action),
            target_kind: given(&self.target_kind),
            target: given(&self.target),
            from: moment("From", &self.from)?,
            to: moment("To", &self.to)?,
            before: self.before.map(AuditId),
            limit: SHOWN,
        })
    }

    fn filters(&self) -> [(&'static str, String); 6] {
        [
            ("actor", self.actor.clone()),
            ("action", self.action.clone()),
            ("targetKind", self.target_kind.clone()),
            ("target", self.target.clone()),
            ("from", self.from.clone()),
            ("to", self.to.clone()),
        ]
    }

    /// The same for the API, whose moments are written out.
    fn api_filters(&self) -> Result<[(&'static str, String); 6], PageError> {
        let query = self.query()?;
        let text = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
        Ok([
            ("actor", query.actor.unwrap_or_default()),
            ("action", query.action.unwrap_or_default()),
            ("targetKind", query.target_kind.unwrap_or_default()),
            ("target", query.target.unwrap_or_default()),
            ("from", text(query.from)),
            ("to", text(query.to)),
        ])
    }

    fn command(&self) -> String {
        let filters = self.api_filters().unwrap_or_default();
        let flags = filters.iter().filter(|(_, value)| !value.is_empty());
        let flags = flags.map(|(name, value)| {
            format!(" --{name} {}", crate::admin::lists::recipe::quoted(value))
        });
        format!("everpost audit{}", flags.collect::<String>())
    }

    fn fields(&self) -> Vec<Field> {
        let form = Form::of(self.filters());
        vec![
            Field::line("actor", "Who", &form),
            Field::line("target", "Target", &form)
                .hint("Its name, such as orders or orders/billing."),
            Field::line("action", "Action", &form).hint("Such as Create or Delete."),
            Field::line("targetKind", "Kind of target", &form).hint("Such as Topic or User."),
            Field::moment("from", "From", &form),
            Field::moment("to", "To", &form),
        ]
    }
}

/// As browsers write moments, in UTC.
fn moment(label: &str, text: &str) -> Result<Option<Timestamp>, PageError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let to_minute = format_description!("[year]-[month]-[day]T[hour]:[minute]");
    let to_second = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
    let day = format_description!("[year]-[month]-[day]");
    let parsed = PrimitiveDateTime::parse(text, &to_minute)
        .or_else(|_| PrimitiveDateTime::parse(text, &to_second))
        .or_else(|_| Date::parse(text, &day).map(|day| day.with_time(Time::MIDNIGHT)));
    let at = parsed.map_err(|_| {
        PageError::Unreadable(format!(
            "{label} must be a date or a moment, as in 2026-11-21T06:40, not {text:?}."
        ))
    })?;
    Ok(Some(Timestamp::from_utc(at.assume_utc())))
}

impl Row {
    fn new(row: &AuditRow) -> Self {
        let entry = &row.entry;
        let changes = entry.action.changes().iter().map(|change| ChangeText {
            property: change.property.clone(),
            before: shown(&change.before),
            after: shown(&change.after),
        });
        let address = entry.caller.address;
        Self {
            at: Moment::at(entry.caller.at),
            who: entry.caller.actor.to_string(),
            address: address.map_or_else(String::new, |address| address.to_string()),
            sentence: print::visible(&entry.describe()),
            changes: changes.collect(),
        }
    }
}

/// A value as people read it: nothing for what there was not.
fn shown(value: &Value) -> String {
    match value.is_null() {
        true => "–".to_owned(),
        false => print::visible(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_browsers_write_them() {
        for (text, expected) in [
            ("2026-11-21T06:40", "2026-11-21T06:40:00.000Z"),
            ("2026-11-21T06:40:53", "2026-11-21T06:40:53.000Z"),
            ("2026-11-21", "2026-11-21T00:00:00.000Z"),
        ] {
            let at = moment("From", text).expect("a moment").expect("given");
            assert_eq!(at.to_string(), expected);
        }
        assert_eq!(moment("From", " ").expect("nothing"), None);
        assert!(moment("From", "yesterday").is_err());
    }
}
