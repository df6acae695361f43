//! The form that makes and changes event subscriptions.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect};

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
use crate::model::name::SubscriptionName;
use crate::model::registry::TopicEntry;
use crate::model::subscription::{EventSubscription, SubscriptionDefinition, ValidationState};
use crate::wire::resource::SubscriptionContext;

/// The form for a new subscription of a topic.
pub(in crate::admin) async fn draft(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(topic): Path<String>,
) -> PageResult {
    let topic = site.custom_topic(&topic)?;
    let form = &definition::blank();
    let sheet = Sheet {
        topic: &topic,
        current: None,
        form,
    };
    Ok(sheet.draw(&visitor, None))
}

/// The form for a new subscription again, as one of its buttons wants it.
pub(in crate::admin) async fn redraft(
    State(site): State<Arc<Site>>,
    Path(topic): Path<String>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let topic = site.custom_topic(&topic)?;
    redraw(&site, &visitor, (&topic, None), form).await
}

/// Makes the subscription.
pub(in crate::admin) async fn create(
    State(site): State<Arc<Site>>,
    Path(topic): Path<String>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let topic = site.custom_topic(&topic)?;
    match put_new(&site, &topic, &form, &visitor).await? {
        Ok(subscription) => tell_and_show(&visitor, &topic, &subscription, "created").await,
        Err(refusal) => {
            let sheet = Sheet {
                topic: &topic,
                current: None,
                form: &form,
            };
            Ok(sheet.draw(&visitor, Some(refusal)))
        }
    }
}

/// The form with the present definition in it.
pub(in crate::admin) async fn edit(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
) -> PageResult {
    site.custom_topic(&topic)?;
    let (topic, subscription) = site.subscription(&topic, &name)?;
    let form = &definition::form_of(&topic, &subscription);
    let sheet = Sheet {
        topic: &topic,
        current: Some(&subscription),
        form,
    };
    Ok(sheet.draw(&visitor, None))
}

/// The form with the changes again, as one of its buttons wants it.
pub(in crate::admin) async fn re_edit(
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    site.custom_topic(&topic)?;
    let (topic, subscription) = site.subscription(&topic, &name)?;
    redraw(&site, &visitor, (&topic, Some(&subscription)), form).await
}

/// Nothing is saved by it.
async fn redraw(
    site: &Site,
    visitor: &Visitor,
    (topic, current): (&TopicEntry, Option<&EventSubscription>),
    form: Form,
) -> PageResult {
    let trial = match form.text(DO) {
        TRY => trial::try_typed(site, topic, current, &form).await?,
        unknown => {
            let problem = format!("The form has no button {unknown:?}.");
            return Err(PageError::Unreadable(problem));
        }
    };
    let sheet = Sheet {
        topic,
        current,
        form: &form,
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
    site.custom_topic(&topic)?;
    let (topic, current) = site.subscription(&topic, &name)?;
    let context = context(&site, &topic, &visitor);
    let put = match definition::changed(&form, &current.definition, &context) {
        Ok(definition) => put(&site, &topic, current.name.clone(), definition).await?,
        Err(refusal) => Err(refusal),
    };
    match put {
        Ok(subscription) => tell_and_show(&visitor, &topic, &subscription, "changed").await,
        Err(refusal) => {
            let sheet = Sheet {
                topic: &topic,
                current: Some(&current),
                form: &form,
            };
            Ok(sheet.draw(&visitor, Some(refusal)))
        }
    }
}

type Put = Result<Arc<EventSubscription>, Refusal>;

async fn put_new(
    site: &Site,
    topic: &TopicEntry,
    form: &Form,
    visitor: &Visitor,
) -> Result<Put, PageError> {
    let context = context(site, topic, visitor);
    let read = new_name(topic, form).and_then(|name| Ok((name, definition::new(form, &context)?)));
    match read {
        Ok((name, definition)) => put(site, topic, name, definition).await,
        Err(refusal) => Ok(Err(refusal)),
    }
}

fn new_name(topic: &TopicEntry, form: &Form) -> Result<SubscriptionName, Refusal> {
    let name = SubscriptionName::parse(form.text("name"));
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
