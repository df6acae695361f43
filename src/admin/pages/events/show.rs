//! The page of one event: what it is, what it carries, and what became of it.

use std::sync::Arc;

use axum::extract::{Path, Query};
use futures_util::future::OptionFuture;

use super::FilterResults;
use crate::admin::action::{Call, Names, Subject, name_of};
use crate::admin::error::PageResult;
use crate::admin::lists::download::body_file;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::delivery::DeliveryCard;
use crate::admin::pages::topics::copy_page;
use crate::admin::pages::{answer, delivery};
use crate::admin::paths;
use crate::admin::site::{Site, existing, numbered};
use crate::admin::widgets::body_view::{BodyView, carried_by};
use crate::admin::widgets::{Badge, Icon, Tone, filters, print};
use crate::base::Timestamp;
use crate::model::delivery::DeliveryState;
use crate::model::event::{EventKey, StoredEvent};
use crate::model::registry::TopicEntry;
use crate::store::accounts::Role;
use crate::store::views::EventDetail;

pub(crate) async fn show(
    Path(key): Path<String>,
    Query(asked): Query<Names>,
    call: Call,
) -> PageResult {
    let visitor = &call.visitor;
    let mut event = find(&call, &key).await?;
    let topic = visitor.standing.registry.topic_by_id(event.topic_id);
    let results = topic.map(|topic| FilterResults::new(&event, topic, visitor));
    let results = OptionFuture::from(results).await.transpose()?;
    let (key, event_type) = (event.stored.key, &event.stored.event.event_type);
    let title = print::visible(event_type);
    let deliveries = std::mem::take(&mut event.deliveries).into_iter();
    let card =
        |each| DeliveryCard::new(each, visitor, &call.broker).with_retry(&paths::event_page(key));
    answer!("pages/event.html", visitor, title, {
        results: Option<FilterResults> = results.filter(|results| !results.rows.is_empty()),
        deliveries: Vec<DeliveryCard> = deliveries.map(card).collect(),
        recipe: Recipe = Recipe::one(&call, "events", "events show", key),
        data: BodyView = data_of(&event.stored, name_of(&asked, "as"), visitor.role),
        topic: Option<Arc<TopicEntry>> = topic.cloned(),
        event: EventDetail = event,
    })
}

/// How many of the deliveries stand where.
fn badges(deliveries: &[DeliveryCard]) -> Vec<Badge> {
    let badge = |state| {
        let badge = delivery::badge(state);
        let states = deliveries.iter().map(|each| each.detail.row.state);
        let count = states.filter(|own| *own == state).count();
        let said = format!("{count} {}", badge.word.to_lowercase());
        (count > 0).then(|| badge.saying(said))
    };
    DeliveryState::ALL.into_iter().filter_map(badge).collect()
}

/// When an event says that it happened, if that is a moment.
fn event_time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// A value that is written as JSON, without the quotes of a text.
fn plain(value: &str) -> String {
    serde_json::from_str(value).unwrap_or_else(|_| value.to_owned())
}

pub(crate) async fn download(Path(key): Path<String>, call: Call) -> PageResult {
    let event = find(&call, &key).await?.stored;
    Ok(body_file(
        &format!("event-{}", event.key),
        carried_by(&event.event),
    ))
}

pub(crate) fn data_of(stored: &StoredEvent, wanted: &str, reader: Role) -> BodyView {
    let (page, data) = (paths::event_page(stored.key), carried_by(&stored.event));
    BodyView::new("Data", &page, &data, wanted).seen_by(reader)
}

pub(crate) async fn find(site: &Site, key: &str) -> PageResult<EventDetail> {
    let number = numbered("event", key).map(EventKey)?;
    existing(site.views.event(number).await?, "event", key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_shown_without_quotes() {
        for (json, shown) in [
            (r#""a \"b\"""#, "a \"b\""),
            ("1.50", "1.50"),
            ("true", "true"),
        ] {
            assert_eq!(plain(json), shown);
        }
    }
}
