//! Paths to publish events to, and the topic that a path names. Paths are compared in any letter case, as names are.

use std::borrow::Cow;

use axum::extract::Request;
use axum::http::{Method, Uri};
use percent_encoding::percent_decode_str;

/// The suffix of the paths to custom topics.
const EVENTS: &str = "/api/events";

/// The prefix of [`EVENTS`] where the path names no topic, as in Azure.
const AZURE: &str = "/eventGrid";

/// The suffix of the paths to namespace topics.
const PUBLISH: &str = ":publish";

/// The topic of a publish request, as far as its path names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PublishAddress {
    /// A custom topic by its name.
    Topic(String),
    /// A custom topic that is identified by the host or the key.
    Host,
    /// A namespace topic. Without a namespace in the path, the host or the credential identifies the namespace.
    NamespaceTopic {
        namespace: Option<String>,
        topic: String,
    },
}

impl PublishAddress {
    /// Returns the address of a publish request; `None` for other requests.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        (request.method() == Method::POST)
            .then(|| Self::parse(request.uri().path()))
            .flatten()
    }

    fn parse(path: &str) -> Option<Self> {
        let bare_path = path.strip_suffix('/').unwrap_or(path);
        if let Some(path) = before(bare_path, EVENTS) {
            if path.is_empty() || path.eq_ignore_ascii_case(AZURE) {
                return Some(Self::Host);
            }
            let topic = behind(path, "/topics/").or_else(|| path.strip_prefix('/'))?;
            return Some(Self::Topic(name(topic)?.into_owned()));
        }
        let (parent, last) = bare_path.strip_prefix('/')?.rsplit_once('/')?;
        let parent = before(parent, "topics")?;
        let last = name(last)?;
        let topic = before(&last, PUBLISH)?.to_owned();
        let namespace = match parent {
            "" => None,
            _ => {
                let namespace = behind(parent, "namespaces/")?.strip_suffix('/')?;
                Some(name(namespace)?.into_owned())
            }
        };
        Some(Self::NamespaceTopic { namespace, topic })
    }

    /// The paths that are answered here, with names in braces.
    #[cfg(test)]
    pub(crate) fn paths() -> [&'static str; 6] {
        [
            "/topics/{topic}/api/events",
            "/{topic}/api/events",
            "/eventGrid/api/events",
            "/api/events",
            "/topics/{topic}:publish",
            "/namespaces/{namespace}/topics/{topic}:publish",
        ]
    }
}

/// Rewrites the path of an `OPTIONS` request for a custom topic to the path of its route.
pub(in crate::api) fn enter(request: &mut Request) {
    if request.method() == Method::OPTIONS {
        match PublishAddress::parse(request.uri().path()) {
            Some(PublishAddress::Topic(_) | PublishAddress::Host) => {
                *request.uri_mut() = Uri::from_static(EVENTS);
            }
            Some(PublishAddress::NamespaceTopic { .. }) | None => {}
        }
    }
}

/// Returns the part of a path before the suffix `words`, compared without case.
fn before<'a>(path: &'a str, words: &str) -> Option<&'a str> {
    let place = path.len().checked_sub(words.len())?;
    let (before, last) = path.split_at_checked(place)?;
    last.eq_ignore_ascii_case(words).then_some(before)
}

/// Returns the part of a path after the prefix `words`, compared without case.
fn behind<'a>(path: &'a str, words: &str) -> Option<&'a str> {
    let (first, behind) = path.split_at_checked(words.len())?;
    first.eq_ignore_ascii_case(words).then_some(behind)
}

/// Returns the decoded name if `segment` is a single path segment.
fn name(segment: &str) -> Option<Cow<'_, str>> {
    let is_one = !segment.is_empty() && !segment.contains('/');
    is_one.then(|| percent_decode_str(segment).decode_utf8_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: &str) {
        let told = match PublishAddress::parse(path) {
            None => "none".to_owned(),
            Some(PublishAddress::Host) => "host".to_owned(),
            Some(PublishAddress::Topic(topic)) => format!("topic {topic}"),
            Some(PublishAddress::NamespaceTopic { namespace, topic }) => {
                format!("topic {topic} in {}", namespace.unwrap_or_default())
            }
        };
        assert_eq!(told, expected, "{path}");
    }

    #[test]
    fn paths_name_topics() {
        check("/topics/orders/api/events", "topic orders");
        check("/orders/api/events", "topic orders");
        check("/%6Frders/api/events", "topic orders");
        check("/topics/api/events", "topic topics");
        check("/a%2Fb/api/events", "topic a/b");
        check("/api/events", "host");
        check("/topics/orders/api/events/", "topic orders");
        check("/eventGrid/api/events", "host");
        check("/API/Events", "host");
        check("/eventgrid/API/EVENTS", "host");
        check("/Topics/Orders/Api/Events/", "topic Orders");
        check("/ORDERS/API/EVENTS", "topic ORDERS");
        check("/Topics/Orders:Publish", "topic Orders in ");
        check(
            "/Namespaces/Shop/TOPICS/orders:PUBLISH",
            "topic orders in Shop",
        );
        check("/topics/orders:publish", "topic orders in ");
        check("/topics/orders%3Apublish", "topic orders in ");
        check(
            "/namespaces/shop/topics/orders:publish",
            "topic orders in shop",
        );
        for path in PublishAddress::paths() {
            assert!(PublishAddress::parse(path).is_some(), "{path}");
        }
    }

    #[test]
    fn other_paths_name_none() {
        for path in [
            "/",
            "//api/events",
            "/topics//api/events",
            "/api/events//",
            "/topics/a/b/api/events",
            "/a/b/api/events",
            "/topics/orders",
            "/topics/orders/events:publish",
            "/namespaces/shop/orders:publish",
            "/namespaces/a/b/topics/orders:publish",
            "/shop/topics/orders:publish",
            "/xtopics/orders:publish",
            "/\u{e9}/topics/orders:publish",
            "/orders/api/event\u{17f}",
        ] {
            check(path, "none");
        }
    }
}
