//! The form that makes and changes event subscriptions.

use serde::Deserialize;

use crate::admin::action::{Names, Of, Sent, Subject, name_of};
use crate::admin::bare::draw_with;
use crate::admin::page::*;
use crate::admin::pages::subscriptions::definition::{CLAUSES, Draft, HEADERS, Kind, URL};
use crate::admin::pages::subscriptions::trial::{self, TrialText};
use crate::admin::pages::subscriptions::{clauses, signing};
use crate::admin::pages::url_trial::denied_words;
use crate::admin::paths::{subscription_page, topic_page};
use crate::broker::ManageError;
use crate::model::destination::DeliveryMode;
use crate::model::filter::{Operator, SeenKeys, Takes};
use crate::model::name::{
    InspectorName, NAME_CHARACTERS, SUBSCRIPTION_NAME_CHARACTERS, SubscriptionName,
};
use crate::model::subscription::{EventSubscription, SubscriptionDefinition, ValidationState};
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

    async fn draw(
        &self,
        site: &Site,
        visitor: &Visitor,
        form: Draft,
        trial: Option<TrialText>,
    ) -> PageResult {
        let of = &self.topic.topic.name;
        let inspectors = match form.kind.is_pushed() {
            true => site.views.inspectors().await?,
            false => Vec::new(),
        };
        let (title, page, button) = match (&self.current, form.kind) {
            (Some(current), _) => (
                format!("Edit event subscription {}", current.name),
                format!("{}/edit", self.page()),
                "Save changes",
            ),
            (None, kind) => (
                match kind {
                    Kind::Queue => format!("New pull subscription of {of}"),
                    Kind::Custom | Kind::Push => format!("New event subscription of {of}"),
                },
                format!("{}/new-subscription", self.page()),
                "Create event subscription",
            ),
        };
        let query = match (&self.current, form.kind) {
            (None, Kind::Queue) => "?deliveryMode=Queue",
            _ => "",
        };
        let status = form.status();
        let page = SubscriptionForm {
            frame: Frame::new(visitor, title),
            topic: &self.topic,
            current: self.current.as_deref(),
            keys: seen_keys(site, &self.topic).await?,
            inspectors: inspectors.into_iter().map(|each| each.name).collect(),
            shuts_out_this_machine: site.egress.shuts_out_this_machine(),
            trial,
            action: format!("{page}{query}"),
            draft: format!("{page}/draft{query}"),
            page,
            button,
            back: self.page(),
            form,
        };
        Ok(draw_with(status, &page))
    }
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
pub(crate) async fn open(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(choice): Query<ModeChoice>,
    Of(of): Of<Target>,
) -> PageResult {
    of.draw(&site, &visitor, of.draft(&choice), None).await
}

/// The form again, as one of its buttons wants it. Nothing is saved by it, and what was typed stays.
pub(crate) async fn redraw(
    State(site): State<Arc<Site>>,
    Query(choice): Query<ModeChoice>,
    Sent {
        of,
        visitor,
        mut form,
    }: Sent<Target>,
) -> PageResult {
    let button = form.text("do").to_owned();
    let pressed = match HEADERS.press(&button, &mut form) {
        Some(()) => Some(Ok(())),
        None => clauses::press(&button, &mut form),
    };
    let draft = of.draft(&choice).sent(form);
    let (trial, refusals) = match pressed {
        Some(done) => (None, done.err().into_iter().collect()),
        None if button == "try" => {
            let current = of.current.as_deref();
            match trial::try_typed(&site, &of.topic, current, &draft).await? {
                Ok(trial) => (Some(trial), Vec::new()),
                Err(refusals) => (None, refusals),
            }
        }
        None => {
            let problem = format!("The form has no button {button:?}.");
            return Err(PageError::Unreadable(problem));
        }
    };
    of.draw(&site, &visitor, draft.with_faults(refusals), trial)
        .await
}

