//! Starts the store, the broker, the request handlers and the dispatcher, and stops them.

use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use futures_util::future::BoxFuture;
use listenfd::ListenFd;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::{self, AdminState};
use crate::api::{
    self, ApiOptions, ApiParts, AzureScope, BodyMemory, Denials, DevMode, Doors, Guesses,
    ManagementToken, Memory, amqp,
};
use crate::app::config::{CONFIG_FILE, Config};
use crate::app::forwarded::TrustedProxies;
use crate::app::interrupt::Interrupts;
use crate::app::provisioning::Provisioning;
use crate::app::running_settings::running_settings;
use crate::app::telemetry::{self, ProcessLog};
use crate::app::tls::{self, Tls};
use crate::app::{claim, facts, listen, management_token, open_files};
use crate::base::{Clock, Entropy, Live, TimeScale, Timestamp};
use crate::broker::diagnostics::{Connections, Diagnostics, RuntimeInfo, Tasks};
use crate::broker::people::{GroupRoles, People};
use crate::broker::people::{ProxyHeaders, SetupLink, SignInOptions};
use crate::broker::{Broker, BrokerOptions, CertificateEnd};
use crate::model::backup::BackupRules;
use crate::model::blob_storage::S3Account;
use crate::model::export::ExportRules;
use crate::model::limits::CHANGE_DELIVERIES_MAX;
use crate::model::own_host::{OwnHost, OwnHosts};
use crate::model::probation::ProbationRules;
use crate::model::registry::ResourceScope;
use crate::model::retention::RetentionRules;
use crate::model::setting::SavedSettings;
use crate::outbound::egress::EgressPolicy;
use crate::outbound::identity_provider::ProviderOptions;
use crate::outbound::transport::{HttpTransport, NetworkOptions, NetworkTransport};
use crate::outbound::{Outbound, OutboundOptions};
use crate::store::{DataDir, MASTER_KEY_FILE, OnFatal, Store, StoreOptions, write_private};

/// The exit code after a failure of the database or of a background task (`EX_IOERR` of sysexits.h).
const EXIT_FAILED: i32 = 74;

/// The maximum time at a stop for the tasks that use the store to end and for the store to checkpoint its log.
const STORE_CLOSES_WITHIN: Duration = Duration::from_secs(5);

const _: () = assert!(
    2 * amqp::CLOSE_DEADLINE.as_secs() < STORE_CLOSES_WITHIN.as_secs(),
    "no client may keep the database from being closed"
);

/// The maximum number of connections that wait to be accepted. When the queue is full, clients retry after a second. A
/// few thousand new connections per second would fill the default queue of 128.
const BACKLOG: u32 = 1_024;

/// The exit code after a second interrupt during the stop.
const EXIT_INTERRUPTED: i32 = 130;

/// The file in the data directory from which the command line reads the server's URL. An optional second line has the
/// address to connect to, which then replaces the DNS lookup of the URL's host.
pub const SERVER_URL_FILE: &str = "server.url";

/// The files of a data directory besides the database. All other files are created again at the start.
pub(super) const BESIDE_DATABASE: &[&str] = &[
    MASTER_KEY_FILE,
    management_token::FILE,
    CONFIG_FILE,
    tls::AUTHORITY_FILE,
    tls::KEY_FILE,
];

/// Serves until told to stop: `everpost serve`.
pub fn serve(config: Config) -> anyhow::Result<ExitCode> {
    let log = telemetry::start(config.log_format, &config.log_level)?;
    runtime()?.block_on(async {
        // Interrupts are handled before the start, since a client may stop the server as soon as it is ready.
        let mut interrupts = Interrupts::listen()?;
        let appliance = Appliance::start(config, log, inherited_sockets()?).await?;
        for line in appliance.banner() {
            println!("{line}");
        }
        interrupts.next().await;
        tracing::info!("stopping; letting deliveries in flight finish");
        tokio::spawn(async move {
            interrupts.next().await;
            std::process::exit(EXIT_INTERRUPTED);
        });
        appliance.stop().await;
        Ok(ExitCode::SUCCESS)
    })
}

/// Makes the runtime with one worker thread fewer than there are cores, since the store's writer has its own thread.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.saturating_sub(1).max(1))
        .enable_all()
        .build()
        .context("the runtime could not be started")
}

