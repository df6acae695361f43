//! Who takes part: two event subscriptions, what their receivers answer, and how that must end.

use serde_json::{Map, Value, json};

/// The topic of the demonstration.
pub(super) const TOPIC: &str = "orders";

/// Events that are published.
pub(super) const EVENTS: usize = 100;

/// The type of most events.
pub(super) const PLACED: &str = "Order.Placed";

/// The type of every event whose number [`CANCELLED_EVERY`] divides.
pub(super) const CANCELLED: &str = "Order.Cancelled";

/// See [`CANCELLED`].
pub(super) const CANCELLED_EVERY: usize = 10;

/// One event subscription and its receiver.
#[derive(Debug)]
pub(super) struct Role {
    /// Name of the event subscription.
    pub(super) name: &'static str,
    /// The only type of events that it wants; `None` for all.
    pub(super) event_type: Option<&'static str>,
    /// What the receiver answers to each event, attempt by attempt.
    pub(super) answers: &'static str,
    /// What the receiver's last answer does with the event.
    pub(super) verb: &'static str,
    /// The state in which every delivery ends.
    pub(super) ends: &'static str,
    /// The dead-letter reason of every delivery.
    pub(super) reason: &'static str,
    /// Deliveries in all.
    pub(super) deliveries: usize,
}

/// Takes every event, at the third attempt.
pub(super) const BILLING: Role = Role {
    name: "billing",
    event_type: None,
    answers: "503 503 200",
    verb: "accepted",
    ends: "Delivered",
    reason: "",
    deliveries: EVENTS,
};

/// Wants some events and then refuses them for good.
pub(super) const REFUNDS: Role = Role {
    name: "refunds",
    event_type: Some(CANCELLED),
    answers: "400",
    verb: "refused",
    ends: "DeadLettered",
    reason: "UndeliverableDueToHttpBadRequest",
    deliveries: EVENTS / CANCELLED_EVERY,
};

/// Both.
pub(super) const ROLES: [&Role; 2] = [&BILLING, &REFUNDS];

impl Role {
    /// The receiver's answer to the last attempt.
    pub(super) fn last_answer(&self) -> &str {
        self.answers.rsplit(' ').next().unwrap_or_default()
    }

    /// The body that makes the event subscription.
    pub(super) fn definition(&self, endpoint: &str) -> Value {
        let destination = json!({
            "endpointType": "WebHook",
            "properties": { "endpointUrl": endpoint },
        });
        let mut properties = Map::from_iter([("destination".to_owned(), destination)]);
        if let Some(event_type) = self.event_type {
            let filter = json!({ "includedEventTypes": [event_type] });
            properties.insert("filter".to_owned(), filter);
        }
        json!({ "properties": properties })
    }
}
