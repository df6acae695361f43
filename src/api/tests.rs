//! Roles of API tokens, tried through the router on every route there is.

mod administration;
pub(crate) mod audit;
mod waiting;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::api::{
    ApiOptions, ApiParts, ApiState, AzureScope, BodyMemory, Denials, Doors, Guesses,
    ManagementToken, routes,
};
use crate::base::{Clock, Entropy, TimeScale, Timestamp};
use crate::broker::diagnostics::{Diagnostics, RuntimeInfo, Tasks, setting_samples};
use crate::broker::people::People;
use crate::broker::{Broker, BrokerOptions};
use crate::model::access::Secret;
use crate::model::backup::BackupRules;
use crate::model::export::ExportRules;
use crate::model::limits::{
    CHANGE_DELIVERIES_MAX, EVENT_BYTES_MAX, PUBLISH_BYTES_MAX, RESUBMISSIONS_MAX,
};
use crate::model::probation::ProbationRules;
use crate::model::queue::ServiceBusTier;
use crate::model::registry::ResourceScope;
use crate::model::retention::RetentionRules;
use crate::outbound::egress::EgressPolicy;
use crate::outbound::transport::{
    HttpTransport, Responder, TransportError, TransportRequest, TransportResponse,
};
use crate::outbound::{Outbound, OutboundOptions};
use crate::store::accounts::Role;
use crate::store::{InlineDatabase, Store};

pub(super) const TOKEN: &str = "the management token";

const OPTIONS: ApiOptions = ApiOptions {
    publish_bytes_max: PUBLISH_BYTES_MAX,
    metrics_public: false,
    dev: None,
    azure: AzureScope::ANY,
};

struct Nobody;

#[async_trait::async_trait]
impl Responder for Nobody {
    async fn respond(&self, _: &TransportRequest) -> Result<TransportResponse, TransportError> {
        Err(TransportError::Socket("connection refused".to_owned()))
    }
}

pub(super) struct Door {
    clock: Clock,
    broker: Broker,
    tasks: Tasks,
    database: InlineDatabase,
    store: Store,
    doors: Doors,
    state: ApiState,
}

impl Door {
    pub(super) async fn new() -> Self {
        Self::with_token(ManagementToken::configured(Secret::new(TOKEN))).await
    }

    /// An appliance that this token manages.
    pub(super) async fn with_token(token: ManagementToken) -> Self {
        let clock = Clock::simulated(Timestamp::from_ms(1_800_000_000_000));
        let database = InlineDatabase::new().expect("a database");
        Self::over(database, clock, 1, token).await
    }

    /// The appliance after its process has ended and another one has begun.
    pub(super) async fn restarted(&self) -> Self {
        let token = self.state.token.clone();
        Self::over(self.database.clone(), self.clock.clone(), 2, token).await
    }

