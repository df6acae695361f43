//! The form that makes and changes event subscriptions.

use serde::Deserialize;

use crate::admin::forms::rows;
use crate::admin::forms::sheet::named;
use crate::admin::page::*;
use crate::admin::pages::subscriptions::definition::{self, HEADERS, Layout, URL, clauses};
use crate::admin::pages::subscriptions::sheet::{DO, Sheet, TRY};
use crate::admin::pages::subscriptions::signing;
use crate::admin::pages::subscriptions::trial;
use crate::admin::pages::subscriptions::trial::TrialText;
use crate::admin::pages::url_trial::denied_words;
use crate::admin::paths::subscription_page;
use crate::broker::ManageError;
use crate::model::destination::DeliveryMode;
use crate::model::name::SubscriptionName;
use crate::model::subscription::{EventSubscription, SubscriptionDefinition, ValidationState};
use crate::outbound::evaluate::EgressVerdict;
use crate::wire::resource::SubscriptionContext;

/// The part of an address that chooses how a subscription of a namespace topic delivers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ModeChoice {
    #[serde(rename = "deliveryMode")]
    delivery_mode: String,
}

impl ModeChoice {
    /// What is pushed is the rule, and all that custom topics know.
    fn of(&self, topic: &TopicEntry) -> DeliveryMode {
        let chosen = DeliveryMode::ALL
            .into_iter()
            .find(|mode| mode.name() == self.delivery_mode);
        let chosen = chosen.filter(|_| topic.namespace.is_some());
        chosen.unwrap_or(DeliveryMode::Push)
    }

    /// The form for a new subscription.
    async fn sheet<'a>(
        &self,
        site: &Site,
        topic: &'a TopicEntry,
        form: &'a Form,
    ) -> Result<Sheet<'a>, PageError> {
        Sheet::open(site, (topic, self.of(topic)), None, form).await
    }
}

/// The form for a change of `current`.
async fn sheet_of<'a>(
    site: &Site,
    topic: &'a TopicEntry,
    current: &'a EventSubscription,
    form: &'a Form,
) -> Result<Sheet<'a>, PageError> {
    let mode = current.definition.destination.delivery_mode();
    Sheet::open(site, (topic, mode), Some(current), form).await
}

/// The form for a new subscription of a topic.
pub(crate) async fn draft(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(topic): Path<String>,
    Query(choice): Query<ModeChoice>,
) -> PageResult {
    let topic = site.topic(&topic)?;
    let form = definition::blank(&topic, choice.of(&topic));
    let sheet = choice.sheet(&site, &topic, &form).await?;
    Ok(sheet.draw(&visitor, Vec::new()))
}

/// The form for a new subscription again, as one of its buttons wants it.
pub(crate) async fn redraft(
    State(site): State<Arc<Site>>,
    Path(topic): Path<String>,
    Query(choice): Query<ModeChoice>,
    Submitted { visitor, mut form }: Submitted,
) -> PageResult {
    let topic = site.topic(&topic)?;
    let layout = Layout::of(&topic, choice.of(&topic));
    let pressed = press(&site, (&topic, layout), None, &mut form).await?;
    let sheet = choice.sheet(&site, &topic, &form).await?;
    Ok(sheet.draw_again(&visitor, pressed))
}

/// Makes the subscription.
pub(crate) async fn create(
    State(site): State<Arc<Site>>,
    Path(topic): Path<String>,
    Query(choice): Query<ModeChoice>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let topic = site.topic(&topic)?;
    let mut signed = form.clone();
    let secret = signing::make_first(&site, &mut signed);
    match put_new(&site, (&topic, choice.of(&topic)), &signed, &visitor).await? {
        Ok(subscription) => match secret {
            None => {
                let blocked = blocked(&site, None, &subscription).await;
                flash_and_show(&visitor, &topic, &subscription, ("created", blocked)).await
            }
            Some(secret) => Ok(signing::show_once(&visitor, &topic, &subscription, &secret)),
        },
        Err(refusals) => {
            let sheet = choice.sheet(&site, &topic, &form).await?;
            Ok(sheet.draw(&visitor, refusals))
        }
    }
}

