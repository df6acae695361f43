//! The form that makes and changes event subscriptions.

use serde::Deserialize;

use crate::admin::forms::form::both;
use crate::admin::forms::sheet::named;
use crate::admin::page::*;
use crate::admin::pages::subscriptions::definition::clauses;
use crate::admin::pages::subscriptions::definition::{CLAUSES, Draft, HEADERS, Kind, URL};
use crate::admin::pages::subscriptions::signing;
use crate::admin::pages::subscriptions::trial::{self, TrialText};
use crate::admin::pages::url_trial::denied_words;
use crate::admin::paths::{subscription_page, topic_page};
use crate::broker::ManageError;
use crate::model::destination::DeliveryMode;
use crate::model::filter::{Operator, SeenKeys, Takes};
use crate::model::name::{
    InspectorName, NAME_CHARACTERS, SUBSCRIPTION_NAME_CHARACTERS, SubscriptionName,
};
use crate::model::subscription::{EventSubscription, ValidationState};
use crate::model::topic::DeliverySchema;
use crate::outbound::evaluate::EgressVerdict;
use crate::store::views::ReadBack;
use crate::wire::resource::SubscriptionContext;

/// Newest events whose keys are suggested, and the bytes of them that are read: enough to see what a topic is
/// about, and read in no time.
const LOOKED_AT: usize = 50;
const LOOKED_AT_BYTES: usize = 256 * 1_024;

/// Operators of clauses, by what they take.
const OPERATORS: [(&str, &[Takes]); 4] = [
    ("Text", &[Takes::Texts]),
    ("Number", &[Takes::Number, Takes::Numbers, Takes::Ranges]),
    ("True or false", &[Takes::Bool]),
    ("There or not", &[Takes::Nothing]),
];

/// The part of an address that chooses how a new subscription of a namespace topic delivers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ModeChoice {
    #[serde(rename = "deliveryMode")]
    delivery_mode: String,
}

/// What the form is for: a new subscription of a topic, or a change of one.
pub(crate) struct Target {
    topic: Arc<TopicEntry>,
    current: Option<Arc<EventSubscription>>,
}

impl Subject for Target {
    async fn find(site: &Site, names: &Names) -> Result<Self, PageError> {
        let topic = name_of(names, "topic");
        let (topic, current) = match names.get("name") {
            None => (site.topic(topic)?, None),
            Some(name) => {
                let (topic, current) = site.subscription(topic, name)?;
                (topic, Some(current))
            }
        };
        Ok(Self { topic, current })
    }

    fn page(&self) -> String {
        let topic = self.topic.topic.name.as_str();
        match &self.current {
            None => topic_page(topic),
            Some(current) => subscription_page(topic, current.name.as_str()),
        }
    }
}

#[derive(Template)]
#[template(path = "pages/subscription_form.html")]
struct SubscriptionForm<'a> {
    frame: Frame,
    form: Draft,
    topic: &'a TopicEntry,
    current: Option<&'a EventSubscription>,
    /// What filters could name in the newest events.
    keys: Vec<String>,
    /// Receivers inside the appliance, for what is sent to a webhook.
    inspectors: Vec<InspectorName>,
    shuts_out_this_machine: bool,
    trial: Option<TrialText>,
    /// Its own address.
    page: String,
    /// Where it is sent to be saved, and to be drawn again.
    action: String,
    draft: String,
    button: &'static str,
    back: String,
}

impl SubscriptionForm<'_> {
    fn name_hint(&self) -> String {
        let range = match self.topic.namespace {
            None => SUBSCRIPTION_NAME_CHARACTERS,
            Some(_) => NAME_CHARACTERS,
        };
        let (least, most) = range.into_inner();
        format!("{least} to {most} letters, digits and hyphens, such as billing.")
    }
}

impl Target {
    /// The form before anybody has sent it.
    fn draft(&self, ModeChoice { delivery_mode }: &ModeChoice) -> Draft {
        if let Some(current) = &self.current {
            return Draft::of(&self.topic, current);
        }
        let mut modes = DeliveryMode::ALL.into_iter();
        let chosen = modes.find(|mode| mode.name() == delivery_mode);
        Draft::new(
            &self.topic,
            Kind::of(&self.topic, chosen.unwrap_or(DeliveryMode::Push)),
        )
    }
}