/// A running appliance.
pub struct Appliance {
    /// The configuration in force.
    config: Live<Config>,
    data_dir: Arc<DataDir>,
    broker: Broker,
    /// Completes when the store is no longer used.
    store_closed: BoxFuture<'static, ()>,
    url: String,
    /// The listening addresses after the first.
    more: Vec<SocketAddr>,
    /// The set-up link, if the appliance was not claimed at the start.
    setup_url: Option<String>,
    background: BackgroundTasks,
    stop_listening: CancellationToken,
    listening: JoinHandle<()>,
    /// Is true if the service manager also holds the socket and keeps it open for the next process.
    socket_is_kept: bool,
    /// Notified when a client asks to replace this appliance with a new one.
    reset: Arc<Notify>,
}

impl Appliance {
    /// Opens the store, listens for requests and starts to deliver, with the saved settings applied. If `kept` has
    /// listening sockets, they replace the configured addresses and stay open after a stop.
    pub async fn start(
        config: Config,
        log: ProcessLog,
        kept: Vec<StdTcpListener>,
    ) -> anyhow::Result<Self> {
        let clock = Clock::system();
        let data = OpenedData::open(config, &log, &clock).await?;
        let sockets = Sockets::open(&data, kept, clock.now())?;
        let core = Core::start(&data, &sockets, log, clock).await?;
        let stop_listening = CancellationToken::new();
        let servers = Servers::open(&data, &sockets, &core, &stop_listening);
        let background = BackgroundTasks::start(&core, sockets.tls.clone());
        provision(&data.config, &servers.doors, &core).await?;
        sockets.write_url_file(&data);
        let (more, url) = (sockets.addresses[1..].to_vec(), sockets.url.clone());
        let (socket_is_kept, reset) = (sockets.is_kept, servers.reset.clone());
        let setup_url = servers.setup_url.clone();
        let listening = serve_connections(sockets, &data.config, &core, servers, &stop_listening);
        Ok(Self {
            config: core.config,
            data_dir: data.dir,
            broker: core.broker,
            store_closed: Box::pin(data.store.closed()),
            url,
            more,
            setup_url,
            background,
            stop_listening,
            listening,
            socket_is_kept,
            reset,
        })
    }

    /// Returns the URL of the first address that the appliance listens on.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Waits until a client of `everpost dev` asks for a new appliance in the place of this one.
    pub async fn reset(&self) {
        self.reset.notified().await;
    }

    fn listening_on(&self) -> String {
        let more = self.more.iter().map(|address| format!(" and {address}"));
        format!("listening on {}{}", self.url, more.collect::<String>())
    }

    /// Returns the lines to print at the start, at most eight.
    pub fn banner(&self) -> Vec<String> {
        let mut lines = vec![
            format!("everpost {}", env!("CARGO_PKG_VERSION")),
            format!("data directory  {}", self.data_dir.path().display()),
            self.listening_on(),
            format!("publish to      {}/topics/{{topic}}/api/events", self.url),
        ];
        match &self.setup_url {
            Some(link) => lines.push(format!("set up at       {link} (once, within 30 minutes)")),
            None => lines.push(format!("admin pages     {}/admin", self.url)),
        }
        let token = self.data_dir.file(management_token::FILE);
        lines.push(format!("token file      {}", token.display()));
        let config = self.config.get();
        if config.tls_dev {
            let authority = self.data_dir.file(tls::AUTHORITY_FILE);
            lines.push(format!("CA certificate  {}", authority.display()));
        }
        let scale = config.time_scale;
        if scale != TimeScale::REAL {
            lines.push(format!(
                "TIME SCALE {}: every wait of a delivery is that many times shorter; for tests and \
                 demonstrations only",
                scale.factor()
            ));
        }
        lines.push("press Ctrl-C to stop".to_owned());
        lines
    }

    /// Rejects new events, waits for the deliveries in flight, then closes the listeners. If the socket is kept, the
    /// listeners are closed first, so that new clients wait in the socket's queue for the next process.
    pub async fn stop(mut self) {
        if self.socket_is_kept {
            self.close_doors().await;
        }
        self.broker.stop();
        let drain = self.config.get().shutdown_drain;
        self.background.end_within(drain).await;
        if !self.socket_is_kept {
            self.close_doors().await;
        }
        self.broker.export_last_spans().await;
        let _ = std::fs::remove_file(self.data_dir.file(SERVER_URL_FILE));
        drop(self.broker);
        if tokio::time::timeout(STORE_CLOSES_WITHIN, self.store_closed)
            .await
            .is_err()
        {
            tracing::warn!("the database is still in use; the next start checks its integrity");
        }
    }

