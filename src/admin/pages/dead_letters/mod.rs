//! The pages of dead letters: find them, see why, resubmit them, one by one, edited or all at once.

mod actions;
mod asked;
mod bulk;
mod edit;
mod groups;
mod list;
mod request;

pub(crate) use actions::{RESUBMIT_SELECTED, ask_to_resubmit, resubmit};
pub(crate) use bulk::{ask_to_purge, ask_to_replay, download, purge, replay};
pub(crate) use edit::{edit, resubmit as resubmit_edited};
pub(crate) use list::list;

use crate::admin::page::*;
use crate::admin::pages::dead_letters::request::RequestPanel;
use crate::admin::pages::delivery::{self, DeliveryCard};
use crate::admin::pages::events::DataPanel;
use crate::admin::pages::lineage::Resubmitted;
use crate::admin::paths::{dead_letter_page, event_page, subscription_page, topic_page};
use crate::admin::site::delivery_id;
use crate::model::delivery::DeliveryState;
use crate::model::registry::Registry;
use crate::store::views::{DeliveryDetail, DeliveryRow};

#[derive(Template)]
#[template(path = "pages/dead_letter.html")]
struct DeadLetterPage {
    frame: Frame,
    id: String,
    path: String,
    event_id: String,
    event_type: String,
    subject: String,
    event_href: String,
    topic: String,
    /// `None` once the topic is deleted.
    topic_href: Option<String>,
    published_at: Time,
    /// `None` if the event is gone, or cannot be read.
    data: Option<DataPanel>,
    /// Of the subscription, with its page; `None` once that is deleted.
    subscription_href: Option<String>,
    subscription: String,
    request: Option<RequestPanel>,
    /// Where its record is in storage; empty if it is in none.
    blob: String,
    /// Why it cannot be resubmitted; empty when it can, or has been.
    obstacle: String,
    can_be_resubmitted: bool,
    resubmissions: Vec<Resubmitted>,
    state: Badge,
    delivery: DeliveryCard,
    recipe: Recipe,
}

const DAMAGED: &str = "Its event is damaged and cannot be read, so it cannot be resubmitted.";

/// One dead letter; its page stays when it has been resubmitted.
pub(crate) async fn show(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(id): Path<String>,
) -> PageResult {
    let delivery = find(&site, &id).await?;
    let registry = site.broker.registry();
    let resubmissions = Resubmitted::all(&delivery);
    let row = &delivery.row;
    let id = row.id;
    let mut obstacle = obstacle(row, &registry);
    let event = match site.views.event(row.event).await {
        Ok(event) => event.map(|event| event.stored),
        // That may be why it was given up, which the page is there to tell.
        Err(error) if error.is_unreadable() => {
            obstacle = DAMAGED.to_owned();
            None
        }
        Err(error) => return Err(error.into()),
    };
    let data = event
        .as_ref()
        .map(|event| DataPanel::new(&visitor, event, false));
    let request = event
        .as_ref()
        .and_then(|event| RequestPanel::new(&site, &visitor, row, event));
    let topic = registry.subscription(row.subscription_id);
    Ok(draw(&DeadLetterPage {
        frame: Frame::new(&visitor, format!("Dead letter {id}")),
        id: id.to_string(),
        path: dead_letter_page(id),
        event_id: print::visible(&row.event_id),
        event_type: print::visible(&row.event_type),
        subject: print::visible(row.subject.as_deref().unwrap_or_default()),
        event_href: event_page(row.event),
        topic_href: topic.map(|_| topic_page(&row.topic)),
        subscription_href: topic.map(|_| subscription_page(&row.topic, &row.subscription)),
        subscription: row.subscription.clone(),
        request,
        topic: row.topic.clone(),
        data,
        published_at: Time::relative(row.published_at),
        blob: row.blob.clone().unwrap_or_default(),
        can_be_resubmitted: obstacle.is_empty(),
        // What it has become is told instead.
        obstacle: match row.state == DeliveryState::Resubmitted && !resubmissions.is_empty() {
            true => String::new(),
            false => obstacle,
        },
        resubmissions,
        state: delivery::badge(row.state),
        delivery: DeliveryCard::new(delivery, &visitor).on_its_own_page(),
        recipe: Recipe::get(&site.management_url(&format!("/everpost/deadLetters/{id}")))
            .everpost(format!("everpost dead-letters show {id}")),
    }))
}

fn obstacle(row: &DeliveryRow, registry: &Registry) -> String {
    match row.state {
        DeliveryState::DeadLettered => {}
        DeliveryState::Resubmitted => {
            return format!("Dead letter {} has been resubmitted already.", row.id);
        }
        DeliveryState::Pending
        | DeliveryState::Delivered
        | DeliveryState::Dropped
        | DeliveryState::Removed => {
            let word = delivery::word(row.state).to_lowercase();
            return format!("This delivery is {word}; only a dead letter can be resubmitted.");
        }
    }
    match registry.subscription(row.subscription_id) {
        Some(_) => String::new(),
        None => format!(
            "Its event subscription {} has been deleted.",
            row.subscription
        ),
    }
}

pub(super) async fn find(site: &Site, id: &str) -> Result<DeliveryDetail, PageError> {
    let delivery = site.views.delivery(delivery_id(id)?).await?;
    delivery.ok_or_else(|| PageError::NotFound(format!("delivery {id}")))
}
