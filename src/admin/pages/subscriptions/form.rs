//! The form that creates and changes event subscriptions.

use std::sync::Arc;

use axum::extract::Query;

use super::{
    CLAUSES, DefinitionKind, HEADERS, Subscription, SubscriptionDraft, TrialText, clauses,
    make_first, named, show_once, trial,
};
use crate::admin::action::{Call, Names, Subject, name_of};
use crate::admin::error::{PageError, PageResult};
use crate::admin::pages::answer;
use crate::admin::pages::url_trial::denied_words;
use crate::admin::paths;
use crate::admin::site::Site;
use crate::admin::widgets::{Flash, filters};
use crate::model::destination::DeliveryMode;
use crate::model::filter::{Operator, SeenKeys, Takes};
use crate::model::name::{
    InspectorName, NAME_CHARACTERS, SUBSCRIPTION_NAME_CHARACTERS, SubscriptionName,
};
use crate::model::registry::TopicEntry;
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

/// The purpose of the form: a new subscription of a topic, or a change of an existing one.
#[derive(Clone)]
pub(crate) struct Editing {
    pub(super) topic: Arc<TopicEntry>,
    pub(super) current: Option<Arc<EventSubscription>>,
}

impl Subject for Editing {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        let topic = site.topic(name_of(names, "topic"))?;
        let current = if names.contains_key("name") {
            Some(Subscription::find(site, names).await?.subscription)
        } else {
            None
        };
        Ok(Self { topic, current })
    }

    fn page(&self) -> String {
        let topic = self.topic.topic.name.as_str();
        match &self.current {
            None => paths::topic_page(topic),
            Some(current) => paths::subscription_page(topic, current.name.as_str()),
        }
    }
}

impl Editing {
    /// Returns the address that saves the form, or with `/draft` the address that redraws it.
    fn address(&self, kind: DefinitionKind, end: &str) -> String {
        let page = self.page();
        match (&self.current, kind) {
            (Some(_), _) => format!("{page}/edit{end}"),
            (None, DefinitionKind::Queue) => {
                format!("{page}/new-subscription{end}?deliveryMode=Queue")
            }
            (None, DefinitionKind::Custom | DefinitionKind::Push) => {
                format!("{page}/new-subscription{end}")
            }
        }
    }

    /// Returns the initial form. For a new subscription of a namespace topic, the address selects the delivery mode.
    fn draft(&self, asked: &Names) -> SubscriptionDraft {
        let current = self.current.as_deref();
        let mode = match (current, name_of(asked, "deliveryMode")) {
            (Some(current), _) => current.definition.destination.delivery_mode(),
            (None, "Queue") => DeliveryMode::Queue,
            (None, _) => DeliveryMode::Push,
        };
        SubscriptionDraft::of(&self.topic, DefinitionKind::of(&self.topic, mode), current)
    }
}

async fn draw_form(
    call: &Call<Editing>,
    form: SubscriptionDraft,
    trial: Option<TrialText>,
) -> PageResult {
    let (topic, of) = (&call.of.topic, &call.of.topic.topic.name);
    let inspectors = if form.kind.is_pushed() {
        call.views.inspectors().await?
    } else {
        Vec::new()
    };
    let title = match (&call.of.current, form.kind) {
        (Some(current), _) => format!("Edit event subscription {}", current.name),
        (None, DefinitionKind::Queue) => format!("New pull subscription of {of}"),
        (None, DefinitionKind::Push) => format!("New push subscription of {of}"),
        (None, DefinitionKind::Custom) => format!("New event subscription of {of}"),
    };
    answer!("pages/subscription_form.html", &call.visitor, title, {
        of: Editing = call.of.clone(),
        // Keys in the newest events that filters could use.
        keys: Vec<String> = seen_keys(call, topic).await?,
        inspectors: Vec<InspectorName> = inspectors.into_iter().map(|each| each.name).collect(),
        shuts_out_this_machine: bool = call.broker.options().egress.shuts_out_this_machine(),
        trial: Option<TrialText> = trial,
        form: SubscriptionDraft = form,
    }, form)
}

async fn seen_keys(site: &Site, topic: &TopicEntry) -> PageResult<Vec<String>> {
    let batch = ReadBack {
        topic: topic.topic.id,
        before: None,
        limit: LOOKED_AT,
        bytes_max: LOOKED_AT_BYTES,
    };
    let page = site.views.read_back(batch).await?;
    let mut seen = SeenKeys::default();
    let events = page.rows.iter();
    events.for_each(|stored| seen.add(&topic.view(&stored.event)));
    Ok(seen.into_keys().collect())
}

/// Shows the form for a new subscription, or the form with the present definition.
pub(crate) async fn open(Query(asked): Query<Names>, call: Call<Editing>) -> PageResult {
    draw_form(&call, call.of.draft(&asked), None).await
}