    /// Stops accepting connections, and waits for the requests on open connections.
    async fn close_doors(&mut self) {
        self.stop_listening.cancel();
        let _ = (&mut self.listening).await;
    }
}

/// The opened data directory, with the configuration in force.
struct OpenedData {
    dir: Arc<DataDir>,
    store: Store,
    people: People,
    token: ManagementToken,
    /// The configuration that the process was started with, without the saved settings.
    start: Config,
    saved: SavedSettings,
    /// The configuration with the saved settings.
    config: Config,
    /// Is false if the last process did not close the store.
    was_closed: bool,
    /// Is true while nobody has claimed the appliance and it can be claimed by a set-up link.
    needs_link: bool,
}

impl OpenedData {
    async fn open(start: Config, log: &ProcessLog, clock: &Clock) -> anyhow::Result<Self> {
        let entropy = Entropy::Os;
        let dir = Arc::new(DataDir::open(&start.data_dir)?);
        let was_closed = Store::was_closed(&dir);
        let store = open_store(&start, &dir, clock)?;
        let saved = store.settings.saved().await?;
        let (config, faults) = start.with_saved(&saved);
        for fault in faults {
            tracing::warn!(%fault, "a saved setting is not in force");
        }
        log.set_level(&config.log_level)?;
        let token = management_token::open(&dir, config.management_token.as_ref(), &entropy)?;
        let people = People::open(store.accounts.clone(), clock.clone(), entropy).await?;
        let needs_link = claim::needs_link(&config, &people).await?;
        Ok(Self {
            dir,
            store,
            people,
            token,
            start,
            saved,
            config,
            was_closed,
            needs_link,
        })
    }
}

/// The listening sockets with their TLS.
struct Sockets {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    tls: Option<Tls>,
    /// The URL of the first address.
    url: String,
    /// Is true if the service manager also holds the sockets.
    is_kept: bool,
}

impl Sockets {
    fn open(data: &OpenedData, kept: Vec<StdTcpListener>, now: Timestamp) -> anyhow::Result<Self> {
        let config = &data.config;
        let is_kept = !kept.is_empty();
        let listeners: Vec<TcpListener> = if is_kept {
            kept.into_iter()
                .map(for_runtime)
                .collect::<anyhow::Result<_>>()?
        } else {
            bind_all(&config.listen)?
        };
        let bound = listeners.iter().map(TcpListener::local_addr);
        let addresses = bound
            .collect::<io::Result<Vec<SocketAddr>>>()
            .context("the address could not be told")?;
        let tls = Tls::open(config, &data.dir, &tls_names(config, &addresses, now))?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        Ok(Self {
            url: format!("{scheme}://{}", addresses[0]),
            listeners,
            addresses,
            tls,
            is_kept,
        })
    }

    /// Writes the file from which the command line reads where this server is.
    fn write_url_file(&self, data: &OpenedData) {
        let file = data.dir.file(SERVER_URL_FILE);
        let public = known_as(&data.config, self.addresses[0]);
        let found_at = public.as_ref().unwrap_or(&self.url);
        if let Err(error) = write_private(&file, &format!("{found_at}\n")) {
            tracing::warn!(%error, file = %file.display(), "the command line will not find this server by itself");
        }
    }
}

/// The running broker, with all that watches and changes it.
struct Core {
    broker: Broker,
    diagnostics: Diagnostics,
    tasks: Tasks,
    connections: Connections,
    sign_in: SignInOptions,
    /// The setting `http.connections_per_client` in force.
    per_client: Live<usize>,
    /// The configuration in force.
    config: Live<Config>,
}

