//! The test appliance: everything but the network, the disk and the passing of time.
//!
//! Requests go through the real doors, in process. The clock stands still until a test runs it, the
//! world answers by a script, and the store is in memory, so a test of twelve hours takes milliseconds.

mod world;

use std::fmt::Write as _;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use everpost::api::{
    ApiOptions, ApiParts, ApiState, AzureScope, BodyMemory, Denials, Doors, Guesses,
    ManagementToken,
};
use everpost::base::{Clock, Entropy, TimeScale, Timestamp};
use everpost::broker::diagnostics::{Diagnostics, RuntimeInfo};
use everpost::broker::people::People;
use everpost::broker::{Broker, BrokerOptions};
use everpost::model::access::Secret;
use everpost::model::backup::BackupRules;
use everpost::model::export::ExportRules;
use everpost::model::lease::QueueRef;
use everpost::model::limits;
use everpost::model::probation::ProbationRules;
use everpost::model::queue::ServiceBusTier;
use everpost::model::registry::ResourceScope;
use everpost::model::retention::RetentionRules;
use everpost::model::subscription::SubscriptionId;
use everpost::outbound::egress::EgressPolicy;
use everpost::outbound::transport::{HttpTransport, Responder, TransportRequest};
use everpost::outbound::{Outbound, OutboundOptions};
use everpost::store::views::TotalsQuery;
use everpost::store::{DataDir, InlineDatabase, Pauses, Store, StoreOptions};

use world::{Reply, World, plain};

/// The bearer token of every grid.
pub(crate) const TOKEN: &str = "management-token";

/// When every grid begins.
pub(crate) const START: &str = "2026-11-21T12:00:00Z";

/// An appliance under test. Dropping it fails the test if a delivery is still pending that the test did
/// not say it expects (see [`Grid::leave`]).
pub(crate) struct Grid {
    pub(crate) broker: Broker,
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    /// What the doors hold, for those that a request does not go through.
    pub(crate) state: ApiState,
    doors: Doors,
    world: Arc<World>,
    started_at: Timestamp,
    settings: Settings,
    pending_expected: bool,
    /// What the store is in, unless it is on a real disk.
    memory: Option<InlineDatabase>,
    operations: Arc<AtomicUsize>,
}

/// What an appliance can be told that matters to a test.
#[derive(Clone, Default)]
struct Settings {
    free_bytes_min: u64,
    probation: ProbationRules,
    retention: RetentionRules,
    exports: ExportRules,
    export_dir: Option<PathBuf>,
    /// Deliveries in one change, if it is not the product's number. What is left then is not done by itself.
    change_deliveries_max: Option<usize>,
    /// How often it has crashed: what is random is never the same again.
    crashes: u64,
}

