//! Management of topics and event subscriptions (rule 3), including those of namespaces (rule N1).

pub(crate) mod access_rules;
pub(crate) mod alerts;
pub(crate) mod azure;
pub(crate) mod configuration;
pub(crate) mod inspectors;
pub(crate) mod messages;
pub(crate) mod messaging;
pub(crate) mod namespaces;
pub(crate) mod people;
pub(crate) mod settings;
pub(crate) mod tokens;

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::api::ApiState;
use crate::api::arm::listing::ListRequest;
use crate::api::arm::{ArmPath, as_asked};
use crate::api::base_url::BaseUrl;
use crate::api::error::ApiError;
use crate::api::parameters::RequestParameters;
use crate::broker::{ManageError, event_subscription};
use crate::model::audit::{Caller, SecretKind};
use crate::model::name::{InvalidName, NamespaceName, SubscriptionName, TopicName};
use crate::model::registry::{Registry, TopicEntry};
use crate::model::subscription::{EventSubscription, OnDelete};
use crate::model::topic::EntityKind;
use crate::wire::resource::{self, Observed, SubscriptionContext};

pub(crate) type ApiResult = Result<Response, ApiError>;

/// The part of a path that names a topic: `/topics/{topic}`, after `/namespaces/{namespace}` for namespace topics.
#[derive(Deserialize)]
pub(crate) struct TopicPath {
    namespace: Option<String>,
    topic: String,
}

impl TopicPath {
    /// Returns the name of the topic. `known` holds the existing topics.
    pub(crate) fn name(&self, known: &Registry) -> Result<TopicName, InvalidName> {
        match &self.namespace {
            None => {
                let name = TopicName::parse(&self.topic)?;
                // Namespace topics are reached only under `/namespaces/{namespace}`.
                if known.topic(&name).is_some_and(|it| it.namespace.is_some()) {
                    TopicName::custom(&self.topic)
                } else {
                    Ok(name)
                }
            }
            Some(namespace) => {
                TopicName::in_namespace(&NamespaceName::parse(namespace)?, &self.topic)
            }
        }
    }
}

/// The part of a path that names an event subscription: the path of the topic, then `/eventSubscriptions/{name}`.
#[derive(Deserialize)]
pub(crate) struct SubscriptionPath {
    namespace: Option<String>,
    topic: String,
    name: String,
}

impl SubscriptionPath {
    /// Returns the names of the topic and of the event subscription. `known` holds the existing topics.
    pub(crate) fn names(
        self,
        known: &Registry,
    ) -> Result<(TopicName, SubscriptionName), InvalidName> {
        let name = match self.namespace {
            None => SubscriptionName::parse(&self.name),
            Some(_) => SubscriptionName::of_namespace_topic(&self.name),
        };
        let (namespace, topic) = (self.namespace, self.topic);
        Ok((TopicPath { namespace, topic }.name(known)?, name?))
    }
}

/// `GET /topics`
pub(crate) async fn list_topics(State(state): State<ApiState>, listing: ListRequest) -> Response {
    let registry = state.broker.registry();
    // Built-in topics are hidden here, because a client that deletes all topics of a resource group does not mean them.
    let is_shown = |entry: &&Arc<TopicEntry>| !listing.is_arm() || !entry.topic.kind.is_built_in();
    Json(listing.page(
        registry.custom_topics().filter(is_shown),
        |entry| entry.topic.name.to_string(),
        |entry| show_topic(&listing.base, entry),
    ))
    .into_response()
}

/// `GET /topics/{topic}`
pub(crate) async fn get_topic(
    State(state): State<ApiState>,
    base: BaseUrl,
    Path(topic): Path<TopicPath>,
) -> ApiResult {
    let name = topic.name(&state.broker.registry())?;
    let entry = state.broker.entity(EntityKind::Topic, &name)?;
    Ok(Json(show_topic(&base, &entry)).into_response())
}

