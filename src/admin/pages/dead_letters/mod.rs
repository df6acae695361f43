//! The pages of dead letters: find them, see the reason, and resubmit them one by one, edited, or all at once.

mod bulk;
mod edit;
mod list;

pub(crate) use bulk::{ask_to_purge, ask_to_replay, download, purge, replay};
pub(crate) use edit::{ResubmitForm, edit, resubmit_edited};
pub(crate) use list::list;

use crate::admin::action::{Call, Deletable, Names, Question, Subject, name_of};
use crate::admin::error::{PageError, PageResult};
use crate::admin::lists::bulk::{Bulk, Selectable};
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::delivery::{self, DeliveryCard};
use crate::admin::pages::{answer, events};
use crate::admin::paths;
use crate::admin::site::Site;
use crate::admin::widgets::body_view::BodyView;
use crate::admin::widgets::kept_body::KeptBody;
use crate::admin::widgets::{Flash, filters, print};
use crate::base::Timestamp;
use crate::model::delivery::DeliveryState;
use crate::model::destination::{AttributeValue, DeliveryMode};
use crate::model::event::StoredEvent;
use crate::outbound::DeliveryRequest;
use crate::store::views::{DeliveryDetail, DeliveryRow};
use crate::wire::received::shown_headers;

const LIST: &str = "/admin/dead-letters";

/// A delivery that is a dead letter, or was one.
pub(crate) struct DeadLetterKey {
    detail: DeliveryDetail,
    /// The reason that the delivery cannot be resubmitted.
    obstacle: Option<String>,
}

impl Subject for DeadLetterKey {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        Self::select(site, name_of(names, "id")).await
    }

    fn page(&self) -> String {
        paths::dead_letter_page(self.detail.row.id)
    }
}

impl Selectable for DeadLetterKey {
    const LIST: &'static str = LIST;
    const NOUNS: (&'static str, &'static str) = ("dead letter", "dead letters");

    async fn select(site: &Site, id: &str) -> PageResult<Self> {
        let detail = site.delivery(id).await?;
        Ok(Self {
            obstacle: obstacle(site, &detail.row),
            detail,
        })
    }

    fn title(&self) -> String {
        let row = &self.detail.row;
        format!("{} to {}", print::visible(&row.event_id), row.subscription)
    }
}

fn obstacle(site: &Site, row: &DeliveryRow) -> Option<String> {
    let (id, to, registry) = (row.id, &row.subscription, site.broker.registry());
    if row.state == DeliveryState::Resubmitted {
        Some(format!("Dead letter {id} has been resubmitted already."))
    } else if row.state != DeliveryState::DeadLettered {
        let word = delivery::badge(row.state).word.to_lowercase();
        Some(format!(
            "This delivery is {word}; only a dead letter can be resubmitted."
        ))
    } else {
        let is_gone = registry.subscription(row.subscription_id).is_none();
        is_gone.then(|| format!("Its event subscription {to} has been deleted."))
    }
}

impl DeadLetterKey {
    /// Returns the delivery to resubmit, or a conflict where something stands in the way.
    fn row(&self) -> PageResult<&DeliveryRow> {
        match &self.obstacle {
            None => Ok(&self.detail.row),
            Some(obstacle) => Err(PageError::Conflict(obstacle.clone())),
        }
    }
}

