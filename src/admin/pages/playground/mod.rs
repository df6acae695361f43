//! The playground: what filters, deliveries and signatures come to, tried with pasted texts. Nothing is
//! published, sent or kept.

mod convert;
mod filter;
mod pasted;
mod signature;

use axum::routing::{MethodRouter, get};

use crate::admin::lists::filter as lists;
use crate::admin::page::*;
use crate::admin::pages::events::FilterResults;
use crate::model::filter::FilterResult;
use crate::model::topic::DeliverySchema;
use convert::RequestText;
use signature::SignatureVerdict;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Filter,
    Convert,
    Signature,
}

/// What is pasted and chosen; each tool has some of it.
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
    /// Of all subscriptions of a topic.
    Everybody(FilterResults, Recipe),
    Request(RequestText),
    Signature(SignatureVerdict),
}

#[derive(Template)]
#[template(path = "pages/playground_tool.html")]
struct ToolPage {
    frame: Frame,
    tool: Tool,
    form: Filled<Pasted>,
    /// Whose events it may be.
    topics: Vec<(String, String)>,
    outcome: Option<Outcome>,
}

/// What serves the page of a tool: the form with an event to begin with, and the form with what it comes to.
pub(crate) fn tool(tool: Tool) -> MethodRouter<Arc<Site>> {
    let open = move |Query(chosen): Query<Pasted>, call: Call| async move {
        let pasted = Pasted {
            event: pasted::example(&call),
            of: chosen.of,
            event_delivery_schema: DeliverySchema::CloudEventSchemaV1_0.name().to_owned(),
            ..Pasted::default()
        };
        draw_tool(tool, &call, pasted, Ok(None))
    };
    let send = move |call: Call| async move {
        let mut pasted = Filled::<Pasted>::sent(&call.form).values;
        let outcome = match tool {
            Tool::Filter => filter::use_it(&call, &mut pasted),
            Tool::Convert => convert::write(&call, &pasted),
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
    outcome: Result<Option<Outcome>, Refusal>,
) -> Response {
    let registry = call.broker.registry();
    let none = "Detect from the event";
    let (title, topics) = match tool {
        Tool::Filter => ("Try a filter", lists::of_options(&registry, none)),
        Tool::Convert => ("Convert an event", lists::topic_options(&registry, none)),
        Tool::Signature => ("Check a signature", Vec::new()),
    };
    let (outcome, fault) = outcome.map_or_else(|fault| (None, Some(fault)), |it| (it, None));
    let page = ToolPage {
        frame: Frame::new(&call.visitor, title),
        tool,
        form: Filled::with(pasted).with_faults(fault),
        topics,
        outcome,
    };
    draw_with(page.form.status(), &page)
}

#[derive(Template)]
#[template(path = "pages/playground.html")]
struct PlaygroundPage {
    frame: Frame,
    /// Topics with keys to sign with.
    topics: Vec<String>,
}

pub(crate) async fn show(call: Call) -> PageResult {
    let registry = call.broker.registry();
    let topics = registry.made_topics();
    Ok(draw(&PlaygroundPage {
        topics: topics.map(|each| each.topic.name.to_string()).collect(),
        frame: Frame::new(&call.visitor, "Playground"),
    }))
}

/// Leads from the choice of a topic to the form for a token of it.
pub(crate) async fn choose_topic(Query(chosen): Query<Names>, call: Call) -> PageResult {
    let topic = call.made_topic(name_of(&chosen, "topic"))?;
    Ok(Redirect::to(&format!("{}/keys/token", topic.page())).into_response())
}
