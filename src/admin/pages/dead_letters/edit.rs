//! Sending one dead letter again with another event in the place of its own.

use serde_json::json;

use crate::admin::forms::field::{Field, Section};
use crate::admin::forms::form_page::FormPage;
use crate::admin::forms::json_fault;
use crate::admin::page::*;
use crate::admin::pages::dead_letters::bulk::{target, target_fields};
use crate::admin::pages::dead_letters::{find, obstacle};
use crate::admin::paths::{dead_letter_page, event_page};
use crate::admin::widgets::json_text;
use crate::broker::{EventEdit, ResubmitError, ResubmitRequest, Resubmitted};
use crate::model::delivery::DeliveryId;
use crate::model::topic::DeliverySchema;
use crate::store::views::DeliveryRow;
use crate::wire;
use crate::wire::resource::{self, ReplayContext};

/// The event, as its publisher would send it, to be changed.
pub(crate) async fn edit(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(id): Path<String>,
) -> PageResult {
    let row = dead(&site, &id).await?;
    let event = site.views.event(row.event).await?;
    let event = event.ok_or_else(|| PageError::NotFound(format!("event {}", row.event)))?;
    let registry = site.broker.registry();
    let own = registry.subscription(row.subscription_id);
    let (topic, _) = own.ok_or_else(|| PageError::NotFound("such subscription".to_owned()))?;
    let schema = DeliverySchema::default_for(&topic.topic.definition.input_schema);
    let written = wire::encode_message(schema, &topic.resource_id, &event.stored);
    let text = String::from_utf8_lossy(&written.body).into_owned();
    let form = Form::of([
        ("event", json_text::laid_out(&text)),
        ("kind", "Subscription".to_owned()),
    ]);
    Ok(draw_form(&site, &visitor, &row, &form, None))
}

/// Sends what was typed.
pub(crate) async fn resubmit(
    State(site): State<Arc<Site>>,
    Path(id): Path<String>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let row = dead(&site, &id).await?;
    match send(&site, &visitor, row.id, &form).await? {
        Err(refusal) => Ok(draw_form(&site, &visitor, &row, &form, Some(refusal))),
        Ok(done) => {
            let message = format!("Dead letter {} has been resubmitted as edited.", row.id);
            visitor
                .leave(Flash::done(message), &event_page(done.event))
                .await
        }
    }
}

async fn send(
    site: &Site,
    visitor: &Visitor,
    id: DeliveryId,
    form: &Form,
) -> Result<Result<Resubmitted, Refusal>, PageError> {
    let registry = site.broker.registry();
    let context = ReplayContext {
        registry: &registry,
        require_https: site.egress.require_https,
    };
    let target = match resource::parse_target(&json!({ "target": target(form) }), context) {
        Ok(target) => target,
        Err(error) => return Ok(Err(error.into())),
    };
    let request = ResubmitRequest {
        deliveries: vec![id],
        target,
        edit: Some(EventEdit::Event(form.raw("event").to_owned())),
    };
    let done = match site.broker.resubmit_all(&visitor.caller, request).await {
        Ok(mut done) => done
            .pop()
            .map_or(Err(ResubmitError::NotFound(id)), |(_, done)| done),
        Err(error) => Err(error),
    };
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(ResubmitError::InvalidEvent(error)) => {
            let problem = json_fault::of_events(form.raw("event"), &error);
            Ok(Err(Refusal::of("event", problem)))
        }
        Err(error @ (ResubmitError::Rejected(..) | ResubmitError::EndpointFailed(..))) => {
            Ok(Err(Refusal::whole(sentence(&error.to_string()))))
        }
        Err(error) => Err(error.into()),
    }
}

/// The dead letter, if it can be sent again.
async fn dead(site: &Site, id: &str) -> Result<DeliveryRow, PageError> {
    let row = find(site, id).await?.row;
    let obstacle = obstacle(&row, &site.broker.registry());
    match obstacle.is_empty() {
        true => Ok(row),
        false => Err(PageError::Conflict(obstacle)),
    }
}

fn draw_form(
    site: &Site,
    visitor: &Visitor,
    row: &DeliveryRow,
    form: &Form,
    refusal: Option<Refusal>,
) -> Response {
    let event = Field::area("event", "Event", 18, form)
        .hint("As JSON, in the form that the topic's publishers use.")
        .required();
    let mut fields = vec![event];
    fields.extend(target_fields(site, form, Some(&row.topic)));
    let page = FormPage {
        intro: "What is sent becomes an event of its own; the original stays beside it as it was."
            .to_owned(),
        sections: vec![Section {
            title: "What is sent",
            fields,
        }],
        button: "Resubmit",
        back: dead_letter_page(row.id),
    };
    page.draw(
        Frame::new(visitor, format!("Edit and resubmit dead letter {}", row.id)),
        refusal,
    )
}
