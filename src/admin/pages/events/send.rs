//! Sending an event to an event subscription that has not got it.

use crate::admin::page::*;
use crate::admin::pages::events::show::find;
use crate::broker::SendError;
use crate::model::event::{EventKey, StoredEvent};

/// The question whether to send an event to a subscription.
pub(crate) fn send_page(key: EventKey, subscription: &str) -> String {
    format!("/admin/events/{key}/send/{subscription}")
}

/// An event, and the subscription that it may be sent to.
pub(crate) struct Sending {
    event: StoredEvent,
    subscription: String,
}

impl Subject for Sending {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        Ok(Self {
            event: find(site, name_of(names, "key")).await?.stored,
            subscription: name_of(names, "subscription").to_owned(),
        })
    }

    fn page(&self) -> String {
        paths::event_page(self.event.key)
    }
}

pub(crate) async fn ask_to_send(call: Call<Sending>) -> PageResult<Question> {
    let event = &call.of.event;
    let name = print::visible(&call.of.subscription);
    let id = print::visible(&event.event.id);
    let published = print::relative(event.received_at, call.visitor.now);
    let others = "no other subscription gets it again";
    Ok(Question::new(format!("Send event {} to {name}?", event.key))
        .would(format!("A delivery of event {id} to the event subscription {name} would be made, which is due at once."))
        .would("Its filter is asked again, as it is now; attempts and time to live start now.")
        .would(format!("The event was published {published}; {others}.")))
}

pub(crate) async fn send(call: Call<Sending>) -> PageResult<Done> {
    let (key, name) = (call.of.event.key, &call.of.subscription);
    let delivery = call.broker.send_stored(call.by(), key, name).await?;
    let said = format!("Delivery {delivery} of event {key} to {name} has been made.");
    Ok(Done::well(said).leading_to(format!("{}#delivery-{delivery}", call.of.page())))
}

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
