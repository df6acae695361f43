//! The form that makes and changes event subscriptions, as it is drawn.

use http::StatusCode;
use serde_json::Value;

use crate::admin::bare::draw_with;
use crate::admin::forms::field::{Field, Link, Problem, Section, mark};
use crate::admin::forms::rows::ListElement;
use crate::admin::page::*;
use crate::admin::pages::subscriptions::definition::clauses::{self, ClauseFields};
use crate::admin::pages::subscriptions::definition::{
    self, CLAUSES, Fold, HEADERS, INSPECTORS_ID, KEYS_ID, Layout, SCHEMA, URL,
};
use crate::admin::pages::subscriptions::trial;
use crate::admin::pages::subscriptions::trial::TrialText;
use crate::admin::paths::{subscription_page, topic_page};
use crate::model::destination::{DeliveryMode, EndpointUrl};
use crate::model::filter::SeenKeys;
use crate::model::name::{InspectorName, NAME_CHARACTERS, SUBSCRIPTION_NAME_CHARACTERS};
use crate::model::subscription::EventSubscription;
use crate::model::topic::DeliverySchema;
use crate::store::views::ReadBack;

/// Names the button that has the form drawn again.
pub(crate) const DO: &str = "do";

/// What the button says that tries the filter.
pub(crate) const TRY: &str = "try";

/// Newest events whose keys are suggested, and the bytes of them that are read: enough to see what a topic is
/// about, and read in no time.
const LOOKED_AT: usize = 50;
const LOOKED_AT_BYTES: usize = 256 * 1_024;

const NEW_INSPECTOR: Link = Link {
    href: "/admin/new-inspector",
    text: "create an inspector",
};

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
    filter: Section,
    clauses: ClauseFields,
    /// What the button says that adds a clause; `None` if there is no room for another.
    add_clause: Option<String>,
    keys: Vec<String>,
    /// Receivers inside the appliance, for what is sent to a webhook.
    inspectors: Vec<InspectorName>,
    last: Field,
    trial: Option<TrialText>,
    folds: Vec<DrawnFold>,
    button: &'static str,
    back: String,
}

/// A section that is folded away while nothing in it differs from the default.
struct DrawnFold {
    id: &'static str,
    title: &'static str,
    summary: String,
    differs: bool,
    fields: Vec<Field>,
    /// Custom headers, and what the button says that adds one.
    headers: Option<(Vec<ListElement>, Option<String>)>,
}

impl DrawnFold {
    fn new(fold: &Fold, layout: &Layout, (form, blank): (&Form, &Form), stored: &Value) -> Self {
        let parts = fold.rows.parts.iter();
        let headers = layout.headers().filter(|_| fold.has_headers);
        let headers = headers.map(|path| (HEADERS.elements(form, &path), HEADERS.add(form)));
        let mut names = parts.clone().flat_map(|part| part.names());
        let has_headers = headers.as_ref().is_some_and(|(rows, _)| !rows.is_empty());
        Self {
            id: fold.id,
            title: fold.rows.title,
            summary: fold.summary(form),
            differs: has_headers || names.any(|name| form.text(name) != blank.text(name)),
            fields: fold.rows.fields(form, stored).fields,
            headers,
        }
    }

    /// All of its fields.
    fn fields_mut(&mut self) -> impl Iterator<Item = &mut Field> {
        let rows = self.headers.iter_mut().flat_map(|(rows, _)| rows);
        self.fields
            .iter_mut()
            .chain(rows.flat_map(|row| &mut row.fields))
    }

