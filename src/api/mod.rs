//! The doors for programs: Azure's protocols in, Azure's protocols out.
//!
//! Every route stands in the table below. A handler takes its request apart, calls one verb of the broker
//! and dresses the answer; it decides nothing about events.

mod arm;
mod auth;
mod counts;
mod dead_letters;
mod error;
mod explain;
mod health;
mod locks;
mod manage;
mod publish;
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
use axum::routing::{get, post};

pub use arm::rewrite as rewrite_arm_path;
pub use auth::ManagementToken;
pub use error::catch_panic;
pub use publish::Intake;

use crate::broker::Broker;
use crate::model::limits::MANAGEMENT_BYTES_MAX;
use crate::store::views::Views;

/// What the doors share. Cheap to clone.
#[derive(Clone)]
pub struct ApiState {
    pub broker: Broker,
    pub views: Views,
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
        .layer(DefaultBodyLimit::disable());

    let pasted_event = || {
        let bytes_max = state
            .options
            .publish_bytes_max
            .saturating_add(MANAGEMENT_BYTES_MAX);
        DefaultBodyLimit::max(bytes_max)
    };
    let manage = Router::new()
        .route("/topics", get(manage::list_topics))
        .route(
            "/topics/{topic}",
            get(manage::get_topic)
                .put(manage::put_topic)
                .patch(manage::patch_topic)
                .delete(manage::delete_topic),
        )
        .route("/topics/{topic}/listKeys", post(manage::list_keys))
        .route(
            "/topics/{topic}/regenerateKey",
            post(manage::regenerate_key),
        )
        .route(
            "/topics/{topic}/eventSubscriptions",
            get(manage::list_subscriptions),
        )
        .route(
            "/topics/{topic}/eventSubscriptions/{name}",
            get(manage::get_subscription)
                .put(manage::put_subscription)
                .patch(manage::patch_subscription)
                .delete(manage::delete_subscription),
        )
        .route(
            "/topics/{topic}/eventSubscriptions/{name}/getFullUrl",
            post(manage::get_full_url),
        )
        .route(
            "/topics/{topic}/eventSubscriptions/{name}/getDeliveryAttributes",
            post(manage::get_delivery_attributes),
        )
        .route(
            "/topics/{topic}/eventSubscriptions/{name}/validate",
            post(manage::validate),
        )
        .route(
            "/topics/{topic}/eventSubscriptions/{name}/pause",
            post(manage::pause),
        )
        .route(
            "/topics/{topic}/eventSubscriptions/{name}/resume",
            post(manage::resume),
        )
        .route("/everpost/counts", get(counts::list_counts))
        .route("/everpost/traffic", get(counts::list_traffic))
        .route(
            "/topics/{topic}/eventSubscriptions/{name}/listSigningSecrets",
            post(manage::list_signing_secrets),
        )
        .route(
            "/topics/{topic}/eventSubscriptions/{name}/rotateSigningSecret",
            post(manage::rotate_signing_secret),
        )
        .route(
            "/topics/{topic}/eventSubscriptions/{name}/explain",
            post(explain::explain_one).layer(pasted_event()),
        )
        .route(
            "/topics/{topic}/explain",
            post(explain::explain_all).layer(pasted_event()),
        )
        .route("/topics/{topic}/tryFilter", post(explain::try_filter))
        .route("/everpost/events", get(records::list_events))
        .route("/everpost/events/{key}", get(records::get_event))
        .route("/everpost/storage", get(storage::show))
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
        .route("/everpost/replays", get(replays::list).post(replays::start))
        .route("/everpost/replays/preview", post(replays::preview))
        .route("/everpost/replays/{id}", get(replays::show))
        .route("/everpost/replays/{id}/pause", post(replays::pause))
        .route("/everpost/replays/{id}/resume", post(replays::resume))
        .route("/everpost/replays/{id}/cancel", post(replays::cancel))
        .route("/everpost/deadLetters/receive", post(locks::receive))
        .route("/everpost/locks/{verb}", post(locks::settle))
        .layer(DefaultBodyLimit::max(MANAGEMENT_BYTES_MAX))
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
        .layer(middleware::from_fn_with_state(state, service_bus::divert))
}

/// `GET /`: people want the admin pages.
async fn front_page() -> Redirect {
    Redirect::to("/admin")
}
