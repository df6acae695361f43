//! What is done to an inspector: its requests are forgotten, it is deleted, or subscribed to a topic.

use serde_json::json;

use crate::admin::page::*;
use crate::admin::paths::inspector_page;
use crate::model::inspector::Inspector;
use crate::model::name::{InspectorName, SubscriptionName};
use crate::wire::resource::{self, SubscriptionContext};

impl Subject for Inspector {
    async fn find(site: &Site, names: &Names) -> Result<Self, PageError> {
        site.inspector(name_of(names, "name")).await
    }

    fn page(&self) -> String {
        inspector_page(&self.name)
    }
}

pub(crate) async fn ask_to_clear(call: Call<Inspector>) -> PageResult<Question> {
    let then = "Its answers would begin again with the first one.";
    Ok(question("Clear", &call.of).would(then))
}

/// Forgets its requests.
pub(crate) async fn clear(call: Call<Inspector>) -> PageResult<Done> {
    let cleared = call
        .broker
        .clear_inspector(call.by(), &call.of.name)
        .await?;
    let said = print::plural(cleared, "request has been", "requests have been");
    Ok(Done::well(format!("{said} forgotten.")))
}

pub(crate) async fn ask_to_delete(call: Call<Inspector>) -> PageResult<Question> {
    let subscriptions = print::plural(
        call.broker.subscriptions_of_inspector(&call.of.name).len(),
        "event subscription delivers to it and would",
        "event subscriptions deliver to it and would",
    );
    let then = format!("{subscriptions} be answered with 404 from then on.");
    Ok(question("Delete", &call.of).would(then))
}

pub(crate) async fn delete(call: Call<Inspector>) -> PageResult<Done> {
    let name = &call.of.name;
    call.broker.delete_inspector(call.by(), name).await?;
    Ok(Done::well(format!("Inspector {name} has been deleted.")).leading_to("/admin/inspectors"))
}

fn question(verb: &str, inspector: &Inspector) -> Question {
    let kept = print::plural(inspector.kept, "request", "requests");
    Question::new(format!("{verb} inspector {}?", inspector.name))
        .would(format!("{kept} would be forgotten."))
        .dangerously()
}

/// Subscribes the inspector to the topic of the form, under its own name.
pub(crate) async fn subscribe(call: Call<Inspector>) -> PageResult<Done> {
    let inspector = &call.of.name;
    let topic = call.custom_topic(call.form.text("topic"))?;
    let of = &topic.topic.name;
    let name = SubscriptionName::parse(inspector.as_str())
        .map_err(|error| PageError::Conflict(sentence(&error.to_string())))?;
    let is_new = deliver_to(&call.site, &call.visitor, &topic, name, inspector, None).await?;
    Ok(if is_new {
        Done::well(format!(
            "The events of {of} are delivered to this inspector now."
        ))
    } else {
        Done::failed(format!(
            "The topic {of} has an event subscription {inspector} already."
        ))
    })
}

/// Has every event of `topic` delivered to `inspector` by a subscription of that name. `false` where there
/// is one already; it stays as it is.
pub(crate) async fn deliver_to(
    site: &Site,
    visitor: &Visitor,
    topic: &TopicEntry,
    name: SubscriptionName,
    inspector: &InspectorName,
    event_type: Option<&str>,
) -> Result<bool, PageError> {
    if topic.subscription(&name).is_some() {
        return Ok(false);
    }
    let destination = json!({ "endpointType": "WebHook",
        "properties": { "endpointUrl": inspector.url() } });
    let event_types = event_type.map(|event_type| [event_type]);
    let body = json!({ "properties": { "destination": destination,
        "filter": { "includedEventTypes": event_types } } });
    let context = SubscriptionContext::of(topic, visitor.now, site.egress.require_https);
    let definition = resource::parse_subscription(&body, &context)
        .map_err(|error| PageError::Conflict(error.to_string()))?;
    let put = site
        .broker
        .put_subscription(&visitor.caller, &topic.topic.name, name, definition);
    put.await?;
    Ok(true)
}