/// What the doors of an appliance under test hold.
pub(crate) fn api_state(broker: &Broker, store: &Store, people: People) -> ApiState {
    let parts = ApiParts {
        broker: broker.clone(),
        views: store.views.clone(),
        people,
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
    parts.into()
}

/// An answer of the appliance.
#[derive(Debug)]
pub(crate) struct SendResult {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl SendResult {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Asserts an error in Azure's shape and returns its message.
    pub(crate) fn error(&self, status: u16, code: &str) -> String {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        let body = self.json();
        assert_eq!(body["error"]["code"], code, "{body}");
        let message = body["error"]["message"]
            .as_str()
            .expect("a message")
            .to_owned();
        // The message names all of the details, and ends with a number to ask the operator about.
        let details = body["error"]["details"].as_array().expect("details");
        for detail in details {
            let detail = detail["message"].as_str().expect("a message");
            assert!(message.contains(detail), "{body}");
        }
        assert!(!details.is_empty(), "{body}");
        message
    }
}

impl Grid {
    /// An appliance with nothing in it.
    pub(crate) async fn new() -> Self {
        Self::by(ProbationRules::default()).await
    }

    /// One with rules of its own for probation.
    pub(crate) async fn by(probation: ProbationRules) -> Self {
        let settings = Settings {
            probation,
            ..Settings::default()
        };
        Self::with(settings).await
    }

    async fn with(settings: Settings) -> Self {
        let start: Timestamp = START.parse().expect("a moment");
        let scope = ResourceScope {
            subscription: "sub".to_owned(),
            resource_group: "group".to_owned(),
        };
        let operations = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&operations);
        let pauses: Pauses = Arc::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            0
        });
        let memory = InlineDatabase::with_pauses(pauses).expect("a database in memory");
        let store = Store::open_on(memory.clone(), scope);
        let mut grid = Self::over(store, Clock::simulated(start), Arc::default(), settings).await;
        grid.memory = Some(memory);
        grid.operations = operations;
        grid
    }

    /// How many changes and reads a store in memory has seen.
    pub(crate) fn operations(&self) -> usize {
        self.operations.load(Ordering::Relaxed) / 2 // seen at the beginning and at the end of each
    }

    /// One of which a change creates or ends so many deliveries. The test does the rest with `finish`.
    pub(crate) async fn in_bites_of(deliveries: usize) -> Self {
        let settings = Settings {
            change_deliveries_max: Some(deliveries),
            ..Settings::default()
        };
        Self::with(settings).await
    }

    /// The same on a real disk.
    pub(crate) async fn in_bites_on_disk(deliveries: usize) -> (Self, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let settings = Settings {
            change_deliveries_max: Some(deliveries),
            ..Settings::default()
        };
        (Self::at(dir.path(), settings).await, dir)
    }

    /// An appliance on a real disk, of which so many bytes must be free.
    pub(crate) async fn on_disk(free_bytes_min: u64) -> (Self, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let settings = Settings {
            free_bytes_min,
            ..Settings::default()
        };
        (Self::at(dir.path(), settings).await, dir)
    }

    /// An appliance on a real disk that keeps what has ended by these rules.
    pub(crate) async fn keeping(retention: RetentionRules) -> (Self, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let settings = Settings {
            retention,
            ..Settings::default()
        };
        (Self::at(dir.path(), settings).await, dir)
    }

    /// An appliance that exports dead letters to `dir` by these rules.
    pub(crate) async fn exporting(dir: &Path, exports: ExportRules) -> Self {
        let settings = Settings {
            exports,
            export_dir: Some(dir.to_owned()),
            ..Settings::default()
        };
        Self::with(settings).await
    }

    /// The appliance of a data directory, with what it left behind there.
    pub(crate) async fn reopened(dir: &Path) -> Self {
        Self::at(dir, Settings::default()).await
    }

    /// The same, on a disk of which so many bytes must be free.
    pub(crate) async fn reopened_on_disk(dir: &Path, free_bytes_min: u64) -> Self {
        let settings = Settings {
            free_bytes_min,
            ..Settings::default()
        };
        Self::at(dir, settings).await
    }

    async fn at(dir: &Path, settings: Settings) -> Self {
        let data_dir = Arc::new(DataDir::open(dir).expect("a data directory"));
        let clock = Clock::simulated(START.parse().expect("a moment"));
        let options = StoreOptions {
            clock: clock.clone(),
            entropy: Entropy::seeded(1),
            master_keys: None,
            scope: ResourceScope {
                subscription: "sub".to_owned(),
                resource_group: "group".to_owned(),
            },
            on_fatal: Box::new(|error| panic!("{error}")),
        };
        let store = Store::open(data_dir, options, &|_| ()).expect("a store");
        Self::over(store, clock, Arc::default(), settings).await
    }

    async fn over(store: Store, clock: Clock, world: Arc<World>, settings: Settings) -> Self {
        let outbound = Outbound::new(OutboundOptions {
            transport: HttpTransport::Scripted(Arc::clone(&world) as Arc<dyn Responder>),
            clock: clock.clone(),
            origin: "eventgrid.azure.net".to_owned(),
            export_dir: settings.export_dir.clone(),
        });
        let options = BrokerOptions {
            clock: clock.clone(),
            entropy: Entropy::seeded(1 + settings.crashes),
            time_scale: TimeScale::REAL,
            public_url: "http://everpost.test".to_owned(),
            public_url_is_set: true,
            service_bus_tier: ServiceBusTier::default(),
            message_bytes_max: 1_048_576,
            event_bytes_max: limits::EVENT_BYTES_MAX,
            egress: EgressPolicy::default(),
            in_flight_per_subscription: limits::IN_FLIGHT_PER_SUBSCRIPTION,
            in_flight_max: limits::IN_FLIGHT_MAX,
            free_bytes_min: settings.free_bytes_min,
            change_deliveries_max: settings
                .change_deliveries_max
                .unwrap_or(limits::CHANGE_DELIVERIES_MAX),
            response_deadline: limits::RESPONSE_DEADLINE,
            probation: settings.probation,
            retention: settings.retention,
            exports: settings.exports,
            backups: BackupRules::default(),
            resubmissions_max: limits::RESUBMISSIONS_MAX,
        };
        let broker = Broker::start(store.clone(), outbound, options)
            .await
            .expect("a broker");
        let people = People::open(
            store.accounts.clone(),
            broker.clock().clone(),
            broker.entropy().clone(),
        );
        let people = people.await.expect("people");
        let state = api_state(&broker, &store, people);
        let doors = Doors::new(state.clone(), Router::new());
        let started_at = clock.now();
        Self {
            broker,
            store,
            clock,
            state,
            doors,
            world,
            started_at,
            settings,
            pending_expected: false,
            memory: None,
            operations: Arc::default(),
        }
    }

    /// The appliance after a crash: the same disk, nothing else.
    pub(crate) async fn restarted(mut self) -> Self {
        self.pending_expected = true;
        let (store, clock, world) = (
            self.store.clone(),
            self.clock.clone(),
            Arc::clone(&self.world),
        );
        let (started_at, memory) = (self.started_at, self.memory.take());
        let settings = Settings {
            crashes: self.settings.crashes + 1,
            ..self.settings.clone()
        };
        let operations = Arc::clone(&self.operations);
        drop(self);
        let mut grid = Self::over(store, clock, world, settings).await;
        grid.started_at = started_at;
        grid.memory = memory;
        grid.operations = operations;
        grid
    }

    /// A topic with the Event Grid schema.
    pub(crate) async fn topic(self, name: &str) -> Self {
        self.topic_with(name, json!({})).await
    }

    /// A topic with these properties.
    pub(crate) async fn topic_with(self, name: &str, properties: Value) -> Self {
        let body = json!({"location": "local", "properties": properties});
        let reply = self
            .manage(Method::PUT, &format!("/topics/{name}"), body)
            .await;
        assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text);
        self
    }

    /// A subscription `topic/name` whose receiver answers by `script`, without a handshake.
    pub(crate) async fn push(self, topic: &str, name: &str, script: &str) -> Self {
        self.push_with(topic, name, script, json!({})).await
    }

    /// The same, with further properties.
    pub(crate) async fn push_with(
        self,
        topic: &str,
        name: &str,
        script: &str,
        properties: Value,
    ) -> Self {
        self.script(name, script);
        let mut body = json!({"destination": {"endpointType": "WebHook", "properties": {
            "endpointUrl": format!("http://{name}.test/hook?code=secret"), "skipValidation": true}}});
        merge(&mut body, &properties);
        let path = format!("/topics/{topic}/eventSubscriptions/{name}");
        let reply = self
            .manage(Method::PUT, &path, json!({"properties": body}))
            .await;
        assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text);
        self
    }

    /// From now on the receiver of `name` answers by `script`.
    pub(crate) fn script(&self, name: &str, script: &str) {
        let replies = script.split_whitespace().map(Reply::parse).collect();
        self.reply(name, replies);
    }

    /// From now on the receiver of `name` answers this.
    pub(crate) fn answer(
        &self,
        name: &str,
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
    ) {
        let reply = Reply::Answer {
            status,
            headers,
            body,
        };
        self.reply(name, vec![reply]);
    }

    /// From now on the receiver of `name` answers 200 with a body that it makes of the request.
    pub(crate) fn echo(
        &self,
        name: &str,
        headers: Vec<(&'static str, String)>,
        body: impl Fn(&TransportRequest) -> String + Send + Sync + 'static,
    ) {
        let body = Arc::new(body);
        self.reply(name, vec![Reply::Echo { headers, body }]);
    }

    fn reply(&self, name: &str, replies: Vec<Reply>) {
        let mut scripts = self.world.scripts.lock().unwrap();
        scripts.insert(format!("{name}.test"), replies);
    }

    /// The receiver of `name` answers everything that it left waiting (the word `late`).
    pub(crate) async fn answer_late(&self, name: &str, status: u16) {
        let waiting = self
            .world
            .late
            .lock()
            .unwrap()
            .remove(&format!("{name}.test"));
        for tell in waiting.expect("requests that wait") {
            // Nobody listens any more where the appliance has stopped.
            let _ = tell.send(plain(status));
        }
        // The store works on the caller's thread, so whoever listens is done within a few turns.
        for _ in 0..32 {
            tokio::task::yield_now().await;
        }
    }

    /// What the receiver of `name` was asked, oldest first.
    pub(crate) fn heard(&self, name: &str) -> Vec<TransportRequest> {
        let heard = self.world.heard.lock().unwrap();
        let host = format!("{name}.test");
        heard
            .iter()
            .filter(|each| each.url.host_str() == Some(host.as_str()))
            .cloned()
            .collect()
    }

    /// Sends any request to the appliance.
    pub(crate) async fn send(&self, request: Request<Body>) -> SendResult {
        let response = self.doors.clone().answer(request).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        if self.settings.change_deliveries_max.is_none() {
            // It fails while the disk is full.
            let _ = self.broker.finish().await;
        }
        SendResult {
            status: parts.status,
            headers: parts.headers,
            text,
        }
    }

    /// A request with the management token; `null` stands for no body.
    pub(crate) async fn manage(&self, method: Method, path: &str, body: Value) -> SendResult {
        let text = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json")
            .body(Body::from(text));
        self.send(request.expect("a request")).await
    }

    /// Takes all room from a store in memory, or gives it back.
    pub(crate) fn set_disk_full(&self, full: bool) {
        let memory = self.memory.as_ref().expect("a store in memory");
        memory.set_full(full).expect("a limit");
    }

    /// Time passes, and nobody serves what falls due.
    pub(crate) fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// An event subscription as the management API shows it: its properties.
    pub(crate) async fn show(&self, topic: &str, name: &str) -> Value {
        let path = format!("/topics/{topic}/eventSubscriptions/{name}");
        let shown = self.manage(Method::GET, &path, Value::Null).await;
        assert_eq!(shown.status, StatusCode::OK, "{}", shown.text);
        shown.json()["properties"].clone()
    }

    /// The first key of a topic.
    pub(crate) async fn key(&self, topic: &str) -> String {
        let path = format!("/topics/{topic}/listKeys");
        let keys = self.manage(Method::POST, &path, Value::Null).await;
        keys.json()["key1"].as_str().expect("a key").to_owned()
    }

    /// Publishes a body with the topic's key.
    pub(crate) async fn post(&self, topic: &str, body: impl ToString) -> SendResult {
        let request = Request::post(format!("/topics/{topic}/api/events"))
            .header("aeg-sas-key", self.key(topic).await)
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()));
        self.send(request.expect("a request")).await
    }

    /// Publishes one event of the Event Grid schema, which must be accepted.
    pub(crate) async fn publish(&self, topic: &str, event: Value) {
        let reply = self.post(topic, json!([event])).await;
        assert_eq!((reply.status, reply.text.as_str()), (StatusCode::OK, ""));
    }

    /// Serves everything that falls due while `time` passes.
    pub(crate) async fn run_for(&self, time: Duration) {
        let end = self.clock.now() + time;
        loop {
            self.broker.run_due().await;
            let now = self.clock.now();
            let next = self
                .broker
                .next_due()
                .filter(|next| *next <= end)
                .unwrap_or(end);
            self.clock.advance(next.since(now));
            if now >= end {
                return;
            }
        }
    }

    /// The attempts of a subscription's deliveries and how they ended, as a person would read them.
    pub(crate) async fn timeline(&self, subscription: &str) -> String {
        let mut lines = Vec::new();
        let events = self
            .manage(Method::GET, "/everpost/events?limit=200", Value::Null)
            .await
            .json();
        for event in events["value"].as_array().expect("events").iter().rev() {
            let path = format!("/everpost/events/{}", event["key"]);
            let event = self.manage(Method::GET, &path, Value::Null).await.json();
            for delivery in event["deliveries"].as_array().expect("deliveries") {
                if delivery["subscription"] == subscription {
                    lines.push(self.line(&event, delivery));
                }
            }
        }
        lines.join("\n")
    }

    fn line(&self, event: &Value, delivery: &Value) -> String {
        let mut line = event["id"].as_str().expect("an id").to_owned();
        for attempt in delivery["deliveryAttempts"].as_array().expect("attempts") {
            let status = &attempt["httpStatusCode"];
            let said = if status.is_null() {
                &attempt["outcome"]
            } else {
                status
            };
            let said = said.to_string().replace('"', "");
            let _ = write!(line, " {}={said}", self.offset(&attempt["startedAt"]));
        }
        match delivery["state"].as_str().expect("a state") {
            "Pending" => {
                let _ = write!(line, " next {}", self.offset(&delivery["nextAttemptAt"]));
            }
            "Delivered" => line.push_str(" Delivered"),
            state => {
                let reason = delivery["deadLetterReason"].as_str().unwrap_or("?");
                let ended = self.offset(&delivery["endedAt"]);
                let _ = write!(line, " {state} {ended} {reason}");
            }
        }
        line
    }

    /// Whole seconds since the start: jitter is a tenth at most, and the schedules are far apart.
    fn offset(&self, at: &Value) -> String {
        let at: Timestamp = at.as_str().expect("a moment").parse().expect("RFC 3339");
        format!("+{}s", at.since(self.started_at).as_secs())
    }

    /// Says that deliveries may still be pending at the end of the test.
    pub(crate) fn leave(mut self) {
        self.pending_expected = true;
    }
}