/// `PUT /topics/{topic}`: 201 even if the topic existed before, because the clients accept no other status.
pub(crate) async fn put_topic(
    State(state): State<ApiState>,
    by: Caller,
    base: BaseUrl,
    Path(topic): Path<TopicPath>,
    body: Bytes,
) -> ApiResult {
    let name = topic.name(&state.broker.registry())?;
    let body = json(&body)?;
    let kind = match topic.namespace {
        None => {
            TopicName::custom(name.as_str())?;
            resource::parse_topic(&body)?
        }
        Some(_) => resource::parse_namespace_topic(&body)?,
    };
    let entry = state.broker.put_topic(&by, name, kind).await?;
    Ok((StatusCode::CREATED, Json(show_topic(&base, &entry))).into_response())
}

/// `PATCH /topics/{topic}`
pub(crate) async fn patch_topic(
    State(state): State<ApiState>,
    by: Caller,
    base: BaseUrl,
    Path(topic): Path<TopicPath>,
    body: Bytes,
) -> ApiResult {
    let (name, patch) = (topic.name(&state.broker.registry())?, json(&body)?);
    let change = |current: &TopicEntry| {
        let patched = resource::patch_topic(&current.topic.kind, &patch);
        patched.map_err(ApiError::from)
    };
    let entry = state.broker.patch_topic(&by, name, change).await?;
    Ok(Json(show_topic(&base, &entry)).into_response())
}

