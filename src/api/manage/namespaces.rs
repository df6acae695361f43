//! Namespaces (rule N1).

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::api::ApiState;
use crate::api::arm::listing::ListRequest;
use crate::api::base_url::BaseUrl;
use crate::api::error::ApiError;
use crate::api::manage::{ApiResult, DeletionOptions, json, show_topic};
use crate::api::parameters::RequestParameters;
use crate::model::audit::Caller;
use crate::model::name::NamespaceName;
use crate::model::namespace::NamespaceDefinition;
use crate::model::registry::NamespaceEntry;
use crate::wire::resource;

/// `GET /namespaces`
pub(crate) async fn list(State(state): State<ApiState>, listing: ListRequest) -> Response {
    let registry = state.broker.registry();
    Json(listing.page(
        registry.namespaces(),
        |entry| entry.namespace.name.to_string(),
        |entry| show(&listing.base, entry),
    ))
    .into_response()
}

/// `GET /namespaces/{namespace}`
pub(crate) async fn get(
    State(state): State<ApiState>,
    base: BaseUrl,
    Path(name): Path<String>,
) -> ApiResult {
    let entry = state.broker.namespace(&NamespaceName::parse(&name)?)?;
    Ok(Json(show(&base, &entry)).into_response())
}

/// `PUT /namespaces/{namespace}`: always 201, as for topics.
pub(crate) async fn put(
    State(state): State<ApiState>,
    by: Caller,
    base: BaseUrl,
    Path(name): Path<String>,
    body: Bytes,
) -> ApiResult {
    let name = NamespaceName::parse(&name)?;
    let definition = resource::parse_namespace(&json(&body)?)?;
    let entry = state.broker.put_namespace(&by, name, definition).await?;
    Ok((StatusCode::CREATED, Json(show(&base, &entry))).into_response())
}

/// `PATCH /namespaces/{namespace}`
pub(crate) async fn patch(
    State(state): State<ApiState>,
    by: Caller,
    base: BaseUrl,
    Path(name): Path<String>,
    body: Bytes,
) -> ApiResult {
    let name = NamespaceName::parse(&name)?;
    let patch = json(&body)?;
    let change = |current: &NamespaceDefinition| {
        resource::patch_namespace(current, &patch).map_err(ApiError::from)
    };
    let entry = state.broker.patch_namespace(&by, name, change).await?;
    Ok(Json(show(&base, &entry)).into_response())
}

/// `DELETE /namespaces/{namespace}`: deletes the namespace with its contents.
pub(crate) async fn delete(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
    RequestParameters(deletion): RequestParameters<DeletionOptions>,
) -> ApiResult {
    let (name, pending) = (NamespaceName::parse(&name)?, deletion.pending()?);
    state.broker.delete_namespace(&by, &name, pending).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /namespaces/{namespace}/listKeys`
pub(crate) async fn list_keys(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let name = NamespaceName::parse(&name)?;
    let keys = state.broker.show_namespace_keys(&by, &name).await?;
    Ok(Json(resource::render_keys(&keys)).into_response())
}

/// `POST /namespaces/{namespace}/regenerateKey`
pub(crate) async fn regenerate_key(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
    body: Bytes,
) -> ApiResult {
    let name = NamespaceName::parse(&name)?;
    let key = resource::parse_key_name(&json(&body)?)?;
    let entry = state
        .broker
        .regenerate_namespace_key(&by, &name, key)
        .await?;
    Ok(Json(resource::render_keys(&entry.namespace.keys)).into_response())
}

/// `GET /namespaces/{namespace}/topics`
pub(crate) async fn list_topics(
    State(state): State<ApiState>,
    Path(name): Path<String>,
    listing: ListRequest,
) -> ApiResult {
    let entry = state.broker.namespace(&NamespaceName::parse(&name)?)?;
    let registry = state.broker.registry();
    let page = listing.page(
        registry.topics_of(&entry.namespace.name),
        |topic| topic.topic.name.to_string(),
        |topic| show_topic(&listing.base, topic),
    );
    Ok(Json(page).into_response())
}

fn show(base: &BaseUrl, entry: &NamespaceEntry) -> Value {
    resource::render_namespace(entry, base.host())
}