/// The form with the present definition in it.
pub(crate) async fn edit(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
) -> PageResult {
    let (topic, subscription) = site.subscription(&topic, &name)?;
    let form = definition::form_of(&topic, &subscription);
    let sheet = sheet_of(&site, &topic, &subscription, &form).await?;
    Ok(sheet.draw(&visitor, Vec::new()))
}

/// The form with the changes again, as one of its buttons wants it.
pub(crate) async fn re_edit(
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
    Submitted { visitor, mut form }: Submitted,
) -> PageResult {
    let (topic, subscription) = site.subscription(&topic, &name)?;
    let layout = Layout::of(&topic, subscription.definition.destination.delivery_mode());
    let pressed = press(&site, (&topic, layout), Some(&subscription), &mut form).await?;
    let sheet = sheet_of(&site, &topic, &subscription, &form).await?;
    Ok(sheet.draw_again(&visitor, pressed))
}

/// What one of the form's buttons asks for. Nothing is saved by it, and what was typed stays.
async fn press(
    site: &Site,
    (topic, layout): (&TopicEntry, &Layout),
    current: Option<&EventSubscription>,
    form: &mut Form,
) -> Result<Result<Option<TrialText>, Vec<Refusal>>, PageError> {
    let button = form.text(DO).to_owned();
    if button == TRY {
        let tried = trial::try_typed(site, (topic, layout), current, form).await?;
        return Ok(tried.map(Some));
    }
    if let Some(()) = HEADERS.press(&button, form) {
        return Ok(Ok(None));
    }
    match clauses::press(&button, layout.clauses, form) {
        Some(done) => Ok(done.map(|()| None).map_err(|refusal| vec![refusal])),
        None => {
            let problem = format!("The form has no button {button:?}.");
            Err(PageError::Unreadable(problem))
        }
    }
}

/// Changes the subscription.
pub(crate) async fn change(
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let (topic, current) = site.subscription(&topic, &name)?;
    let change = |topic: &TopicEntry, current: &EventSubscription| {
        let context = context(&site, topic, &visitor);
        let layout = Layout::of(topic, current.definition.destination.delivery_mode());
        definition::changed(&form, layout, &current.definition, &context).map_err(Fault::Form)
    };
    let name = current.name.clone();
    let changed = site
        .broker
        .patch_subscription(&visitor.caller, &topic.topic.name, name, change);
    match refused(changed.await)? {
        Ok((_, subscription)) => {
            let blocked = blocked(&site, Some(&current), &subscription).await;
            flash_and_show(&visitor, &topic, &subscription, ("changed", blocked)).await
        }
        Err(refusals) => {
            let sheet = sheet_of(&site, &topic, &current, &form).await?;
            Ok(sheet.draw(&visitor, refusals))
        }
    }
}

/// Why a subscription is not changed.
enum Fault {
    Form(Vec<Refusal>),
    Manage(ManageError),
}

impl From<ManageError> for Fault {
    fn from(error: ManageError) -> Self {
        Self::Manage(error)
    }
}

/// What the form can tell apart from what ends in an error page.
fn refused<T>(changed: Result<T, Fault>) -> Result<Result<T, Vec<Refusal>>, PageError> {
    match changed {
        Ok(done) => Ok(Ok(done)),
        Err(Fault::Form(refusals)) => Ok(Err(refusals)),
        Err(Fault::Manage(error)) => Err(error.into()),
    }
}

type Put = Result<Arc<EventSubscription>, Vec<Refusal>>;

