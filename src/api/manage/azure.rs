//! The lists that Azure's management clients read besides the resources: event subscriptions over all topics, types of
//! topics and of events, and operations; also the status of an operation.

use axum::Json;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::ApiState;
use crate::api::arm::listing::ListRequest;
use crate::api::arm::{ArmPath, as_asked};
use crate::api::base_url::BaseUrl;
use crate::api::error::{ApiError, VALIDATION_FAILED};
use crate::api::manage::{ApiResult, SubscriptionPath, TopicPath, show_subscription};
use crate::api::routes;
use crate::model::subscription::{EventSubscription, ValidationState};
use crate::model::topic::{EntityKind, LOCATION, TopicKind};
use crate::store::accounts::Role;
use crate::wire::resource;
use crate::wire::resource::bodies::ResourceList;

/// The one type of topics that Azure counts among its own.
const TOPIC_TYPE: &str = "Microsoft.EventGrid.Topics";

/// Where a client finds out how its operation is going.
const AZURE_ASYNC_OPERATION: HeaderName = HeaderName::from_static("azure-asyncoperation");

/// Seconds until a client asks again how its operation is going.
const ASK_AGAIN_S: &str = "1";

/// The location and the topic type to which the path of a list of event subscriptions narrows it.
#[derive(Deserialize)]
pub(crate) struct Narrowed {
    location: Option<String>,
    topic_type: Option<String>,
}

/// `GET /eventSubscriptions`, of all topics that belong to no namespace; by location or type of topic, too.
pub(crate) async fn list_subscriptions(
    State(state): State<ApiState>,
    Path(narrowed): Path<Narrowed>,
    listing: ListRequest,
) -> Response {
    let registry = state.broker.registry();
    let is_type = |word: &str| word.eq_ignore_ascii_case(TOPIC_TYPE);
    let is_meant = narrowed.topic_type.as_deref().is_none_or(is_type);
    let topics = registry.custom_topics().filter(|entry| {
        let location = match &entry.topic.kind {
            TopicKind::Custom(topic) => topic.location.as_str(),
            TopicKind::Namespace { .. }
            | TopicKind::Queue(_)
            | TopicKind::ServiceBus(_)
            | TopicKind::System(_) => LOCATION,
        };
        let is_there = |wanted: &str| plain(location) == plain(wanted);
        is_meant && narrowed.location.as_deref().is_none_or(is_there)
    });
    let all = topics.flat_map(|entry| {
        let subscriptions = entry.subscriptions.values();
        subscriptions.map(move |each| (entry, each))
    });
    Json(listing.page(
        all,
        |(entry, each)| format!("{}/{}", entry.topic.name, each.name),
        |(entry, each)| show_subscription(&state, entry, each),
    ))
    .into_response()
}

/// A location as Azure compares it: `West Europe` is `westeurope`.
fn plain(location: &str) -> String {
    location.replace(' ', "").to_ascii_lowercase()
}

/// A type of topics.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TopicType {
    id: String,
    name: &'static str,
    r#type: &'static str,
    properties: TopicTypeProperties,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct TopicTypeProperties {
    provider: &'static str,
    display_name: &'static str,
    description: &'static str,
    resource_region_type: &'static str,
    provisioning_state: &'static str,
    source_resource_format: &'static str,
}

fn topic_type() -> TopicType {
    TopicType {
        id: format!("providers/Microsoft.EventGrid/topicTypes/{TOPIC_TYPE}"),
        name: TOPIC_TYPE,
        r#type: "Microsoft.EventGrid/topicTypes",
        properties: TopicTypeProperties {
            provider: "Microsoft.EventGrid",
            display_name: "Event Grid Topics",
            description: "Topics that applications publish to.",
            resource_region_type: "RegionalResource",
            provisioning_state: "Succeeded",
            source_resource_format: "/subscriptions/{subscriptionId}/resourceGroups/{resourceGroupName}/providers/\
                Microsoft.EventGrid/topics/{topicName}",
        },
    }
}

/// `GET /topicTypes`
pub(crate) async fn list_topic_types() -> Json<ResourceList<TopicType>> {
    Json([topic_type()].into_iter().collect())
}

/// `GET /topicTypes/{topic_type}`
pub(crate) async fn get_topic_type(Path(name): Path<String>) -> Result<Json<TopicType>, ApiError> {
    check_topic_type(&name)?;
    Ok(Json(topic_type()))
}

/// `GET /topicTypes/{topic_type}/eventTypes`: none are fixed for topics of applications.
pub(crate) async fn list_event_types(
    Path(name): Path<String>,
) -> Result<Json<ResourceList<EventType>>, ApiError> {
    check_topic_type(&name)?;
    Ok(Json(ResourceList::page([], None)))
}

fn check_topic_type(name: &str) -> Result<(), ApiError> {
    if name.eq_ignore_ascii_case(TOPIC_TYPE) {
        return Ok(());
    }
    Err(ApiError::not_found(format!(
        "There is no topic type {name:?}; there is {TOPIC_TYPE}."
    )))
}

