//! The playground: what filters, deliveries and signatures come to, tried with pasted texts. Nothing is
//! published, sent or kept.

mod convert;
mod filter;
mod pasted;
mod signature;

use axum::routing::{MethodRouter, get};
use serde::{Deserialize, Serialize};

use crate::admin::lists::filter as lists;
use crate::admin::page::*;
use crate::admin::pages::events::FilterResults;
use crate::model::topic::DeliverySchema;
use convert::RequestText;
use filter::Verdict;
use signature::SignatureVerdict;

/// What there is to try.
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

/// What it comes to.
enum Outcome {
    /// Of a filter, or of an event subscription with the question for the command line.
    Verdict(Verdict, Option<Recipe>),
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

impl ToolPage {
    /// Values and texts of a choice.
    fn schemas() -> Vec<(&'static str, &'static str)> {
        let all = DeliverySchema::ALL.map(|schema| (schema.name(), schema.name()));
        [&[("", "As published")], &all[..]].concat()
    }
}

/// What serves the page of a tool.
pub(crate) fn tool(tool: Tool) -> MethodRouter<Arc<Site>> {
    get(move |Query(pasted): Query<Pasted>, call: Call| async move { open(tool, pasted, &call) })
        .post(move |call: Call| async move { use_it(tool, &call) })
}

/// The form with an event to begin with.
fn open(tool: Tool, chosen: Pasted, call: &Call) -> Response {
    let pasted = Pasted {
        event: pasted::example(call),
        of: chosen.of,
        event_delivery_schema: DeliverySchema::CloudEventSchemaV1_0.name().to_owned(),
        ..Pasted::default()
    };
    draw_tool(tool, call, Filled::with(pasted), None)
}

/// The form with what it comes to.
fn use_it(tool: Tool, call: &Call) -> Response {
    let mut pasted = Filled::<Pasted>::sent(&call.form).values;
    let outcome = match tool {
        Tool::Filter => filter::use_it(call, &mut pasted),
        Tool::Convert => convert::write(call, &pasted).map(|text| Some(Outcome::Request(text))),
        Tool::Signature => signature::check(&pasted, call.visitor.now)
            .map(|verdict| Some(Outcome::Signature(verdict))),
    };
    let form = Filled::with(pasted);
    match outcome {
        Ok(outcome) => draw_tool(tool, call, form, outcome),
        Err(refusal) => draw_tool(tool, call, form.with_faults([refusal]), None),
    }
}

fn draw_tool(tool: Tool, call: &Call, form: Filled<Pasted>, outcome: Option<Outcome>) -> Response {
    let registry = call.broker.registry();
    let none = "None: recognize the event by itself";
    let (title, topics) = match tool {
        Tool::Filter => ("Try a filter", lists::of_options(&registry, none)),
        Tool::Convert => ("Convert an event", lists::topic_options(&registry, none)),
        Tool::Signature => ("Check a signature", Vec::new()),
    };
    let page = ToolPage {
        frame: Frame::new(&call.visitor, title),
        tool,
        form,
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

/// What there is to try.
pub(crate) async fn show(Call { site, visitor, .. }: Call) -> PageResult {
    let registry = site.broker.registry();
    let topics = registry.made_topics();
    Ok(draw(&PlaygroundPage {
        topics: topics.map(|each| each.topic.name.to_string()).collect(),
        frame: Frame::new(&visitor, "Playground"),
    }))
}

/// Leads from the choice of a topic to the form for a token of it.
pub(crate) async fn choose_topic(Query(chosen): Query<Names>, call: Call) -> PageResult {
    let topic = call.made_topic(name_of(&chosen, "topic"))?;
    Ok(Redirect::to(&format!("{}/keys/token", topic.page())).into_response())
}
