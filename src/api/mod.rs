//! The doors for programs: Azure's protocols in, Azure's protocols out.
//!
//! Every route stands in the table below. A handler takes its request apart, calls one verb of the broker
//! and dresses the answer; it decides nothing about events.

mod arm;
mod auth;
mod counts;
mod dead_letters;
mod deliveries;
mod error;
mod explain;
mod health;
mod import;
mod inspectors;
mod locks;
mod manage;
mod namespaces;
mod people;
mod publish;
mod publish_in_namespace;
mod pull;
mod records;
mod rejections;
mod replays;
mod resubmit;
mod see_through;
mod service_bus;
mod storage;
mod validate;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::response::Redirect;
use axum::routing::{delete, get, post};

pub use arm::rewrite as rewrite_arm_path;
pub use auth::ManagementToken;
pub use error::catch_panic;
pub use publish::Intake;

use crate::broker::Broker;
use crate::broker::people::People;
use crate::model::limits::{IMPORT_BYTES_MAX, MANAGEMENT_BYTES_MAX};
use crate::store::views::Views;

/// What the doors share. Cheap to clone.
#[derive(Clone)]
pub struct ApiState {
    pub broker: Broker,
    pub views: Views,
    pub people: People,
    pub token: ManagementToken,
    pub intake: Intake,
    pub options: Arc<ApiOptions>,
}

/// How the doors behave.
#[derive(Clone, Debug)]
pub struct ApiOptions {
    /// Bytes of one publish request.
    pub publish_bytes_max: usize,
    /// Takes https receivers alone.
    pub require_https: bool,
    /// Answers `/metrics` without a token.
    pub metrics_public: bool,
}

impl ApiState {
    /// The host that others reach the appliance by, with its port if that is not the default one.
    fn public_host(&self) -> &str {
        let url = &self.broker.options().public_url;
        let rest = url.split_once("://").map_or(&**url, |(_, rest)| rest);
        rest.split('/').next().unwrap_or(rest)
    }
}

/// Every route of ours, and those of `others` (the admin pages) beside them.
pub fn routes(state: ApiState, others: Router) -> Router {
    let publish = Router::new()
        .route(
            "/topics/{topic}/api/events",
            post(publish::to_topic).options(publish::options),
        )
        .route(
            "/{topic}/api/events",
            post(publish::to_topic).options(publish::options),
        )
        .route(
            "/eventGrid/api/events",
            post(publish::to_host).options(publish::options),
        )
        .route(
            "/api/events",
            post(publish::to_host).options(publish::options),
        )
        .route("/topics/{topic}", post(publish_in_namespace::by_topic))
        .route(
            "/namespaces/{namespace}/topics/{topic}",
            post(publish_in_namespace::by_path),
        )
        .layer(DefaultBodyLimit::disable());

    let publish_bytes_max = state.options.publish_bytes_max;
    let manage = Router::new()
        .route("/topics", get(manage::list_topics))
        .route("/namespaces", get(namespaces::list))
        .route(
            "/namespaces/{namespace}",
            get(namespaces::get)
                .put(namespaces::put)
                .patch(namespaces::patch)
                .delete(namespaces::delete),
        )
        .route(
            "/namespaces/{namespace}/listKeys",
            post(namespaces::list_keys),
        )
        .route(
            "/namespaces/{namespace}/regenerateKey",
            post(namespaces::regenerate_key),
        )
        .route(
            "/namespaces/{namespace}/topics",
            get(namespaces::list_topics),
        )
        .merge(topic_routes("/topics/{topic}", publish_bytes_max))
        .merge(topic_routes(
            "/namespaces/{namespace}/topics/{topic}",
            publish_bytes_max,
        ))
        .route("/everpost/counts", get(counts::list_counts))
        .route("/everpost/traffic", get(counts::list_traffic))
        .route("/everpost/events", get(records::list_events))
        .route("/everpost/events/{key}", get(records::get_event))
        .route("/everpost/storage", get(storage::show))
        .route(
            "/everpost/deliveries/{id}/tryNow",
            post(deliveries::try_now),
        )
        .route("/everpost/deadLetters", get(dead_letters::list))
        .route("/everpost/deadLetters/count", get(dead_letters::count))
        .route("/everpost/deadLetters/purge", post(dead_letters::purge))
        .route(
            "/everpost/events/{key}/explanations",
            get(explain::explain_stored),
        )
        .route("/everpost/rejectedEvents", get(rejections::list))
        .route("/everpost/rejectedEvents/{id}", get(rejections::get))
        .route("/everpost/deadLetters/{id}", get(records::get_dead_letter))
        .route("/everpost/deadLetters/resubmit", post(resubmit::selection))
        .route("/everpost/inspectors", get(inspectors::list))
        .route(
            "/everpost/inspectors/{name}",
            get(inspectors::get)
                .put(inspectors::put)
                .delete(inspectors::delete),
        )
        .route("/everpost/inspectors/{name}/clear", post(inspectors::clear))
        .route(
            "/everpost/inspectors/{name}/requests",
            get(inspectors::requests),
        )
        .route(
            "/everpost/inspectors/{name}/requests/{number}",
            get(inspectors::request),
        )
        .route("/everpost/replays", get(replays::list).post(replays::start))
        .route("/everpost/replays/preview", post(replays::preview))
        .route("/everpost/replays/{id}", get(replays::show))
        .route("/everpost/replays/{id}/pause", post(replays::pause))
        .route("/everpost/replays/{id}/resume", post(replays::resume))
        .route("/everpost/replays/{id}/cancel", post(replays::cancel))
        .route("/everpost/users", get(people::list).post(people::create))
        .route(
            "/everpost/users/{name}",
            get(people::show)
                .patch(people::patch)
                .delete(people::delete),
        )
        .route(
            "/everpost/users/{name}/passwordLink",
            post(people::put_link),
        )
        .route("/everpost/sessions", get(people::list_sessions))
        .route("/everpost/sessions/end", post(people::end_sessions))
        .route("/everpost/sessions/{id}", delete(people::end_session))
        .route("/everpost/deadLetters/receive", post(locks::receive))
        .route("/everpost/locks/{verb}", post(locks::settle))
        .layer(DefaultBodyLimit::max(MANAGEMENT_BYTES_MAX))
        .route(
            "/everpost/deadLetters/import",
            post(import::import).layer(DefaultBodyLimit::max(IMPORT_BYTES_MAX)),
        )
        // An edited event is as large as a published one.
        .route(
            "/everpost/deadLetters/{id}/resubmit",
            post(resubmit::one).layer(DefaultBodyLimit::max(state.options.publish_bytes_max)),
        )
        .route_layer(middleware::from_fn_with_state(
            state.clone(),
            auth::require_management,
        ));

    let open = Router::new()
        .route("/validate", get(validate::confirm).post(validate::confirm))
        .route("/", get(front_page).fallback(error::no_such_path))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics));

    publish
        .merge(manage)
        .merge(open)
        .fallback(error::no_such_path)
        .method_not_allowed_fallback(error::no_such_method)
        .layer(middleware::from_fn_with_state(state.clone(), error::finish))
        .with_state(state.clone())
        .merge(others)
        .layer(middleware::from_fn(see_through::see_through))
        .layer(middleware::from_fn_with_state(
            state.clone(),
            service_bus::divert,
        ))
        .layer(middleware::from_fn_with_state(state, pull::divert))
}