/// Makes the subscription, or changes it.
pub(crate) async fn save(
    State(site): State<Arc<Site>>,
    Query(choice): Query<ModeChoice>,
    Sent { of, visitor, form }: Sent<Target>,
) -> PageResult {
    let mut signed = form.clone();
    let secret = match of.current {
        None => signing::make_first(&site, &mut signed),
        Some(_) => None,
    };
    let draft = of.draft(&choice).sent(signed);
    match of.put(&site, &visitor, &draft).await {
        Ok(subscription) => match secret {
            Some(secret) => Ok(signing::show_once(
                &visitor,
                &of.topic,
                &subscription,
                &secret,
            )),
            None => of.tell(&site, &visitor, &subscription).await,
        },
        Err(fault) => {
            let refusals = fault.refusals(&draft)?;
            let draft = draft.sent(form).with_faults(refusals);
            of.draw(&site, &visitor, draft, None).await
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

impl Target {
    async fn put(
        &self,
        site: &Site,
        visitor: &Visitor,
        draft: &Draft,
    ) -> Result<Arc<EventSubscription>, Fault> {
        let (by, topic) = (&visitor.caller, &self.topic.topic.name);
        let (now, https) = (visitor.now, site.egress.require_https);
        let (_, subscription) = match &self.current {
            Some(current) => {
                let change = |topic: &TopicEntry, current: &EventSubscription| {
                    let changed = draft.define(
                        Some(&current.definition),
                        &SubscriptionContext::of(topic, now, https),
                    );
                    changed.map_err(Fault::Form)
                };
                let name = current.name.clone();
                site.broker
                    .patch_subscription(by, topic, name, change)
                    .await?
            }
            None => {
                let defined = draft.define(None, &SubscriptionContext::of(&self.topic, now, https));
                let (name, definition) = self.named(&draft.form, defined)?;
                site.broker
                    .put_subscription(by, topic, name, definition)
                    .await?
            }
        };
        Ok(subscription)
    }

    /// What is new with its name, or all that is wrong with either.
    fn named(
        &self,
        form: &Form,
        defined: Result<SubscriptionDefinition, Vec<Refusal>>,
    ) -> Result<(SubscriptionName, SubscriptionDefinition), Fault> {
        let typed = form.text("name");
        let name = match self.topic.namespace {
            None => SubscriptionName::parse(typed),
            Some(_) => SubscriptionName::of_namespace_topic(typed),
        };
        let name = name.map_err(|error| sentence(&error.to_string()));
        let name = name.and_then(|name| match self.topic.subscription(&name) {
            None => Ok(name),
            Some(_) => Err(format!("There is an event subscription {name} already.")),
        });
        match (name, defined) {
            (Ok(name), Ok(definition)) => Ok((name, definition)),
            (name, defined) => {
                let name = name.err().map(|problem| Refusal::of("name", problem));
                let others = defined.err().into_iter().flatten();
                Err(Fault::Form(name.into_iter().chain(others).collect()))
            }
        }
    }

    /// Leads to what was saved, and says whether its webhook agrees and may be called.
    async fn tell(&self, site: &Site, visitor: &Visitor, saved: &EventSubscription) -> PageResult {
        let what = if self.current.is_some() {
            "changed"
        } else {
            "created"
        };
        let done = format!("Event subscription {} has been {what}", saved.name);
        let has_failed = saved.validation.state == ValidationState::Failed;
        let flash = match (self.blocked(site, saved).await, saved.validation.state) {
            (Some(why), _) => {
                // The page tells why.
                let why = match has_failed {
                    true => ". The reason is below.".to_owned(),
                    false => format!(": {why}"),
                };
                Flash::failed(format!("{done}, but its webhook cannot be called yet{why}"))
            }
            (None, ValidationState::Succeeded) => Flash::done(format!("{done}.")),
            (None, ValidationState::Failed) => Flash::failed(format!(
                "{done}, but validation failed. The reason is below."
            )),
            (
                None,
                ValidationState::Creating
                | ValidationState::Updating
                | ValidationState::AwaitingManualAction,
            ) => Flash::done(format!(
                "{done}. Its webhook has been asked whether it wants events."
            )),
        };
        let page = subscription_page(self.topic.topic.name.as_str(), saved.name.as_str());
        visitor.leave(flash, &page).await
    }

    /// Why the webhook of `saved` may not be called; `None` if it may, or is the one that it was before.
    async fn blocked(&self, site: &Site, saved: &EventSubscription) -> Option<String> {
        let destination = &saved.definition.destination;
        let before = self
            .current
            .as_ref()
            .map(|current| &current.definition.destination);
        if before.is_some_and(|before| before.is_same_receiver(destination)) {
            return None;
        }
        match site
            .broker
            .evaluate_url(destination.endpoint_url()?.reveal())
            .await
        {
            EgressVerdict::Denied(denied) => Some(denied_words(&denied)),
            EgressVerdict::Allowed(_) | EgressVerdict::Inside | EgressVerdict::Unresolved(_) => {
                None
            }
        }
    }
}
