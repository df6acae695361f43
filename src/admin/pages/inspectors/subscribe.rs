//! Subscribing an inspector to a topic, as simply as can be.

use serde_json::json;

use crate::admin::page::*;
use crate::admin::paths::inspector_page;
use crate::model::inspector::Inspector;
use crate::model::name::{InspectorName, SubscriptionName};
use crate::wire::resource::{self, SubscriptionContext};

/// Subscribes the inspector to the topic of the form, under its own name.
pub(crate) async fn subscribe(
    State(site): State<Arc<Site>>,
    Call {
        of, visitor, form, ..
    }: Call<Inspector>,
) -> PageResult {
    let inspector = of.name;
    let topic = site.custom_topic(form.text("topic"))?;
    let of = &topic.topic.name;
    let name = SubscriptionName::parse(inspector.as_str())
        .map_err(|error| PageError::Conflict(sentence(&error.to_string())))?;
    let message = match deliver_to(&site, &visitor, &topic, name, &inspector, None).await? {
        true => Flash::done(format!(
            "The events of {of} are delivered to this inspector now."
        )),
        false => Flash::failed(format!(
            "The topic {of} has an event subscription {inspector} already."
        )),
    };
    visitor.leave(message, &inspector_page(&inspector)).await
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
