//! The pages of inspectors: receivers inside the appliance that answer as they are told and show what
//! they got.

mod form;

pub(crate) use form::InspectorForm;

use std::sync::Arc;

use askama::Template;
use axum::extract::Query;
use serde_json::json;

use crate::admin::action::{Call, Deletable, Names, Question, Subject, name_of};
use crate::admin::error::{PageError, PageResult};
use crate::admin::lists::bulk::Selectable;
use crate::admin::lists::link;
use crate::admin::lists::list::ListPage;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::{answer, subscriptions};
use crate::admin::paths;
use crate::admin::site::{Site, existing, named_in, numbered};
use crate::admin::widgets::kept_body::KeptBody;
use crate::admin::widgets::print::sentence;
use crate::admin::widgets::{Badge, Empty, Flash, Time, Tone, filters, part, print};
use crate::model::inspector::{InspectedRequest, Inspector};
use crate::model::name::{InspectorName, SubscriptionName};
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::store::views::InspectedQuery;
use crate::wire::received::SIGNATURE_GOOD;
use crate::wire::resource::{self, SubscriptionContext};

const LIST: &str = "/admin/inspectors";

/// Number of requests on a page.
const SHOWN: usize = 20;

/// Maximum bytes of a body that are shown in a list of requests.
const BODY_SHOWN: usize = 4_096;

pub(crate) async fn list(call: Call) -> PageResult {
    let mut rows = Vec::new();
    for inspector in call.views.inspectors().await? {
        let newest = InspectedQuery {
            before: None,
            limit: 1,
        };
        let found = call.views.inspected(inspector.name.clone(), newest).await?;
        rows.push((inspector, found.rows.into_iter().next()));
    }
    let recipe = Recipe::list(&call, "inspectors", "inspectors list", &[]);
    answer!("pages/inspectors.html", &call.visitor, "Inspectors", {
        list: ListPage = ListPage::whole(rows.len(), ["inspector", "inspectors"], recipe),
        // The inspectors, each with its newest request.
        rows: Vec<(Inspector, Option<InspectedRequest>)> = rows,
        site: Arc<Site> = call.site,
    })
}

impl Subject for Inspector {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        let name = named_in("inspector", name_of(names, "name"), InspectorName::parse)?;
        Ok(site.broker.inspector(&name).await?)
    }

    fn page(&self) -> String {
        paths::inspector_page(&self.name)
    }

    fn name(&self) -> String {
        self.name.to_string()
    }
}

pub(crate) async fn show(Query(asked): Query<Names>, call: Call<Inspector>) -> PageResult {
    let (name, before) = (call.of.name.clone(), name_of(&asked, "before").parse().ok());
    let query = InspectedQuery {
        before,
        limit: SHOWN,
    };
    let found = call.views.inspected(name.clone(), query).await?;
    let is_first = before.is_none();
    let card = |(at, request)| RequestCard::new(&name, request, BODY_SHOWN, at == 0 && is_first);
    let api = format!("/everpost/inspectors/{name}/requests");
    let subscriptions = call.broker.subscriptions_of_inspector(&name);
    let is_new = |topic: &&Arc<TopicEntry>| {
        let mut all = topic.subscriptions.values();
        all.all(|each| {
            each.name.as_str() != name.as_str() && subscriptions.iter().all(|own| own.id != each.id)
        })
    };
    answer!("pages/inspector.html", &call.visitor, format!("Inspector {name}"), {
        // The topics that the inspector can be subscribed to.
        topics: Vec<Arc<TopicEntry>> = call.broker.registry().custom_topics().filter(is_new).cloned().collect(),
        subscriptions: Vec<Arc<EventSubscription>> = subscriptions.clone(),
        requests: Vec<RequestCard> = found.rows.into_iter().enumerate().map(card).collect(),
        is_first: bool = is_first,
        // The position at which the next page begins.
        next: Option<u64> = found.next_before,
        recipe: Recipe = Recipe::of(&call, &api, format!("everpost inspectors requests {name}")),
        inspector: Inspector = call.of,
    })
}

