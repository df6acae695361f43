//! Pages tried through the router, by somebody with a browser that runs no scripts.

mod activity;
mod api_reference;
mod audit;
mod charts;
mod credentials;
mod dead_letter_list;
mod deliver;
mod external;
mod filters;
mod first_event;
mod hostile;
mod inspectors;
mod live;
mod messages;
mod namespaces;
mod offers;
mod password_again;
mod people;
mod person;
mod playground;
mod protect;
mod publish;
mod queues;
mod rejected_events;
mod replays;
mod second_factor;
mod service_bus;
mod settings;
mod sign_in;
mod statements;
mod states;
mod subscription_form;
mod subscription_list;
mod system;
mod system_topics;
mod theme;
mod topic;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use axum::Router;
use http::{HeaderMap, HeaderValue};
use tokio_util::task::TaskTracker;

use crate::admin::tests::person::Person;
use crate::admin::tests::system::facts;
use crate::admin::{self, AdminState, ApiDocument, routes};
use crate::api::{self, ApiOptions, AzureScope};
use crate::base::{Clock, Entropy, LogTail, TimeScale, Timestamp};
use crate::broker::diagnostics::{Connections, Diagnostics, RuntimeInfo, setting_samples};
use crate::broker::people::People;
use crate::broker::people::{SetupLink, SignInOptions};
use crate::broker::{Broker, BrokerOptions};
use crate::model::audit::Caller;
use crate::model::backup::{BackupPlace, BackupRules};
use crate::model::export::ExportRules;
use crate::model::limits::{
    CHANGE_DELIVERIES_MAX, EVENT_BYTES_MAX, PUBLISH_BYTES_MAX, RESUBMISSIONS_MAX,
};
use crate::model::own_host::{OwnHost, OwnHosts};
use crate::model::probation::ProbationRules;
use crate::model::queue::ServiceBusTier;
use crate::model::registry::ResourceScope;
use crate::model::retention::RetentionRules;
use crate::outbound::egress::{EgressDenied, EgressPolicy};
use crate::outbound::transport::{
    HttpTransport, Responder, TransportError, TransportRequest, TransportResponse,
};
use crate::outbound::{Outbound, OutboundOptions};
use crate::store::accounts::Role;
use crate::store::{InlineDatabase, Store};

/// What the appliance serves to programs, made once for all of them.
static API_DOCUMENT: LazyLock<ApiDocument> = LazyLock::new(|| {
    let options = ApiOptions {
        publish_bytes_max: PUBLISH_BYTES_MAX,
        metrics_public: false,
        dev: None,
        azure: AzureScope::ANY,
    };
    admin::api_document(move || api::document(&options, "http://127.0.0.1:8080"))
});

const NAME: &str = "ann";
const PASSWORD: &str = "correct horse battery";

/// An appliance without a network, whose webhooks answer by a script.
struct Appliance {
    clock: Clock,
    broker: Broker,
    database: InlineDatabase,
    store: Store,
    people: People,
    setup: SetupLink,
    webhooks: Arc<Webhooks>,
    log: LogTail,
    router: Router,
}

impl Appliance {
    /// One that nobody has claimed.
    async fn unclaimed() -> Self {
        Self::at("http://127.0.0.1:8080").await
    }

    /// The same, and it calls what this lets it call.
    async fn calling(egress: EgressPolicy) -> Self {
        Self::with("http://127.0.0.1:8080", egress, |_| {
            SignInOptions::default()
        })
        .await
    }

    /// One whose public URL is this.
    async fn at(public_url: &str) -> Self {
        Self::with(public_url, EgressPolicy::default(), |_| {
            SignInOptions::default()
        })
        .await
    }

    async fn with(
        public_url: &str,
        egress: EgressPolicy,
        sign_in: impl FnOnce(&Outbound) -> SignInOptions,
    ) -> Self {
        let clock = Clock::simulated(Timestamp::from_ms(1_800_000_000_000));
        let entropy = Entropy::seeded(1);
        let scope = ResourceScope {
            subscription: "s".to_owned(),
            resource_group: "g".to_owned(),
        };
        let database = InlineDatabase::new().expect("a database");
        let store = Store::open_on(database.clone(), scope);
        let webhooks = Arc::new(Webhooks::default());
        let outbound = Outbound::new(OutboundOptions {
            transport: HttpTransport::Scripted(webhooks.clone()),
            clock: clock.clone(),
            origin: "eventgrid.azure.net".to_owned(),
            export_dir: None,
        });
        let sign_in = sign_in(&outbound);
        let options = BrokerOptions {
            clock: clock.clone(),
            entropy: entropy.clone(),
            time_scale: TimeScale::REAL,
            public_url: public_url.to_owned(),
            public_url_is_set: true,
            service_bus_tier: ServiceBusTier::default(),
            message_bytes_max: 1_048_576,
            event_bytes_max: EVENT_BYTES_MAX,
            egress,
            in_flight_per_subscription: 8,
            in_flight_max: 8,
            free_bytes_min: 0,
            change_deliveries_max: CHANGE_DELIVERIES_MAX,
            response_deadline: Duration::from_secs(30),
            probation: ProbationRules::default(),
            retention: RetentionRules::default(),
            exports: ExportRules::default(),
            backups: backup_rules(),
            resubmissions_max: RESUBMISSIONS_MAX,
        };
        let broker = Broker::start(store.clone(), outbound, options).await;
        let broker = broker.expect("a broker");
        tokio::spawn(broker.clone().dispatch(TaskTracker::new()));
        let setup = SetupLink::new(&entropy, &clock);
        let people = People::open(store.accounts.clone(), clock.clone(), entropy.clone());
        let people = people.await.expect("people");
        let log = LogTail::default();
        let runtime_info = RuntimeInfo {
            facts: facts(clock.now()),
            settings: setting_samples::running(),
            log: log.clone(),
            connections: Connections::of_at_most(7),
            ..RuntimeInfo::default()
        };
        let diagnostics = Diagnostics::new(broker.clone(), runtime_info);
        let admin = routes(AdminState {
            local_user: None,
            sign_in,
            broker: broker.clone(),
            views: store.views.clone(),
            people: people.clone(),
            setup: setup.clone(),
            hosts: own_hosts(),
            diagnostics,
            publish_bytes_max: PUBLISH_BYTES_MAX,
            api_document: Arc::clone(&API_DOCUMENT),
        });
        let router = Router::new().nest("/admin", admin);
        Self {
            clock,
            broker,
            database,
            store,
            people,
            setup,
            webhooks,
            log,
            router,
        }
    }

