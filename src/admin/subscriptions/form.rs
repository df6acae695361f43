//! The form that makes and changes event subscriptions.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};

use crate::admin::Site;
use crate::admin::error::{PageError, PageResult, sentence};
use crate::admin::form::{Form, Refusal, Submitted};
use crate::admin::form_page::FormPage;
use crate::admin::identify::{subscription_page, topic_page};
use crate::admin::session::Visitor;
use crate::admin::subscriptions::definition::{self, Draft};
use crate::admin::view::{Flash, Frame};
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
    Ok(draw_new(&visitor, &topic, &definition::blank(), None))
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
        Err(refusal) => Ok(draw_new(&visitor, &topic, &form, Some(refusal))),
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
    let form = definition::form_of(&topic, &subscription);
    Ok(draw_change(&visitor, &topic, &subscription, &form, None))
}

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
        Err(refusal) => Ok(draw_change(
            &visitor,
            &topic,
            &current,
            &form,
            Some(refusal),
        )),
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
    SubscriptionContext::of(topic, visitor.now, site.require_https)
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

fn draw_new(
    visitor: &Visitor,
    topic: &TopicEntry,
    form: &Form,
    refusal: Option<Refusal>,
) -> Response {
    let name = topic.topic.name.as_str();
    let draft = Draft::New {
        input_schema: &topic.topic.definition.input_schema,
    };
    let page = FormPage {
        intro: "It sends the events of the topic that pass its filter to a webhook. The webhook \
                    is asked first whether it wants them."
            .to_owned(),
        sections: definition::sections(form, draft),
        button: "Create event subscription",
        back: topic_page(name),
    };
    page.draw(
        Frame::new(visitor, format!("New event subscription of {name}")),
        refusal,
    )
}

fn draw_change(
    visitor: &Visitor,
    topic: &TopicEntry,
    subscription: &EventSubscription,
    form: &Form,
    refusal: Option<Refusal>,
) -> Response {
    let (of, name) = (topic.topic.name.as_str(), subscription.name.as_str());
    let draft = Draft::Change {
        input_schema: &topic.topic.definition.input_schema,
        current: &subscription.definition,
    };
    let page = FormPage {
        intro: "A changed destination is asked again whether it wants events; events that were \
                    accepted meanwhile wait for its answer."
            .to_owned(),
        sections: definition::sections(form, draft),
        button: "Save changes",
        back: subscription_page(of, name),
    };
    page.draw(
        Frame::new(visitor, format!("Edit event subscription {name}")),
        refusal,
    )
}
