//! The page of one inspector with what it got, and that of one request.

use crate::admin::page::*;
use crate::admin::pages::inspectors::RequestCard;
use crate::model::inspector::Inspector;
use crate::model::registry::Registry;
use crate::model::subscription::EventSubscription;
use crate::store::views::InspectedQuery;

/// Requests of one page.
const ROWS: usize = 20;

#[derive(Template)]
#[template(path = "pages/inspector.html")]
struct InspectorPage<'a> {
    frame: Frame,
    path: String,
    inspector: &'a Inspector,
    /// Who delivers to it.
    subscriptions: Vec<Arc<EventSubscription>>,
    registry: Arc<Registry>,
    requests: Vec<RequestCard>,
    newest: Option<String>,
    older: Option<String>,
    recipe: Recipe,
}

impl InspectorPage<'_> {
    /// Topics to subscribe to.
    fn topics(&self, built_in: bool) -> Vec<&Arc<TopicEntry>> {
        let topics = self.registry.custom_topics();
        topics
            .filter(|each| each.topic.is_built_in() == built_in)
            .collect()
    }
}

/// One inspector, its requests newest first.
pub(crate) async fn show(Query(asked): Query<Names>, call: Call<Inspector>) -> PageResult {
    let (name, before) = (&call.of.name, name_of(&asked, "before"));
    let query = InspectedQuery {
        before: before.parse().ok(),
        limit: ROWS,
    };
    let found = call.views.inspected(name.clone(), query).await?;
    let path = call.of.page();
    let later = !before.is_empty();
    let card = |(at, request)| RequestCard::new(name, request, at == 0 && !later);
    let list = call.management_url(&format!("/everpost/inspectors/{name}/requests"));
    Ok(draw(&InspectorPage {
        frame: Frame::new(&call.visitor, format!("Inspector {name}")),
        inspector: &call.of,
        subscriptions: call.broker.subscriptions_of_inspector(name),
        registry: call.broker.registry(),
        requests: found.rows.into_iter().enumerate().map(card).collect(),
        newest: later.then(|| path.clone()),
        older: found
            .next_before
            .map(|next| link(&path, &[("before", next.to_string())])),
        recipe: Recipe::get(&list).everpost(format!("everpost inspectors requests {name}")),
        path,
    }))
}

#[derive(Template)]
#[template(path = "pages/inspected.html")]
struct RequestPage<'a> {
    frame: Frame,
    inspector: &'a Inspector,
    card: RequestCard,
    recipe: Recipe,
}

/// One request, with as much of its body as is kept.
pub(crate) async fn show_request(call: Call<Inspector>) -> PageResult {
    let (name, number) = (&call.of.name, name_of(&call.names, "number"));
    let missing = || PageError::NotFound(format!("request {number} of the inspector {name}"));
    let parsed = number.parse().map_err(|_| missing())?;
    let request = call.views.inspected_request(name.clone(), parsed).await?;
    let request = request.ok_or_else(missing)?;
    let api = format!("/everpost/inspectors/{name}/requests/{number}");
    Ok(draw(&RequestPage {
        frame: Frame::new(&call.visitor, format!("Request {number}")),
        inspector: &call.of,
        card: RequestCard::whole(request),
        recipe: Recipe::get(&call.management_url(&api))
            .everpost(format!("everpost inspectors request {name} {number}")),
    }))
}
