//! Sending one dead letter again with another event in the place of its own.

use super::*;
use crate::admin::widgets::json_text::laid_out;
use crate::broker::{EventEdit, ResubmitError, ResubmitRequest, Resubmitted};
use crate::wire::encode_message;
use crate::wire::resource::parse_target;

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
pub(crate) fn other_topics(registry: &Registry, own: &str) -> Vec<(String, String)> {
    let names = registry
        .made_topics()
        .map(|each| each.topic.name.to_string());
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
    let written = encode_message(schema, &topic.resource_id, &event.stored);
    let text = laid_out(&String::from_utf8_lossy(&written.body));
    Ok(draw_form(&call, ResubmitForm::with(text)))
}

fn draw_form(call: &Call<DeadLetter>, form: Filled<ResubmitForm>) -> Response {
    let row = &call.of.detail.row;
    let title = format!("Edit and resubmit dead letter {}", row.id);
    let page = page!("pages/edit_dead_letter.html", &call.visitor, title, {
        form: Filled<ResubmitForm> = form,
        topic: String = row.topic.clone(),
        back: String = call.of.page(),
    });
    draw_with(page.form.status(), &page)
}

pub(crate) async fn resubmit_edited(call: Call<DeadLetter>) -> PageResult {
    let id = call.of.row()?.id;
    let form = Filled::<ResubmitForm>::sent(&call.form);
    match send(&call, id, &form.values).await {
        Err(error) => Ok(draw_form(&call, form.with_faults(error.in_form()?))),
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
) -> PageResult<Resubmitted> {
    let (registry, require_https) = (&call.broker.registry(), call.egress.require_https);
    let context = ReplayContext {
        registry,
        require_https,
    };
    let target = parse_target(&json!({ "target": form.target() }), context);
    let request = ResubmitRequest {
        deliveries: vec![id],
        target: target.map_err(|invalid| at_fields(&invalid))?,
        edit: Some(EventEdit::Event(form.event.clone())),
    };
    let done = call.broker.resubmit_all(call.by(), request).await;
    let one = done.map(|mut done| done.pop().map(|(_, done)| done));
    match one.and_then(|done| done.unwrap_or(Err(ResubmitError::NotFound(id)))) {
        Ok(done) => Ok(done),
        Err(ResubmitError::InvalidEvent(error)) => {
            let problem = json_fault::of_events(&form.event, &error);
            Err(Refusal::of("event", problem).into())
        }
        Err(error @ (ResubmitError::Rejected(..) | ResubmitError::EndpointFailed(..))) => {
            Err(Refusal::whole(sentence(&error.to_string())).into())
        }
        Err(error) => Err(error.into()),
    }
}
