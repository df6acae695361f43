//! Which namespace topic a publish request is for (rule N3).

use std::sync::Arc;

use crate::api::auth::{Credential, NoTopic, SoughtTopic};
use crate::api::error::ApiError;
use crate::base::Timestamp;
use crate::model::name::{NamespaceName, TopicName};
use crate::model::registry::{Registry, TopicEntry};

/// The versions of the data plane (rule N3), oldest first.
pub(crate) const API_VERSIONS: [&str; 4] = [
    "2023-06-01-preview",
    "2023-10-01-preview",
    "2023-11-01",
    "2024-06-01",
];

/// Finds a topic where both names are known.
pub(crate) fn topic_of(registry: &Registry, namespace: &str, topic: &str) -> SoughtTopic {
    let name = NamespaceName::parse(namespace).ok();
    let found = name
        .as_ref()
        .and_then(|name| topic_in(registry, name, topic));
    found.ok_or_else(|| NoTopic {
        error: Box::new(no_such_topic(
            topic,
            &format!("in the namespace {namespace:?}"),
        )),
        namespace: name.and_then(|name| registry.namespace(&name).cloned()),
    })
}

fn topic_in(
    registry: &Registry,
    namespace: &NamespaceName,
    topic: &str,
) -> Option<Arc<TopicEntry>> {
    let name = TopicName::in_namespace(namespace, topic).ok()?;
    registry.topic(&name).cloned()
}

/// By the first label of the host, if that names a namespace; else by the credential, if it opens one
/// such topic alone; else the only topic of that name.
pub(crate) fn choose_topic(
    registry: &Registry,
    topic: &str,
    host: &str,
    credential: &Credential,
    now: Timestamp,
) -> Result<SoughtTopic, ApiError> {
    let label = host.split(['.', ':']).next().unwrap_or_default();
    if host.contains('.')
        && let Ok(namespace) = NamespaceName::parse(label)
        && registry.namespace(&namespace).is_some()
    {
        return Ok(topic_of(registry, label, topic));
    }
    let named: Vec<Arc<TopicEntry>> = registry
        .namespaces()
        .filter_map(|entry| topic_in(registry, &entry.namespace.name, topic))
        .collect();
    let mut opened = named.iter().filter(|entry| credential.opens(entry, now));
    match (opened.next(), opened.next(), named.as_slice()) {
        (Some(one), None, _) => Ok(Ok(Arc::clone(one))),
        (None, _, [only]) => Ok(Ok(Arc::clone(only))),
        (None, _, []) => {
            let mut namespaces = registry.namespaces();
            let namespace = namespaces.find(|entry| credential.opens_namespace(entry, now));
            Ok(Err(NoTopic {
                error: Box::new(no_such_topic(topic, "in any namespace")),
                namespace: namespace.cloned(),
            }))
        }
        (None, _, [_, _, ..]) => Ok(Err(NoTopic {
            error: Box::new(several_topics(topic)),
            namespace: None,
        })),
        (Some(_), Some(_), _) => Err(several_topics(topic)),
    }
}

fn several_topics(topic: &str) -> ApiError {
    ApiError::bad_request(format!(
        "Several namespaces have a topic {topic:?}, and the credential does not tell which is \
         meant; name it in the path: /namespaces/{{namespace}}/topics/{topic}:publish."
    ))
}

fn no_such_topic(topic: &str, place: &str) -> ApiError {
    ApiError::not_found(format!(
        "There is no topic {topic:?} {place}. Create it first with PUT \
         /namespaces/{{namespace}}/topics/{{topic}}, or with `everpost topics create --namespace`."
    ))
}