impl Core {
    async fn start(
        data: &OpenedData,
        sockets: &Sockets,
        log: ProcessLog,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        let config = &data.config;
        let outbound = outbound(config, &clock)?;
        let sign_in = sign_in(config, &outbound);
        let facts = facts::gather(config, &data.dir, &sockets.url, clock.now());
        let options = broker_options(config, clock, Entropy::Os, &sockets.url);
        let broker = Broker::start(data.store.clone(), outbound, options).await?;
        let per_client = Live::new(config.http_connections_per_client);
        let current = Live::new(config.clone());
        let apply = {
            let (broker, log, url) = (broker.clone(), log.clone(), sockets.url.clone());
            let (per_client, current) = (per_client.clone(), current.clone());
            move |config: &Config| {
                let (clock, entropy) = (broker.clock().clone(), broker.entropy().clone());
                let options = broker_options(config, clock, entropy, &url);
                broker
                    .set_options(options)
                    .map_err(|error| error.to_string())?;
                log.set_level(&config.log_level)
                    .map_err(|error| error.to_string())?;
                per_client.set(config.http_connections_per_client);
                current.set(config.clone());
                Ok(())
            }
        };
        let places = open_files::room_for_connections(config.http_connections_max);
        let connections = Connections::of_at_most(places);
        let tasks = Tasks::default();
        let diagnostics = Diagnostics::new(
            broker.clone(),
            RuntimeInfo {
                facts,
                settings: running_settings(data.start.clone(), data.saved.clone(), Box::new(apply)),
                log: log.tail,
                connections: connections.clone(),
                tasks: tasks.clone(),
            },
        );
        for found in diagnostics.found_at_start() {
            tracing::error!(found, "the database was damaged");
        }
        if !data.was_closed {
            tracing::info!("the last process was killed; checking the integrity of the database");
            drop(diagnostics.start_integrity_check()); // it goes on by itself
        }
        Ok(Self {
            broker,
            diagnostics,
            tasks,
            connections,
            sign_in,
            per_client,
            config: current,
        })
    }
}

/// The servers for clients: HTTP with the API and the admin pages, and AMQP.
struct Servers {
    doors: Doors,
    amqp: Arc<amqp::SharedServer>,
    /// The memory that requests and AMQP connections share.
    memory: Memory,
    /// The set-up link, if the appliance was not claimed at the start.
    setup_url: Option<String>,
    /// Notified when a client asks to replace this appliance with a new one.
    reset: Arc<Notify>,
}

impl Servers {
    fn open(
        data: &OpenedData,
        sockets: &Sockets,
        core: &Core,
        stop_listening: &CancellationToken,
    ) -> Self {
        let (config, broker) = (&data.config, &core.broker);
        let public_url = public_url(config, &sockets.url);
        let dev = config.dev.then(|| DevMode {
            closing: stop_listening.clone(),
            ..DevMode::default()
        });
        let reset = dev.clone().unwrap_or_default().reset;
        let setup = SetupLink::new(broker.entropy(), broker.clock());
        let (dir, stop) = (data.dir.path(), stop_listening.clone());
        let setup_url = if data.needs_link {
            Some(claim::write_down(
                &setup,
                &data.people,
                &public_url,
                dir,
                stop,
            ))
        } else {
            claim::forget(dir);
            None
        };
        let options = ApiOptions {
            dev,
            publish_bytes_max: config.publish_bytes_max,
            metrics_public: config.metrics_public,
            azure: azure_scope(config),
        };
        let pages = config.admin_enabled.then(|| AdminState {
            broker: broker.clone(),
            views: data.store.views.clone(),
            people: data.people.clone(),
            setup,
            hosts: OwnHosts::new(&config.admin_hosts, &sockets.addresses),
            diagnostics: core.diagnostics.clone(),
            local_user: config.admin_user.clone().filter(|_| config.dev),
            sign_in: core.sign_in.clone(),
            publish_bytes_max: config.publish_bytes_max,
            api_document: {
                let shown = options.clone();
                admin::api_document(move || api::document(&shown, &public_url))
            },
        });
        let parts = ApiParts {
            broker: broker.clone(),
            views: data.store.views.clone(),
            people: data.people.clone(),
            token: data.token.clone(),
            intake: BodyMemory::default(),
            denials: Denials::default(),
            guesses: Guesses::default(),
            diagnostics: core.diagnostics.clone(),
            options,
        };
        let state = parts.into();
        let memory = Memory::default();
        let container_id = format!("everpost-{}", broker.entropy().uuid());
        let (shared, stop) = (memory.clone(), stop_listening.clone());
        let amqp = Arc::new(api::amqp_server(&state, container_id, shared, stop));
        let others = admin_router(pages).merge(amqp::router(Arc::clone(&amqp)));
        Self {
            doors: Doors::new(state, others),
            amqp,
            memory,
            setup_url,
            reset,
        }
    }
}