/// Redraws the form after one of its buttons was pressed. Saves nothing and keeps the typed values.
pub(crate) async fn redraw(Query(asked): Query<Names>, call: Call<Editing>) -> PageResult {
    let mut form = call.form.clone();
    let button = form.text("do").to_owned();
    let pressed = match HEADERS.press(&button, &mut form) {
        Some(()) => Some(Ok(())),
        None => clauses::press(&button, &mut form),
    };
    let draft = call.of.draft(&asked).sent(form);
    let tried = match pressed {
        Some(done) => done.map(|()| None).map_err(PageError::from),
        None if button == "try" => trial::try_typed(&call, &draft).await.map(Some),
        None => Err(PageError::Unreadable(format!(
            "The form has no button {button:?}."
        ))),
    };
    match tried {
        Ok(trial) => draw_form(&call, draft, trial).await,
        Err(error) => draw_form(&call, draft.with_faults(error.in_form()?), None).await,
    }
}

pub(crate) async fn save(Query(asked): Query<Names>, call: Call<Editing>) -> PageResult {
    let mut signed = call.form.clone();
    let secret = match call.of.current {
        None => make_first(&call, &mut signed),
        Some(_) => None,
    };
    let draft = call.of.draft(&asked).sent(signed);
    match (put(&call, &draft).await, secret) {
        (Ok(saved), Some(secret)) => show_once(&call.visitor, &saved, &secret),
        (Ok(saved), None) => tell(&call, &saved).await,
        (Err(error), _) => {
            let faults = error.in_form()?;
            let faulty_draft = draft.sent(call.form.clone()).with_faults(faults);
            draw_form(&call, faulty_draft, None).await
        }
    }
}

async fn put(call: &Call<Editing>, draft: &SubscriptionDraft) -> PageResult<Subscription> {
    let Editing { topic, current } = &call.of;
    let (now, https) = (call.visitor.now, call.broker.options().egress.require_https);
    let (by, of, broker) = (call.by(), &topic.topic.name, &call.broker);
    let define = |topic: &TopicEntry, current: Option<&EventSubscription>| {
        let context = SubscriptionContext::of(topic, now, https);
        draft.define(current.map(|it| &it.definition), &context)
    };
    let (topic, saved) = if let Some(current) = current {
        let change = |topic: &TopicEntry, current: &EventSubscription| {
            define(topic, Some(current)).map_err(PageError::from)
        };
        let changed = broker.patch_subscription(by, of, current.name.clone(), change);
        changed.await?
    } else {
        let parse = match topic.namespace {
            None => SubscriptionName::of_custom_topic,
            Some(_) => SubscriptionName::of_namespace_topic,
        };
        let is_taken = |name: &SubscriptionName| topic.subscription(name).is_some();
        let (noun, new) = ("an event subscription", define(topic, None));
        let (name, new) = named(&draft.form, noun, parse, is_taken, new)?;
        broker.put_subscription(by, of, name, new).await?
    };
    Ok(Subscription::of((&topic, &saved)))
}

/// Redirects to the saved subscription and reports whether its webhook is validated and may be called.
async fn tell(call: &Call<Editing>, saved: &Subscription) -> PageResult {
    let of = &saved.subscription;
    let what = call.of.current.as_ref().map_or("created", |_| "changed");
    let done = format!("Event subscription {} has been {what}", of.name);
    let failed = |but: &str| Flash::failed(format!("{done}, but {but}"));
    let shut = "its webhook cannot be called yet";
    let flash = match (of.validation.state, blocked(call, of).await) {
        // The page shows the reason.
        (ValidationState::Failed, Some(_)) => failed(&format!("{shut}. The reason is below.")),
        (ValidationState::Failed, None) => failed("validation failed. The reason is below."),
        (_, Some(why)) => failed(&format!("{shut}: {why}")),
        (ValidationState::Succeeded, None) => Flash::done(format!("{done}.")),
        (_, None) => Flash::done(format!(
            "{done}. Its webhook has been asked whether it wants events."
        )),
    };
    call.visitor.leave(flash, &saved.page()).await
}

/// Returns the reason why the webhook of `saved` may not be called; `None` if it may be called or has not changed.
async fn blocked(call: &Call<Editing>, saved: &EventSubscription) -> Option<String> {
    let destination = &saved.definition.destination;
    let before = call.of.current.as_ref();
    if before.is_some_and(|it| it.definition.destination.is_same_receiver(destination)) {
        return None;
    }
    let url = destination.endpoint_url()?.reveal();
    match call.broker.evaluate_url(url).await {
        EgressVerdict::Denied(denied) => Some(denied_words(&denied)),
        EgressVerdict::Allowed(_) | EgressVerdict::Inside | EgressVerdict::Unresolved(_) => None,
    }
}
