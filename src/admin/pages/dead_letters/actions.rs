//! What can be done with single dead letters.

use crate::admin::action::{Action, Done, Names, Question, Subject, name_of};
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

/// Sends one again.
pub(crate) static RESUBMIT: Action<DeadLetter> = Action {
    key: "resubmit",
    label: "Resubmit",
    role: Role::Operator,
    ask: Some(|call| {
        Box::pin(async move {
            let row = &call.of.row;
            if !call.of.obstacle.is_empty() {
                return Err(PageError::Conflict(call.of.obstacle.clone()));
            }
            let published = print::relative(row.published_at, call.visitor.now);
            Ok(Question {
                title: format!("Resubmit dead letter {}?", row.id),
                consequences: vec![
                    format!(
                        "Event {} would be sent to {} again, at once.",
                        print::visible(&row.event_id),
                        row.subscription
                    ),
                    AFRESH.to_owned(),
                    format!(
                        "The event was published {published}; no other subscription gets it again."
                    ),
                ],
                dangerous: false,
            })
        })
    }),
    run: |call| {
        Box::pin(async move {
            let row = &call.of.row;
            let by = &call.visitor.caller;
            let fresh = call.site.broker.resubmit(by, row.id).await?;
            let said = format!(
                "Dead letter {} has been resubmitted as delivery {fresh}.",
                row.id
            );
            let page = format!("{}#delivery-{fresh}", event_page(row.event));
            Ok(Done::well(said).leading_to(page))
        })
    },
};

const AFRESH: &str =
    "A new delivery takes the place of this one; attempts and time to live start afresh.";

/// Sends those that are selected again.
pub(crate) static RESUBMIT_SELECTED: Bulk<DeadLetter> = Bulk {
    action: &RESUBMIT,
    label: "Resubmit selected",
    changes: |each| each.obstacle.is_empty(),
    consequence: "Each is sent to its own subscription again, with attempts and time to live that start afresh.",
};