/// The tasks whose end a stop waits for, and the requests that they have sent.
struct BackgroundTasks {
    dispatching: JoinHandle<()>,
    replaying: JoinHandle<()>,
    exporting: JoinHandle<()>,
    requests: TaskTracker,
}

impl BackgroundTasks {
    /// Starts all tasks of the broker. They run until it stops.
    fn start(core: &Core, tls: Option<Tls>) -> Self {
        let (tasks, broker) = (&core.tasks, &core.broker);
        let requests = TaskTracker::new();
        let dispatch = {
            let requests = requests.clone();
            move |broker: Broker| broker.dispatch(requests.clone())
        };
        let dispatching = tasks.run(broker, "dispatcher", dispatch, give_up);
        let replaying = tasks.run(broker, "replay", Broker::replay, give_up);
        let exporting = tasks.run(broker, "export", Broker::export, give_up);
        tasks.run(broker, "fan-out", Broker::run_unfinished, give_up);
        tasks.run(broker, "forwarder", Broker::run_forwarder, give_up);
        tasks.run(broker, "housekeeping", Broker::run_janitor, give_up);
        tasks.run(broker, "retention", Broker::run_retention, give_up);
        tasks.run(broker, "backup", Broker::run_backups, give_up);
        let diagnostics = core.diagnostics.clone();
        let checks = move |_| diagnostics.clone().run_integrity_checks();
        tasks.run(broker, "integrity", checks, give_up);
        tasks.run(broker, "traces", Broker::run_traces, give_up);
        let certificate_end: CertificateEnd =
            Arc::new(move || tls.as_ref().and_then(Tls::expires_at));
        let watch = move |broker: Broker| broker.run_alerts(Arc::clone(&certificate_end));
        tasks.run(broker, "alerts", watch, give_up);
        Self {
            dispatching,
            replaying,
            exporting,
            requests,
        }
    }

    /// Waits for the end of the tasks and of their requests, and gives up after `drain`.
    async fn end_within(&mut self, drain: Duration) {
        self.requests.close();
        let drained = tokio::time::timeout(drain, async {
            // The dispatcher ends first, since its current iteration may still start requests.
            let _ = (&mut self.dispatching).await;
            let _ = (&mut self.replaying).await;
            let _ = (&mut self.exporting).await;
            self.requests.wait().await;
        })
        .await;
        if drained.is_err() {
            tracing::warn!(
                requests = self.requests.len(),
                "deliveries in flight were cut off; they will be attempted again"
            );
        }
    }
}

/// Applies the files of the provisioning directory, if there is one, and then follows their changes.
async fn provision(config: &Config, doors: &Doors, core: &Core) -> anyhow::Result<()> {
    let Some(dir) = &config.provisioning_dir else {
        // Resources that came from files are no longer marked as provisioned.
        core.broker.set_provisioned(Vec::new()).await?;
        return Ok(());
    };
    let started = Provisioning::start(dir, doors.clone(), core.broker.clone());
    let provisioning = Arc::new(started.await?);
    let watch = move |_| {
        let provisioning = Arc::clone(&provisioning);
        async move { provisioning.watch().await }
    };
    core.tasks.run(&core.broker, "provisioning", watch, give_up);
    Ok(())
}

/// Serves connections until `stop_listening`.
fn serve_connections(
    sockets: Sockets,
    config: &Config,
    core: &Core,
    servers: Servers,
    stop_listening: &CancellationToken,
) -> JoinHandle<()> {
    let limits = listen::ConnectionLimits {
        overall: core.connections.clone(),
        per_client: core.per_client.clone(),
        proxies: TrustedProxies(config.http_trusted_proxies.clone().into()),
        memory: servers.memory,
    };
    let (proxies, memory) = (limits.proxies.clone(), limits.memory.clone());
    let doors = servers.doors;
    let service = move |address, shared| {
        let doors = doors.clone();
        let answer = move |request| doors.clone().answer(request);
        listen::answered(answer, address, proxies.clone(), memory.clone(), shared)
    };
    if let Some(tls) = sockets.tls.clone() {
        let stop = stop_listening.clone();
        tokio::spawn(stop.run_until_cancelled_owned(tls.follow_files()));
    }
    tokio::spawn(listen::serve(
        sockets.listeners,
        sockets.tls,
        limits,
        stop_listening.clone(),
        service,
        Some(servers.amqp),
    ))
}

