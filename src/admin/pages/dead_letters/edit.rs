//! Sending one dead letter again with another event in the place of its own.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::admin::forms::form::refusals;
use crate::admin::forms::json_fault;
use crate::admin::page::*;
use crate::admin::pages::dead_letters::DeadLetter;
use crate::admin::widgets::json_text;
use crate::broker::{EventEdit, ResubmitError, ResubmitRequest, Resubmitted};
use crate::model::delivery::DeliveryId;
use crate::model::topic::DeliverySchema;
use crate::wire;
use crate::wire::resource::{InvalidResource, ReplayContext, parse_target};

/// How dead letters are sent again: with another event in the place of their own, or many of them by a job.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ResubmitForm {
    event: String,
    /// `Subscription`, `Topic`, `Topic orders`, or `Url` with the URL.
    kind: String,
    url: String,
    events_per_second: String,
}

impl ResubmitForm {
    /// To its own subscription.
    pub(crate) fn with(event: String) -> Filled<Self> {
        let kind = "Subscription".to_owned();
        Filled::with(Self {
            event,
            kind,
            ..Self::default()
        })
    }

    /// What is sent where, for the management API.
    pub(crate) fn target(&self) -> Value {
        let kind = self.kind.as_str();
        match kind.split_once(' ') {
            Some((kind, topic)) => json!({ "kind": kind, "topic": topic }),
            None if kind == "Url" => json!({ "kind": kind, "url": self.url.trim() }),
            None => json!({ "kind": Some(kind).filter(|kind| !kind.is_empty()) }),
        }
    }
}

#[derive(Template)]
#[template(path = "pages/edit_dead_letter.html")]
struct EditPage {
    frame: Frame,
    form: Filled<ResubmitForm>,
    /// Its own.
    topic: String,
    topics: Vec<(String, String)>,
    back: String,
}

/// What is wrong, at the fields that a target is chosen by.
pub(crate) fn at_fields(invalid: &InvalidResource) -> Vec<Refusal> {
    let mut refusals = refusals(invalid);
    for each in &mut refusals {
        each.target = match each.target.as_str() {
            "target.topic" => "kind".to_owned(),
            path => path.trim_start_matches("target.").to_owned(),
        };
    }
    refusals
}

/// The other topics that it may go to: values of the field and their texts.
pub(crate) fn other_topics(site: &Site, own: &str) -> Vec<(String, String)> {
    let registry = site.broker.registry();
    let names = registry
        .made_topics()
        .map(|topic| topic.topic.name.to_string());
    let others = names.filter(|name| name != own);
    others.map(|name| (format!("Topic {name}"), name)).collect()
}

/// The event, as its publisher would send it, to be changed.
pub(crate) async fn edit(call: Call<DeadLetter>) -> PageResult {
    let row = call.of.row()?;
    let event = call.views.event(row.event).await?;
    let event = event.ok_or_else(|| PageError::NotFound(format!("event {}", row.event)))?;
    let topic = call.topic(&row.topic)?;
    let schema = DeliverySchema::default_for(&topic.topic.definition.input_schema);
    let written = wire::encode_message(schema, &topic.resource_id, &event.stored);
    let text = json_text::laid_out(&String::from_utf8_lossy(&written.body));
    Ok(draw_form(&call, ResubmitForm::with(text)))
}

fn draw_form(call: &Call<DeadLetter>, form: Filled<ResubmitForm>) -> Response {
    let row = &call.of.detail.row;
    let title = format!("Edit and resubmit dead letter {}", row.id);
    let page = EditPage {
        frame: Frame::new(&call.visitor, title),
        topics: other_topics(call, &row.topic),
        topic: row.topic.clone(),
        back: call.of.page(),
        form,
    };
    draw_with(page.form.status(), &page)
}

/// Sends what was typed.
pub(crate) async fn resubmit(call: Call<DeadLetter>) -> PageResult {
    let id = call.of.row()?.id;
    let form = Filled::<ResubmitForm>::sent(&call.form);
    match send(&call, id, &form.values).await? {
        Err(faults) => Ok(draw_form(&call, form.with_faults(faults))),
        Ok(done) => {
            let said = format!("Dead letter {id} has been resubmitted as edited.");
            let page = paths::event_page(done.event);
            call.visitor.leave(Flash::done(said), &page).await
        }
    }
}

async fn send(
    call: &Call<DeadLetter>,
    id: DeliveryId,
    form: &ResubmitForm,
) -> PageResult<Result<Resubmitted, Vec<Refusal>>> {
    let context = ReplayContext {
        registry: &call.broker.registry(),
        require_https: call.egress.require_https,
    };
    let target = json!({ "target": form.target() });
    let target = match parse_target(&target, context) {
        Ok(target) => target,
        Err(invalid) => return Ok(Err(at_fields(&invalid))),
    };
    let request = ResubmitRequest {
        deliveries: vec![id],
        target,
        edit: Some(EventEdit::Event(form.event.clone())),
    };
    let done = call.broker.resubmit_all(call.by(), request).await;
    let one = done.and_then(|mut done| {
        let done = done.pop().map(|(_, done)| done);
        done.unwrap_or(Err(ResubmitError::NotFound(id)))
    });
    match one {
        Ok(done) => Ok(Ok(done)),
        Err(ResubmitError::InvalidEvent(error)) => {
            let problem = json_fault::of_events(&form.event, &error);
            Ok(Err(vec![Refusal::of("event", problem)]))
        }
        Err(error @ (ResubmitError::Rejected(..) | ResubmitError::EndpointFailed(..))) => {
            Ok(Err(vec![Refusal::whole(sentence(&error.to_string()))]))
        }
        Err(error) => Err(error.into()),
    }
}
