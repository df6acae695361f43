//! The playground: what filters, deliveries and signatures come to, tried with pasted texts. Nothing is
//! published, sent or kept.

mod convert;
mod filter;
mod signature;

use crate::admin::pages::events::FilterResults;
use crate::admin::pages::*;
use crate::base::Entropy;
use crate::broker::{TooManyTrials, try_out};
use crate::outbound::DeliveryRequest;
use signature::SignatureVerdict;

/// The topic that events are thought of which name none.
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

enum Outcome {
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
        let mut pasted = Filled::<Pasted>::sent(&call.form).values;
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
    outcome: Result<Option<Outcome>, FormError>,
) -> PageResult {
    let (outcome, fault) = outcome.map_or_else(|fault| (None, Some(fault)), |it| (it, None));
    let at = tool as usize;
    answer!("pages/playground_tool.html", &call.visitor, TOOLS[at].1, {
        at: usize = at,
        tool: Tool = tool,
        form: Filled<Pasted> = Filled::with(pasted).with_faults(fault),
        outcome: Option<Outcome> = outcome,
    }, form)
}

fn example(call: &Call) -> String {
    let (entropy, now) = (call.broker.entropy(), call.visitor.now);
    let example = wire::example(&InputSchema::EventGridSchema, entropy, now);
    json_text::laid_out(&example.get(0).unwrap_or(&example).to_string())
}

/// Rejects a text of more than so many bytes in the field `name`.
fn check_size(name: &str, text: &str, bytes_max: usize) -> Result<(), FormError> {
    if text.len() <= bytes_max {
        return Ok(());
    }
    let most = print::bytes(bytes_max as u64);
    let problem = format!("This is more than the {most} that are taken here.");
    Err(FormError::of(name, problem))
}

/// Says that too many others try large events.
fn busy(error: TooManyTrials) -> FormError {
    FormError::of("event", format!("Try again in a moment: {error}."))
}

/// An event as its topic would read it, and where it would have been published.
struct PastedEvent {
    event: Event,
    /// `None` for no topic in particular.
    topic: Option<Arc<TopicEntry>>,
    schema: InputSchema,
    resource_id: Arc<str>,
}

impl PastedEvent {
    /// Reads what was pasted, as an event of `topic` or by what it tells of itself.
    async fn read(
        call: &Call,
        text: &str,
        topic: Option<Arc<TopicEntry>>,
    ) -> Result<Self, FormError> {
        check_size("event", text, call.publish_bytes_max)?;
        // Browsers end the lines of a form in their own way, which must not show in the bytes of a delivery.
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

/// Leads from the choice of a topic to the form for a token of it.
pub(crate) async fn choose_topic(Query(chosen): Query<Names>, call: Call) -> PageResult {
    let topic = call.made_topic(name_of(&chosen, "topic"))?;
    Ok(Redirect::to(&format!("{}/keys/token", topic.page())).into_response())
}
