//! The form that makes and changes event subscriptions.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;

use crate::admin::Site;
use crate::admin::error::{PageError, PageResult, sentence};
use crate::admin::form::{Form, Refusal, Submitted};
use crate::admin::identify::subscription_page;
use crate::admin::session::Visitor;
use crate::admin::subscriptions::definition;
use crate::admin::subscriptions::sheet::{DO, Sheet};
use crate::admin::subscriptions::trial;
use crate::admin::view::Flash;
use crate::broker::ManageError;
use crate::model::destination::DeliveryMode;
use crate::model::name::SubscriptionName;
use crate::model::registry::TopicEntry;
use crate::model::subscription::{EventSubscription, SubscriptionDefinition, ValidationState};
use crate::wire::resource::SubscriptionContext;

/// The part of an address that chooses how a subscription of a namespace topic delivers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::admin) struct ModeChoice {
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
    fn sheet<'a>(&self, topic: &'a TopicEntry, form: &'a Form) -> Sheet<'a> {
        Sheet {
            topic,
            mode: self.of(topic),
            current: None,
            form,
        }
    }
}

/// The form for a change of `current`.
fn sheet_of<'a>(
    topic: &'a TopicEntry,
    current: &'a EventSubscription,
    form: &'a Form,
) -> Sheet<'a> {
    Sheet {
        topic,
        mode: current.definition.destination.delivery_mode(),
        current: Some(current),
        form,
    }
}

/// The form for a new subscription of a topic.
pub(in crate::admin) async fn draft(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(topic): Path<String>,
    Query(choice): Query<ModeChoice>,
) -> PageResult {
    let topic = site.topic(&topic)?;
    let form = &definition::blank(&topic);
    Ok(choice.sheet(&topic, form).draw(&visitor, None))
}

/// The form for a new subscription again, as one of its buttons wants it.
pub(in crate::admin) async fn redraft(
    State(site): State<Arc<Site>>,
    Path(topic): Path<String>,
    Query(choice): Query<ModeChoice>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let topic = site.topic(&topic)?;
    redraw(&site, &visitor, &choice.sheet(&topic, &form)).await
}

/// Makes the subscription.
pub(in crate::admin) async fn create(
    State(site): State<Arc<Site>>,
    Path(topic): Path<String>,
    Query(choice): Query<ModeChoice>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let topic = site.topic(&topic)?;
    let sheet = choice.sheet(&topic, &form);
    match put_new(&site, &sheet, &visitor).await? {
        Ok(subscription) => tell_and_show(&visitor, &topic, &subscription, "created").await,
        Err(refusal) => Ok(sheet.draw(&visitor, Some(refusal))),
    }
}

/// The form with the present definition in it.
pub(in crate::admin) async fn edit(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
) -> PageResult {
    let (topic, subscription) = site.subscription(&topic, &name)?;
    let form = &definition::form_of(&topic, &subscription);
    Ok(sheet_of(&topic, &subscription, form).draw(&visitor, None))
}

/// The form with the changes again, as one of its buttons wants it.
pub(in crate::admin) async fn re_edit(
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let (topic, subscription) = site.subscription(&topic, &name)?;
    let sheet = sheet_of(&topic, &subscription, &form);
    redraw(&site, &visitor, &sheet).await
}

/// Nothing is saved by it.
async fn redraw(site: &Site, visitor: &Visitor, sheet: &Sheet<'_>) -> PageResult {
    let trial = match sheet.form.text(DO) {
        TRY => trial::try_typed(site, sheet.topic, sheet.current, sheet.form).await?,
        unknown => {
            let problem = format!("The form has no button {unknown:?}.");
            return Err(PageError::Unreadable(problem));
        }
    };
    Ok(sheet.draw_again(visitor, trial))
}

/// What the button says that tries the filter.
const TRY: &str = "try";

/// Changes the subscription.
pub(in crate::admin) async fn change(
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let (topic, current) = site.subscription(&topic, &name)?;
    let context = context(&site, &topic, &visitor);
    let put = match definition::changed(&form, &current.definition, &context) {
        Ok(definition) => put(&site, &topic, current.name.clone(), definition).await?,
        Err(refusal) => Err(refusal),
    };
    match put {
        Ok(subscription) => tell_and_show(&visitor, &topic, &subscription, "changed").await,
        Err(refusal) => Ok(sheet_of(&topic, &current, &form).draw(&visitor, Some(refusal))),
    }
}

type Put = Result<Arc<EventSubscription>, Refusal>;

async fn put_new(site: &Site, sheet: &Sheet<'_>, visitor: &Visitor) -> Result<Put, PageError> {
    let (topic, form) = (sheet.topic, sheet.form);
    let context = context(site, topic, visitor);
    let define = |name| Ok((name, definition::new(form, sheet.mode, &context)?));
    match new_name(topic, form).and_then(define) {
        Ok((name, definition)) => put(site, topic, name, definition).await,
        Err(refusal) => Ok(Err(refusal)),
    }
}

fn new_name(topic: &TopicEntry, form: &Form) -> Result<SubscriptionName, Refusal> {
    let name = form.text("name");
    let name = match topic.namespace {
        None => SubscriptionName::parse(name),
        Some(_) => SubscriptionName::of_namespace_topic(name),
    };
    let name = name.map_err(|error| Refusal::of("name", sentence(&error.to_string())))?;
    match topic.subscription(&name) {
        None => Ok(name),
        Some(_) => {
            let problem = format!("The topic has an event subscription {name} already.");
            Err(Refusal::of("name", problem))
        }
    }
}

async fn put(
    site: &Site,
    topic: &TopicEntry,
    name: SubscriptionName,
    definition: SubscriptionDefinition,
) -> Result<Put, PageError> {
    match site
        .broker
        .put_subscription(&topic.topic.name, name, definition)
        .await
    {
        Ok((_, subscription)) => Ok(Ok(subscription)),
        Err(error @ ManageError::TooManySubscriptions(_)) => {
            Ok(Err(Refusal::whole(sentence(&error.to_string()))))
        }
        Err(error @ ManageError::NotValidated { .. }) => {
            let problem = sentence(&error.to_string());
            Ok(Err(Refusal::of("endpointUrl", problem)))
        }
        Err(error) => Err(error.into()),
    }
}

fn context<'a>(site: &Site, topic: &'a TopicEntry, visitor: &Visitor) -> SubscriptionContext<'a> {
    SubscriptionContext::of(topic, visitor.now, site.egress.require_https)
}

async fn tell_and_show(
    visitor: &Visitor,
    topic: &TopicEntry,
    subscription: &EventSubscription,
    what: &str,
) -> PageResult {
    let (topic, name) = (&topic.topic.name, &subscription.name);
    tracing::info!(user.name = visitor.name, topic.name = %topic, subscription.name = %name,
        "an event subscription was {what}");
    let agreed = match subscription.validation.state {
        ValidationState::Succeeded => "",
        ValidationState::Failed => " Its webhook has not agreed to receive events.",
        ValidationState::Creating
        | ValidationState::Updating
        | ValidationState::AwaitingManualAction => {
            " Its webhook has been asked whether it wants events."
        }
    };
    let text = format!("Event subscription {name} has been {what}.{agreed}");
    visitor.tell(Flash::done(text)).await?;
    Ok(Redirect::to(&subscription_page(topic.as_str(), name.as_str())).into_response())
}
