//! Doing something with many rows of a list at once: those that are ticked.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::routing::{MethodRouter, get};

use crate::admin::action::{Action, Call, Confirm, Subject};
use crate::admin::bare::draw;
use crate::admin::error::{PageError, PageResult};
use crate::admin::frame::Frame;
use crate::admin::security::csrf::Submitted;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::{Flash, print};

/// Selected at once: as many as an address can carry whatever they are called.
const SELECTED_MAX: usize = 100;

/// Of those, the ones that a question names.
const NAMED_MAX: usize = 10;

/// The parameter that names a row.
const OF: &str = "of";

/// A row that can be ticked.
pub(crate) trait Selectable: Subject {
    /// The list.
    const LIST: &'static str;
    /// What one of them is called, and several.
    const NOUN: (&'static str, &'static str);

    /// What a ticked box names.
    fn select(site: &Site, text: &str) -> impl Future<Output = Result<Self, PageError>> + Send;

    fn title(&self) -> String;
}

/// An action for all that are ticked, after a question. Its address is that of the action behind the list's.
pub(crate) struct Bulk<S: 'static> {
    pub(crate) action: &'static Action<S>,
    /// On the button.
    pub(crate) label: &'static str,
    /// Whether it makes a difference to this one.
    pub(crate) changes: fn(&S) -> bool,
    pub(crate) consequence: &'static str,
}

impl<S: Selectable> Bulk<S> {
    /// Its key and what its button says.
    pub(crate) fn offer(&self) -> (&'static str, &'static str) {
        (self.action.key, self.label)
    }

    pub(crate) fn handler(&'static self) -> MethodRouter<Arc<Site>> {
        let ask = move |State(site): State<Arc<Site>>, RawQuery(query), visitor: Visitor| async move {
            self.ask(&site, &visitor, query.as_deref()).await
        };
        let run = move |State(site): State<Arc<Site>>, RawQuery(query), sent: Submitted| async move {
            self.run(&site, &sent, query.as_deref()).await
        };
        get(ask).post(run)
    }

    async fn ask(&self, site: &Site, visitor: &Visitor, query: Option<&str>) -> PageResult {
        let selected = selected::<S>(site, query).await?;
        let (changed, unchanged): (Vec<_>, Vec<_>) =
            selected.iter().partition(|each| (self.changes)(each));
        if selected.is_empty() {
            return visitor
                .leave(Flash::failed("Nothing is selected."), S::LIST)
                .await;
        }
        let verb = self.action.label;
        let mut consequences = Vec::new();
        if !changed.is_empty() {
            consequences.push(format!("{verb} {}.", named(&changed)));
            consequences.push(self.consequence.to_owned());
        }
        if !unchanged.is_empty() {
            let count = counted::<S>(unchanged.len());
            consequences.push(format!("Nothing changes for {count} of the selection."));
        }
        Ok(draw(&Confirm {
            frame: Frame::new(visitor, format!("{verb} {}?", counted::<S>(changed.len()))),
            consequences,
            button: verb,
            dangerous: false,
            back: S::LIST.to_owned(),
            action: visitor.address.clone(),
        }))
    }

    async fn run(&self, site: &Site, sent: &Submitted, query: Option<&str>) -> PageResult {
        let Submitted { visitor, form } = sent;
        let selected = selected::<S>(site, query).await?;
        let mut changed = 0;
        for of in selected.iter().filter(|each| (self.changes)(each)) {
            (self.action.run)(&Call {
                site,
                visitor,
                of,
                form,
            })
            .await?;
            changed += 1;
        }
        let said = format!("{}: {}.", self.action.label, counted::<S>(changed));
        visitor.leave(Flash::done(said), S::LIST).await
    }
}

/// What a query names: `of=orders/billing&of=orders/crm`.
async fn selected<S: Selectable>(site: &Site, query: Option<&str>) -> Result<Vec<S>, PageError> {
    let pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let mut names: Vec<String> = pairs
        .filter(|(name, _)| name == OF)
        .map(|(_, value)| value.into_owned())
        .collect();
    names.sort();
    names.dedup();
    if names.len() > SELECTED_MAX {
        let count = counted::<S>(names.len());
        let problem = format!("{count} are selected; {SELECTED_MAX} at once are possible.");
        return Err(PageError::Unreadable(problem));
    }
    let mut selected = Vec::new();
    for name in &names {
        selected.push(S::select(site, name).await?);
    }
    Ok(selected)
}

/// `orders / billing, orders / crm and 3 more`.
fn named<S: Selectable>(all: &[&S]) -> String {
    let names = all.iter().take(NAMED_MAX).map(|each| each.title());
    let names = names.collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMED_MAX) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

fn counted<S: Selectable>(count: usize) -> String {
    let (one, many) = S::NOUN;
    print::plural(u64::try_from(count).unwrap_or(u64::MAX), one, many)
}
