//! The table of what can be managed: every route with the role that it takes, and whether what it does
//! is noted.
//!
//! A route that does not say otherwise is seen by everybody and used by administrators alone.

use axum::routing::{MethodRouter, delete, get, post};

use crate::api::{
    ApiState, audit, counts, dead_letters, deliveries, explain, import, inspectors, locks, manage,
    namespaces, people, records, rejections, replays, resubmit, storage, tokens,
};
use crate::model::limits::{IMPORT_BYTES_MAX, MANAGEMENT_BYTES_MAX};
use crate::store::accounts::Role;

type Handler = MethodRouter<ApiState>;

/// A route behind the management token.
pub(super) struct Route {
    pub(super) path: String,
    pub(super) access: Access,
    /// Bytes of a body.
    pub(super) bytes_max: usize,
    pub(super) handler: Handler,
}

/// What a route takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// Who may ask.
    pub(super) reads: Role,
    /// Who may act.
    pub(super) changes: Role,
    /// Whether what was done is noted: not for questions too long for a URL, nor for the work of
    /// receivers.
    pub(super) is_noted: bool,
}

/// What administrators change and everybody sees.
fn managed(path: impl Into<String>, handler: Handler) -> Route {
    Route {
        path: path.into(),
        access: Access {
            reads: Role::Viewer,
            changes: Role::Admin,
            is_noted: true,
        },
        bytes_max: MANAGEMENT_BYTES_MAX,
        handler,
    }
}

/// What operators do, too.
fn operated(path: impl Into<String>, handler: Handler) -> Route {
    let mut route = managed(path, handler);
    route.access.changes = Role::Operator;
    route
}

/// What operators alone see, for it holds data of events.
fn with_data(path: impl Into<String>, handler: Handler) -> Route {
    let mut route = operated(path, handler);
    route.access.reads = Role::Operator;
    route
}

/// A question of operators in a body.
fn asked(path: impl Into<String>, handler: Handler) -> Route {
    let mut route = with_data(path, handler);
    route.access.is_noted = false;
    route
}

/// For administrators alone.
fn kept(path: impl Into<String>, handler: Handler) -> Route {
    let mut route = managed(path, handler);
    route.access.reads = Role::Admin;
    route
}

impl Route {
    /// The same with longer bodies.
    fn of_bytes(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }
}