impl Grid {
    /// Every delivery is accounted for, and the counters say what the rows say.
    fn check_accounts(&self, id: SubscriptionId) {
        let count = |recount| {
            let query = TotalsQuery {
                subscriptions: vec![id],
                recount,
            };
            at_once(self.store.ledger.totals(query)).expect("totals")[0]
        };
        let (totals, recount) = (count(false), count(true));
        assert!(totals.balance(), "{totals:?}");
        let counted = (totals.pending, totals.dead_letters);
        assert_eq!(counted, (recount.pending, recount.dead_letters));
    }
}

/// The result of a future that is ready at once: the store of a grid works on the caller's thread.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the store of a grid answers at once"),
    }
}

impl Drop for Grid {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let registry = self.broker.registry();
        let all: Vec<_> = registry.subscriptions().map(|(_, each)| each.id).collect();
        if self.memory.is_some() {
            for id in &all {
                self.check_accounts(*id);
            }
        }
        if self.pending_expected {
            return;
        }
        let all = all.into_iter().map(QueueRef::pending).collect();
        let pending = at_once(self.store.ledger.agenda(all)).expect("an agenda");
        assert!(
            pending.is_empty(),
            "deliveries are neither settled nor expected to be pending: {pending:?}"
        );
    }
}

/// An event of the Event Grid schema.
pub(crate) fn event(id: &str) -> Value {
    json!({
        "id": id, "subject": "/orders/7", "eventType": "Order.Paid",
        "eventTime": "2026-11-21T06:40:53Z", "data": {"total": 12.5}, "dataVersion": "1.0",
    })
}

fn merge(into: &mut Value, from: &Value) {
    let Some(from) = from.as_object() else {
        *into = from.clone();
        return;
    };
    for (name, value) in from {
        match into.get_mut(name) {
            Some(present) if present.is_object() => merge(present, value),
            _ => into[name] = value.clone(),
        }
    }
}