/// What can be managed at `topic`, the path of a topic, and below it; pasted events may be as long as
/// published ones.
fn topic_routes(topic: &str, publish_bytes_max: usize) -> Router<ApiState> {
    let pasted_event =
        || DefaultBodyLimit::max(publish_bytes_max.saturating_add(MANAGEMENT_BYTES_MAX));
    let subscription = format!("{topic}/eventSubscriptions/{{name}}");
    Router::new()
        .route(
            topic,
            get(manage::get_topic)
                .put(manage::put_topic)
                .patch(manage::patch_topic)
                .delete(manage::delete_topic),
        )
        .route(&format!("{topic}/listKeys"), post(manage::list_keys))
        .route(
            &format!("{topic}/regenerateKey"),
            post(manage::regenerate_key),
        )
        .route(
            &format!("{topic}/eventSubscriptions"),
            get(manage::list_subscriptions),
        )
        .route(
            &subscription,
            get(manage::get_subscription)
                .put(manage::put_subscription)
                .patch(manage::patch_subscription)
                .delete(manage::delete_subscription),
        )
        .route(
            &format!("{subscription}/getFullUrl"),
            post(manage::get_full_url),
        )
        .route(
            &format!("{subscription}/getDeliveryAttributes"),
            post(manage::get_delivery_attributes),
        )
        .route(
            &format!("{subscription}/listSigningSecrets"),
            post(manage::list_signing_secrets),
        )
        .route(
            &format!("{subscription}/rotateSigningSecret"),
            post(manage::rotate_signing_secret),
        )
        .route(
            &format!("{topic}/explain"),
            post(explain::explain_all).layer(pasted_event()),
        )
        .route(
            &format!("{subscription}/explain"),
            post(explain::explain_one).layer(pasted_event()),
        )
        .route(&format!("{topic}/tryFilter"), post(explain::try_filter))
        .route(&format!("{subscription}/validate"), post(manage::validate))
        .route(&format!("{subscription}/pause"), post(manage::pause))
        .route(&format!("{subscription}/resume"), post(manage::resume))
}

/// `GET /`: people want the admin pages.
async fn front_page() -> Redirect {
    Redirect::to("/admin")
}
