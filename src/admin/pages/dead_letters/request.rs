//! The request by which a dead letter is sent, written by the code that delivers.

use crate::admin::page::*;
use crate::model::destination::{AttributeValue, Destination, WebHook};
use crate::model::event::StoredEvent;
use crate::outbound::DeliveryRequest;
use crate::store::views::DeliveryRow;
use crate::wire::received::{header_texts, without_credentials};

/// A request without its secrets.
#[derive(Template)]
#[template(path = "widgets/request.html")]
pub(crate) struct RequestPanel {
    url: String,
    headers: Vec<(String, String)>,
    /// `None` for whoever may not see data.
    body: Option<String>,
}

part!(RequestPanel);

impl RequestPanel {
    /// `None` where nobody is called, or the subscription is gone.
    pub(crate) fn new(
        site: &Site,
        visitor: &Visitor,
        row: &DeliveryRow,
        event: &StoredEvent,
    ) -> Option<Self> {
        let registry = site.broker.registry();
        let (topic, subscription) = registry.subscription(row.subscription_id)?;
        let Destination::WebHook(webhook) = &subscription.definition.destination else {
            return None;
        };
        let (headers, body) = site.broker.draft_request(&DeliveryRequest {
            subscription,
            topic_resource_id: &topic.resource_id,
            events: &[event],
            delivery_count: row.attempts.saturating_sub(1),
            deadline: site.broker.options().response_deadline,
        })?;
        let body = print::visible(&String::from_utf8_lossy(&body));
        let headers = header_texts(&headers).into_iter();
        Some(Self {
            url: webhook.endpoint_url.base(),
            headers: headers.map(|each| shown(webhook, visitor, each)).collect(),
            body: visitor.sees_data().then_some(body),
        })
    }
}

/// A header without what only the receiver may know, and what comes from the event for those who may not see
/// its data.
fn shown(
    webhook: &WebHook,
    visitor: &Visitor,
    (name, value): (String, String),
) -> (String, String) {
    let mut mappings = webhook.attribute_mappings.iter();
    let is_hidden = mappings.any(|each| {
        let hidden = match each.value {
            AttributeValue::Static { is_secret, .. } => is_secret,
            AttributeValue::Dynamic { .. } => !visitor.sees_data(),
        };
        hidden && each.name.eq_ignore_ascii_case(&name)
    });
    let value = match is_hidden {
        true => "***".to_owned(),
        false => without_credentials(&name, &print::visible(&value)),
    };
    (name, value)
}
