//! The page of one inspector with what it got, and that of one request.

use serde::Deserialize;

use crate::admin::forms::field::Field;
use crate::admin::page::*;
use crate::admin::pages::inspectors::RequestCard;
use crate::admin::pages::topics;
use crate::admin::paths::{inspector_page, subscription_page};
use crate::model::inspector::Inspector;
use crate::model::name::InspectorName;
use crate::store::views::InspectedQuery;

/// Requests of one page.
const ROWS: usize = 20;

#[derive(Template)]
#[template(path = "pages/inspector.html")]
struct InspectorPage {
    frame: Frame,
    path: String,
    name: String,
    url: String,
    answers: String,
    per_event: bool,
    /// The answer to the next delivery, where requests are counted.
    next_answer: Option<String>,
    answered: String,
    delay: Option<String>,
    retry_after: Option<String>,
    headers: Vec<(String, String)>,
    /// Of its answers; empty for none.
    body: String,
    /// Who delivers to it: names and pages.
    subscriptions: Vec<(String, String)>,
    /// Whose events it could get.
    topic: Field,
    /// Whether there is something to forget.
    has_requests: bool,
    received: String,
    kept: String,
    requests: Vec<RequestCard>,
    newest: Option<String>,
    older: Option<String>,
    recipe: Recipe,
}

#[derive(Deserialize)]
pub(crate) struct Asked {
    #[serde(default)]
    before: String,
}

/// One inspector, its requests newest first.
pub(crate) async fn show(
    Query(Asked { before }): Query<Asked>,
    Call {
        site,
        visitor,
        of: inspector,
        ..
    }: Call<Inspector>,
) -> PageResult {
    let name = &inspector.name;
    let query = InspectedQuery {
        before: before.parse().ok(),
        limit: ROWS,
    };
    let found = site.views.inspected(name.clone(), query).await?;
    let path = inspector_page(name);
    let later = !before.is_empty();
    let cards = found.rows.iter().enumerate();
    let cards = cards.map(|(at, each)| RequestCard::new(name, each, at == 0 && !later));
    let definition = &inspector.definition;
    let list = format!("/everpost/inspectors/{name}/requests");
    Ok(draw(&InspectorPage {
        frame: Frame::new(&visitor, format!("Inspector {name}")),
        name: name.to_string(),
        url: name.url(),
        answers: definition.responses.to_string(),
        per_event: definition.per_event,
        next_answer: next_answer(&inspector),
        answered: print::plural(inspector.turn, "delivery", "deliveries"),
        delay: Some(definition.delay)
            .filter(|delay| !delay.is_zero())
            .map(print::span),
        retry_after: definition
            .retry_after_s
            .map(|seconds| format!("{seconds} s")),
        headers: definition.headers.clone().into_iter().collect(),
        body: print::visible(&definition.body),
        subscriptions: subscriptions(&site, name),
        topic: topics::choice("Deliver events of", site.broker.registry().custom_topics()),
        has_requests: inspector.kept > 0,
        received: print::count(inspector.received),
        kept: print::count(inspector.kept),
        requests: cards.collect(),
        newest: later.then(|| path.clone()),
        older: found
            .next_before
            .map(|next| link(&path, &[("before", next.to_string())])),
        recipe: Recipe::get(&site.management_url(&list))
            .everpost(format!("everpost inspectors requests {name}")),
        path,
    }))
}

/// `None` where every event has its own turn.
fn next_answer(inspector: &Inspector) -> Option<String> {
    let definition = &inspector.definition;
    (!definition.per_event).then(|| definition.response(inspector.turn, 0).to_string())
}

fn subscriptions(site: &Site, name: &InspectorName) -> Vec<(String, String)> {
    let registry = site.broker.registry();
    let all = site.broker.subscriptions_of_inspector(name);
    let named = |id| {
        let (topic, each) = registry.subscription(id)?;
        let (topic, name) = (topic.topic.name.as_str(), each.name.as_str());
        Some((format!("{topic} / {name}"), subscription_page(topic, name)))
    };
    all.iter().filter_map(|each| named(each.id)).collect()
}

#[derive(Template)]
#[template(path = "pages/inspected.html")]
struct RequestPage {
    frame: Frame,
    inspector: String,
    inspector_path: String,
    card: RequestCard,
    recipe: Recipe,
}

/// One request, with as much of its body as is kept.
pub(crate) async fn show_request(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path((name, number)): Path<(String, String)>,
) -> PageResult {
    let name = site.inspector(&name).await?.name;
    let missing = || PageError::NotFound(format!("request {number} of the inspector {name}"));
    let parsed = number.parse().map_err(|_| missing())?;
    let request = site.views.inspected_request(name.clone(), parsed).await?;
    let request = request.ok_or_else(missing)?;
    let api = format!("/everpost/inspectors/{name}/requests/{number}");
    Ok(draw(&RequestPage {
        frame: Frame::new(&visitor, format!("Request {number}")),
        inspector: name.to_string(),
        inspector_path: inspector_page(&name),
        card: RequestCard::whole(&request),
        recipe: Recipe::get(&site.management_url(&api))
            .everpost(format!("everpost inspectors request {name} {number}")),
    }))
}
