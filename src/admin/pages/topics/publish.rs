//! Manual publishing: a form with an example in the topic's schema or with a copy of a stored event, and the equivalent
//! command.

use std::sync::Arc;

use axum::extract::Query;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};

use super::example;
use super::snippets::{curl, key_header};
use crate::admin::action::{Call, Names, name_of};
use crate::admin::error::PageResult;
use crate::admin::forms::filled::FilledForm;
use crate::admin::forms::form::FormError;
use crate::admin::forms::json_fault;
use crate::admin::forms::sheet::{Head, Sheet, SheetFields, draw_sheet};
use crate::admin::pages::events::{self, events_of};
use crate::admin::paths;
use crate::admin::site::existing;
use crate::admin::widgets::{Flash, json_text, print};
use crate::model::event::{Event, EventKey};
use crate::model::registry::TopicEntry;
use crate::model::topic::DeliverySchema;
use crate::wire;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Events {
    events: String,
}

/// Shows the form with the event whose key is in the URL, or with an example.
pub(crate) async fn compose(Query(asked): Query<Names>, call: Call<Arc<TopicEntry>>) -> PageResult {
    let form = match name_of(&asked, "like") {
        "" => Events::begin(&call)?,
        key => Events::of(&copy_of(&call, key).await?),
    };
    Ok(draw_sheet(&call, FilledForm::with(form)))
}

/// Returns the address of the form that starts with the stored event `key` of the topic at `topic_path`.
pub(crate) fn copy_page(topic_path: &str, key: EventKey) -> String {
    format!("{topic_path}/publish?like={key}")
}

/// Returns a copy of the event `key` of this topic for publishing, with a new id and time. A custom event is copied
/// unchanged, since only its publisher knows which fields are the id and the time.
async fn copy_of(call: &Call<Arc<TopicEntry>>, key: &str) -> PageResult<String> {
    let (topic, found) = (&call.of, events::find(&call.site, key).await?);
    let is_own = found.topic_id == topic.topic.id;
    let named = format!("{key} of the topic {}", topic.topic.name);
    let mut stored = existing(is_own.then_some(found.stored), "event", named)?;
    stored.event.id = call.broker.entropy().uuid().to_string();
    stored.event.time = stored.event.time.map(|_| call.visitor.now.to_string());
    let schema = DeliverySchema::default_for(topic.topic.kind.input_schema());
    let written = wire::encode(schema, &topic.resource_id, &[&stored], false).body;
    Ok(String::from_utf8_lossy(&written).into_owned())
}

impl Events {
    fn of(json: &str) -> Self {
        let events = json_text::laid_out(json);
        Self { events }
    }
}

impl Sheet<Arc<TopicEntry>> for Events {
    const HEAD: Head = (SheetFields::Events, "Publish to", "");

    fn begin(call: &Call<Arc<TopicEntry>>) -> PageResult<Self> {
        Ok(Self::of(&example(call, &call.of).to_string()))
    }

    /// Returns the command that publishes the same event.
    fn remark(call: &Call<Arc<TopicEntry>>) -> String {
        curl(call, &call.of, &key_header(None))
    }

    /// Publishes the typed events, all or none, and redirects to the page of the event, or to the list if there are
    /// several.
    async fn save(&self, call: &Call<Arc<TopicEntry>>) -> PageResult {
        let events =
            read(call, &self.events).map_err(|problem| FormError::of("events", problem))?;
        let published = call.broker.publish_by_hand(call.by(), &call.of, events);
        let keys = published.await?;
        let (one, many) = ("event has been accepted.", "events have been accepted.");
        let said = Flash::done(print::plural(keys.len(), one, many));
        let page = match keys.as_slice() {
            [key] => paths::event_page(*key),
            _ => events_of(&call.of.topic.name),
        };
        call.visitor.leave(said, &page).await
    }
}

fn read(call: &Call<Arc<TopicEntry>>, text: &str) -> Result<Vec<Event>, String> {
    if text.len() > call.publish_bytes_max {
        let most = print::bytes(call.publish_bytes_max as u64);
        let problem = format!("This is more than the {most} that one request may have.");
        return Err(problem);
    }
    // The content type that a client would send for this body.
    let schema = call.of.topic.kind.input_schema();
    let kind = wire::content_type(schema, text.trim_start().starts_with('['));
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
    let (now, entropy) = (call.visitor.now, call.broker.entropy());
    let body = text.as_bytes();
    let event_bytes_max = call.broker.options().event_bytes_max;
    let events = wire::decode_for(&call.of, &headers, body, now, entropy)
        .and_then(|events| {
            wire::check_sizes(body, events.len(), event_bytes_max)?;
            Ok(events)
        })
        .map_err(|bad| json_fault::of_events(text, &bad))?;
    if events.is_empty() {
        Err("There is no event in it.".to_owned())
    } else {
        Ok(events)
    }
}