async fn draw_form(call: &Call<Target>, form: Draft, trial: Option<TrialText>) -> PageResult {
    let Target { topic, current } = &call.of;
    let of = &topic.topic.name;
    let inspectors = match form.kind.is_pushed() {
        true => call.views.inspectors().await?,
        false => Vec::new(),
    };
    let back = call.of.page();
    let (title, page, button) = match (current, form.kind) {
        (Some(current), _) => (
            format!("Edit event subscription {}", current.name),
            format!("{back}/edit"),
            "Save changes",
        ),
        (None, kind) => (
            match kind {
                Kind::Queue => format!("New pull subscription of {of}"),
                Kind::Custom | Kind::Push => format!("New event subscription of {of}"),
            },
            format!("{back}/new-subscription"),
            "Create event subscription",
        ),
    };
    let query = match (current, form.kind) {
        (None, Kind::Queue) => "?deliveryMode=Queue",
        _ => "",
    };
    let page = SubscriptionForm {
        frame: Frame::new(&call.visitor, title),
        topic,
        current: current.as_deref(),
        keys: seen_keys(call, topic).await?,
        inspectors: inspectors.into_iter().map(|each| each.name).collect(),
        shuts_out_this_machine: call.egress.shuts_out_this_machine(),
        trial,
        action: format!("{page}{query}"),
        draft: format!("{page}/draft{query}"),
        page,
        button,
        back,
        form,
    };
    Ok(draw_with(page.form.status(), &page))
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

/// The form for a new subscription, or with the present definition in it.
pub(crate) async fn open(Query(choice): Query<ModeChoice>, call: Call<Target>) -> PageResult {
    draw_form(&call, call.of.draft(&choice), None).await
}

/// The form again, as one of its buttons wants it. Nothing is saved by it, and what was typed stays.
pub(crate) async fn redraw(Query(choice): Query<ModeChoice>, call: Call<Target>) -> PageResult {
    let mut form = call.form.clone();
    let button = form.text("do").to_owned();
    let pressed = match HEADERS.press(&button, &mut form) {
        Some(()) => Some(Ok(())),
        None => clauses::press(&button, &mut form),
    };
    let draft = call.of.draft(&choice).sent(form);
    let (trial, refusals) = match pressed {
        Some(done) => (None, done.err().into_iter().collect()),
        None if button == "try" => {
            let current = call.of.current.as_deref();
            match trial::try_typed(&call, &call.of.topic, current, &draft).await? {
                Ok(trial) => (Some(trial), Vec::new()),
                Err(refusals) => (None, refusals),
            }
        }
        None => {
            let problem = format!("The form has no button {button:?}.");
            return Err(PageError::Unreadable(problem));
        }
    };
    draw_form(&call, draft.with_faults(refusals), trial).await
}

/// Makes the subscription, or changes it.
pub(crate) async fn save(Query(choice): Query<ModeChoice>, call: Call<Target>) -> PageResult {
    let mut signed = call.form.clone();
    let secret = match call.of.current {
        None => signing::make_first(&call, &mut signed),
        Some(_) => None,
    };
    let draft = call.of.draft(&choice).sent(signed);
    match (put(&call, &draft).await, secret) {
        (Ok(saved), Some(secret)) => {
            let topic = &call.of.topic;
            Ok(signing::show_once(&call.visitor, topic, &saved, &secret))
        }
        (Ok(saved), None) => tell(&call, &saved).await,
        (Err(fault), _) => {
            let refusals = fault.refusals(&draft)?;
            let draft = draft.sent(call.form.clone()).with_faults(refusals);
            draw_form(&call, draft, None).await
        }
    }
}

/// Why nothing is saved.
enum Fault {
    Form(Vec<Refusal>),
    Manage(ManageError),
}

impl From<ManageError> for Fault {
    fn from(error: ManageError) -> Self {
        Self::Manage(error)
    }
}

impl Fault {
    /// What the form can tell apart from what ends in an error page.
    fn refusals(self, draft: &Draft) -> Result<Vec<Refusal>, PageError> {
        match self {
            Self::Form(refusals) => Ok(refusals),
            Self::Manage(error @ ManageError::TooManySubscriptions(_)) => {
                Ok(vec![Refusal::whole(sentence(&error.to_string()))])
            }
            Self::Manage(error @ ManageError::NotValidated { .. }) => Ok(vec![Refusal::of(
                &draft.path(URL),
                sentence(&error.to_string()),
            )]),
            Self::Manage(error) => Err(error.into()),
        }
    }
}

async fn put(call: &Call<Target>, draft: &Draft) -> Result<Arc<EventSubscription>, Fault> {
    let Target { topic, current } = &call.of;
    let (now, https) = (call.visitor.now, call.egress.require_https);
    let (by, of) = (call.by(), &topic.topic.name);
    let (_, subscription) = match current {
        Some(current) => {
            let change = |topic: &TopicEntry, current: &EventSubscription| {
                let context = SubscriptionContext::of(topic, now, https);
                let changed = draft.define(Some(&current.definition), &context);
                changed.map_err(Fault::Form)
            };
            let name = current.name.clone();
            call.broker.patch_subscription(by, of, name, change).await?
        }
        None => {
            let parse = match topic.namespace {
                None => SubscriptionName::parse,
                Some(_) => SubscriptionName::of_namespace_topic,
            };
            let is_taken = |name: &SubscriptionName| topic.subscription(name).is_some();
            let typed = draft.form.text("name");
            let name = named(typed, "an event subscription", parse, is_taken);
            let defined = draft.define(None, &SubscriptionContext::of(topic, now, https));
            let (name, definition) = both(name, defined).map_err(Fault::Form)?;
            call.broker
                .put_subscription(by, of, name, definition)
                .await?
        }
    };
    Ok(subscription)
}

/// Leads to what was saved, and says whether its webhook agrees and may be called.
async fn tell(call: &Call<Target>, saved: &EventSubscription) -> PageResult {
    let what = if call.of.current.is_some() {
        "changed"
    } else {
        "created"
    };
    let done = format!("Event subscription {} has been {what}", saved.name);
    let flash = match (saved.validation.state, blocked(call, saved).await) {
        // The page tells why.
        (ValidationState::Failed, Some(_)) => Flash::failed(format!(
            "{done}, but its webhook cannot be called yet. The reason is below."
        )),
        (_, Some(why)) => Flash::failed(format!(
            "{done}, but its webhook cannot be called yet: {why}"
        )),
        (ValidationState::Failed, None) => Flash::failed(format!(
            "{done}, but validation failed. The reason is below."
        )),
        (ValidationState::Succeeded, None) => Flash::done(format!("{done}.")),
        (
            ValidationState::Creating
            | ValidationState::Updating
            | ValidationState::AwaitingManualAction,
            None,
        ) => Flash::done(format!(
            "{done}. Its webhook has been asked whether it wants events."
        )),
    };
    let page = subscription_page(call.of.topic.topic.name.as_str(), saved.name.as_str());
    call.visitor.leave(flash, &page).await
}

/// Why the webhook of `saved` may not be called; `None` if it may, or is the one that it was before.
async fn blocked(call: &Call<Target>, saved: &EventSubscription) -> Option<String> {
    let destination = &saved.definition.destination;
    let before = call
        .of
        .current
        .as_ref()
        .map(|current| &current.definition.destination);
    if before.is_some_and(|before| before.is_same_receiver(destination)) {
        return None;
    }
    match call
        .broker
        .evaluate_url(destination.endpoint_url()?.reveal())
        .await
    {
        EgressVerdict::Denied(denied) => Some(denied_words(&denied)),
        EgressVerdict::Allowed(_) | EgressVerdict::Inside | EgressVerdict::Unresolved(_) => None,
    }
}
