//! The table of the API: every route with who is let in.
//!
//! A route that does not say otherwise is seen by everybody and used by administrators alone. The
//! documentation in `openapi` is made from this table.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Method;
use axum::middleware::from_fn_with_state;

use crate::api::manage::{inspectors, namespaces, people, tokens};
use crate::api::operate::{
    audit, counts, dead_letters, deliveries, diagnostics, events, explain, health, import, records,
    rejections, replays, resubmit, storage,
};
use crate::api::publish::namespace as publish_in_namespace;
use crate::api::receive::{locks, validate};
use crate::api::verbs::{Verbs, delete, get, post};
use crate::api::{ApiOptions, ApiState, auth, error, front_page, manage, openapi, publish};
use crate::model::limits::{IMPORT_BYTES_MAX, MANAGEMENT_BYTES_MAX};
use crate::store::accounts::Role;
use crate::wire::{pull, service_bus};

/// What is served at a path.
pub(super) struct Route {
    pub(super) path: String,
    /// As clients see it; `None` for the same.
    shown_as: Option<&'static str>,
    pub(super) door: Door,
    /// Bytes of a body; `None` where the handler sees to it.
    bytes_max: Option<usize>,
    verbs: Verbs,
}

/// Who is let in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Door {
    /// Everybody.
    Open,
    /// Whoever has a key or a signature for the topic, and operators. The handler knows the topic.
    Key,
    /// Whoever has a signature for the dead-letter queue, and operators. The handler knows the queue.
    Queue,
    /// Whoever has a token of a role.
    Role(Access),
}

/// What a route behind tokens takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// Who may ask.
    pub(super) reads: Role,
    /// Who may act.
    pub(super) changes: Role,
}

impl Access {
    /// The role that a request takes.
    pub(super) fn needed(self, method: &Method) -> Role {
        match method.is_safe() {
            true => self.reads,
            false => self.changes,
        }
    }
}

/// What is open to everybody, and has no body.
fn public(path: &str, verbs: Verbs) -> Route {
    Route {
        path: path.to_owned(),
        shown_as: None,
        door: Door::Open,
        bytes_max: Some(0),
        verbs,
    }
}

/// What publishers do. The handler reads the body within the limit that is set.
fn publisher(path: &str, verbs: Verbs) -> Route {
    Route {
        door: Door::Key,
        bytes_max: None,
        ..public(path, verbs)
    }
}

/// What takes a token.
fn with_token(path: impl Into<String>, access: Access, verbs: Verbs) -> Route {
    Route {
        path: path.into(),
        shown_as: None,
        door: Door::Role(access),
        bytes_max: Some(MANAGEMENT_BYTES_MAX),
        verbs,
    }
}

/// What administrators change and everybody sees.
fn admin_writes(path: impl Into<String>, verbs: Verbs) -> Route {
    with_token(path, access(Role::Viewer, Role::Admin), verbs)
}

/// What operators do, too.
fn operator(path: impl Into<String>, verbs: Verbs) -> Route {
    with_token(path, access(Role::Viewer, Role::Operator), verbs)
}

/// What operators alone see, for it holds data of events.
fn operator_only(path: impl Into<String>, verbs: Verbs) -> Route {
    with_token(path, access(Role::Operator, Role::Operator), verbs)
}

/// For administrators alone.
fn admin_only(path: impl Into<String>, verbs: Verbs) -> Route {
    with_token(path, access(Role::Admin, Role::Admin), verbs)
}

fn access(reads: Role, changes: Role) -> Access {
    Access { reads, changes }
}

impl Route {
    /// The same with longer bodies.
    fn of_bytes(self, bytes_max: usize) -> Self {
        Self {
            bytes_max: Some(bytes_max),
            ..self
        }
    }

    /// The same for clients that write its path in another way.
    fn shown_as(self, path: &'static str) -> Self {
        Self {
            shown_as: Some(path),
            ..self
        }
    }

