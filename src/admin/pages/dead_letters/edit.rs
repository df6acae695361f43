//! Sending one dead letter again with another event in the place of its own.

use super::*;
use crate::admin::pages::events;
use crate::broker::{EventEdit, ResubmitError, ResubmitRequest, Resubmitted};
use crate::store::views::EventDetail;
use crate::wire::encode_message;
use crate::wire::resource::{ReplayRequest, parse_replay};
use crate::wire::service_bus::message::{is_message, of_event};

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

    /// Returns the replay request that the form defines, or everything that the management API has against it.
    pub(crate) fn request<S>(&self, call: &Call<S>) -> Result<ReplayRequest, Vec<FormError>> {
        let kind = self.kind.as_str();
        let target = match kind.split_once(' ') {
            Some((kind, topic)) => json!({ "kind": kind, "topic": topic }),
            None if kind == "Url" => json!({ "kind": kind, "url": self.url.trim() }),
            None => json!({ "kind": Some(kind).filter(|kind| !kind.is_empty()) }),
        };
        let mut body = json!({ "target": target });
        let rate = call.form.number("eventsPerSecond");
        if !rate.is_null() {
            body["eventsPerSecond"] = rate;
        }
        let context = ReplayContext {
            registry: &call.broker.registry(),
            require_https: call.broker.options().egress.require_https,
        };
        parse_replay(&body, context).map_err(|invalid| {
            let mut form_errors = form_errors(&invalid);
            for each in &mut form_errors {
                let field = each.target.trim_start_matches("target.");
                each.target = if field == "topic" { "kind" } else { field }.to_owned();
            }
            form_errors
        })
    }
}

async fn event_of(call: &Call<DeadLetter>) -> PageResult<EventDetail> {
    events::find(call, &call.of.row()?.event.to_string()).await
}

/// The event, as its publisher would send it, to be changed.
pub(crate) async fn edit(call: Call<DeadLetter>) -> PageResult {
    let event = event_of(&call).await?;
    let text = match of_event(&event.stored.event) {
        Some(message) => String::from_utf8(message.plain_body()).map_err(|_| {
            PageError::rejected("the body of this message is not text and cannot be edited here")
        })?,
        None => {
            let topic = call.topic(&call.of.row()?.topic)?;
            let schema = DeliverySchema::default_for(topic.topic.kind.input_schema());
            let written = encode_message(schema, &topic.resource_id, &event.stored);
            json_text::laid_out(&String::from_utf8_lossy(&written.body))
        }
    };
    let is_message = is_message(&event.stored.event);
    draw_form(&call, ResubmitForm::with(text), is_message)
}

fn draw_form(call: &Call<DeadLetter>, form: Filled<ResubmitForm>, is_message: bool) -> PageResult {
    let row = &call.of.detail.row;
    let title = format!("Edit and resubmit dead letter {}", row.id);
    answer!("pages/edit_dead_letter.html", &call.visitor, title, {
        form: Filled<ResubmitForm> = form,
        is_message: bool = is_message,
        topic: String = row.topic.clone(),
        subscription: String = row.subscription.clone(),
        back: String = call.of.page(),
    }, form)
}

pub(crate) async fn resubmit_edited(call: Call<DeadLetter>) -> PageResult {
    let id = call.of.row()?.id;
    let form = Filled::<ResubmitForm>::sent(&call.form);
    match send(&call, id, &form.values).await {
        Err(error) => {
            let form = form.with_faults(error.in_form()?);
            let event = event_of(&call).await?;
            draw_form(&call, form, is_message(&event.stored.event))
        }
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
    let request = ResubmitRequest {
        deliveries: vec![id],
        target: form.request(call)?.target,
        edit: Some(EventEdit::Event(form.event.replace("\r\n", "\n"))),
    };
    let done = call.broker.resubmit_all(call.by(), request).await;
    let done = done.and_then(|mut done| done.pop().expect("one result for each").1);
    done.map_err(|error| {
        if let ResubmitError::InvalidEvent(error) = error {
            return FormError::of("event", json_fault::of_events(&form.event, &error)).into();
        }
        error.into()
    })
}