/// A type of events.
#[derive(Serialize, JsonSchema)]
pub(crate) struct EventType {
    id: String,
    name: String,
    r#type: &'static str,
    properties: EventTypeProperties,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct EventTypeProperties {
    display_name: String,
    description: Option<String>,
    schema_url: Option<String>,
    is_in_default_set: bool,
}

/// `GET /topics/{topic}/eventTypes`: those that its `eventTypeInfo` describes.
pub(crate) async fn list_event_types_of_topic(
    State(state): State<ApiState>,
    Path(topic): Path<TopicPath>,
) -> Result<Json<ResourceList<EventType>>, ApiError> {
    let name = topic.name(&state.broker.registry())?;
    let entry = state.broker.entity(EntityKind::Topic, &name)?;
    let described = resource::event_types(&entry.topic.kind);
    let types = described.into_iter().map(|(name, facts)| {
        let text = |fact: &str| facts[fact].as_str().map(str::to_owned);
        EventType {
            id: format!("{}/eventTypes/{name}", entry.resource_id),
            r#type: "Microsoft.EventGrid/topics/eventTypes",
            properties: EventTypeProperties {
                display_name: text("displayName").unwrap_or_else(|| name.clone()),
                description: text("description"),
                schema_url: text("dataSchemaUrl").or_else(|| text("documentationUrl")),
                is_in_default_set: true,
            },
            name,
        }
    });
    Ok(Json(types.collect()))
}

/// An operation of the management API.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ManagementOperation {
    name: String,
    is_data_action: bool,
    display: Display,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Display {
    provider: &'static str,
    resource: String,
    operation: String,
    description: String,
}

/// `GET /operations`: those of the table that Azure has a path for.
pub(crate) async fn list_operations(
    State(state): State<ApiState>,
) -> Json<ResourceList<ManagementOperation>> {
    let azures = routes::all(&state.options).filter(|route| {
        let is_managed = matches!(
            route.access,
            routes::RouteAccess::Role(Role::Viewer | Role::Operator | Role::Admin)
        );
        is_managed && (route.path.starts_with("/topics") || route.path.starts_with("/namespaces"))
    });
    let operations = azures.map(|route| {
        let words = route
            .path
            .split('/')
            .filter(|word| !word.is_empty() && !word.starts_with('{'));
        let words: Vec<&str> = words.collect();
        let (resource, verb) = match (route.method.as_str(), &words[..]) {
            ("POST", [resource @ .., verb]) => (resource.join("/"), format!("{verb}/action")),
            ("GET", _) => (words.join("/"), "read".to_owned()),
            ("DELETE", _) => (words.join("/"), "delete".to_owned()),
            _ => (words.join("/"), "write".to_owned()),
        };
        ManagementOperation {
            name: format!("Microsoft.EventGrid/{resource}/{verb}"),
            is_data_action: false,
            display: Display {
                provider: "Microsoft Event Grid",
                resource,
                operation: route.summary,
                description: route.description,
            },
        }
    });
    let mut operations: Vec<_> = operations.collect();
    operations.sort_by(|one, other| one.name.cmp(&other.name));
    operations.dedup_by(|one, other| one.name == other.name);
    Json(operations.into_iter().collect())
}

/// How an operation is going.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OperationStatus {
    /// `InProgress`, `Succeeded` or `Failed`.
    status: &'static str,
    /// The reason for a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<OperationError>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct OperationError {
    code: &'static str,
    message: String,
}

/// `GET …/eventSubscriptions/{name}/operationStatus`
pub(crate) async fn operation_status(
    State(state): State<ApiState>,
    Path(path): Path<SubscriptionPath>,
) -> ApiResult {
    let (topic, name) = path.names(&state.broker.registry())?;
    let (_, subscription) = state.broker.subscription(&topic, &name)?;
    let validation = &subscription.validation;
    let (status, error) = match validation.state {
        ValidationState::Succeeded => ("Succeeded", None),
        ValidationState::Failed => {
            let reason = validation
                .failure
                .as_deref()
                .unwrap_or("the reason is not known");
            let error = OperationError {
                code: VALIDATION_FAILED,
                message: format!("The endpoint of {name} has not been validated: {reason}"),
            };
            ("Failed", Some(error))
        }
        ValidationState::Creating
        | ValidationState::Updating
        | ValidationState::AwaitingManualAction => ("InProgress", None),
    };
    let mut response = Json(OperationStatus { status, error }).into_response();
    if status == "InProgress" {
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static(ASK_AGAIN_S));
    }
    Ok(response)
}

/// Answers a PUT or PATCH of an event subscription. Azure's clients take what they are answered for the
/// outcome, unless they are told where to ask: so they are told where its endpoint is not validated, or
/// could not be.
pub(super) fn answer(
    base: &BaseUrl,
    arm: Option<&Extension<ArmPath>>,
    status: StatusCode,
    subscription: &EventSubscription,
    shown: Value,
) -> Response {
    let mut shown = as_asked(arm, shown);
    let Some(Extension(arm)) = arm.filter(|_| !subscription.has_agreed()) else {
        return (status, Json(shown)).into_response();
    };
    if subscription.validation.state == ValidationState::Failed {
        shown["properties"]["provisioningState"] = ValidationState::Creating.name().into();
    }
    let mut response = (status, Json(shown)).into_response();
    let headers = response.headers_mut();
    for (name, value) in [
        (AZURE_ASYNC_OPERATION, arm.below(base, "operationStatus")),
        (header::LOCATION, format!("{base}{}", arm.asked)),
        (header::RETRY_AFTER, ASK_AGAIN_S.to_owned()),
    ] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    response
}