    /// Puts it into `router`, behind its door.
    pub(super) fn add_to(self, router: Router<ApiState>, state: &ApiState) -> Router<ApiState> {
        let limit = match self.bytes_max {
            Some(bytes_max) => DefaultBodyLimit::max(bytes_max),
            None => DefaultBodyLimit::disable(),
        };
        let handler = self.verbs.into_router().route_layer(limit);
        let handler = match self.door {
            Door::Role(access) => handler.route_layer(from_fn_with_state(
                (state.clone(), access),
                auth::require_role,
            )),
            Door::Open | Door::Key | Door::Queue => handler,
        };
        router.route(&self.path, handler)
    }
}

/// One method of one path, as clients see it.
pub(super) struct Served {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) door: Door,
}

/// Everything that is served, in the order of the tables.
pub(super) fn served(options: &ApiOptions) -> Vec<Served> {
    let routed = all(options).into_iter().flat_map(|route| {
        let path = route.shown_as.map_or(route.path, str::to_owned);
        let methods = route.verbs.methods().to_vec();
        methods.into_iter().map(move |method| Served {
            // What a preflight asks is no secret.
            door: if method == Method::OPTIONS {
                Door::Open
            } else {
                route.door
            },
            method,
            path: path.clone(),
        })
    });
    let pulled = pull::paths().map(|path| Served {
        method: Method::POST,
        path,
        door: Door::Key,
    });
    let queued = service_bus::address::served().map(|(method, path)| Served {
        method,
        path,
        door: Door::Queue,
    });
    routed.chain(pulled).chain(queued).collect()
}