/// Every route. Pasted events may be as long as published ones.
#[rustfmt::skip] // a table
pub(super) fn all(publish_bytes_max: usize) -> Vec<Route> {
    let mut routes = vec![
        managed("/topics", get(manage::list_topics)),
        managed("/namespaces", get(namespaces::list)),
        managed("/namespaces/{namespace}",
            get(namespaces::get).put(namespaces::put).patch(namespaces::patch)
                .delete(namespaces::delete)),
        managed("/namespaces/{namespace}/listKeys", post(namespaces::list_keys)),
        managed("/namespaces/{namespace}/regenerateKey", post(namespaces::regenerate_key)),
        managed("/namespaces/{namespace}/topics", get(namespaces::list_topics)),
        managed("/everpost/counts", get(counts::list_counts)),
        managed("/everpost/traffic", get(counts::list_traffic)),
        managed("/everpost/events", get(records::list_events)),
        with_data("/everpost/events/{key}", get(records::get_event)),
        with_data("/everpost/events/{key}/explanations", get(explain::explain_stored)),
        managed("/everpost/storage", get(storage::show)),
        operated("/everpost/deliveries/{id}/tryNow", post(deliveries::try_now)),
        managed("/everpost/deadLetters", get(dead_letters::list)),
        managed("/everpost/deadLetters/count", get(dead_letters::count)),
        managed("/everpost/deadLetters/purge", post(dead_letters::purge)),
        with_data("/everpost/deadLetters/{id}", get(records::get_dead_letter)),
        operated("/everpost/deadLetters/resubmit", post(resubmit::selection)),
        managed("/everpost/deadLetters/import", post(import::import)).of_bytes(IMPORT_BYTES_MAX),
        // An edited event is as large as a published one.
        operated("/everpost/deadLetters/{id}/resubmit", post(resubmit::one))
            .of_bytes(publish_bytes_max),
        asked("/everpost/deadLetters/receive", post(locks::receive)),
        asked("/everpost/locks/{verb}", post(locks::settle)),
        managed("/everpost/rejectedEvents", get(rejections::list)),
        with_data("/everpost/rejectedEvents/{id}", get(rejections::get)),
        managed("/everpost/inspectors", get(inspectors::list)),
        operated("/everpost/inspectors/{name}",
            get(inspectors::get).put(inspectors::put).delete(inspectors::delete)),
        operated("/everpost/inspectors/{name}/clear", post(inspectors::clear)),
        with_data("/everpost/inspectors/{name}/requests", get(inspectors::requests)),
        with_data("/everpost/inspectors/{name}/requests/{number}", get(inspectors::request)),
        operated("/everpost/replays", get(replays::list).post(replays::start)),
        asked("/everpost/replays/preview", post(replays::preview)),
        managed("/everpost/replays/{id}", get(replays::show)),
        operated("/everpost/replays/{id}/pause", post(replays::pause)),
        operated("/everpost/replays/{id}/resume", post(replays::resume)),
        operated("/everpost/replays/{id}/cancel", post(replays::cancel)),
        kept("/everpost/users", get(people::list).post(people::create)),
        kept("/everpost/users/{name}",
            get(people::show).patch(people::patch).delete(people::delete)),
        kept("/everpost/users/{name}/passwordLink", post(people::put_link)),
        kept("/everpost/sessions", get(people::list_sessions)),
        kept("/everpost/sessions/end", post(people::end_sessions)),
        kept("/everpost/sessions/{id}", delete(people::end_session)),
        kept("/everpost/tokens", get(tokens::list).post(tokens::create)),
        kept("/everpost/tokens/{name}", get(tokens::show).delete(tokens::delete)),
        kept("/everpost/audit", get(audit::list)),
    ];
    for topic in ["/topics/{topic}", "/namespaces/{namespace}/topics/{topic}"] {
        routes.extend(of_topic(topic, publish_bytes_max.saturating_add(MANAGEMENT_BYTES_MAX)));
    }
    routes
}

/// What can be managed at `topic`, the path of a topic, and below it.
#[rustfmt::skip] // a table
fn of_topic(topic: &str, pasted_bytes_max: usize) -> Vec<Route> {
    let of_topic = |rest: &str| format!("{topic}{rest}");
    let of_subscription = |rest: &str| format!("{topic}/eventSubscriptions/{{name}}{rest}");
    vec![
        managed(topic,
            get(manage::get_topic).put(manage::put_topic).patch(manage::patch_topic)
                .delete(manage::delete_topic)),
        managed(of_topic("/listKeys"), post(manage::list_keys)),
        managed(of_topic("/regenerateKey"), post(manage::regenerate_key)),
        managed(of_topic("/eventSubscriptions"), get(manage::list_subscriptions)),
        managed(of_subscription(""),
            get(manage::get_subscription).put(manage::put_subscription)
                .patch(manage::patch_subscription).delete(manage::delete_subscription)),
        managed(of_subscription("/getFullUrl"), post(manage::get_full_url)),
        managed(of_subscription("/getDeliveryAttributes"), post(manage::get_delivery_attributes)),
        managed(of_subscription("/listSigningSecrets"), post(manage::list_signing_secrets)),
        managed(of_subscription("/rotateSigningSecret"), post(manage::rotate_signing_secret)),
        asked(of_topic("/explain"), post(explain::explain_all)).of_bytes(pasted_bytes_max),
        asked(of_subscription("/explain"), post(explain::explain_one)).of_bytes(pasted_bytes_max),
        asked(of_topic("/tryFilter"), post(explain::try_filter)),
        operated(of_subscription("/validate"), post(manage::validate)),
        operated(of_subscription("/pause"), post(manage::pause)),
        operated(of_subscription("/resume"), post(manage::resume)),
    ]
}