    fn is_open(&self) -> bool {
        let rows = self.headers.iter().flat_map(|(rows, _)| rows);
        let mut fields = self.fields.iter().chain(rows.flat_map(|row| &row.fields));
        self.differs || fields.any(Field::is_at_fault)
    }
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
        trial: Result<Option<TrialText>, Vec<Refusal>>,
    ) -> Response {
        match trial {
            Ok(trial) => self.draw_with(visitor, trial, Vec::new()),
            Err(refusals) => self.draw_with(visitor, None, refusals),
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
        let layout = Layout::of(self.topic, self.mode);
        let stored = self
            .current
            .map(|current| definition::shown(self.topic, current));
        let stored = stored.unwrap_or_default();
        let blank = definition::blank(self.topic, self.mode);
        let folds = layout.folds.iter();
        let folds = folds.filter(|fold| self.current.is_none() || !fold.only_new);
        let mut folds: Vec<DrawnFold> = folds
            .map(|fold| DrawnFold::new(fold, layout, (self.form, &blank), &stored))
            .collect();
        let fields = folds.iter_mut().flat_map(|fold| &mut fold.fields);
        for schema in fields.filter(|field| field.name() == SCHEMA) {
            schema.offer_only(|name| self.can_deliver(name));
        }
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
            destination: self.destination(layout, &stored),
            filter: layout.filter.fields(self.form, &stored),
            clauses: clauses::fields(self.form, layout.clauses),
            add_clause: CLAUSES.add(self.form),
            keys: self.keys.clone(),
            inspectors: self.inspectors.clone(),
            last: trial::field(self.form),
            trial,
            folds,
            button,
            back,
        }
    }
}

impl Sheet<'_> {
    /// Whether events of the topic can be sent in the schema of that name.
    fn can_deliver(&self, name: &str) -> bool {
        let input = &self.topic.topic.definition.input_schema;
        let schema = DeliverySchema::ALL.into_iter();
        let mut schema = schema.filter(|schema| schema.name() == name);
        schema.all(|schema| schema.can_express(input))
    }

    /// Where events go; a new subscription is named, too.
    fn destination(&self, layout: &Layout, stored: &Value) -> Section {
        let mut section = layout.first.fields(self.form, stored);
        if let Some(at) = section.fields.iter().position(|field| field.name() == URL) {
            let url = section.fields.remove(at);
            section.fields.insert(at, self.endpoint(url));
        }
        if self.current.is_none() {
            let (least, most) = match self.topic.namespace {
                None => SUBSCRIPTION_NAME_CHARACTERS,
                Some(_) => NAME_CHARACTERS,
            }
            .into_inner();
            let name = Field::line("name", "Name", self.form)
                .hint(format!(
                    "{least} to {most} letters, digits and hyphens, such as billing."
                ))
                .mono()
                .required();
            section.fields.insert(0, name);
        }
        section
    }

    /// The field for the URL, with what helps somebody who has no receiver yet.
    fn endpoint(&self, url: Field) -> Field {
        let current = self.current.and_then(|current| {
            let url = current.definition.destination.endpoint_url()?;
            Some(url).filter(|url| url.without_query().is_none())
        });
        if let Some(base) = current.map(EndpointUrl::base) {
            let hint = format!("Leave it empty to keep {base} with whatever its query holds.");
            return url.hint(hint);
        }
        let closed = match self.shuts_out_this_machine {
            true => {
                " Addresses of this machine and of private networks must be allowed first \
                 (--egress-allow 127.0.0.1/32), or use an inspector."
            }
            false => "",
        };
        let url = url.required();
        let look = format!(
            "Absolute, http or https. A key in its query is kept secret.{closed} To look at what arrives \
             before there is a receiver"
        );
        match self.inspectors.is_empty() {
            true => url.hint(format!("{look}:")).leading_to(&NEW_INSPECTOR),
            false => url.hint(format!(
                "{look}, choose one of your inspectors: they are suggested here."
            )),
        }
    }

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
        let clauses: Vec<&mut Field> = match &mut self.clauses {
            ClauseFields::Json(field) => vec![field],
            ClauseFields::Rows(rows) => rows.iter_mut().flat_map(|row| &mut row.fields).collect(),
        };
        let folds = self.folds.iter_mut();
        destination
            .chain(&mut self.filter.fields)
            .chain(clauses)
            .chain([&mut self.last])
            .chain(folds.flat_map(DrawnFold::fields_mut))
    }
}