/// One request, with as much of its body as is kept.
pub(crate) async fn show_request(call: Call<Inspector>) -> PageResult {
    let (name, number) = (&call.of.name, name_of(&call.names, "number"));
    let number = numbered("request", number)?;
    let request = call.views.inspected_request(name.clone(), number).await?;
    let wanted = format!("{number} of the inspector {name}");
    let request = existing(request, "request", wanted)?;
    let card = RequestCard::new(name, request, usize::MAX, true);
    let api = format!("/everpost/inspectors/{name}/requests/{number}");
    let command = format!("everpost inspectors request {name} {number}");
    let kept = call.of.received.saturating_sub(call.of.kept) + 1..=call.of.received;
    let beside = |other: u64| {
        kept.contains(&other)
            .then(|| paths::inspected_page(name, other))
    };
    answer!("pages/inspected.html", &call.visitor, format!("Request {number}"), {
        newer: Option<String> = beside(number + 1),
        older: Option<String> = beside(number - 1),
        card: RequestCard = card,
        recipe: Recipe = Recipe::of(&call, &api, command),
        inspector: Inspector = call.of,
    })
}

/// A request, collapsed or expanded.
#[derive(Template)]
#[template(path = "widgets/inspected.html")]
struct RequestCard {
    body: KeptBody,
    request: InspectedRequest,
    /// The address of the page of this request, if more of its body is kept than is shown.
    more: Option<String>,
    open: bool,
}

part!(RequestCard);

impl RequestCard {
    /// Creates a card that shows at most `most` bytes of the body.
    fn new(inspector: &InspectorName, request: InspectedRequest, most: usize, open: bool) -> Self {
        let kept = &request.body_start;
        let is_cut = most < kept.len();
        Self {
            body: KeptBody::new(&kept[..most.min(kept.len())], request.bytes),
            more: is_cut.then(|| paths::inspected_page(inspector, request.number)),
            request,
            open,
        }
    }
}

/// Groups the requests by the day on which they were received.
fn days(cards: &[RequestCard]) -> Vec<(String, &[RequestCard])> {
    let day = |card: &RequestCard| Time::long_day(card.request.received_at);
    let days = cards.chunk_by(|a, b| day(a) == day(b));
    days.map(|cards| (day(&cards[0]), cards)).collect()
}

pub(crate) async fn ask_to_clear(call: Call<Inspector>) -> PageResult<Question> {
    let requests = print::plural(call.of.kept, "request", "requests");
    let title = format!("Clear {requests} of {}?", call.of.name);
    Ok(Question::new(title)
        .would("They are deleted, and its responses begin again with the first one.")
        .dangerously())
}

pub(crate) async fn clear(call: Call<Inspector>) -> PageResult<Flash> {
    let cleared = call
        .broker
        .clear_inspector(call.by(), &call.of.name)
        .await?;
    let said = print::plural(cleared, "request has been", "requests have been");
    Ok(Flash::done(format!("{said} deleted.")))
}

impl Deletable for Inspector {
    const NOUN: &'static str = "inspector";

    async fn losing(call: &Call<Self>, question: Question) -> PageResult<Question> {
        let (registry, of) = (call.broker.registry(), &call.of);
        let subscribed = call.broker.subscriptions_of_inspector(&of.name);
        let to_it = subscribed
            .iter()
            .map(|each| each.id)
            .filter_map(|id| registry.subscription(id));
        let names = to_it.map(|(topic, each)| format!("{} / {}", topic.topic.name, each.name));
        let kept = print::plural(of.kept, "kept request is", "kept requests are");
        let question = question.would(format!("{kept} deleted."));
        let names = print::some_of(names, subscriptions::Subscription::NOUNS);
        let gone = |names| format!("These deliver to it, and will get 404: {names}.");
        Ok(names.map(gone).into_iter().fold(question, Question::would))
    }

    async fn delete(call: &Call<Self>) -> PageResult<bool> {
        let (broker, name) = (&call.broker, &call.of.name);
        Ok(broker.delete_inspector(call.by(), name).await?)
    }
}