async fn put_new(
    site: &Site,
    (topic, mode): (&TopicEntry, DeliveryMode),
    form: &Form,
    visitor: &Visitor,
) -> Result<Put, PageError> {
    let context = context(site, topic, visitor);
    let defined = definition::new(form, Layout::of(topic, mode), &context);
    match rows::both(new_name(topic, form), defined) {
        Ok((name, definition)) => put(site, visitor, (topic, mode), name, definition).await,
        Err(refusals) => Ok(Err(refusals)),
    }
}

fn new_name(topic: &TopicEntry, form: &Form) -> Result<SubscriptionName, Refusal> {
    let parse = match topic.namespace {
        None => SubscriptionName::parse,
        Some(_) => SubscriptionName::of_namespace_topic,
    };
    let is_taken = |name: &SubscriptionName| topic.subscription(name).is_some();
    named(form.text("name"), "an event subscription", parse, is_taken)
}

async fn put(
    site: &Site,
    visitor: &Visitor,
    (topic, mode): (&TopicEntry, DeliveryMode),
    name: SubscriptionName,
    definition: SubscriptionDefinition,
) -> Result<Put, PageError> {
    match site
        .broker
        .put_subscription(&visitor.caller, &topic.topic.name, name, definition)
        .await
    {
        Ok((_, subscription)) => Ok(Ok(subscription)),
        Err(error @ ManageError::TooManySubscriptions(_)) => {
            Ok(Err(vec![Refusal::whole(sentence(&error.to_string()))]))
        }
        Err(error @ ManageError::NotValidated { .. }) => {
            let problem = sentence(&error.to_string());
            let webhook = Layout::of(topic, mode).webhook.unwrap_or_default();
            Ok(Err(vec![Refusal::of(&format!("{webhook}.{URL}"), problem)]))
        }
        Err(error) => Err(error.into()),
    }
}

fn context<'a>(site: &Site, topic: &'a TopicEntry, visitor: &Visitor) -> SubscriptionContext<'a> {
    SubscriptionContext::of(topic, visitor.now, site.egress.require_https)
}

/// Why the webhook of `saved` may not be called; `None` if it may, or is the one that it was `before`.
async fn blocked(
    site: &Site,
    before: Option<&EventSubscription>,
    saved: &EventSubscription,
) -> Option<String> {
    let destination = &saved.definition.destination;
    if before.is_some_and(|each| each.definition.destination.is_same_receiver(destination)) {
        return None;
    }
    let url = destination.endpoint_url()?.reveal();
    match site.broker.evaluate_url(url).await {
        EgressVerdict::Denied(denied) => Some(denied_words(&denied)),
        EgressVerdict::Allowed(_) | EgressVerdict::Inside | EgressVerdict::Unresolved(_) => None,
    }
}

/// `what` has been done to it; `blocked` is why its webhook may not be called.
async fn flash_and_show(
    visitor: &Visitor,
    topic: &TopicEntry,
    subscription: &EventSubscription,
    (what, blocked): (&str, Option<String>),
) -> PageResult {
    let (topic, name) = (&topic.topic.name, &subscription.name);
    let done = format!("Event subscription {name} has been {what}");
    let state = subscription.validation.state;
    let message = match blocked {
        None => message(&done, state),
        // The page tells why.
        Some(_) if state == ValidationState::Failed => Flash::failed(format!(
            "{done}, but its webhook cannot be called yet. The reason is below."
        )),
        Some(why) => Flash::failed(format!(
            "{done}, but its webhook cannot be called yet: {why}"
        )),
    };
    visitor
        .leave(message, &subscription_page(topic.as_str(), name.as_str()))
        .await
}

/// What has been `done`, and whether the webhook agrees.
fn message(done: &str, state: ValidationState) -> Flash {
    match state {
        ValidationState::Succeeded => Flash::done(format!("{done}.")),
        ValidationState::Failed => Flash::failed(format!(
            "{done}, but validation failed. The reason is below."
        )),
        ValidationState::Creating
        | ValidationState::Updating
        | ValidationState::AwaitingManualAction => Flash::done(format!(
            "{done}. Its webhook has been asked whether it wants events."
        )),
    }
}