/// Every route that is found by its path alone; those of receivers come in any letter case, and stand in
/// `wire`. Pasted events may be as long as published ones.
#[rustfmt::skip] // a table
pub(super) fn all(options: &ApiOptions) -> Vec<Route> {
    let publish_bytes_max = options.publish_bytes_max;
    let mut routes = vec![
        public("/", get(front_page).otherwise(error::no_such_path)),
        public("/healthz", get(health::healthz)),
        public("/readyz", get(health::readyz)),
        public("/validate", get(validate::confirm).post(validate::confirm)),
        match options.metrics_public {
            true => public("/metrics", get(health::metrics)),
            false => admin_writes("/metrics", get(health::metrics)),
        },
        admin_writes("/openapi.json", get(openapi::show)),
        publisher("/topics/{topic}/api/events",
            post(publish::to_topic).options(publish::options)),
        publisher("/{topic}/api/events", post(publish::to_topic).options(publish::options)),
        publisher("/eventGrid/api/events", post(publish::to_host).options(publish::options)),
        publisher("/api/events", post(publish::to_host).options(publish::options)),
        publisher("/topics/{topic}", post(publish_in_namespace::by_topic))
            .shown_as("/topics/{topic}:publish"),
        publisher("/namespaces/{namespace}/topics/{topic}", post(publish_in_namespace::by_path))
            .shown_as("/namespaces/{namespace}/topics/{topic}:publish"),
        admin_writes("/topics", get(manage::list_topics)),
        admin_writes("/namespaces", get(namespaces::list)),
        admin_writes("/namespaces/{namespace}",
            get(namespaces::get).put(namespaces::put).patch(namespaces::patch)
                .delete(namespaces::delete)),
        admin_writes("/namespaces/{namespace}/listKeys", post(namespaces::list_keys)),
        admin_writes("/namespaces/{namespace}/regenerateKey", post(namespaces::regenerate_key)),
        admin_writes("/namespaces/{namespace}/topics", get(namespaces::list_topics)),
        admin_writes("/everpost/counts", get(counts::list_counts)),
        admin_writes("/everpost/traffic", get(counts::list_traffic)),
        admin_writes("/everpost/events", get(events::list)),
        operator_only("/everpost/events/{key}", get(records::get_event)),
        operator_only("/everpost/events/{key}/explanations", get(explain::explain_stored)),
        operator("/everpost/events/{key}/send", post(deliveries::send)),
        admin_writes("/everpost/storage", get(storage::show)),
        operator("/everpost/deliveries/{id}/tryNow", post(deliveries::try_now)),
        admin_writes("/everpost/deadLetters", get(dead_letters::list)),
        admin_writes("/everpost/deadLetters/count", get(dead_letters::count)),
        admin_writes("/everpost/deadLetters/purge", post(dead_letters::purge)),
        operator_only("/everpost/deadLetters/{id}", get(records::get_dead_letter)),
        operator("/everpost/deadLetters/resubmit", post(resubmit::selection)),
        admin_writes("/everpost/deadLetters/import", post(import::import)).of_bytes(IMPORT_BYTES_MAX),
        // An edited event is as large as a published one.
        operator("/everpost/deadLetters/{id}/resubmit", post(resubmit::one))
            .of_bytes(publish_bytes_max),
        operator_only("/everpost/deadLetters/receive", post(locks::receive)),
        operator_only("/everpost/locks/{verb}", post(locks::settle)),
        admin_writes("/everpost/rejectedEvents", get(rejections::list)),
        operator_only("/everpost/rejectedEvents/{id}", get(rejections::get)),
        admin_writes("/everpost/inspectors", get(inspectors::list)),
        operator("/everpost/inspectors/{name}",
            get(inspectors::get).put(inspectors::put).delete(inspectors::delete)),
        operator("/everpost/inspectors/{name}/clear", post(inspectors::clear)),
        operator_only("/everpost/inspectors/{name}/requests", get(inspectors::requests)),
        operator_only("/everpost/inspectors/{name}/requests/{number}", get(inspectors::request)),
        operator("/everpost/replays", get(replays::list).post(replays::start)),
        operator_only("/everpost/replays/preview", post(replays::preview)),
        admin_writes("/everpost/replays/{id}", get(replays::show)),
        operator("/everpost/replays/{id}/pause", post(replays::pause)),
        operator("/everpost/replays/{id}/resume", post(replays::resume)),
        operator("/everpost/replays/{id}/cancel", post(replays::cancel)),
        admin_only("/everpost/users", get(people::list).post(people::create)),
        admin_only("/everpost/users/{name}",
            get(people::show).patch(people::patch).delete(people::delete)),
        admin_only("/everpost/users/{name}/passwordLink", post(people::put_link)),
        admin_only("/everpost/sessions", get(people::list_sessions)),
        admin_only("/everpost/sessions/end", post(people::end_sessions)),
        admin_only("/everpost/sessions/{id}", delete(people::end_session)),
        admin_only("/everpost/tokens", get(tokens::list).post(tokens::create)),
        admin_only("/everpost/tokens/{name}", get(tokens::show).delete(tokens::delete)),
        admin_only("/everpost/audit", get(audit::list)),
        admin_only("/everpost/supportBundle", post(diagnostics::support_bundle)),
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
        admin_writes(topic,
            get(manage::get_topic).put(manage::put_topic).patch(manage::patch_topic)
                .delete(manage::delete_topic)),
        admin_writes(of_topic("/listKeys"), post(manage::list_keys)),
        admin_writes(of_topic("/regenerateKey"), post(manage::regenerate_key)),
        admin_writes(of_topic("/eventSubscriptions"), get(manage::list_subscriptions)),
        admin_writes(of_subscription(""),
            get(manage::get_subscription).put(manage::put_subscription)
                .patch(manage::patch_subscription).delete(manage::delete_subscription)),
        admin_writes(of_subscription("/getFullUrl"), post(manage::get_full_url)),
        admin_writes(of_subscription("/getDeliveryAttributes"), post(manage::get_delivery_attributes)),
        admin_writes(of_subscription("/listSigningSecrets"), post(manage::list_signing_secrets)),
        admin_writes(of_subscription("/rotateSigningSecret"), post(manage::rotate_signing_secret)),
        operator_only(of_topic("/explain"), post(explain::explain_all)).of_bytes(pasted_bytes_max),
        operator_only(of_subscription("/explain"), post(explain::explain_one)).of_bytes(pasted_bytes_max),
        operator_only(of_topic("/tryFilter"), post(explain::try_filter)),
        operator(of_subscription("/validate"), post(manage::validate)),
        operator(of_subscription("/pause"), post(manage::pause)),
        operator(of_subscription("/resume"), post(manage::resume)),
    ]
}
