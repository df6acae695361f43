//! Sending an event to an event subscription that has not got it.

use crate::admin::action::{Action, Done, Names, Question, Subject, name_of};
use crate::admin::page::*;
use crate::admin::pages::events::show::find;
use crate::admin::paths::event_page;
use crate::broker::SendError;
use crate::model::event::StoredEvent;

/// The question whether to send an event to a subscription.
pub(crate) fn send_page(key: &str, subscription: &str) -> String {
    format!("/admin/events/{key}/send/{subscription}")
}

/// An event, and the subscription that it may be sent to.
pub(crate) struct Sending {
    event: StoredEvent,
    subscription: String,
}

impl Subject for Sending {
    async fn find(site: &Site, names: &Names) -> Result<Self, PageError> {
        Ok(Self {
            event: find(site, name_of(names, "key")).await?.stored,
            subscription: name_of(names, "subscription").to_owned(),
        })
    }

    fn page(&self) -> String {
        event_page(self.event.key)
    }
}

/// Sends it, after a question.
pub(crate) static SEND: Action<Sending> = Action {
    key: "{subscription}",
    label: "Send",
    role: Role::Operator,
    ask: Some(|call| {
        Box::pin(async move {
            let event = &call.of.event;
            let name = print::visible(&call.of.subscription);
            let published = print::relative(event.received_at, call.visitor.now);
            let id = print::visible(&event.event.id);
            Ok(Question {
                title: format!("Send event {} to {name}?", event.key),
                consequences: vec![
                    format!(
                        "A delivery of event {id} to the event subscription {name} would be made, which is due at once."
                    ),
                    "Its filter is asked again, as it is now; attempts and time to live start now."
                        .to_owned(),
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
            let (by, name) = (&call.visitor.caller, &call.of.subscription);
            let key = call.of.event.key;
            let delivery = call.site.broker.send_stored(by, key, name).await?;
            let said = format!("Delivery {delivery} of event {key} to {name} has been made.");
            let page = format!("{}#delivery-{delivery}", call.of.page());
            Ok(Done::well(said).leading_to(page))
        })
    },
};

impl From<SendError> for PageError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NoEvent(key) => Self::NotFound(format!("event {key}")),
            SendError::NoSubscription(_, name) => {
                Self::NotFound(format!("event subscription {name} of its topic"))
            }
            SendError::Already(..) | SendError::TooEarly(_) | SendError::Unmatched(..) => {
                Self::Conflict(sentence(&error.to_string()))
            }
            SendError::Stopping | SendError::DiskLow => Self::Unavailable(error.to_string()),
            SendError::Store(error) => error.into(),
        }
    }
}
