//! Pausing and resuming many event subscriptions at once: those that were marked in the list.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Redirect};

use crate::admin::bare::draw;
use crate::admin::error::{PageError, PageResult};
use crate::admin::frame::Frame;
use crate::admin::pages::confirm::Confirm;
use crate::admin::pages::subscriptions::list;
use crate::admin::security::csrf::Submitted;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::Flash;
use crate::admin::widgets::print;
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;

/// Marked at once: as many as an address can carry whatever they are called.
pub(crate) const MARKED_MAX: usize = 100;

/// Where the question is, and the answer goes.
pub(crate) const PAUSE: &str = "/admin/subscriptions/pause";
const RESUME: &str = "/admin/subscriptions/resume";

type Subscription = (Arc<TopicEntry>, Arc<EventSubscription>);

/// What is done with the marked ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bulk {
    Pause,
    Resume,
}

/// Shows how many would be paused, and asks.
pub(crate) async fn ask_to_pause(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    RawQuery(query): RawQuery,
) -> PageResult {
    ask(&site, &visitor, Bulk::Pause, query.as_deref()).await
}

/// Shows how many would be resumed, and asks.
pub(crate) async fn ask_to_resume(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    RawQuery(query): RawQuery,
) -> PageResult {
    ask(&site, &visitor, Bulk::Resume, query.as_deref()).await
}

/// Pauses the marked ones.
pub(crate) async fn pause_all(
    State(site): State<Arc<Site>>,
    RawQuery(query): RawQuery,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    carry_out(&site, &visitor, Bulk::Pause, query.as_deref()).await
}

/// Resumes the marked ones.
pub(crate) async fn resume_all(
    State(site): State<Arc<Site>>,
    RawQuery(query): RawQuery,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    carry_out(&site, &visitor, Bulk::Resume, query.as_deref()).await
}

async fn ask(site: &Site, visitor: &Visitor, bulk: Bulk, query: Option<&str>) -> PageResult {
    let marked = marked(site, query)?;
    if marked.is_empty() {
        let told = "No event subscription is ticked. Tick those that you mean.";
        visitor.tell(Flash::refused(told)).await?;
        return Ok(Redirect::to(list::PATH).into_response());
    }
    let touched = marked.iter().filter(|(_, each)| bulk.changes(each));
    let names: Vec<String> = touched.map(|(topic, each)| title(topic, each)).collect();
    let unchanged = marked.len() - names.len();
    let mut consequences = vec![bulk.consequence(names.len())];
    if unchanged > 0 {
        consequences.push(bulk.unchanged(unchanged));
    }
    if !names.is_empty() {
        consequences.push(format!("{}.", names.join(", ")));
    }
    Ok(draw(&Confirm {
        frame: Frame::new(visitor, bulk.question()),
        consequences,
        button: bulk.button(),
        dangerous: false,
        back: list::PATH.to_owned(),
        action: format!("{}?{}", bulk.path(), query.unwrap_or_default()),
    }))
}

async fn carry_out(site: &Site, visitor: &Visitor, bulk: Bulk, query: Option<&str>) -> PageResult {
    let mut changed = 0;
    let marked = marked(site, query)?;
    for (topic, each) in marked.iter().filter(|(_, each)| bulk.changes(each)) {
        let (by, topic, name) = (&visitor.caller, &topic.topic.name, &each.name);
        match bulk {
            Bulk::Pause => site.broker.pause_subscription(by, topic, name).await?,
            Bulk::Resume => site.broker.resume_subscription(by, topic, name).await?,
        };
        changed += 1;
    }
    visitor.tell(Flash::done(bulk.done(changed))).await?;
    Ok(Redirect::to(list::PATH).into_response())
}

/// The subscriptions that a query names: `of=orders/billing&of=orders/crm`.
fn marked(site: &Site, query: Option<&str>) -> Result<Vec<Subscription>, PageError> {
    let pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let mut names: Vec<String> = pairs
        .filter(|(name, _)| name == "of")
        .map(|(_, value)| value.into_owned())
        .collect();
    names.sort();
    names.dedup();
    if names.len() > MARKED_MAX {
        return Err(PageError::Unreadable(format!(
            "{} event subscriptions are ticked; {MARKED_MAX} at once are possible.",
            names.len()
        )));
    }
    names.iter().map(|name| named(site, name)).collect()
}

fn named(site: &Site, name: &str) -> Result<Subscription, PageError> {
    let missing = || PageError::NotFound(format!("event subscription {name}"));
    let (topic, name) = name.rsplit_once('/').ok_or_else(missing)?;
    site.subscription(topic, name)
}

fn title(topic: &TopicEntry, each: &EventSubscription) -> String {
    format!("{} / {}", topic.topic.name, each.name)
}

impl Bulk {
    /// Whether it makes a difference to this one.
    fn changes(self, each: &EventSubscription) -> bool {
        let definition = &each.definition;
        let is_stopped = definition.paused || definition.disabled.is_some();
        match self {
            Self::Pause => !definition.paused,
            Self::Resume => is_stopped,
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Pause => PAUSE,
            Self::Resume => RESUME,
        }
    }

    fn question(self) -> &'static str {
        match self {
            Self::Pause => "Pause event subscriptions?",
            Self::Resume => "Resume event subscriptions?",
        }
    }

    fn button(self) -> &'static str {
        match self {
            Self::Pause => "Pause them",
            Self::Resume => "Resume them",
        }
    }

    fn consequence(self, count: usize) -> String {
        let many = plural(count);
        match self {
            Self::Pause => format!(
                "{many} would be paused. Their events wait, and their time to live goes on."
            ),
            Self::Resume => format!("{many} would be resumed, and what waits would be delivered."),
        }
    }

    fn unchanged(self, count: usize) -> String {
        let many = plural(count);
        match self {
            Self::Pause => format!("{many} of the ticked ones would stay paused."),
            Self::Resume => format!("{many} of the ticked ones would go on as before."),
        }
    }

    fn done(self, count: usize) -> String {
        let many = plural(count);
        match self {
            Self::Pause => format!("{many} paused."),
            Self::Resume => format!("{many} resumed."),
        }
    }
}

fn plural(count: usize) -> String {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    print::plural(count, "event subscription", "event subscriptions")
}
