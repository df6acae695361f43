//! What can be done with single dead letters.

use crate::admin::lists::bulk::{Bulk, Selectable};
use crate::admin::page::*;
use crate::admin::pages::dead_letters::{find, list, obstacle};
use crate::admin::paths::{dead_letter_page, event_page};
use crate::store::views::DeliveryRow;

/// A delivery that is a dead letter, or was one.
pub(crate) struct DeadLetter {
    row: DeliveryRow,
    /// Why it cannot be resubmitted; empty when it can.
    obstacle: String,
}

impl DeadLetter {
    async fn of(site: &Site, id: &str) -> Result<Self, PageError> {
        let row = find(site, id).await?.row;
        let obstacle = obstacle(&row, &site.broker.registry());
        Ok(Self { row, obstacle })
    }
}

impl Subject for DeadLetter {
    async fn find(site: &Site, names: &Names) -> Result<Self, PageError> {
        Self::of(site, name_of(names, "id")).await
    }

    fn page(&self) -> String {
        dead_letter_page(self.row.id)
    }
}

impl Selectable for DeadLetter {
    const LIST: &'static str = list::LIST;
    const NOUN: (&'static str, &'static str) = ("dead letter", "dead letters");

    async fn select(site: &Site, text: &str) -> Result<Self, PageError> {
        Self::of(site, text).await
    }

    fn title(&self) -> String {
        let event = print::visible(&self.row.event_id);
        format!("{event} to {}", self.row.subscription)
    }
}

pub(crate) async fn ask_to_resubmit(call: Call<DeadLetter>) -> PageResult<Question> {
    let row = &call.of.row;
    if !call.of.obstacle.is_empty() {
        return Err(PageError::Conflict(call.of.obstacle));
    }
    let (event, to) = (print::visible(&row.event_id), &row.subscription);
    let published = print::relative(row.published_at, call.visitor.now);
    Ok(Question::new(format!("Resubmit dead letter {}?", row.id))
        .would(format!(
            "Event {event} would be sent to {to} again, at once."
        ))
        .would(
            "A new delivery takes the place of this one; attempts and time to live start afresh.",
        )
        .would(format!(
            "The event was published {published}; no other subscription gets it again."
        )))
}

/// Sends one again.
pub(crate) async fn resubmit(call: Call<DeadLetter>) -> PageResult<Done> {
    let row = &call.of.row;
    let fresh = call.broker.resubmit(call.by(), row.id).await?;
    let said = format!(
        "Dead letter {} has been resubmitted as delivery {fresh}.",
        row.id
    );
    let page = format!("{}#delivery-{fresh}", event_page(row.event));
    Ok(Done::well(said).leading_to(page))
}

/// Sends those that are selected again.
pub(crate) static RESUBMIT_SELECTED: Bulk<DeadLetter> = Bulk {
    key: "resubmit",
    verb: "Resubmit",
    label: "Resubmit selected",
    changes: |each| each.obstacle.is_empty(),
    consequence: "Each is sent to its own subscription again, with attempts and time to live that start afresh.",
};