    async fn over(
        database: InlineDatabase,
        clock: Clock,
        seed: u64,
        token: ManagementToken,
    ) -> Self {
        let entropy = Entropy::seeded(seed);
        let scope = ResourceScope {
            subscription: "s".to_owned(),
            resource_group: "g".to_owned(),
        };
        let store = Store::open_on(database.clone(), scope);
        let outbound = Outbound::new(OutboundOptions {
            transport: HttpTransport::Scripted(Arc::new(Nobody)),
            clock: clock.clone(),
            origin: "eventgrid.azure.net".to_owned(),
            export_dir: None,
        });
        let options = BrokerOptions {
            clock: clock.clone(),
            entropy: entropy.clone(),
            time_scale: TimeScale::REAL,
            public_url: "http://127.0.0.1:8080".to_owned(),
            public_url_is_set: false,
            service_bus_tier: ServiceBusTier::default(),
            message_bytes_max: 1_048_576,
            event_bytes_max: EVENT_BYTES_MAX,
            egress: EgressPolicy::default(),
            in_flight_per_subscription: 8,
            in_flight_max: 8,
            free_bytes_min: 0,
            change_deliveries_max: CHANGE_DELIVERIES_MAX,
            response_deadline: Duration::from_secs(30),
            probation: ProbationRules::default(),
            retention: RetentionRules::default(),
            resubmissions_max: RESUBMISSIONS_MAX,
            exports: ExportRules::default(),
            backups: BackupRules::default(),
        };
        let broker = Broker::start(store.clone(), outbound, options).await;
        let broker = broker.expect("a broker");
        let people = People::open(store.accounts.clone(), clock.clone(), entropy);
        let people = people.await.expect("people");
        let tasks = Tasks::default();
        let state: ApiState = ApiParts {
            broker: broker.clone(),
            views: store.views.clone(),
            people,
            token,
            intake: BodyMemory::default(),
            denials: Denials::default(),
            guesses: Guesses::default(),
            diagnostics: Diagnostics::new(
                broker.clone(),
                RuntimeInfo {
                    settings: setting_samples::running(),
                    tasks: tasks.clone(),
                    ..RuntimeInfo::default()
                },
            ),
            options: OPTIONS,
        }
        .into();
        Self {
            clock,
            broker,
            tasks,
            database,
            store,
            doors: Doors::new(state.clone(), Router::new()),
            state,
        }
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(super) fn state(&self) -> &ApiState {
        &self.state
    }

    /// Counts the statements of the database that run until `work` is done.
    pub(super) async fn statements_of(&self, work: impl Future) -> u64 {
        self.database.count_statements().expect("a count");
        let before = InlineDatabase::statements();
        work.await;
        InlineDatabase::statements() - before
    }

    /// Defines a resource by the management API.
    pub(super) async fn define(&self, path: &str, properties: Value) {
        let body = json!({ "properties": properties });
        let (status, answer) = self.ask(TOKEN, Method::PUT, path, body).await;
        assert!(status.is_success(), "{path}: {answer}");
    }

    /// Deletes a resource by the management API.
    pub(super) async fn delete(&self, path: &str) {
        let (status, answer) = self.ask(TOKEN, Method::DELETE, path, json!({})).await;
        assert!(status.is_success(), "{path}: {answer}");
    }

    /// Puts the limits of a tier of Service Bus in force.
    pub(super) fn set_tier(&self, service_bus_tier: ServiceBusTier) {
        let options = BrokerOptions {
            service_bus_tier,
            ..BrokerOptions::clone(&self.broker.options())
        };
        self.broker.set_options(options).expect("settings");
    }

    pub(super) async fn ask(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: Value,
    ) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(path);
        let request = request
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .header(header::HOST, "127.0.0.1:8080")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(
                body.as_str()
                    .map_or_else(|| body.to_string(), str::to_owned),
            ))
            .expect("a request");
        let response = self.doors.clone().answer(request).await;
        let status = response.status();
        let body = response
            .into_body()
            .collect()
            .await
            .expect("a body")
            .to_bytes();
        let body = match serde_json::from_slice(&body) {
            Err(_) if !body.is_empty() => String::from_utf8_lossy(&body).into(),
            body => body.unwrap_or_default(),
        };
        (status, body)
    }

    /// A token of that role, which is also its name.
    async fn token(&self, role: Role) -> String {
        let wish = json!({ "name": role.name(), "role": role.name(), "days": 1 });
        let (status, made) = self
            .ask(TOKEN, Method::POST, "/everpost/tokens", wish)
            .await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        made["token"].as_str().expect("a token").to_owned()
    }
}

fn is_for_others(status: StatusCode, body: &Value) -> bool {
    let message = body["error"]["message"].as_str().unwrap_or("");
    status == StatusCode::FORBIDDEN && message.contains("This takes the role")
}

/// A path of the table without anything behind it, so that nothing is waited for or deleted.
fn of_nothing(path: &str) -> String {
    let parts = path.split('/').map(|part| match part.starts_with('{') {
        true => "none",
        false => part,
    });
    let path = parts.collect::<Vec<_>>().join("/");
    path.replace("/everpost/deadLetters/none", "/everpost/deadLetters/7")
}

/// The parameters of the query that the documentation tells of an operation.
fn described(operation: &Value) -> BTreeSet<&str> {
    let parameters = operation["parameters"].as_array();
    let of_query = parameters.into_iter().flatten();
    let of_query = of_query.filter(|each| each["in"] == "query");
    let names = of_query.filter_map(|each| each["name"].as_str());
    names.filter(|name| *name != "api-version").collect()
}

