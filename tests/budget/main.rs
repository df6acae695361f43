//! What an event costs that is published alone and delivered once. It counts and does not time, so it is the same
//! on every machine, and cost cannot creep back unnoticed: a copy, a statement, a task.
//!
//! A limit is what the appliance needs, and a little more where that can vary. Raise one only for something that is
//! worth it to everybody.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use everpost::api::{
    ApiOptions, ApiParts, AzureScope, BodyMemory, Denials, Doors, Guesses, ManagementToken,
};
use everpost::base::{Clock, Entropy, TimeScale};
use everpost::broker::diagnostics::{Diagnostics, RuntimeInfo};
use everpost::broker::people::People;
use everpost::broker::{Broker, BrokerOptions};
use everpost::model::access::Secret;
use everpost::model::backup::BackupRules;
use everpost::model::export::ExportRules;
use everpost::model::limits;
use everpost::model::probation::ProbationRules;
use everpost::model::queue::ServiceBusTier;
use everpost::model::registry::ResourceScope;
use everpost::model::retention::RetentionRules;
use everpost::outbound::egress::EgressPolicy;
use everpost::outbound::transport::{
    HttpTransport, Responder, TransportError, TransportRequest, TransportResponse,
};
use everpost::outbound::{Outbound, OutboundOptions};
use everpost::store::{DataDir, FILE, InlineDatabase, Store, StoreOptions};

/// SQL statements: the event and its delivery; the end of the delivery and its attempt. Each of the two groups begins,
/// writes three rows of counters and commits.
const STATEMENTS_MAX: u64 = 13;

/// The same with an id of the client for the request: the group of the event has a row of such requests.
const MARKED_STATEMENTS_MAX: u64 = STATEMENTS_MAX + 1;

/// Locks of the agenda: the delivery is handed over, its turn taken and ended, its request ended, its settlement stored;
/// and once more nothing is found to be due.
const AGENDA_LOCKS_MAX: u64 = 6;

/// Tasks: the request to the receiver. It goes on with the next delivery if one waits.
const TASKS_MAX: u64 = 1;

/// Pages written to the log: of the two groups, each with the tables and indexes above and its counters.
const PAGES_MAX: u64 = 14;

/// Allocations, and their bytes: the request is parsed and checked, the event copied out of it once; its answer has a
/// map of headers (its id for support); one request is encoded, and its answer is recorded. A tenth of the bytes is the texts of statements, which the
/// cache copies, and a quarter the future that answers, which is in a box.
const ALLOCATIONS_MAX: u64 = 88;
const BYTES_MAX: u64 = 31_500;

/// Events that are measured, after as many that fill the caches.
const EVENTS: u64 = 200;

/// Events whose pages all fit into the log before it is written back.
const EVENTS_ON_DISK: u64 = 40;

/// A page with its header.
const PAGE_IN_LOG_BYTES: u64 = 8_192 + 24;

const TOKEN: &str = "management-token";

/// Answers 200 to everything, and counts that.
#[derive(Default)]
struct Accepts(AtomicU64);

#[async_trait]
impl Responder for Accepts {
    async fn respond(&self, _: &TransportRequest) -> Result<TransportResponse, TransportError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(TransportResponse {
            status: 200,
            headers: axum::http::HeaderMap::new(),
            body: Vec::new(),
            remote_address: None,
        })
    }
}

/// An appliance with one topic and one subscription, and the key to publish with.
struct Appliance {
    broker: Broker,
    doors: Doors,
    key: String,
    accepts: Arc<Accepts>,
}

