//! Publishing by hand: a form with an example in the topic's own schema, and the command that does the
//! same.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::admin::Site;
use crate::admin::error::{PageResult, sentence};
use crate::admin::events::events_of;
use crate::admin::field::{Field, Problem, mark};
use crate::admin::form::{Form, Refusal, Submitted};
use crate::admin::identify::{event_page, topic_page};
use crate::admin::json_text;
use crate::admin::print;
use crate::admin::session::Visitor;
use crate::admin::topics::snippets;
use crate::admin::view::{Flash, Frame, draw_with};
use crate::base::Timestamp;
use crate::model::event::{Event, EventKey};
use crate::model::name::TopicName;
use crate::model::registry::TopicEntry;
use crate::model::topic::InputSchema;
use crate::wire;

#[derive(Template)]
#[template(path = "admin/publish.html")]
struct PublishPage {
    frame: Frame,
    problem: Option<Problem>,
    field: Field,
    topic: String,
    back: String,
    command: String,
}

/// The form with an example in it.
pub(in crate::admin) async fn compose(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(topic): Path<String>,
) -> PageResult {
    let topic = site.made_topic(&topic)?;
    let schema = &topic.topic.definition.input_schema;
    let example = wire::example(schema, site.broker.entropy(), visitor.now);
    let form = Form::of([("events", json_text::laid_out(&example.to_string()))]);
    Ok(draw_form(&site, &visitor, &topic, &form, None))
}

/// Publishes what was typed, all or nothing.
pub(in crate::admin) async fn publish(
    State(site): State<Arc<Site>>,
    Path(topic): Path<String>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let topic = site.made_topic(&topic)?;
    let events = match read(&site, &topic, &form, visitor.now) {
        Ok(events) => events,
        Err(refusal) => return Ok(draw_form(&site, &visitor, &topic, &form, Some(refusal))),
    };
    let keys = site.broker.publish(&topic, events, None).await?;
    let name = topic.topic.name.as_str();
    tracing::info!(
        user.name = visitor.name,
        topic.name = name,
        "events were published by hand"
    );
    let number = u64::try_from(keys.len()).unwrap_or(u64::MAX);
    let told = print::plural(
        number,
        "event has been accepted",
        "events have been accepted",
    );
    visitor.tell(Flash::done(format!("{told}."))).await?;
    Ok(Redirect::to(&page_of(&keys, &topic.topic.name)).into_response())
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
        .map_err(|error| refuse(sentence(&error.to_string())))?;
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