/// The webhook request of the delivery, without its secrets.
struct SentRequest {
    url: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// Shows one dead letter. The page remains after the dead letter is resubmitted.
pub(crate) async fn show(call: Call<DeadLetterKey>) -> PageResult {
    let row = &call.of.detail.row;
    let damage = "Its event is damaged and cannot be read, so it cannot be resubmitted.";
    let (event, damage) = match call.views.event(row.event).await {
        Ok(event) => (event.map(|event| event.stored), None),
        // An unreadable event may be the reason for the dead letter, so the page is shown anyway.
        Err(error) if error.is_unreadable() => (None, Some(damage.to_owned())),
        Err(error) => return Err(error.into()),
    };
    let request = event.as_ref().and_then(|event| request_of(&call, event));
    let mut recipe = Recipe::one(&call, "deadLetters", "dead-letters show", row.id);
    if call.of.obstacle.is_none() {
        let path = format!("/everpost/deadLetters/{}/resubmit", row.id);
        let command = format!("everpost dead-letters resubmit {}", row.id);
        recipe = recipe.then(&call, &path, command);
    }
    let card = DeliveryCard::new(call.of.detail.clone(), &call.visitor, &call.broker);
    answer!("pages/dead_letter.html", &call.visitor, format!("Dead letter {}", row.id), {
        recipe: Recipe = recipe,
        request: Option<SentRequest> = request,
        // The event data; `None` if the event is deleted or cannot be read.
        data: Option<BodyView> = event.map(|event| events::data_of(&event, "", call.visitor.role)),
        obstacle: Option<String> = damage.or(call.of.obstacle),
        delivery: DeliveryCard = card.on_its_own_page(),
    })
}

/// Builds the request with the delivery code; `None` if the subscription has no webhook or is deleted.
fn request_of(call: &Call<DeadLetterKey>, event: &StoredEvent) -> Option<SentRequest> {
    let (registry, row) = (call.broker.registry(), &call.of.detail.row);
    let (topic, subscription) = registry.subscription(row.subscription_id)?;
    let webhook = subscription.definition.destination.webhook()?;
    let (headers, body) = call.broker.draft_request(&DeliveryRequest {
        subscription,
        topic_resource_id: &topic.resource_id,
        events: &[event],
        delivery_count: row.attempts.saturating_sub(1),
        deadline: call.broker.options().response_deadline,
    })?;
    let mappings = webhook.attribute_mappings.iter();
    let hidden = mappings.filter(|each| match each.value {
        AttributeValue::Static { is_secret, .. } => is_secret,
        // A dynamic value comes from the event and may reveal its data.
        AttributeValue::Dynamic { .. } => !call.visitor.sees_data(),
    });
    let hidden: Vec<&str> = hidden.map(|each| each.name.as_str()).collect();
    Some(SentRequest {
        url: webhook.endpoint_url.base().to_owned(),
        headers: shown_headers(&headers, &hidden),
        body: KeptBody::new(&body, body.len() as u64).text,
    })
}

pub(crate) async fn ask_to_resubmit(call: Call<DeadLetterKey>) -> PageResult<Question> {
    let row = call.of.row()?;
    let (event, to) = (print::visible(&row.event_id), &row.subscription);
    let registry = call.broker.registry();
    let of = registry.subscription(row.subscription_id);
    let mode = of.map(|(_, each)| each.definition.destination.delivery_mode());
    let again = match mode {
        Some(DeliveryMode::Queue) => format!("{event} can be received from {to} again, as new."),
        Some(DeliveryMode::Push) | None => {
            format!("Event {event} is delivered to {to} at once, as a new delivery.")
        }
    };
    Ok(Question::new(format!("Resubmit dead letter {}?", row.id))
        .would(again)
        .would(FROM_NOW)
        .would(to_nobody_else(row.published_at, call.visitor.now)))
}

impl Deletable for DeadLetterKey {
    const NOUN: &'static str = "dead letter";
    const LOSES: &'static str =
        "Nobody can receive or resubmit it any more. Its event stays until it expires.";

    async fn delete(call: &Call<Self>) -> PageResult<bool> {
        let id = call.of.detail.row.id;
        let deleted = call.broker.delete_dead_letter(call.by(), id).await?;
        let held =
            || PageError::rejected("a receiver has locked it, or it is no dead letter any more");
        deleted.then_some(true).ok_or_else(held)
    }
}

/// The remark for a new delivery of an event.
pub(crate) const FROM_NOW: &str = "Its attempts and time to live start now.";

/// Returns the remark for an event that is sent to one subscription alone.
pub(crate) fn to_nobody_else(published_at: Timestamp, now: Timestamp) -> String {
    let published = print::relative(published_at, now);
    format!("The event was published {published}; no other subscription gets it.")
}

pub(crate) async fn resubmit(call: Call<DeadLetterKey>) -> PageResult<Flash> {
    let (id, event) = (call.of.detail.row.id, call.of.detail.row.event);
    let fresh = call.broker.resubmit(call.by(), id).await?;
    let said = format!("Dead letter {id} has been resubmitted as delivery {fresh}.");
    let page = format!("{}#delivery-{fresh}", paths::event_page(event));
    Ok(Flash::done(said).about(fresh).leading_to(page))
}

pub(crate) static RESUBMIT_SELECTED: Bulk<DeadLetterKey> = Bulk {
    key: "resubmit",
    verb: "Resubmit",
    changes: |each| each.obstacle.is_none(),
    consequence: "A new delivery replaces each; its attempts and time to live start now.",
    otherwise: "None of those that are selected can be resubmitted.",
};
