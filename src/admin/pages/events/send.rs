//! Sending an event to an event subscription that has not got it.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect};

use crate::admin::action::Confirm;
use crate::admin::bare::draw;
use crate::admin::error::{PageError, PageResult};
use crate::admin::frame::Frame;
use crate::admin::pages::events::show::find;
use crate::admin::paths::event_page;
use crate::admin::security::csrf::Submitted;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::Flash;
use crate::admin::widgets::print;
use crate::admin::widgets::print::sentence;
use crate::broker::SendError;

/// The question whether to send an event to a subscription.
pub(crate) fn send_page(key: &str, subscription: &str) -> String {
    format!("/admin/events/{key}/send/{subscription}")
}

/// Asks before the event is sent.
pub(crate) async fn ask_to_send(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path((key, subscription)): Path<(String, String)>,
) -> PageResult {
    let event = find(&site, &key).await?.stored;
    let name = print::visible(&subscription);
    let published = print::relative(event.received_at, visitor.now);
    Ok(draw(&Confirm {
        frame: Frame::new(&visitor, format!("Send event {} to {name}?", event.key)),
        consequences: vec![
            format!(
                "A delivery of event {} to the event subscription {name} would be made, which is due at once.",
                print::visible(&event.event.id)
            ),
            "Its filter is asked again, as it is now; attempts and time to live start now."
                .to_owned(),
            format!("The event was published {published}; no other subscription gets it again."),
        ],
        button: "Send",
        dangerous: false,
        back: event_page(event.key),
        action: visitor.path.clone(),
    }))
}

/// Sends it.
pub(crate) async fn send(
    State(site): State<Arc<Site>>,
    Path((key, subscription)): Path<(String, String)>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let key = find(&site, &key).await?.stored.key;
    let delivery = site
        .broker
        .send_stored(&visitor.caller, key, &subscription)
        .await?;
    let message = format!("Delivery {delivery} of event {key} to {subscription} has been made.");
    visitor.flash(Flash::done(message)).await?;
    let page = format!("{}#delivery-{delivery}", event_page(key));
    Ok(Redirect::to(&page).into_response())
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
