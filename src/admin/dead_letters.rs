//! The pages of dead letters: find them, see why, resubmit them.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;

use crate::admin::confirm::Confirm;
use crate::admin::error::{PageError, PageResult};
use crate::admin::field::Field;
use crate::admin::form::{Form, Submitted};
use crate::admin::identify::{dead_letter_page, delivery_id, event_page};
use crate::admin::recipe::{Recipe, quoted};
use crate::admin::session::Visitor;
use crate::admin::timeline::{self, DeliveryCard};
use crate::admin::view::{Badge, Empty, Flash, Frame, Moment, Pager, draw, link};
use crate::admin::{Site, hint, print};
use crate::model::delivery::{DeliveryId, DeliveryState};
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::registry::Registry;
use crate::store::views::{DeadLetterQuery, DeliveryDetail, DeliveryRow, Page};

/// Rows of one page.
const ROWS: usize = 50;

/// What the URL of the list asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    /// A topic, or one of its subscriptions: `orders`, `orders/billing`.
    of: String,
    before: String,
}

impl Asked {
    fn query(&self, registry: &Registry) -> Option<DeadLetterQuery> {
        let mut query = DeadLetterQuery {
            before: self.before.parse().ok().map(DeliveryId),
            limit: ROWS,
            ..DeadLetterQuery::default()
        };
        if self.of.is_empty() {
            return Some(query);
        }
        let (topic, name) = taken_apart(&self.of);
        let topic = registry.topic(&TopicName::parse(topic).ok()?)?;
        match name {
            None => query.topic = Some(topic.topic.id),
            Some(name) => {
                let name = SubscriptionName::parse(name).ok()?;
                query.subscription = Some(topic.subscription(&name)?.id);
            }
        }
        Some(query)
    }
}

/// How the filter names all of a topic: behind that of a namespace topic stands a slash, since
/// `shop/orders` would be a subscription of the topic `shop`.
pub(super) fn whole_topic(topic: &TopicName) -> String {
    match topic.namespace() {
        None => topic.to_string(),
        Some(_) => format!("{topic}/"),
    }
}

/// The topic and, if one is named, the subscription.
fn taken_apart(of: &str) -> (&str, Option<&str>) {
    match of.rsplit_once('/') {
        None => (of, None),
        Some((topic, "")) => (topic, None),
        Some((topic, name)) => (topic, Some(name)),
    }
}

#[derive(Template)]
#[template(path = "admin/dead_letters.html")]
struct DeadLettersPage {
    frame: Frame,
    field: Field,
    is_filtered: bool,
    rows: Vec<DeadLetterText>,
    empty: Empty,
    pager: Pager,
    recipe: Recipe,
}

struct DeadLetterText {
    id: String,
    href: String,
    event_id: String,
    event_type: String,
    event_href: String,
    topic: String,
    subscription: String,
    reason: String,
    reason_text: String,
    last: String,
    attempts: String,
    ended_at: Option<Moment>,
}

impl DeadLetterText {
    fn new(row: DeliveryRow) -> Self {
        Self {
            id: row.id.to_string(),
            href: dead_letter_page(row.id),
            event_href: event_page(row.event),
            last: last(&row),
            reason: print::visible(row.reason().unwrap_or_default()),
            reason_text: reason_text(&row),
            attempts: print::plural(u64::from(row.attempts), "attempt", "attempts"),
            ended_at: row.ended_at.map(Moment::at),
            event_id: print::visible(&row.event_id),
            event_type: print::visible(&row.event_type),
            topic: row.topic,
            subscription: row.subscription,
        }
    }
}

/// What the receiver said about it, or what the reason means.
fn reason_text(row: &DeliveryRow) -> String {
    match (&row.dead_letter.description, row.dead_letter_reason) {
        (Some(own), _) => print::visible(own),
        (None, reason) => reason.map_or("", hint::for_reason).to_owned(),
    }
}

fn last(row: &DeliveryRow) -> String {
    let outcome = row
        .last_outcome
        .map_or("not tried", |outcome| outcome.name());
    match row.last_status {
        Some(status) => format!("{status} {outcome}"),
        None => outcome.to_owned(),
    }
}

/// Dead letters, newest first.
pub(super) async fn list(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(asked): Query<Asked>,
) -> PageResult {
    let registry = site.broker.registry();
    let found = match asked.query(&registry) {
        Some(query) => site.views.dead_letters(query).await?,
        None => Page::default(), // of something that there is not
    };
    let next = found.next_before.map(|id| id.to_string());
    let is_filtered = !asked.of.is_empty();
    let filters = [("of", asked.of.clone())];
    let later = !asked.before.is_empty();
    Ok(draw(&DeadLettersPage {
        frame: Frame::new(&visitor, "Dead letters"),
        field: field(&filters, &registry),
        is_filtered,
        rows: found.rows.into_iter().map(DeadLetterText::new).collect(),
        empty: empty(is_filtered),
        pager: Pager::new("/admin/dead-letters", &filters, later, next),
        recipe: recipe(&site, &asked.of),
    }))
}

