//! Publishing by hand: a form with an example in the topic's own schema, or with a copy of a stored event, and
//! the command that does the same.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;

use crate::admin::bare::draw_with;
use crate::admin::forms::field::{Field, Problem, mark};
use crate::admin::forms::json_fault;
use crate::admin::page::*;
use crate::admin::pages::events::{events_of, find};
use crate::admin::pages::topics::snippets;
use crate::admin::paths::{event_page, topic_page};
use crate::admin::widgets::json_text;
use crate::model::event::{Event, EventKey};
use crate::model::name::TopicName;
use crate::model::topic::{DeliverySchema, InputSchema};
use crate::wire;

#[derive(Template)]
#[template(path = "pages/publish.html")]
struct PublishPage {
    frame: Frame,
    problem: Option<Problem>,
    field: Field,
    topic: String,
    back: String,
    command: String,
}

/// What the URL asks for.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    /// The key of an event of the topic to begin with.
    like: String,
}

/// The form with a stored event in it, or with an example.
pub(crate) async fn compose(
    Query(asked): Query<Asked>,
    Call {
        site,
        visitor,
        of: topic,
        ..
    }: Call<Arc<TopicEntry>>,
) -> PageResult {
    let event = match asked.like.as_str() {
        "" => example(&site, &topic, visitor.now),
        key => copy_of(&site, &topic, key, visitor.now).await?,
    };
    let form = Form::of([("events", event)]);
    Ok(draw_form(&site, &visitor, &topic, &form, None))
}

fn example(site: &Site, topic: &TopicEntry, now: Timestamp) -> String {
    let schema = &topic.topic.definition.input_schema;
    let example = wire::example(schema, site.broker.entropy(), now);
    json_text::laid_out(&example.to_string())
}

/// The form that begins with the stored event `key` of the topic at `topic_path`.
pub(crate) fn copy_page(topic_path: &str, key: EventKey) -> String {
    format!("{topic_path}/publish?like={key}")
}

/// The event `key` of this topic as its publisher would send another one like it: with an id and a time of its
/// own. A custom event stays as it is, since only its publisher knows what in it is which.
async fn copy_of(
    site: &Site,
    topic: &TopicEntry,
    key: &str,
    now: Timestamp,
) -> Result<String, PageError> {
    let found = find(site, key).await?;
    if found.topic_id != topic.topic.id {
        let name = &topic.topic.name;
        return Err(PageError::NotFound(format!(
            "event {key} of the topic {name}"
        )));
    }
    let mut stored = found.stored;
    stored.event.id = site.broker.entropy().uuid().to_string();
    stored.event.time = stored.event.time.map(|_| now.to_string());
    let schema = DeliverySchema::default_for(&topic.topic.definition.input_schema);
    let written = wire::encode(schema, &topic.resource_id, &[&stored], false).body;
    Ok(json_text::laid_out(&String::from_utf8_lossy(&written)))
}

/// Publishes what was typed, all or nothing.
pub(crate) async fn publish(
    State(site): State<Arc<Site>>,
    Call {
        of, visitor, form, ..
    }: Call<Arc<TopicEntry>>,
) -> PageResult {
    let topic = of;
    let events = match read(&site, &topic, &form, visitor.now) {
        Ok(events) => events,
        Err(refusal) => return Ok(draw_form(&site, &visitor, &topic, &form, Some(refusal))),
    };
    let by = &visitor.caller;
    let keys = site.broker.publish_by_hand(by, &topic, events).await?;
    let number = u64::try_from(keys.len()).unwrap_or(u64::MAX);
    let message = print::plural(
        number,
        "event has been accepted",
        "events have been accepted",
    );
    visitor
        .leave(
            Flash::done(format!("{message}.")),
            &page_of(&keys, &topic.topic.name),
        )
        .await
}

/// The page of the one event, or the list of all.
fn page_of(keys: &[EventKey], topic: &TopicName) -> String {
    match keys {
        [key] => event_page(*key),
        _ => events_of(topic),
    }
}

fn read(
    site: &Site,
    topic: &TopicEntry,
    form: &Form,
    now: Timestamp,
) -> Result<Vec<Event>, Refusal> {
    let refuse = |problem: String| Refusal::of("events", problem);
    let text = form.raw("events");
    if text.len() > site.publish_bytes_max {
        let most = print::bytes(u64::try_from(site.publish_bytes_max).unwrap_or(u64::MAX));
        return Err(refuse(format!(
            "This is more than the {most} that one request may have."
        )));
    }
    let schema = &topic.topic.definition.input_schema;
    let headers = headers(schema, text);
    let entropy = site.broker.entropy();
    let events = wire::decode_for(topic, &headers, text.as_bytes(), now, entropy)
        .map_err(|bad| refuse(json_fault::of_events(text, &bad)))?;
    match events.is_empty() {
        true => Err(refuse("There is no event in it.".to_owned())),
        false => Ok(events),
    }
}

/// The content type by which a client would send this.
fn headers(schema: &InputSchema, text: &str) -> HeaderMap {
    let kind = wire::content_type(schema, text.trim_start().starts_with('['));
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))])
}

fn draw_form(
    site: &Site,
    visitor: &Visitor,
    topic: &TopicEntry,
    form: &Form,
    refusal: Option<Refusal>,
) -> Response {
    let status = match refusal {
        None => StatusCode::OK,
        Some(_) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let name = &topic.topic.name;
    let mut field = Field::area("events", "Events", 16, form)
        .hint("As JSON, in the form that the topic's publishers use.")
        .required();
    let page = PublishPage {
        frame: Frame::new(visitor, format!("Publish to {name}")),
        problem: mark(std::iter::once(&mut field), refusal),
        field,
        topic: name.to_string(),
        back: topic_page(name.as_str()),
        command: snippets::command(site, topic, None),
    };
    draw_with(status, &page)
}
