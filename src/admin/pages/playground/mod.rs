//! Playground pages, which show the results of filters, of conversions for delivery and of signature checks for pasted
//! texts. Nothing is published, sent or kept.

mod convert;
mod filter;
mod signature;

use std::sync::Arc;

use axum::extract::Query;
use axum::response::{IntoResponse, Redirect};
use axum::routing::{MethodRouter, get};
use serde::{Deserialize, Serialize};
use signature::SignatureVerdict;

use crate::admin::action::{Call, Names, Subject, name_of};
use crate::admin::error::PageResult;
use crate::admin::forms::filled::FilledForm;
use crate::admin::forms::form::FormError;
use crate::admin::forms::json_fault;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::answer;
use crate::admin::pages::events::FilterResults;
use crate::admin::site::Site;
use crate::admin::widgets::{Badge, Icon, Tone, filters, json_text, print};
use crate::base::{Entropy, Timestamp};
use crate::broker::{TooManyTrials, try_out};
use crate::model::event::Event;
use crate::model::filter::{EventView, FilterResult};
use crate::model::name::TopicName;
use crate::model::registry::TopicEntry;
use crate::model::topic::{DeliverySchema, InputSchema};
use crate::wire;

/// Name of the topic that is assumed for an event that names none, if none is chosen.
const NOWHERE: &str = "playground";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Filter,
    Convert,
    Signature,
}

/// The tools, each with its title, path, icon, question and instructions.
#[rustfmt::skip] // a table
const TOOLS: [(Tool, &str, &str, &str, &str, &str); 3] = [
    (Tool::Filter, "Try a filter", "filter", "search",
        "Would this event match, and if not, which part of the filter stops it?",
        "Paste an event and a filter, or choose an event subscription to try its own. The result shows which parts of the filter match."),
    (Tool::Convert, "Convert an event", "convert", "replay",
        "What would an endpoint be sent, byte for byte?",
        "Paste an event as a publisher sends it. The result is the request that a webhook gets, in the Event Grid schema or as a CloudEvent."),
    (Tool::Signature, "Check a signature", "signature", "shield",
        "Was this request signed with that secret?",
        "Paste the secret of an event subscription and a request that its webhook got. It is checked as the Standard Webhooks libraries do."),
];

/// The pasted texts and chosen values of all tools; each tool uses some of them.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Pasted {
    event: String,
    /// A topic or an event subscription.
    of: String,
    topic: String,
    filter: String,
    event_delivery_schema: String,
    batch: String,
    secret: String,
    #[serde(rename = "webhook-id")]
    id: String,
    #[serde(rename = "webhook-timestamp")]
    timestamp: String,
    #[serde(rename = "webhook-signature")]
    signature: String,
    body: String,
    /// The button that was pressed, unless it is the first one.
    r#do: String,
}

