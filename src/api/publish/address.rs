//! Where events can be published to: which topic a path names.

use std::borrow::Cow;

use axum::extract::Request;
use axum::http::Method;
use percent_encoding::percent_decode_str;

/// What the paths to custom topics end with.
const EVENTS: &str = "/api/events";

/// What those to namespace topics end with.
const PUBLISH: &str = ":publish";

/// A topic, as far as the path of a publish request tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A custom topic by its name.
    Topic(String),
    /// A custom topic that the host or the key tells.
    Host,
    /// A topic of a namespace, which the host or the credential tells where the path does not.
    NamespaceTopic {
        namespace: Option<String>,
        topic: String,
    },
}

impl Address {
    /// `None` for a request that publishes nothing.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        (request.method() == Method::POST)
            .then(|| Self::parse(request.uri().path()))
            .flatten()
    }

    fn parse(path: &str) -> Option<Self> {
        let path = path.strip_suffix('/').unwrap_or(path);
        if let Some(path) = path.strip_suffix(EVENTS) {
            return match path {
                "" | "/eventGrid" => Some(Self::Host),
                _ => {
                    let topic = path.strip_prefix("/topics/");
                    let topic = topic.or_else(|| path.strip_prefix('/'))?;
                    Some(Self::Topic(name(topic)?.into_owned()))
                }
            };
        }
        let (parent, last) = path.strip_prefix('/')?.rsplit_once('/')?;
        let parent = parent.strip_suffix("topics")?;
        let last = name(last)?;
        let topic = last.strip_suffix(PUBLISH)?.to_owned();
        let namespace = match parent {
            "" => None,
            _ => {
                let namespace = parent.strip_prefix("namespaces/")?.strip_suffix('/')?;
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

/// The name that a segment of a path is.
fn name(segment: &str) -> Option<Cow<'_, str>> {
    let is_one = !segment.is_empty() && !segment.contains('/');
    is_one.then(|| percent_decode_str(segment).decode_utf8_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: &str) {
        let told = match Address::parse(path) {
            None => "none".to_owned(),
            Some(Address::Host) => "host".to_owned(),
            Some(Address::Topic(topic)) => format!("topic {topic}"),
            Some(Address::NamespaceTopic { namespace, topic }) => {
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
        check("/topics/orders:publish", "topic orders in ");
        check("/topics/orders%3Apublish", "topic orders in ");
        check(
            "/namespaces/shop/topics/orders:publish",
            "topic orders in shop",
        );
        for path in Address::paths() {
            assert!(Address::parse(path).is_some(), "{path}");
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
        ] {
            check(path, "none");
        }
    }
}