/// The parameters that an operation says there are, when it is asked with one that there is not.
fn taken(answer: &Value) -> BTreeSet<&str> {
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    let names = message.split_once("no parameter \"nonsense\" here; there are: ");
    let names = names.and_then(|(_, names)| names.split('.').next());
    names
        .into_iter()
        .flat_map(|names| names.split(", "))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_parameters_of_every_query_are_those_described() {
    let door = Door::new().await;
    let document = super::document(&OPTIONS, "http://127.0.0.1:8080");
    let mut with_parameters = 0;
    for route in routes::all(&OPTIONS) {
        let routes::RouteAccess::Role(_) = route.access else {
            continue;
        };
        let (method, path) = (route.method, route.path);
        let operation = &document["paths"][&path][method.as_str().to_ascii_lowercase()];
        assert!(operation.is_object(), "{method} {path}");
        let asked = format!("{}?nonsense=1", of_nothing(&path));
        let (_, answer) = door.ask(TOKEN, method.clone(), &asked, json!({})).await;
        let described = described(operation);
        assert_eq!(described, taken(&answer), "{method} {path}: {answer}");
        with_parameters += usize::from(!described.is_empty());
    }
    assert!(with_parameters > 10, "only {with_parameters} take any");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_is_told_and_begins_again() {
    let door = Door::new().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let task = move |_| {
        let run = counted.fetch_add(1, Ordering::Relaxed);
        async move {
            assert!(run > 0, "the first time it fails");
            if run == 1 {
                std::future::pending::<()>().await;
            }
        }
    };
    door.tasks.run(&door.broker, "replay", task, |_| {});
    let ready = async || {
        tokio::time::sleep(Duration::from_millis(600)).await;
        door.ask(TOKEN, Method::GET, "/readyz", Value::Null).await
    };
    let (status, answer) = ready().await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        answer["reasons"][0],
        "the task replay has failed and is not running"
    );
    assert_eq!(ready().await.0, StatusCode::OK, "it has begun again");
    assert_eq!(runs.load(Ordering::Relaxed), 2);

    let (told, given_up) = tokio::sync::oneshot::channel();
    let give_up = move |name| told.send(name).expect("somebody listens");
    let ends = |_| async {};
    door.tasks.run(&door.broker, "export", ends, give_up);
    assert_eq!(
        given_up.await,
        Ok("export"),
        "it ends and nobody asked for it"
    );
}

#[tokio::test(start_paused = true)]
async fn every_route_keeps_to_its_roles() {
    let door = Door::new().await;
    for role in Role::ALL {
        let token = door.token(role).await;
        for route in routes::all(&OPTIONS) {
            let routes::RouteAccess::Role(needed) = route.access else {
                continue;
            };
            let (method, path) = (route.method, of_nothing(&route.path));
            let ends_all = path == "/everpost/sessions/end" || path.ends_with("/purge");
            if ends_all && role >= needed {
                continue;
            }
            let (status, body) = door.ask(&token, method.clone(), &path, json!({})).await;
            let is_rejected = is_for_others(status, &body);
            assert_eq!(
                is_rejected,
                role < needed,
                "{role:?} {method} {path}: {status} {body}"
            );
            assert_ne!(status, StatusCode::UNAUTHORIZED, "{method} {path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_with_its_days_or_when_it_is_deleted() {
    let door = Door::new().await;
    let token = door.token(Role::Viewer).await;
    assert!(token.starts_with("evp_"));
    let topics = || door.ask(&token, Method::GET, "/topics", json!(null));
    assert_eq!(topics().await.0, StatusCode::OK);
    door.clock.advance(Duration::from_secs(86_399));
    assert_eq!(topics().await.0, StatusCode::OK);
    door.clock.advance(Duration::from_secs(1));
    assert_eq!(topics().await.0, StatusCode::UNAUTHORIZED);

    let token = door.token(Role::Operator).await;
    let path = "/everpost/tokens/operator";
    let (status, _) = door.ask(TOKEN, Method::DELETE, path, json!(null)).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let (status, _) = door.ask(&token, Method::GET, "/topics", json!(null)).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn who_is_no_operator_of_the_machine_backs_up_nowhere_but_where_settings_say() {
    let door = Door::new().await;
    let path = "/everpost/backups";
    let anywhere = json!({ "directory": "/" });
    let token = door.token(Role::Admin).await;
    let (status, answer) = door.ask(&token, Method::POST, path, anywhere.clone()).await;
    assert!(status.is_client_error(), "{status}");
    let said = "neither in nor below what the settings backup.dir and backup.allow name";
    assert!(answer.to_string().contains(said), "{answer}");
    let (status, answer) = door.ask(TOKEN, Method::POST, path, anywhere).await;
    assert!(status.is_success(), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn tokens_are_listed_without_themselves() {
    let door = Door::new().await;
    let token = door.token(Role::Operator).await;
    door.ask(&token, Method::GET, "/topics", json!(null)).await;
    let (_, list) = door
        .ask(TOKEN, Method::GET, "/everpost/tokens", json!(null))
        .await;
    assert_eq!(list["value"][0]["name"], "operator");
    assert_eq!(list["value"][0]["createdBy"], "management token");
    assert!(list["value"][0]["usedAt"].is_string());
    assert!(!list.to_string().contains(&token));
    for wrong in [
        json!({ "name": "OPERATOR", "role": "viewer" }),
        json!({ "name": "x", "role": "root" }),
        json!({ "name": "x", "role": "viewer", "days": 0 }),
        json!({ "name": "x", "role": "viewer", "days": 4_000 }),
        json!({ "name": "", "role": "viewer" }),
        json!({ "name": "x", "role": "viewer", "unknown": 1 }),
    ] {
        let (status, body) = door
            .ask(TOKEN, Method::POST, "/everpost/tokens", wrong)
            .await;
        assert!(status.is_client_error(), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn operators_publish_and_viewers_do_not() {
    let door = Door::new().await;
    let topic = json!({ "location": "local", "properties": {} });
    door.ask(TOKEN, Method::PUT, "/topics/orders", topic).await;
    let event = json!([{ "id": "1", "eventType": "T", "subject": "s", "dataVersion": "1",
        "eventTime": "2026-11-21T06:40:53Z", "data": {} }]);
    for (role, expected) in [
        (Role::Viewer, StatusCode::FORBIDDEN),
        (Role::Operator, StatusCode::OK),
        (Role::Admin, StatusCode::OK),
    ] {
        let token = door.token(role).await;
        let path = "/topics/orders/api/events";
        let (status, body) = door.ask(&token, Method::POST, path, event.clone()).await;
        assert_eq!(status, expected, "{role:?} {body}");
    }
    let (status, _) = door
        .ask("evp_guessed", Method::GET, "/topics", json!(null))
        .await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
}