enum PlaygroundOutcome {
    /// How an event fares with a filter that belongs to nobody, or with that of an event subscription, clause by
    /// clause; why it does not match; and the question for the command line.
    Filter(FilterResult, Option<String>, Option<String>, Recipe),
    /// The results of the filters of all subscriptions of a topic.
    Everybody(FilterResults, Recipe),
    /// From and into which schemas, and what is sent.
    Request {
        from: &'static str,
        into: &'static str,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    },
    Signature(SignatureVerdict),
}

/// Serves the page of a tool: a GET draws the form with an example event, a POST draws it with the result.
pub(crate) fn tool(tool: Tool) -> MethodRouter<Arc<Site>> {
    let open = move |Query(chosen): Query<Pasted>, call: Call| async move {
        let pasted = Pasted {
            event: example(&call),
            of: chosen.of,
            event_delivery_schema: DeliverySchema::CloudEventSchemaV1_0.name().to_owned(),
            ..Pasted::default()
        };
        draw_tool(tool, &call, pasted, Ok(None))
    };
    let send = move |call: Call| async move {
        let mut pasted = FilledForm::<Pasted>::sent(&call.form).values;
        let outcome = match tool {
            Tool::Filter => filter::use_it(&call, &mut pasted).await,
            Tool::Convert => convert::write(&call, &pasted).await,
            Tool::Signature => signature::check(&pasted, call.visitor.now),
        };
        draw_tool(tool, &call, pasted, outcome)
    };
    get(open).post(send)
}

fn draw_tool(
    tool: Tool,
    call: &Call,
    pasted: Pasted,
    outcome: Result<Option<PlaygroundOutcome>, FormError>,
) -> PageResult {
    let (outcome, fault) = outcome.map_or_else(|fault| (None, Some(fault)), |it| (it, None));
    let at = tool as usize;
    answer!("pages/playground_tool.html", &call.visitor, TOOLS[at].1, {
        at: usize = at,
        tool: Tool = tool,
        form: FilledForm<Pasted> = FilledForm::with(pasted).with_faults(fault),
        outcome: Option<PlaygroundOutcome> = outcome,
    }, form)
}

fn example(call: &Call) -> String {
    let (entropy, now) = (call.broker.entropy(), call.visitor.now);
    let example = wire::example(&InputSchema::EventGridSchema, entropy, now);
    json_text::laid_out(&example.get(0).unwrap_or(&example).to_string())
}

/// Rejects a text of more than `bytes_max` bytes in the field `name`.
fn check_size(name: &str, text: &str, bytes_max: usize) -> Result<(), FormError> {
    if text.len() <= bytes_max {
        return Ok(());
    }
    let most = print::bytes(bytes_max as u64);
    let problem = format!("This is more than the {most} that are taken here.");
    Err(FormError::of(name, problem))
}

/// Returns the form error for too many others who try large events at the moment.
fn busy(error: TooManyTrials) -> FormError {
    FormError::of("event", format!("Try again in a moment: {error}."))
}

/// Pasted event, decoded by the input schema of its topic, and the topic to which it would have been published.
struct PastedEvent {
    event: Event,
    /// `None` for no topic in particular.
    topic: Option<Arc<TopicEntry>>,
    schema: InputSchema,
    resource_id: Arc<str>,
}

impl PastedEvent {
    /// Decodes a pasted event by the input schema of `topic`; without one, by the schema and the topic that the event
    /// itself indicates.
    async fn read(
        call: &Call,
        text: &str,
        topic: Option<Arc<TopicEntry>>,
    ) -> Result<Self, FormError> {
        check_size("event", text, call.publish_bytes_max)?;
        // Browsers send the line breaks of a form as CRLF, which must not appear in the bytes of a delivery.
        let json = text.replace("\r\n", "\n");
        let name = TopicName::parse(NOWHERE).expect("it is a name");
        let nowhere = call.broker.registry().resource_id(&name);
        let (now, entropy) = (call.visitor.now, call.broker.entropy().clone());
        let steps = json.len();
        let parse = move || Self::parse(&json, topic, nowhere, now, &entropy);
        try_out(steps, parse).await.map_err(busy)?
    }

    fn parse(
        json: &str,
        topic: Option<Arc<TopicEntry>>,
        nowhere: String,
        now: Timestamp,
        entropy: &Entropy,
    ) -> Result<Self, FormError> {
        let (schema, resource_id) = match topic.as_deref() {
            Some(of) => (of.topic.kind.input_schema().clone(), of.resource_id.clone()),
            None => {
                let recognized = wire::pasted::recognize(json);
                let resource_id = recognized.topic.unwrap_or(nowhere).into();
                (recognized.schema, resource_id)
            }
        };
        let event = wire::decode_one(&schema, &resource_id, json, now, entropy);
        Ok(Self {
            event: event
                .map_err(|bad| FormError::of("event", json_fault::of_events(json, &bad)))?,
            topic,
            schema,
            resource_id,
        })
    }

    fn view(&self) -> EventView<'_> {
        match &self.topic {
            Some(topic) => topic.view(&self.event),
            None => EventView::new(&self.event, &self.resource_id),
        }
    }
}

pub(crate) async fn show(call: Call) -> PageResult {
    answer!("pages/playground.html", &call.visitor, "Playground", {})
}

/// Redirects from the choice of a topic to the form that creates a SAS token for that topic.
pub(crate) async fn choose_topic(Query(chosen): Query<Names>, call: Call) -> PageResult {
    let topic = call.made_topic(name_of(&chosen, "topic"))?;
    Ok(Redirect::to(&format!("{}/keys/token", topic.page())).into_response())
}
