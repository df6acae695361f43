//! The addresses of pages. Numbers are taken as templates have them: as they are, or by reference.

use std::fmt::Display;

use crate::model::name::InspectorName;

/// The page of a namespace.
pub(crate) fn namespace_page(namespace: &str) -> String {
    format!("/admin/namespaces/{namespace}")
}

/// The page of a topic.
pub(crate) fn topic_page(topic: &str) -> String {
    // Between a namespace and its topic there is a slash, which must not end the segment.
    format!("/admin/topics/{}", topic.replace('/', "%2F"))
}

/// The page of an event subscription.
pub(crate) fn subscription_page(topic: &str, name: &str) -> String {
    format!("{}/subscriptions/{name}", topic_page(topic))
}

/// The page of an inspector.
pub(crate) fn inspector_page(name: &InspectorName) -> String {
    format!("/admin/inspectors/{}", name.key())
}

/// The page of a request that an inspector keeps.
pub(crate) fn inspected_page(name: &InspectorName, number: u64) -> String {
    format!("{}/requests/{number}", inspector_page(name))
}

/// The page of an event.
pub(crate) fn event_page(key: impl Display) -> String {
    format!("/admin/events/{key}")
}

/// The page of a dead letter.
pub(crate) fn dead_letter_page(id: impl Display) -> String {
    format!("/admin/dead-letters/{id}")
}

/// The page of a replay job.
pub(crate) fn replay_page(id: impl Display) -> String {
    format!("/admin/replays/{id}")
}