pub(super) fn open_store(
    config: &Config,
    data_dir: &Arc<DataDir>,
    clock: &Clock,
) -> anyhow::Result<Store> {
    let options = StoreOptions {
        clock: clock.clone(),
        entropy: Entropy::Os,
        scope: scope(config),
        master_keys: config.master_keys.clone(),
        on_fatal: on_fatal(),
    };
    let store = Store::open(Arc::clone(data_dir), options, &|line| println!("{line}"))?;
    Ok(store)
}

/// Returns the handler that ends the process when the database can no longer be written or trusted. Publishers must
/// repeat unacknowledged events. The next start finds all acknowledged events.
fn on_fatal() -> OnFatal {
    Box::new(|error| {
        tracing::error!(%error, "the process ends");
        eprintln!("everpost: {error}");
        std::process::exit(EXIT_FAILED);
    })
}

/// Ends the process after an essential task has failed too often.
fn give_up(task: &'static str) {
    tracing::error!(task, "the process ends");
    eprintln!("everpost: the task {task} has failed too often");
    std::process::exit(EXIT_FAILED);
}

/// Returns the subscription and the resource group in resource ids, which are the first configured names.
fn scope(config: &Config) -> ResourceScope {
    let AzureScope {
        subscriptions,
        resource_groups,
    } = azure_scope(config);
    let first = |names: Vec<String>| names.into_iter().next().unwrap_or_default();
    ResourceScope {
        subscription: first(subscriptions),
        resource_group: first(resource_groups),
    }
}

fn azure_scope(config: &Config) -> AzureScope {
    let subscriptions = config.azure_subscription_id.iter();
    AzureScope {
        subscriptions: subscriptions.map(ToString::to_string).collect(),
        resource_groups: config.azure_resource_group.clone(),
    }
}

fn egress(config: &Config) -> EgressPolicy {
    EgressPolicy {
        allow: config.egress_allow.clone(),
        deny: Vec::new(),
        require_https: config.egress_require_https,
    }
}

pub(super) fn outbound(config: &Config, clock: &Clock) -> anyhow::Result<Outbound> {
    let network = NetworkTransport::new(NetworkOptions {
        egress: egress(config),
        clock: clock.clone(),
        extra_authorities: Vec::new(),
    })?;
    Ok(Outbound::new(OutboundOptions {
        transport: HttpTransport::Network(network),
        clock: clock.clone(),
        origin: config.webhook_origin.clone(),
        export_dir: config.dead_letter_export_dir.clone(),
    })
    .with_backups(backup_account(config))
    .with_collector(config.tracing_otlp_endpoint.clone()))
}

/// Returns the S3 account for backups, if it is configured.
fn backup_account(config: &Config) -> Option<S3Account> {
    let id = config.backup_s3_access_key_id.clone();
    let (access_key_id, secret_access_key) = id.zip(config.backup_s3_secret_access_key.clone())?;
    Some(S3Account {
        endpoint: config.backup_s3_endpoint.clone(),
        region: config.backup_s3_region.clone(),
        access_key_id,
        secret_access_key,
    })
}

fn sign_in(config: &Config, outbound: &Outbound) -> SignInOptions {
    let client = config
        .oidc_issuer
        .clone()
        .zip(config.oidc_client_id.clone());
    let provider = client.map(|(issuer, client_id)| {
        outbound.identity_provider(ProviderOptions {
            name: config.oidc_name.clone(),
            issuer,
            client_id,
            client_secret: config.oidc_client_secret.clone(),
            scopes: config.oidc_scopes.clone(),
            user_claim: config.oidc_user_claim.clone(),
            groups_claim: config.oidc_groups_claim.clone(),
        })
    });
    let proxy = config.sign_in_proxy_user_header.clone();
    SignInOptions {
        provider,
        proxy: proxy.map(|user| ProxyHeaders {
            user,
            groups: config.sign_in_proxy_groups_header.clone(),
        }),
        roles: GroupRoles {
            admin: config.sign_in_admin_groups.clone(),
            operator: config.sign_in_operator_groups.clone(),
            viewer: config.sign_in_viewer_groups.clone(),
        },
        hides_password: !config.sign_in_password_form,
    }
}

