//! The form that makes and changes event subscriptions, as it is drawn.

use std::time::Duration;

use askama::Template;
use axum::response::Response;
use http::StatusCode;

use crate::admin::bare::draw_with;
use crate::admin::error::PageError;
use crate::admin::forms::field::{Field, Problem, Section, mark};
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::frame::Frame;
use crate::admin::pages::subscriptions::definition::clauses;
use crate::admin::pages::subscriptions::definition::clauses::ClauseFields;
use crate::admin::pages::subscriptions::definition::destination::INSPECTORS_ID;
use crate::admin::pages::subscriptions::definition::filter::FilterFields;
use crate::admin::pages::subscriptions::definition::{Fold, Sections, Subject};
use crate::admin::pages::subscriptions::trial;
use crate::admin::pages::subscriptions::trial::TrialText;
use crate::admin::paths::{subscription_page, topic_page};
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::model::destination::DeliveryMode;
use crate::model::filter::SeenKeys;
use crate::model::limits::FILTERS_MAX;
use crate::model::name::InspectorName;
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::store::views::ReadBack;

/// Names the button that has the form drawn again.
pub(crate) const DO: &str = "do";

/// What the button says that tries the filter.
pub(crate) const TRY: &str = "try";

/// Newest events whose keys are suggested, and the bytes of them that are read: enough to see what a topic is
/// about, and read in no time.
const LOOKED_AT: usize = 50;
const LOOKED_AT_BYTES: usize = 256 * 1_024;

/// A form, and what it is for.
pub(crate) struct Sheet<'a> {
    topic: &'a TopicEntry,
    mode: DeliveryMode,
    /// What it changes; `None` for a new one.
    current: Option<&'a EventSubscription>,
    form: &'a Form,
    /// What filters could name in the newest events.
    keys: Vec<String>,
    inspectors: Vec<InspectorName>,
    response_deadline: Duration,
    shuts_out_this_machine: bool,
}

#[derive(Template)]
#[template(path = "pages/subscription_form.html")]
struct SubscriptionForm {
    frame: Frame,
    intro: &'static str,
    /// The form for the other mode, and what leads there.
    other: Option<(String, &'static str)>,
    problem: Option<Problem>,
    /// Where it is sent to be saved.
    action: String,
    /// Where it is sent to be drawn again.
    draft: String,
    destination: Section,
    filter: FilterFields,
    keys: Vec<String>,
    /// Receivers inside the appliance, for what is sent to a webhook.
    inspectors: Vec<InspectorName>,
    last: Field,
    trial: Option<TrialText>,
    others: Vec<Fold>,
    button: &'static str,
    back: String,
}

impl<'a> Sheet<'a> {
    /// The form for a subscription of `topic`, or for changing `current`.
    pub(crate) async fn open(
        site: &Site,
        (topic, mode): (&'a TopicEntry, DeliveryMode),
        current: Option<&'a EventSubscription>,
        form: &'a Form,
    ) -> Result<Self, PageError> {
        let inspectors = match mode {
            DeliveryMode::Push => site.views.inspectors().await?,
            DeliveryMode::Queue => Vec::new(),
        };
        Ok(Self {
            topic,
            mode,
            current,
            form,
            keys: seen_keys(site, topic).await?,
            inspectors: inspectors.into_iter().map(|each| each.name).collect(),
            response_deadline: site.broker.options().response_deadline,
            shuts_out_this_machine: site.egress.shuts_out_this_machine(),
        })
    }

    /// The page with what is wrong in it, if it was refused.
    pub(crate) fn draw(&self, visitor: &Visitor, refusals: Vec<Refusal>) -> Response {
        self.draw_with(visitor, None, refusals)
    }

    /// The page again, with what a trial of its filter has come to, if there was one.
    pub(crate) fn draw_again(
        &self,
        visitor: &Visitor,
        trial: Result<Option<TrialText>, Refusal>,
    ) -> Response {
        match trial {
            Ok(trial) => self.draw_with(visitor, trial, Vec::new()),
            Err(refusal) => self.draw_with(visitor, None, vec![refusal]),
        }
    }

    fn draw_with(
        &self,
        visitor: &Visitor,
        trial: Option<TrialText>,
        refusals: Vec<Refusal>,
    ) -> Response {
        let mut page = self.page(visitor, trial);
        page.problem = mark(page.fields(), refusals);
        let status = match page.problem {
            None => StatusCode::OK,
            Some(_) => StatusCode::UNPROCESSABLE_ENTITY,
        };
        draw_with(status, &page)
    }

    fn page(&self, visitor: &Visitor, trial: Option<TrialText>) -> SubscriptionForm {
        let of = self.topic.topic.name.as_str();
        let subject = Subject {
            topic: self.topic,
            mode: self.mode,
            current: self.current.map(|current| &current.definition),
            response_deadline: self.response_deadline,
            has_inspectors: !self.inspectors.is_empty(),
            shuts_out_this_machine: self.shuts_out_this_machine,
        };
        let sections = Sections::new(self.form, &subject);
        let (title, path, button, back) = match self.current {
            None => (
                match self.mode {
                    DeliveryMode::Push => format!("New event subscription of {of}"),
                    DeliveryMode::Queue => format!("New pull subscription of {of}"),
                },
                new_page(of),
                "Create event subscription",
                topic_page(of),
            ),
            Some(EventSubscription { name, .. }) => {
                let page = subscription_page(of, name.as_str());
                (
                    format!("Edit event subscription {name}"),
                    format!("{page}/edit"),
                    "Save changes",
                    page,
                )
            }
        };
        let query = match (self.current, self.mode) {
            (None, DeliveryMode::Queue) => mode_query(self.mode),
            (None, DeliveryMode::Push) | (Some(_), _) => String::new(),
        };
        SubscriptionForm {
            frame: Frame::new(visitor, title),
            intro: self.intro(),
            other: self.other(),
            problem: None,
            draft: format!("{path}/draft{query}"),
            action: format!("{path}{query}"),
            destination: sections.destination,
            filter: sections.filter,
            keys: self.keys.clone(),
            inspectors: self.inspectors.clone(),
            last: trial::field(self.form),
            trial,
            others: sections.others,
            button,
            back,
        }
    }
}

impl Sheet<'_> {
    fn intro(&self) -> &'static str {
        let is_in_namespace = self.topic.namespace.is_some();
        match (self.current.is_some(), self.mode, is_in_namespace) {
            (false, DeliveryMode::Push, false) => {
                "It sends the events of the topic that pass its filter to a webhook. The webhook is \
                 asked first whether it wants them."
            }
            (false, DeliveryMode::Push, true) => {
                "It sends the events of the topic that pass its filter to a webhook. The webhook is \
                 asked now whether it wants them; unless it agrees, nothing is made."
            }
            (false, DeliveryMode::Queue, _) => {
                "It keeps the events of the topic that pass its filter until receivers come for them \
                 and say that they are done."
            }
            (true, DeliveryMode::Push, false) => {
                match self
                    .current
                    .is_some_and(|each| each.validation.validated_once)
                {
                    true => {
                        "A changed destination is asked again whether it wants events. What is \
                         queued, and what is published until it agrees, waits for its answer."
                    }
                    false => {
                        "A changed destination is asked again whether it wants events. What is \
                         published before it agrees is never delivered to it."
                    }
                }
            }
            (true, DeliveryMode::Push, true) => {
                "A changed destination is asked now whether it wants events; unless it agrees, \
                 nothing is changed."
            }
            (true, DeliveryMode::Queue, _) => {
                "What is changed holds from the next event that is received on."
            }
        }
    }

