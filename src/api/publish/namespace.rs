//! Publishing to namespace topics: `POST …/topics/{topic}:publish`
//! (rule N3).

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Method, Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::api::ApiState;
use crate::api::auth::Credential;
use crate::api::error::{ApiError, no_such_method};
use crate::api::publish::{host_of, take_in};
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

/// What the last segment of the path ends with.
const PUBLISH: &str = ":publish";

/// `POST /topics/{topic}:publish`: the namespace is told by the host, by the credential, or by there
/// being one topic of that name alone.
pub(crate) async fn by_topic(
    State(state): State<ApiState>,
    Path(segment): Path<String>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let topic = asked_to_publish(&segment, request.uri()).await?;
    let registry = state.broker.registry();
    let credential = Credential::of(request.headers(), request.uri());
    let host = host_of(&request).unwrap_or_default();
    let now = state.broker.clock().now();
    let topic = choose_topic(&registry, topic, &host, &credential, now)?;
    publish(&state, &topic, request).await
}

/// `POST /namespaces/{namespace}/topics/{topic}:publish`
pub(crate) async fn by_path(
    State(state): State<ApiState>,
    Path((namespace, segment)): Path<(String, String)>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let topic = asked_to_publish(&segment, request.uri()).await?;
    let registry = state.broker.registry();
    let topic = NamespaceName::parse(&namespace)
        .ok()
        .and_then(|namespace| topic_in(&registry, &namespace, topic))
        .ok_or_else(|| no_such_topic(topic, &format!("in the namespace {namespace:?}")))?;
    publish(&state, &topic, request).await
}

async fn publish(
    state: &ApiState,
    topic: &Arc<TopicEntry>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    take_in(state, topic, request, &API_VERSIONS).await?;
    Ok((StatusCode::OK, Json(json!({}))).into_response())
}

/// The topic in front of the colon; nothing else can be POSTed to a topic.
async fn asked_to_publish<'a>(segment: &'a str, uri: &Uri) -> Result<&'a str, ApiError> {
    match segment.strip_suffix(PUBLISH) {
        Some(topic) => Ok(topic),
        None => Err(no_such_method(Method::POST, uri.clone()).await),
    }
}

pub(crate) fn topic_in(
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
) -> Result<Arc<TopicEntry>, ApiError> {
    let label = host.split(['.', ':']).next().unwrap_or_default();
    if host.contains('.')
        && let Ok(namespace) = NamespaceName::parse(label)
        && registry.namespace(&namespace).is_some()
    {
        return topic_in(registry, &namespace, topic)
            .ok_or_else(|| no_such_topic(topic, &format!("in the namespace {label:?}")));
    }
    let named: Vec<Arc<TopicEntry>> = registry
        .namespaces()
        .filter_map(|entry| topic_in(registry, &entry.namespace.name, topic))
        .collect();
    let mut opened = named.iter().filter(|entry| credential.opens(entry, now));
    match (opened.next(), opened.next(), named.as_slice()) {
        (Some(one), None, _) => Ok(Arc::clone(one)),
        (None, _, [only]) => Ok(Arc::clone(only)),
        (None, _, []) => Err(no_such_topic(topic, "in any namespace")),
        (None, _, [_, _, ..]) | (Some(_), Some(_), _) => Err(ApiError::bad_request(format!(
            "Several namespaces have a topic {topic:?}, and the credential does not tell which is \
             meant; name it in the path: /namespaces/{{namespace}}/topics/{topic}:publish."
        ))),
    }
}

pub(crate) fn no_such_topic(topic: &str, place: &str) -> ApiError {
    ApiError::not_found(format!(
        "There is no topic {topic:?} {place}. Create it first with PUT \
         /namespaces/{{namespace}}/topics/{{topic}}, or with `everpost topics create --namespace`."
    ))
}
