//! One life of the appliance, from its start to its crash: the real dispatcher and janitor over the
//! simulated clock, disk and world.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request};
use everpost::api::Doors;
use everpost::base::{Clock, Entropy, TimeScale};
use everpost::broker::people::People;
use everpost::broker::{Broker, BrokerOptions};
use everpost::model::backup::BackupRules;
use everpost::model::event::EventKey;
use everpost::model::export::ExportRules;
use everpost::model::limits;
use everpost::model::probation::ProbationRules;
use everpost::model::queue::ServiceBusTier;
use everpost::model::registry::ResourceScope;
use everpost::model::retention::RetentionRules;
use everpost::outbound::egress::EgressPolicy;
use everpost::outbound::transport::HttpTransport;
use everpost::outbound::{Outbound, OutboundOptions};
use everpost::store::views::EventDetail;
use everpost::store::{InlineDatabase, Pauses, Store, StoreError};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_util::task::TaskTracker;

use super::dice::Dice;
use super::ledger::Limits;
use super::world::World;
use crate::grid::{TOKEN, api_state};

/// Turns without anything happening after which nothing will.
const QUIET_TURNS: u32 = 16;

/// Turns after which an appliance that still does something never stops.
const TURNS_MAX: u32 = 200_000;

/// What outlives the appliance.
pub(super) struct Ground {
    pub(super) world: Arc<World>,
    pub(super) database: InlineDatabase,
    /// Whether the disk lets others go first.
    hurried: Arc<AtomicBool>,
    pub(super) probation: ProbationRules,
    pub(super) limits: Limits,
    pub(super) retention: RetentionRules,
    change_deliveries_max: usize,
}

/// The running appliance. Dropping it is the crash.
pub(super) struct Life {
    runtime: Runtime,
    world: Arc<World>,
    hurried: Arc<AtomicBool>,
    pub(super) broker: Broker,
    pub(super) store: Store,
    pub(super) clock: Clock,
    doors: Doors,
    /// Turns after which nothing more is waited for.
    turns_max: Cell<Option<u64>>,
}

impl Ground {
    pub(super) fn new(
        world: Arc<World>,
        dice: Dice,
        probation: ProbationRules,
        limits: Limits,
        retention: RetentionRules,
    ) -> Self {
        // Nearly every request is too large for one change, or none is.
        let change_deliveries_max = *dice.pick(&[1, 2, 5, limits::CHANGE_DELIVERIES_MAX]);
        let hurried = Arc::new(AtomicBool::new(false));
        let (watch, hurry) = (Arc::clone(&world), Arc::clone(&hurried));
        let pauses: Pauses = Arc::new(move || {
            watch.tick();
            match hurry.load(Ordering::Relaxed) {
                true => 0,
                false => dice.weighted(&[6, 2, 1, 1]),
            }
        });
        Self {
            world,
            database: InlineDatabase::with_pauses(pauses).expect("a database in memory"),
            hurried,
            probation,
            limits,
            retention,
            change_deliveries_max,
        }
    }
}

impl Ground {
    fn store(&self) -> Store {
        let scope = ResourceScope {
            subscription: "s".to_owned(),
            resource_group: "g".to_owned(),
        };
        Store::open_on(self.database.clone(), scope)
    }

    /// An event as a crash has left it.
    pub(super) fn look(&self, event: EventKey) -> Option<EventDetail> {
        self.hurried.store(true, Ordering::Relaxed);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let stored = runtime
            .expect("a runtime")
            .block_on(self.store().views.event(event));
        self.hurried.store(false, Ordering::Relaxed);
        stored.expect("an answer")
    }
}

impl Life {
    /// Starts the appliance over what is on the disk.
    pub(super) fn start(ground: &Ground, clock: &Clock, seed: u64) -> Result<Self, StoreError> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let store = ground.store();
        let outbound = Outbound::new(OutboundOptions {
            transport: HttpTransport::Scripted(Arc::clone(&ground.world) as _),
            clock: clock.clone(),
            origin: "eventgrid.azure.net".to_owned(),
            export_dir: None,
        });
        let options = BrokerOptions {
            clock: clock.clone(),
            entropy: Entropy::seeded(seed),
            time_scale: TimeScale::REAL,
            public_url: "http://everpost.test".to_owned(),
            public_url_is_set: true,
            service_bus_tier: ServiceBusTier::default(),
            message_bytes_max: 1_048_576,
            event_bytes_max: limits::EVENT_BYTES_MAX,
            egress: EgressPolicy::default(),
            in_flight_per_subscription: ground.limits.per_subscription,
            in_flight_max: ground.limits.overall,
            free_bytes_min: 0,
            change_deliveries_max: ground.change_deliveries_max,
            response_deadline: limits::RESPONSE_DEADLINE,
            probation: ground.probation,
            retention: ground.retention,
            exports: ExportRules::default(),
            backups: BackupRules::default(),
            resubmissions_max: u32::MAX,
        };
        let broker = runtime.block_on(Broker::start(store.clone(), outbound, options))?;
        let people = runtime.block_on(People::open(
            store.accounts.clone(),
            broker.clock().clone(),
            broker.entropy().clone(),
        ))?;
        let state = api_state(&broker, &store, people);
        runtime.spawn(broker.clone().dispatch(TaskTracker::new()));
        runtime.spawn(broker.clone().run_unfinished());
        runtime.spawn(broker.clone().run_janitor());
        let life = Self {
            runtime,
            world: Arc::clone(&ground.world),
            hurried: Arc::clone(&ground.hurried),
            broker,
            store,
            clock: clock.clone(),
            doors: Doors::new(state, Router::new()),
            turns_max: Cell::new(None),
        };
        life.act(async {});
        Ok(life)
    }

    /// From now on what follows from anything gets so many turns: a crash is about to come.
    pub(super) fn be_cut_off(&self, turns: u64) {
        self.turns_max.set(Some(turns));
    }

    /// Does something, and waits until everything that follows from it at once has happened.
    pub(super) fn act<T>(&self, action: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            let outcome = action.await;
            self.settle().await;
            outcome
        })
    }

    /// Asks the store something, with nobody in between.
    pub(super) fn look<T>(&self, question: impl Future<Output = T>) -> T {
        self.hurried.store(true, Ordering::Relaxed);
        let answer = self.runtime.block_on(question);
        self.hurried.store(false, Ordering::Relaxed);
        answer
    }

    /// Lets time pass: the clock's, and that of everybody who sleeps.
    pub(super) fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.world.scene().ledger.now = self.clock.now();
        self.act(async {
            tokio::time::advance(time).await;
            self.world.scene().speak();
        });
    }

    async fn settle(&self) {
        let ticks = || self.world.ticks.load(Ordering::Relaxed);
        if let Some(turns) = self.turns_max.get() {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            return;
        }
        let (mut quiet, mut seen) = (0, ticks());
        for _ in 0..TURNS_MAX {
            tokio::task::yield_now().await;
            quiet = if ticks() == seen { quiet + 1 } else { 0 };
            seen = ticks();
            if quiet == QUIET_TURNS {
                return;
            }
        }
        self.world
            .scene()
            .ledger
            .broken("the appliance never comes to rest");
    }

    /// A request with the management token. Returns the status and the body.
    pub(super) async fn manage(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let text = match body.is_null() {
            true => String::new(),
            false => body.to_string(),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json")
            .body(Body::from(text));
        let (status, text) = self.send(request.expect("a request")).await;
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// Any request. Returns the status and the body.
    pub(super) async fn send(&self, request: Request<Body>) -> (u16, String) {
        let response = self.doors.clone().answer(request).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        (parts.status.as_u16(), text)
    }
}
