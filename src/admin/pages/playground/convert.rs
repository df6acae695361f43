//! What a webhook would be sent for an event: written by the code that delivers.

use serde_json::{Value, json};

use crate::admin::forms::field::Field;
use crate::admin::lists::filter;
use crate::admin::page::*;
use crate::admin::pages::playground::Tool;
use crate::admin::pages::playground::pasted;
use crate::admin::pages::playground::pasted::Pasted;
use crate::model::event::{EventKey, StoredEvent};
use crate::model::subscription::{EventSubscription, SubscriptionDefinition};
use crate::model::topic::{DeliverySchema, InputSchema};
use crate::outbound::DeliveryRequest;
use crate::wire::received::header_texts;
use crate::wire::resource::{SubscriptionContext, parse_subscription};

const PATH: &str = "/admin/playground/convert";
const TOPIC: &str = "topic";
const SCHEMA: &str = "eventDeliverySchema";
const BATCH: &str = "batch";

/// The webhook that nothing is sent to.
const WEBHOOK: &str = "https://receiver.example/";

/// Events per request of a subscription that takes batches.
const BATCHED: u32 = 10;

#[derive(Template)]
#[template(path = "pages/playground_convert.html")]
struct ConvertPage {
    frame: Frame,
    tool: Tool,
    request: Option<RequestText>,
}

/// A request ready to print.
struct RequestText {
    /// From which schema into which.
    title: String,
    headers: Vec<(String, String)>,
    body: String,
    size: String,
}

/// The form with an event to begin with.
pub(crate) async fn draft(visitor: Visitor, State(site): State<Arc<Site>>) -> PageResult {
    let schema = DeliverySchema::CloudEventSchemaV1_0.name();
    let mut form = Form::of([(SCHEMA, schema.to_owned())]);
    pasted::fill_example(&site, &mut form, visitor.now);
    Ok(draw(&site, &visitor, &form, Ok(None)))
}

/// The form with the request for the event.
pub(crate) async fn convert(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let request = write(&site, &form, visitor.now).map(Some);
    Ok(draw(&site, &visitor, &form, request))
}

fn write(site: &Site, form: &Form, now: Timestamp) -> Result<RequestText, Refusal> {
    let pasted = Pasted::read(site, form, topic(site, form)?, now)?;
    let subscription = EventSubscription::unstored(definition(form, &pasted.schema, now)?, now);
    let title = format!(
        "{} sent as {}",
        pasted.schema.name(),
        subscription.definition.delivery_schema.name()
    );
    let stored = StoredEvent {
        key: EventKey(1),
        received_at: now,
        event: pasted.event,
    };
    let delivery_request = DeliveryRequest {
        subscription: &subscription,
        topic_resource_id: &pasted.resource_id,
        events: &[&stored],
        delivery_count: 0,
        deadline: site.broker.options().response_deadline,
    };
    let request = site.broker.draft_request(&delivery_request);
    let (headers, body) = request.expect("its destination is a webhook");
    Ok(RequestText {
        title,
        headers: headers_of(header_texts(&headers)),
        size: print::bytes(u64::try_from(body.len()).unwrap_or(u64::MAX)),
        body: print::visible(&String::from_utf8_lossy(&body)),
    })
}

fn headers_of(texts: Vec<(String, String)>) -> Vec<(String, String)> {
    let visible = |(name, value): (String, String)| (name, print::visible(&value));
    let mut headers: Vec<_> = texts.into_iter().map(visible).collect();
    headers.sort();
    headers
}

fn topic(site: &Site, form: &Form) -> Result<Option<Arc<TopicEntry>>, Refusal> {
    let registry = site.broker.registry();
    let id = filter::topic(&registry, form.text(TOPIC));
    let id = id.map_err(|_| Refusal::of(TOPIC, "There is no such topic any more."))?;
    Ok(id.and_then(|id| registry.topic_by_id(id)).cloned())
}

/// What a subscription says that takes events which are published as `input` in the way that the form chooses,
/// if there could be one.
fn definition(
    form: &Form,
    input: &InputSchema,
    now: Timestamp,
) -> Result<SubscriptionDefinition, Refusal> {
    let batched = form.is_on(BATCH).then_some(BATCHED);
    let document: Value = json!({ "properties": {
        SCHEMA: form.filled(SCHEMA),
        "destination": {
            "endpointType": "WebHook",
            "properties": { "endpointUrl": WEBHOOK, "maxEventsPerBatch": batched },
        },
    } });
    let context = SubscriptionContext {
        input_schema: input,
        event_retention: None,
        now,
        replaces: None,
        require_https: false,
    };
    parse_subscription(&document, &context).map_err(Refusal::from)
}

fn fields(site: &Site, form: &Form) -> Vec<Field> {
    let none = "None: recognize the event by itself";
    let topics = filter::topic_options(&site.broker.registry(), none);
    let mut schemas = vec![("", "As published")];
    schemas.extend(DeliverySchema::ALL.map(|schema| (schema.name(), schema.name())));
    vec![
        pasted::field(form),
        Field::grouped_choice(TOPIC, "Published to", vec![("", topics)], form).hint(
            "The topic says how the event is read; a custom event cannot be read without one.",
        ),
        Field::choice(SCHEMA, "Delivery schema", &schemas, form)
            .at("properties.eventDeliverySchema"),
        Field::tick(
            BATCH,
            "For a webhook that takes several events per request",
            form,
        ),
    ]
}

fn draw(
    site: &Site,
    visitor: &Visitor,
    form: &Form,
    request: Result<Option<RequestText>, Refusal>,
) -> Response {
    let mut tool = Tool {
        lead: "Paste an event as a publisher sends it, and see the request by which a webhook would get \
               it, byte for byte.",
        action: PATH,
        problem: None,
        fields: fields(site, form),
        button: "Convert",
        other: None,
    };
    let (request, refusal) = match request {
        Ok(request) => (request, None),
        Err(refusal) => (None, Some(refusal)),
    };
    tool.mark(refusal);
    let page = ConvertPage {
        frame: Frame::new(visitor, "Convert an event"),
        request,
        tool,
    };
    page.tool.draw(&page)
}
