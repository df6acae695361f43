//! Sending an event to an event subscription that has not got it.

use super::find;
use crate::admin::action::{Call, Names, Question, Subject, name_of};
use crate::admin::error::PageResult;
use crate::admin::pages::dead_letters::{FROM_NOW, to_nobody_else};
use crate::admin::paths;
use crate::admin::site::Site;
use crate::admin::widgets::{Flash, print};
use crate::model::event::{EventKey, StoredEvent};

pub(crate) fn send_page(key: EventKey, subscription: &str) -> String {
    format!("{}/send/{subscription}", paths::event_page(key))
}

/// An event, and the subscription that it may be sent to.
pub(crate) struct EventToSend(StoredEvent, String);

impl Subject for EventToSend {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        let event = find(site, name_of(names, "key")).await?;
        let subscription = name_of(names, "subscription").to_owned();
        Ok(Self(event.stored, subscription))
    }

    fn page(&self) -> String {
        paths::event_page(self.0.key)
    }
}

pub(crate) async fn ask_to_send(call: Call<EventToSend>) -> PageResult<Question> {
    let EventToSend(stored, name) = &call.of;
    let now = call.visitor.now;
    call.broker.match_again(stored.key, name, now).await?;
    let (kind, id) = (&stored.event.event_type, &stored.event.id);
    let title = format!("Send event {} to subscription {name}?", stored.key);
    Ok(Question::new(print::visible(&title))
        .would(print::visible(&format!(
            "{kind} {id} is delivered to {name}, whose filter matches it now."
        )))
        .would(FROM_NOW)
        .would(to_nobody_else(stored.received_at, now)))
}

pub(crate) async fn send(call: Call<EventToSend>) -> PageResult<Flash> {
    let EventToSend(StoredEvent { key, .. }, name) = &call.of;
    let delivery = call.broker.send_stored(call.by(), *key, name).await?;
    let said = format!("Delivery {delivery} of event {key} to {name} has been made.");
    Ok(Flash::done(said)
        .about(delivery)
        .leading_to(format!("{}#delivery-{delivery}", call.of.page())))
}
