//! The playground: what filters, deliveries and signatures come to, tried with pasted texts. Nothing is
//! published, sent or kept.

mod convert;
mod filter;
mod pasted;
mod signature;
mod verdict;

use http::StatusCode;
use serde::Deserialize;

pub(crate) use convert::{convert, draft as draft_conversion};
pub(crate) use filter::{draft as draft_filter, try_on_event};
pub(crate) use signature::{check as check_signature, draft as draft_signature};

use crate::admin::bare::draw_with;
use crate::admin::forms::field::{Field, Problem, mark};
use crate::admin::page::*;
use crate::admin::paths::topic_page;

/// What there is to try: where, its name, and what it answers.
const TOOLS: [(&str, &str, &str); 3] = [
    (
        "/admin/playground/filter",
        "Try a filter",
        "Would this event get through, and if not, which part of the filter stops it?",
    ),
    (
        "/admin/playground/convert",
        "Convert an event",
        "What would an endpoint be sent, byte for byte: in the Event Grid schema, or as a CloudEvent?",
    ),
    (
        "/admin/playground/signature",
        "Check a signature",
        "Was this request signed with that secret, as Standard Webhooks says?",
    ),
];

#[derive(Template)]
#[template(path = "pages/playground.html")]
struct PlaygroundPage {
    frame: Frame,
    /// Topics with keys to sign with.
    topics: Vec<String>,
}

/// What there is to try.
pub(crate) async fn show(visitor: Visitor, State(site): State<Arc<Site>>) -> PageResult {
    let registry = site.broker.registry();
    let topics = registry.made_topics();
    Ok(draw(&PlaygroundPage {
        topics: topics.map(|each| each.topic.name.to_string()).collect(),
        frame: Frame::new(&visitor, "Playground"),
    }))
}

#[derive(Deserialize)]
pub(crate) struct ChosenTopic {
    #[serde(default)]
    topic: String,
}

/// Leads from the choice of a topic to the form for a token of it.
pub(crate) async fn choose_topic(
    State(site): State<Arc<Site>>,
    Query(ChosenTopic { topic }): Query<ChosenTopic>,
) -> PageResult {
    let topic = site.made_topic(&topic)?;
    let page = topic_page(topic.topic.name.as_str());
    Ok(Redirect::to(&format!("{page}/keys/token")).into_response())
}

/// What all tools have: a form that is drawn again with what it comes to.
struct Tool {
    lead: &'static str,
    /// Where the form is sent.
    action: &'static str,
    problem: Option<Problem>,
    fields: Vec<Field>,
    button: &'static str,
    /// What another button says, and its text.
    other: Option<(&'static str, &'static str)>,
}

/// Names the button that was pressed besides the first one.
const DO: &str = "do";

impl Tool {
    /// Writes `refusal`, if there is one, to the field at fault.
    fn mark(&mut self, refusal: Option<Refusal>) {
        self.problem = mark(self.fields.iter_mut(), refusal);
    }

    /// The page as an answer.
    fn draw(&self, page: &impl Template) -> Response {
        let status = match self.problem {
            None => StatusCode::OK,
            Some(_) => StatusCode::UNPROCESSABLE_ENTITY,
        };
        draw_with(status, page)
    }
}