    /// One with an account, and its holder signed in.
    async fn claimed() -> (Self, Person) {
        Self::unclaimed().await.claim().await
    }

    async fn claim(self) -> (Self, Person) {
        let mut person = self.somebody();
        person.open(&self.setup.path()).await;
        let fields = [("name", NAME), ("password", PASSWORD)];
        let page = person.send("/admin/setup", &fields).await;
        assert_eq!(page.path, "/admin", "{}", page.body);
        (self, person)
    }

    /// Somebody of that role, signed in; the role is the name.
    async fn signed_in(&self, role: Role) -> Person {
        self.add_user(role.name(), role).await;
        let mut person = self.somebody();
        let page = person.sign_in(role.name(), PASSWORD).await;
        assert_eq!(page.path, "/admin", "{}", page.body);
        person
    }

    /// Adds a user with the usual password.
    async fn add_user(&self, name: &str, role: Role) {
        let by = &Caller::command_line(self.clock.now());
        let added = self.people.add(by, name, role, Some(PASSWORD)).await;
        added.expect("a new user");
    }

    /// Somebody who has never been here.
    fn somebody(&self) -> Person {
        Person::new(self.router.clone())
    }
}

/// What they make fails, since a store in memory has nothing to copy.
fn backup_rules() -> BackupRules {
    BackupRules {
        dir: Some(BackupPlace::Directory("/var".into())),
        every: Duration::from_secs(24 * 3_600),
        keep: 7,
        ..BackupRules::default()
    }
}

/// Besides those of this machine, `grid.lan`.
fn own_hosts() -> OwnHosts {
    let more = OwnHost::parse("grid.lan").expect("a host");
    let listening = "127.0.0.1:8080".parse().expect("an address");
    OwnHosts::new(&[more], &[listening])
}

/// Webhooks that agree to everything, but for `/barred`, which is never called, and answer deliveries one by one as told, then with 200.
#[derive(Default)]
struct Webhooks {
    answers: Mutex<VecDeque<TransportResponse>>,
    handshakes: AtomicUsize,
}

impl Webhooks {
    /// How often they were asked whether they want events.
    fn asked(&self) -> usize {
        self.handshakes.load(Ordering::Relaxed)
    }

    /// The next answer to a delivery.
    fn will_answer(&self, status: u16, header: &str, body: &str) {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_bytes(header.as_bytes()).expect("a header");
        headers.insert("x-answer", value);
        self.answers.lock().unwrap().push_back(TransportResponse {
            status,
            headers,
            body: body.as_bytes().to_vec(),
            remote_address: "192.0.2.7:443".parse().ok(),
        });
    }
}

#[async_trait::async_trait]
impl Responder for Webhooks {
    async fn respond(
        &self,
        request: &TransportRequest,
    ) -> Result<TransportResponse, TransportError> {
        if request.url.path() == "/barred" {
            return Err(TransportError::Denied(EgressDenied::PlainHttp));
        }
        let body = String::from_utf8_lossy(&request.body);
        let said = body.split("\"validationCode\":\"").nth(1);
        let code = said.and_then(|rest| rest.split('"').next());
        if let Some(code) = code {
            self.handshakes.fetch_add(1, Ordering::Relaxed);
            return Ok(ok(format!("{{\"validationResponse\":\"{code}\"}}")));
        }
        if request.url.path() == "/rejected" {
            return Err(TransportError::Socket("connection refused".to_owned()));
        }
        let message = self.answers.lock().unwrap().pop_front();
        Ok(message.unwrap_or_else(|| ok(String::new())))
    }
}

fn ok(body: String) -> TransportResponse {
    TransportResponse {
        status: 200,
        headers: HeaderMap::new(),
        body: body.into_bytes(),
        remote_address: None,
    }
}