/// `DELETE /topics/{topic}`
pub(crate) async fn delete_topic(
    State(state): State<ApiState>,
    by: Caller,
    Path(topic): Path<TopicPath>,
    RequestParameters(deletion): RequestParameters<DeletionOptions>,
) -> ApiResult {
    let (name, pending) = (topic.name(&state.broker.registry())?, deletion.pending()?);
    state.broker.delete_topic(&by, &name, pending).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /topics/{topic}/listKeys`
pub(crate) async fn list_keys(
    State(state): State<ApiState>,
    by: Caller,
    Path(topic): Path<TopicPath>,
) -> ApiResult {
    let keys = state
        .broker
        .show_topic_keys(&by, &topic.name(&state.broker.registry())?)
        .await?;
    Ok(Json(resource::render_keys(&keys)).into_response())
}

/// `POST /topics/{topic}/regenerateKey`
pub(crate) async fn regenerate_key(
    State(state): State<ApiState>,
    by: Caller,
    Path(topic): Path<TopicPath>,
    body: Bytes,
) -> ApiResult {
    let key = resource::parse_key_name(&json(&body)?)?;
    let keys = state
        .broker
        .regenerate_key(&by, &topic.name(&state.broker.registry())?, key)
        .await?;
    Ok(Json(resource::render_keys(&keys)).into_response())
}

/// `GET /topics/{topic}/eventSubscriptions`
pub(crate) async fn list_subscriptions(
    State(state): State<ApiState>,
    Path(topic): Path<TopicPath>,
    arm: Option<Extension<ArmPath>>,
    listing: ListRequest,
) -> ApiResult {
    let entry = state.broker.topic(&topic.name(&state.broker.registry())?)?;
    let page = listing.page(
        entry.event_subscriptions(),
        |each| each.name.to_string(),
        |each| as_asked(arm.as_ref(), show_subscription(&state, &entry, each)),
    );
    Ok(Json(page).into_response())
}

/// `GET /topics/{topic}/eventSubscriptions/{name}`
pub(crate) async fn get_subscription(
    State(state): State<ApiState>,
    Path(path): Path<SubscriptionPath>,
    arm: Option<Extension<ArmPath>>,
) -> ApiResult {
    let (topic, name) = path.names(&state.broker.registry())?;
    let (entry, subscription) = state.broker.event_subscription(&topic, &name)?;
    let shown = show_subscription(&state, &entry, &subscription);
    Ok(Json(as_asked(arm.as_ref(), shown)).into_response())
}

/// `PUT /topics/{topic}/eventSubscriptions/{name}`: always 201, because the clients accept no other status.
pub(crate) async fn put_subscription(
    State(state): State<ApiState>,
    by: Caller,
    Path(path): Path<SubscriptionPath>,
    arm: Option<Extension<ArmPath>>,
    base: BaseUrl,
    body: Bytes,
) -> ApiResult {
    let (topic, name) = path.names(&state.broker.registry())?;
    let entry = state.broker.topic(&topic)?;
    let replaced = event_subscription(&entry, &name)?;
    if replaced.is_none() && entry.namespace.is_none() {
        SubscriptionName::of_custom_topic(name.as_str())?;
    }
    let context = SubscriptionContext {
        replaces: replaced.map(|replaced| &replaced.definition),
        ..context(&state, &entry)
    };
    let definition = resource::parse_subscription(&json(&body)?, &context)?;
    let (entry, subscription) = state
        .broker
        .put_subscription(&by, &topic, name, definition)
        .await?;
    let shown = show_subscription(&state, &entry, &subscription);
    let (arm, status) = (arm.as_ref(), StatusCode::CREATED);
    Ok(azure::answer(&base, arm, status, &subscription, shown))
}

/// `PATCH /topics/{topic}/eventSubscriptions/{name}`: 201 (rule 3.1); in namespaces 200, because the
/// clients accept no other status.
pub(crate) async fn patch_subscription(
    State(state): State<ApiState>,
    by: Caller,
    Path(path): Path<SubscriptionPath>,
    arm: Option<Extension<ArmPath>>,
    base: BaseUrl,
    body: Bytes,
) -> ApiResult {
    let (topic, name) = path.names(&state.broker.registry())?;
    let patch = json(&body)?;
    let change = |entry: &TopicEntry, current: &EventSubscription| {
        let context = context(&state, entry);
        let definition = resource::patch_subscription(&current.definition, &patch, &context);
        definition.map_err(ApiError::from)
    };
    let (entry, subscription) = state
        .broker
        .patch_subscription(&by, &topic, name, change)
        .await?;
    let shown = show_subscription(&state, &entry, &subscription);
    let status = match entry.namespace {
        None => StatusCode::CREATED,
        Some(_) => StatusCode::OK,
    };
    Ok(azure::answer(
        &base,
        arm.as_ref(),
        status,
        &subscription,
        shown,
    ))
}

/// `DELETE /topics/{topic}/eventSubscriptions/{name}`
pub(crate) async fn delete_subscription(
    State(state): State<ApiState>,
    by: Caller,
    Path(path): Path<SubscriptionPath>,
    RequestParameters(deletion): RequestParameters<DeletionOptions>,
) -> ApiResult {
    let (topic, name) = path.names(&state.broker.registry())?;
    let pending = deletion.pending()?;
    state
        .broker
        .delete_subscription(&by, &topic, &name, pending)
        .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Options of a deletion (an extension).
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeletionOptions {
    /// The fate of pending deliveries.
    #[schemars(extend("enum" = ["discard", "deadLetter"], "default" = "discard"))]
    pending: Option<String>,
}

impl DeletionOptions {
    pub(crate) fn pending(&self) -> Result<OnDelete, ApiError> {
        match self.pending.as_deref() {
            None => Ok(OnDelete::default()),
            Some(word) if word.eq_ignore_ascii_case("discard") => Ok(OnDelete::Discard),
            Some(word) if word.eq_ignore_ascii_case("deadLetter") => Ok(OnDelete::DeadLetter),
            Some(_) => Err(ApiError::bad_request(
                "The parameter pending must be \"discard\" or \"deadLetter\".",
            )),
        }
    }
}

/// `POST /topics/{topic}/eventSubscriptions/{name}/pause` (an extension)
pub(crate) async fn pause(
    State(state): State<ApiState>,
    by: Caller,
    Path(path): Path<SubscriptionPath>,
) -> ApiResult {
    let (topic, name) = path.names(&state.broker.registry())?;
    let (entry, subscription) = state.broker.pause_subscription(&by, &topic, &name).await?;
    Ok(Json(show_subscription(&state, &entry, &subscription)).into_response())
}

/// `POST /topics/{topic}/eventSubscriptions/{name}/resume` (an extension)
pub(crate) async fn resume(
    State(state): State<ApiState>,
    by: Caller,
    Path(path): Path<SubscriptionPath>,
) -> ApiResult {
    let (topic, name) = path.names(&state.broker.registry())?;
    let (entry, subscription) = state.broker.resume_subscription(&by, &topic, &name).await?;
    Ok(Json(show_subscription(&state, &entry, &subscription)).into_response())
}

/// `POST /topics/{topic}/eventSubscriptions/{name}/getFullUrl`
pub(crate) async fn get_full_url(
    State(state): State<ApiState>,
    by: Caller,
    Path(path): Path<SubscriptionPath>,
) -> ApiResult {
    let (topic, name) = path.names(&state.broker.registry())?;
    let shown = state
        .broker
        .show_secrets(&by, SecretKind::Url, &topic, &name);
    let subscription = shown.await?;
    let url = resource::render_full_url(&subscription.definition)
        .ok_or_else(|| ManageError::NothingSent(subscription.name.clone()))?;
    Ok(Json(url).into_response())
}

/// `POST /topics/{topic}/eventSubscriptions/{name}/getDeliveryAttributes`
pub(crate) async fn get_delivery_attributes(
    State(state): State<ApiState>,
    by: Caller,
    Path(path): Path<SubscriptionPath>,
) -> ApiResult {
    let (topic, name) = path.names(&state.broker.registry())?;
    let shown = state
        .broker
        .show_secrets(&by, SecretKind::DeliveryAttributes, &topic, &name);
    let subscription = shown.await?;
    Ok(Json(resource::render_delivery_attributes(
        &subscription.definition,
    ))
    .into_response())
}

/// `POST /topics/{topic}/eventSubscriptions/{name}/listSigningSecrets`: lists secret fingerprints (an extension)
pub(crate) async fn list_signing_secrets(
    State(state): State<ApiState>,
    by: Caller,
    Path(path): Path<SubscriptionPath>,
) -> ApiResult {
    let (topic, name) = path.names(&state.broker.registry())?;
    let shown = state
        .broker
        .show_secrets(&by, SecretKind::SigningSecrets, &topic, &name);
    let subscription = shown.await?;
    Ok(Json(resource::render_signing_secrets(&subscription.definition)).into_response())
}

/// `POST /topics/{topic}/eventSubscriptions/{name}/rotateSigningSecret` (an extension)
pub(crate) async fn rotate_signing_secret(
    State(state): State<ApiState>,
    by: Caller,
    Path(path): Path<SubscriptionPath>,
    body: Bytes,
) -> ApiResult {
    let (topic, name) = path.names(&state.broker.registry())?;
    let wish = if body.is_empty() {
        Value::Object(serde_json::Map::new())
    } else {
        json(&body)?
    };
    let rotation = resource::parse_rotation(&wish)?;
    let rotated = state
        .broker
        .rotate_signing_secret(&by, &topic, &name, rotation);
    let (secret, subscription) = rotated.await?;
    let shown = resource::render_rotated(&secret, &subscription.definition);
    Ok(Json(shown).into_response())
}

/// `POST /topics/{topic}/eventSubscriptions/{name}/validate`: repeats the validation of the destination (an extension).
pub(crate) async fn validate(
    State(state): State<ApiState>,
    by: Caller,
    Path(path): Path<SubscriptionPath>,
) -> ApiResult {
    let (topic, name) = path.names(&state.broker.registry())?;
    let (entry, subscription) = state.broker.validate_again(&by, &topic, &name).await?;
    Ok(Json(show_subscription(&state, &entry, &subscription)).into_response())
}

pub(crate) fn show_topic(base: &BaseUrl, entry: &Arc<TopicEntry>) -> Value {
    let endpoint = entry.publish_url(base.as_ref());
    resource::render_topic(entry, &endpoint).unwrap_or_default()
}

fn show_subscription(
    state: &ApiState,
    entry: &TopicEntry,
    subscription: &EventSubscription,
) -> Value {
    let health = state.broker.health_of(subscription.id);
    let outage = state.broker.storage_outage(subscription.id);
    let observed = Observed {
        health: &health,
        outage: outage.as_ref(),
        now: state.broker.clock().now(),
    };
    resource::render_subscription(entry, subscription, observed)
}

fn context<'a>(state: &ApiState, entry: &'a TopicEntry) -> SubscriptionContext<'a> {
    let now = state.broker.clock().now();
    SubscriptionContext::of(entry, now, state.broker.options().egress.require_https)
}

/// Returns the status of a PUT: 201 if it created the object, 200 if it replaced the object.
fn created(is_new: bool) -> StatusCode {
    if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    }
}

pub(crate) fn json(body: &Bytes) -> Result<Value, ApiError> {
    serde_json::from_slice(body).map_err(|cause| {
        ApiError::bad_request(format!("The request body is not valid JSON: {cause}."))
    })
}