impl Appliance {
    async fn over(store: Store, clock: Clock) -> Self {
        let accepts = Arc::<Accepts>::default();
        let receiver: Arc<dyn Responder> = Arc::clone(&accepts) as _;
        let outbound = Outbound::new(OutboundOptions {
            transport: HttpTransport::Scripted(receiver),
            clock: clock.clone(),
            origin: "eventgrid.azure.net".to_owned(),
            export_dir: None,
        });
        let entropy = Entropy::seeded(1);
        let options = BrokerOptions {
            clock: clock.clone(),
            entropy: entropy.clone(),
            time_scale: TimeScale::REAL,
            public_url: "http://everpost.test".to_owned(),
            public_url_is_set: true,
            service_bus_tier: ServiceBusTier::default(),
            message_bytes_max: 1_048_576,
            event_bytes_max: limits::EVENT_BYTES_MAX,
            egress: EgressPolicy::default(),
            in_flight_per_subscription: limits::IN_FLIGHT_PER_SUBSCRIPTION,
            in_flight_max: limits::IN_FLIGHT_MAX,
            free_bytes_min: 0,
            change_deliveries_max: limits::CHANGE_DELIVERIES_MAX,
            response_deadline: limits::RESPONSE_DEADLINE,
            probation: ProbationRules::default(),
            retention: RetentionRules::default(),
            exports: ExportRules::default(),
            backups: BackupRules::default(),
            resubmissions_max: limits::RESUBMISSIONS_MAX,
        };
        let broker = Broker::start(store.clone(), outbound, options).await;
        let broker = broker.expect("a broker");
        let people = People::open(store.accounts.clone(), clock, entropy).await;
        let parts = ApiParts {
            broker: broker.clone(),
            views: store.views.clone(),
            people: people.expect("people"),
            token: ManagementToken::configured(Secret::new(TOKEN)),
            intake: BodyMemory::default(),
            denials: Denials::default(),
            guesses: Guesses::default(),
            diagnostics: Diagnostics::new(broker.clone(), RuntimeInfo::default()),
            options: ApiOptions {
                publish_bytes_max: limits::PUBLISH_BYTES_MAX,
                metrics_public: false,
                dev: None,
                azure: AzureScope::ANY,
            },
        };
        let doors = Doors::new(parts.into(), Router::new());
        let mut appliance = Self {
            broker,
            doors,
            key: String::new(),
            accepts,
        };
        let topic = json!({"location": "local"});
        appliance.manage(Method::PUT, "/topics/orders", topic).await;
        let subscription = json!({"properties": {"destination": {"endpointType": "WebHook",
            "properties": {"endpointUrl": "http://billing.test/", "skipValidation": true}}}});
        let path = "/topics/orders/eventSubscriptions/billing";
        appliance.manage(Method::PUT, path, subscription).await;
        let path = "/topics/orders/listKeys";
        let keys = appliance.manage(Method::POST, path, Value::Null).await;
        appliance.key = keys["key1"].as_str().expect("a key").to_owned();
        appliance
    }

    async fn manage(&self, method: Method, path: &str, body: Value) -> Value {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()));
        let answer = self.doors.clone().answer(request.expect("a request")).await;
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        let body = answer.into_body().collect().await.expect("a body");
        serde_json::from_slice(&body.to_bytes()).expect("JSON")
    }

    /// Requests, with an id of the client for each or without.
    fn requests(&self, events: u64, are_marked: bool) -> Vec<Request<Body>> {
        let event = json!([{"id": "e1", "subject": "/orders/7", "eventType": "Order.Paid",
            "eventTime": "2026-11-21T06:40:53Z", "dataVersion": "1.0", "data": {"pad": "x".repeat(1_000)}}]);
        let request = |number: u64| {
            let request = match are_marked {
                true => Request::builder().header("x-ms-client-request-id", number),
                false => Request::builder(),
            };
            request
                .method(Method::POST)
                .uri("/topics/orders/api/events")
                .header("host", "127.0.0.1:8080")
                .header("aeg-sas-key", &self.key)
                .header("content-type", "application/json")
                .body(Body::from(event.to_string()))
                .expect("a request")
        };
        (0..events).map(request).collect()
    }

    /// Publishes, and delivers what is due.
    async fn serve(&self, requests: Vec<Request<Body>>) {
        for request in requests {
            let answer = self.doors.clone().answer(request).await;
            assert_eq!(answer.status(), StatusCode::OK);
            self.broker.run_due().await;
        }
    }

    /// Publishes, and waits for each delivery of the dispatcher.
    async fn serve_dispatched(&self, requests: Vec<Request<Body>>) {
        for request in requests {
            let accepted = self.accepts.0.load(Ordering::Relaxed);
            let answer = self.doors.clone().answer(request).await;
            assert_eq!(answer.status(), StatusCode::OK);
            while self.accepts.0.load(Ordering::Relaxed) == accepted {
                tokio::task::yield_now().await;
            }
        }
    }
}