fn field(filters: &[(&'static str, String); 1], registry: &Registry) -> Field {
    let mut options = vec![(String::new(), "All topics".to_owned())];
    for topic in registry.topics() {
        let name = topic.topic.name.as_str();
        options.push((whole_topic(&topic.topic.name), name.to_owned()));
        let subscriptions = topic.subscriptions.values().map(|each| {
            let subscription = each.name.as_str();
            (
                format!("{name}/{subscription}"),
                format!("{name} / {subscription}"),
            )
        });
        options.extend(subscriptions);
    }
    let options: Vec<(&str, &str)> = options
        .iter()
        .map(|(value, text)| (value.as_str(), text.as_str()))
        .collect();
    Field::choice(
        "of",
        "Topic or subscription",
        &options,
        &Form::of(filters.clone()),
    )
}

fn empty(is_filtered: bool) -> Empty {
    match is_filtered {
        true => Empty {
            text: "No dead letters here.",
            step: Some(("/admin/dead-letters".to_owned(), "Show all dead letters")),
        },
        false => Empty {
            text: "No dead letters. A delivery that is given up is kept here, to be looked at and \
                   sent again.",
            step: None,
        },
    }
}

fn recipe(site: &Site, of: &str) -> Recipe {
    let (topic, subscription) = taken_apart(of);
    let subscription = subscription.unwrap_or_default();
    let path = link(
        "/everpost/deadLetters",
        &[
            ("topic", topic.to_owned()),
            ("subscription", subscription.to_owned()),
        ],
    );
    let mut command = "everpost dead-letters list".to_owned();
    for (flag, value) in [("--topic", topic), ("--subscription", subscription)] {
        if !value.is_empty() {
            command.push_str(&format!(" {flag} {}", quoted(value)));
        }
    }
    Recipe::get(&site.management_url(&path)).everpost(command)
}

#[derive(Template)]
#[template(path = "admin/dead_letter.html")]
struct DeadLetterPage {
    frame: Frame,
    id: String,
    path: String,
    event_id: String,
    event_type: String,
    subject: String,
    event_href: String,
    published_at: Moment,
    /// Why it cannot be resubmitted; empty when it can.
    obstacle: String,
    state: Badge,
    delivery: DeliveryCard,
    recipe: Recipe,
}

/// One dead letter; its page stays when it has been resubmitted.
pub(super) async fn show(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(id): Path<String>,
) -> PageResult {
    let delivery = find(&site, &id).await?;
    let registry = site.broker.registry();
    let row = &delivery.row;
    let id = row.id;
    Ok(draw(&DeadLetterPage {
        frame: Frame::new(&visitor, format!("Dead letter {id}")),
        id: id.to_string(),
        path: dead_letter_page(id),
        event_id: print::visible(&row.event_id),
        event_type: print::visible(&row.event_type),
        subject: print::visible(row.subject.as_deref().unwrap_or_default()),
        event_href: event_page(row.event),
        published_at: Moment::at(row.published_at),
        obstacle: obstacle(row, &registry),
        state: timeline::badge(row.state),
        delivery: DeliveryCard::new(delivery, &registry, visitor.now).on_its_own_page(),
        recipe: Recipe::get(&site.management_url(&format!("/everpost/deadLetters/{id}")))
            .everpost(format!("everpost dead-letters show {id}")),
    }))
}

fn obstacle(row: &DeliveryRow, registry: &Registry) -> String {
    if row.state != DeliveryState::DeadLettered {
        let word = timeline::word(row.state).to_lowercase();
        return format!("This delivery is {word}; only a dead letter can be resubmitted.");
    }
    match registry.subscription(row.subscription_id) {
        Some(_) => String::new(),
        None => format!(
            "Its event subscription {} has been deleted.",
            row.subscription
        ),
    }
}

async fn find(site: &Site, id: &str) -> Result<DeliveryDetail, PageError> {
    let delivery = site.views.delivery(delivery_id(id)?).await?;
    delivery.ok_or_else(|| PageError::NotFound(format!("delivery {id}")))
}

/// Asks before a dead letter is sent again.
pub(super) async fn ask_to_resubmit(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(id): Path<String>,
) -> PageResult {
    let row = find(&site, &id).await?.row;
    let obstacle = obstacle(&row, &site.broker.registry());
    if !obstacle.is_empty() {
        return Err(PageError::Conflict(obstacle));
    }
    let published = print::relative(row.published_at, visitor.now);
    Ok(draw(&Confirm {
        frame: Frame::new(&visitor, format!("Resubmit dead letter {}?", row.id)),
        consequences: vec![
            format!(
                "Event {} would be sent to {} again, at once.",
                print::visible(&row.event_id),
                row.subscription
            ),
            "A new delivery takes the place of this one; attempts and time to live start afresh."
                .to_owned(),
            format!("The event was published {published}; no other subscription gets it again."),
        ],
        button: "Resubmit",
        dangerous: false,
        back: dead_letter_page(row.id),
        action: visitor.path.clone(),
    }))
}

/// Sends it again.
pub(super) async fn resubmit(
    State(site): State<Arc<Site>>,
    Path(id): Path<String>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let row = find(&site, &id).await?.row;
    let fresh = site.broker.resubmit(row.id).await?;
    tracing::info!(
        user.name = visitor.name,
        delivery.id = row.id.0,
        "a dead letter was resubmitted"
    );
    let told = format!(
        "Dead letter {} has been resubmitted as delivery {fresh}.",
        row.id
    );
    visitor.tell(Flash::done(told)).await?;
    let page = format!("{}#delivery-{fresh}", event_page(row.event));
    Ok(Redirect::to(&page).into_response())
}