/// Subscribes the inspector to the topic of the form, under its own name.
pub(crate) async fn subscribe(call: Call<Inspector>) -> PageResult<Flash> {
    let inspector = &call.of.name;
    let topic = call.custom_topic(call.form.text("topic"))?;
    let of = &topic.topic.name;
    let name = SubscriptionName::of_custom_topic(inspector.as_str())
        .map_err(|error| PageError::Conflict(sentence(&error.to_string())))?;
    let well = format!("This inspector now gets the events of {of}.");
    let failed = format!("Topic {of} already has an event subscription {inspector}.");
    if deliver_to(&call, &topic, name, inspector, None).await? {
        Ok(Flash::done(well))
    } else {
        Ok(Flash::failed(failed))
    }
}

/// Has every event of `topic` delivered to `inspector` by a subscription of that name. `false` where there
/// is one already; it stays as it is.
pub(crate) async fn deliver_to<S>(
    call: &Call<S>,
    topic: &TopicEntry,
    name: SubscriptionName,
    inspector: &InspectorName,
    event_type: Option<&str>,
) -> PageResult<bool> {
    if topic.subscription(&name).is_some() {
        return Ok(false);
    }
    let body = json!({ "properties": {
        "destination": {
            "endpointType": "WebHook",
            "properties": { "endpointUrl": inspector.url() },
        },
        "filter": { "includedEventTypes": event_type.map(|event_type| [event_type]) },
    } });
    let context = SubscriptionContext::of(
        topic,
        call.visitor.now,
        call.broker.options().egress.require_https,
    );
    let definition = resource::parse_subscription(&body, &context)
        .map_err(|error| PageError::Conflict(error.to_string()))?;
    let (broker, topic) = (&call.broker, &topic.topic.name);
    let put = broker.put_subscription(call.by(), topic, name, definition);
    put.await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(body: &str, bytes: u64) -> InspectedRequest {
        InspectedRequest {
            number: 7,
            received_at: "2026-11-21T06:40:53.138Z".parse().expect("RFC 3339"),
            method: "POST".to_owned(),
            path: "/bin?***".to_owned(),
            headers: vec![("x-a".to_owned(), "<b>\u{202e}".to_owned())],
            bytes,
            body_start: body.into(),
            handshake: None,
            events: 3,
            event_id: Some("a-1".to_owned()),
            event_type: Some("Order.Paid".to_owned()),
            signature: Some("good".to_owned()),
            response: "503".to_owned(),
        }
    }

    fn whole(request: InspectedRequest) -> RequestCard {
        let name = InspectorName::parse("bin").expect("a name");
        RequestCard::new(&name, request, usize::MAX, true)
    }

    fn check(card: &RequestCard, texts: &[&str]) {
        let html = card.to_string();
        for text in texts {
            assert!(html.contains(text), "{text:?} is missing:\n{html}");
        }
    }

    #[test]
    fn a_request_is_shown_with_what_it_carries() {
        let name = InspectorName::parse("bin").expect("a name");
        let card = RequestCard::new(&name, request("[{\"id\":1}]", 10), BODY_SHOWN, true);
        check(
            &card,
            &[
                "Order.Paid a-1 and 2 more",
                "badge bad",
                "503",
                "Signature fits",
                " open",
                "x-a: &#60;b&#62;",
                "  {\n    &#34;id&#34;: 1\n  }",
                "10 B",
            ],
        );
        let long = "x".repeat(BODY_SHOWN + 1);
        let card = RequestCard::new(&name, request(&long, 9_999), BODY_SHOWN, false);
        check(
            &card,
            &["href=\"/admin/inspectors/bin/requests/7\"", "of 9.8 KiB"],
        );
        assert!(!card.to_string().contains(" open"), "{card}");
        assert!(!card.to_string().contains(&long));
        assert!(whole(request(&long, 9_999)).to_string().contains(&long));
    }

    #[test]
    fn what_is_no_delivery_is_named() {
        let mut handshake = request("", 0);
        handshake.handshake = Some("abuseProtection".to_owned());
        check(&whole(handshake), &["CloudEvents validation, accepted"]);
        let mut unread = request("hello", 5);
        unread.events = 0;
        unread.signature = Some("no signature fits the secret".to_owned());
        check(
            &whole(unread),
            &["No event that could be read", "no signature fits"],
        );
    }
}