fn scope() -> ResourceScope {
    ResourceScope {
        subscription: "sub".to_owned(),
        resource_group: "group".to_owned(),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().expect("a runtime")
}

fn clock() -> Clock {
    Clock::simulated("2026-11-21T12:00:00Z".parse().expect("a moment"))
}

/// Fails if `what` costs more than `most` for each event.
fn check(what: &str, cost: u64, events: u64, most: u64) {
    let each = cost.div_ceil(events);
    println!("{what}: {each} of {most} for each event");
    assert!(
        each <= most,
        "{what}: {each} for each event, and {most} may be"
    );
}

#[test]
fn an_event_is_cheap() {
    in_memory();
    on_disk();
}

fn in_memory() {
    let (runtime, memory) = (runtime(), InlineDatabase::new().expect("a database"));
    let store = Store::open_on(memory.clone(), scope());
    let appliance = runtime.block_on(Appliance::over(store, clock()));
    runtime.block_on(appliance.serve(appliance.requests(EVENTS, false)));
    memory.count_statements().expect("a watch");
    let requests = appliance.requests(EVENTS, false);
    let (statements, locks) = (
        InlineDatabase::statements(),
        appliance.broker.agenda_locks(),
    );
    let used = allocation_counter::measure(|| runtime.block_on(appliance.serve(requests)));
    let statements = InlineDatabase::statements() - statements;
    let locks = appliance.broker.agenda_locks() - locks - 1; // one was needed to learn this
    check("statements", statements, EVENTS, STATEMENTS_MAX);
    check("allocations", used.count_total, EVENTS, ALLOCATIONS_MAX);
    check("bytes", used.bytes_total, EVENTS, BYTES_MAX);
    check("locks of the agenda", locks, EVENTS, AGENDA_LOCKS_MAX);

    let requests = appliance.requests(EVENTS, true);
    let statements = InlineDatabase::statements();
    runtime.block_on(appliance.serve(requests));
    let statements = InlineDatabase::statements() - statements;
    let what = "statements with ids of requests";
    check(what, statements, EVENTS, MARKED_STATEMENTS_MAX);

    let broker = appliance.broker.clone();
    runtime.spawn(broker.dispatch(TaskTracker::new()));
    let requests = appliance.requests(EVENTS, false);
    let tasks = tasks_so_far(&runtime);
    runtime.block_on(appliance.serve_dispatched(requests));
    let tasks = tasks_so_far(&runtime) - tasks - 1; // one was spawned to learn this
    check("tasks", tasks, EVENTS, TASKS_MAX);
}

/// How many tasks this process has ever spawned.
fn tasks_so_far(runtime: &tokio::runtime::Runtime) -> u64 {
    let task = runtime.spawn(async {});
    task.id().to_string().parse().expect("their number")
}

fn on_disk() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().expect("a directory"));
    let options = StoreOptions {
        clock: clock(),
        entropy: Entropy::Os,
        master_keys: None,
        scope: scope(),
        on_fatal: Box::new(|error| panic!("{error}")),
    };
    let data_dir = Arc::new(DataDir::open(dir.path()).expect("a data directory"));
    let store = runtime.block_on(async { Store::open(data_dir, options, &|_| ()) });
    let appliance = Appliance::over(store.expect("a store"), clock());
    let appliance = runtime.block_on(appliance);
    let before = log_bytes(dir.path());
    runtime.block_on(appliance.serve(appliance.requests(EVENTS_ON_DISK, false)));
    let pages = (log_bytes(dir.path()) - before) / PAGE_IN_LOG_BYTES;
    check("pages", pages, EVENTS_ON_DISK, PAGES_MAX);
    runtime.shutdown_timeout(Duration::from_secs(10));
}

/// The size of the write-ahead log, which grows until its first checkpoint.
fn log_bytes(dir: &Path) -> u64 {
    let log = dir.join(format!("{FILE}-wal"));
    std::fs::metadata(log).map_or(0, |file| file.len())
}