    /// A new subscription of a namespace topic may be meant to be of the other mode.
    fn other(&self) -> Option<(String, &'static str)> {
        let is_open = self.current.is_none() && self.topic.namespace.is_some();
        let (mode, text) = match self.mode {
            DeliveryMode::Push => (DeliveryMode::Queue, "Let receivers come for them instead"),
            DeliveryMode::Queue => (DeliveryMode::Push, "Send them to a webhook instead"),
        };
        let page = new_page(self.topic.topic.name.as_str());
        is_open.then(|| (format!("{page}{}", mode_query(mode)), text))
    }
}

fn new_page(topic: &str) -> String {
    format!("{}/new-subscription", topic_page(topic))
}

fn mode_query(mode: DeliveryMode) -> String {
    format!("?deliveryMode={}", mode.name())
}

/// The keys of the newest events of `topic`.
async fn seen_keys(site: &Site, topic: &TopicEntry) -> Result<Vec<String>, PageError> {
    let batch = ReadBack {
        topic: topic.topic.id,
        before: None,
        limit: LOOKED_AT,
        bytes_max: LOOKED_AT_BYTES,
    };
    let page = site.views.read_back(batch).await?;
    let mut seen = SeenKeys::default();
    for stored in &page.rows {
        seen.add(&topic.view(&stored.event));
    }
    Ok(seen.into_keys().collect())
}

impl SubscriptionForm {
    fn fields(&mut self) -> impl Iterator<Item = &mut Field> {
        let destination = self.destination.fields.iter_mut();
        let filter = &mut self.filter;
        let clauses: Vec<&mut Field> = match &mut filter.clauses {
            ClauseFields::Json(field) => vec![field],
            ClauseFields::Rows(rows) => rows.iter_mut().flat_map(|row| &mut row.fields).collect(),
        };
        let others = self.others.iter_mut();
        let others = others.flat_map(Fold::fields_mut);
        destination
            .chain(&mut filter.basic)
            .chain(clauses)
            .chain(&mut filter.on_arrays)
            .chain([&mut self.last])
            .chain(others)
    }

    /// The number of the clause that a button adds; `None` if there is no room for another.
    fn next_clause(&self) -> Option<usize> {
        match &self.filter.clauses {
            ClauseFields::Rows(rows) if rows.len() < FILTERS_MAX => Some(rows.len() + 1),
            ClauseFields::Rows(_) | ClauseFields::Json(_) => None,
        }
    }
}