fn broker_options(config: &Config, clock: Clock, entropy: Entropy, own_url: &str) -> BrokerOptions {
    BrokerOptions {
        clock,
        entropy,
        time_scale: config.time_scale,
        public_url: public_url(config, own_url),
        public_url_is_set: config.public_url.is_some(),
        service_bus_tier: config.service_bus_tier,
        message_bytes_max: config.publish_bytes_max as u64,
        event_bytes_max: config.publish_event_bytes_max,
        egress: egress(config),
        in_flight_per_subscription: config.delivery_in_flight_per_subscription,
        in_flight_max: config.delivery_in_flight_max,
        free_bytes_min: config.storage_free_bytes_min,
        change_deliveries_max: CHANGE_DELIVERIES_MAX,
        response_deadline: config.delivery_response_deadline,
        probation: ProbationRules {
            failures: config.probation_failures,
            longest: config.probation_longest,
            mode: config.probation_mode,
        },
        retention: RetentionRules {
            delivered: config.retention_delivered,
            dead_letters: config.retention_dead_letters,
            bytes_max: Some(config.retention_bytes_max).filter(|most| *most > 0),
        },
        exports: ExportRules {
            delay: config.dead_letter_export_delay,
            when_unavailable: config.dead_letter_unavailable,
        },
        backups: BackupRules {
            dir: config.backup_dir.clone(),
            allowed: config.backup_allow.clone(),
            every: config.backup_every,
            keep: config.backup_keep,
            with_master_key: config.backup_with_master_key,
            beside: BESIDE_DATABASE,
        },
        resubmissions_max: config.replay_resubmissions_max,
    }
}

/// Returns the names for a development certificate.
fn tls_names(config: &Config, listening: &[SocketAddr], now: Timestamp) -> tls::CertificateNames {
    let public = config.public_url.as_ref().and_then(|url| url.host_str());
    let more = config.admin_hosts.iter().map(|host| match host {
        OwnHost::Name(name) => name.clone(),
        OwnHost::Address(address) => address.to_string(),
    });
    tls::CertificateNames {
        now,
        listening: listening.to_vec(),
        hosts: public.map(str::to_owned).into_iter().chain(more).collect(),
    }
}

/// Returns the contents of [`SERVER_URL_FILE`] for a configured certificate: the URL with the public host name, and the
/// listening address in a second line. Returns `None` without a certificate or a public URL.
fn known_as(config: &Config, listening: SocketAddr) -> Option<String> {
    config.tls_cert.as_ref()?;
    let host = config.public_url.as_ref()?.host_str()?;
    Some(format!("https://{host}:{}\n{listening}", listening.port()))
}

fn public_url(config: &Config, own: &str) -> String {
    let configured = config
        .public_url
        .as_ref()
        .map(|url| url.as_str().trim_end_matches('/'));
    configured.unwrap_or(own).to_owned()
}

/// The sockets that the service manager has opened for this process (systemd's socket activation).
fn inherited_sockets() -> anyhow::Result<Vec<StdTcpListener>> {
    let mut all = ListenFd::from_env();
    let inherited = (0..all.len()).filter_map(|place| all.take_tcp_listener(place).transpose());
    let inherited: io::Result<_> = inherited.collect();
    inherited.context("an inherited socket is no TCP socket that listens")
}

fn for_runtime(listener: StdTcpListener) -> anyhow::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    Ok(TcpListener::from_std(listener)?)
}

fn bind_all(addresses: &[SocketAddr]) -> anyhow::Result<Vec<TcpListener>> {
    addresses.iter().map(|address| bind(*address)).collect()
}

/// Returns a new listening socket.
pub fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = listening(address);
    listener.with_context(|| format!("cannot listen on {address}; choose another --listen"))
}

fn listening(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // Closed connections of an earlier run must not prevent listening on the address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn admin_router(pages: Option<AdminState>) -> Router {
    match pages {
        Some(pages) => Router::new()
            .nest("/admin", admin::routes(pages))
            // The nested routes do not match the trailing slash, which users may type.
            .route("/admin/", get(async || Redirect::permanent("/admin"))),
        None => Router::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn many_can_connect_before_the_first_is_accepted() {
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        let address = listener.local_addr().expect("its address");
        let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(10));
        let connected: Vec<_> = (0..300).map_while(|_| connect().ok()).collect();
        assert_eq!(connected.len(), 300);
    }
}
