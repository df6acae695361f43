//! The table of settings. The checked configuration, the file, the environment, the flags, `config show`, the
//! sample file and the suggestions for misspelt names are all made from it: a new setting is a row here.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use ipnet::IpNet;
use url::Url;
use uuid::Uuid;

use crate::app::config::SettingsReader;
use crate::app::config::keys::SettingKey;
use crate::app::config::listing;
use crate::app::config::raw::RawConfig;
use crate::app::config::values::{
    backup_place, client_secret, endpoint, file, group, header, host, host_name, hours, issuer,
    log_level, master_keys, mebibytes, network, number, password, path, public_url, resource_group,
    seconds, socket_address, switch, time_scale, token, user, uuid, visible, word,
};
use crate::base::TimeScale;
use crate::model::access::Secret;
use crate::model::backup::BackupPlace;
use crate::model::destination::EndpointUrl;
use crate::model::export::WhenUnavailable;
use crate::model::limits::{EXPORT_DELAY_S_MAX, PROBATION_LONGEST_S_MAX, RETENTION_HOURS_MAX};
use crate::model::own_host::OwnHost;
use crate::model::probation::ProbationMode;
use crate::model::queue::ServiceBusTier;
use crate::model::setting::SettingKind::{List, Number, Switch, Text};
use crate::model::setting::Settings;
use crate::store::MasterKeys;

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// Each row begins with its kind: `value` has a default; `optional` and `secret` may stay unset (then the text is an
/// example); `list` takes several values. It continues with the field and its type, the dotted name, a title, the
/// notation, the default, the parser, and the documentation with unit and bounds. `#[live]` precedes a setting that
/// can change while the appliance runs.
macro_rules! settings {
    (@default value $default:literal) => { Some($default) };
    (@default list $default:literal) => { Some($default) };
    (@default $kind:ident $default:literal) => { None };
    (@is_live live) => { true };
    (@is_live) => { false };
    (@take live $ours:expr, $theirs:expr) => { $ours = $theirs; };
    (@take $ours:expr, $theirs:expr) => {};
    ($($(#[$when:ident])? $kind:ident $field:ident: $type:ty = $name:literal, $title:literal, $written:expr, $default:literal, $parse:expr, $doc:literal;)*) => {
        /// The whole configuration, checked.
        #[derive(Clone, Debug)]
        pub struct Config {
            $(#[doc = $doc] pub $field: $type,)*
            /// Is true for `everpost dev`; this is no setting.
            pub dev: bool,
            /// All settings as they may be shown, without secrets.
            pub shown: Arc<Settings>,
            /// All settings as they were given.
            pub(super) raw: Arc<RawConfig>,
        }

        /// All settings, in the order in which they are shown.
        pub static KEYS: &[SettingKey] = &[$(SettingKey {
            name: $name,
            title: $title,
            kind: $written,
            default: settings!(@default $kind $default),
            example: $default,
            secret: matches!(stringify!($kind).as_bytes(), b"secret"),
            is_live: settings!(@is_live $($when)?),
            doc: $doc,
        }),*];

        impl Config {
            /// Takes over the settings that can change while the appliance runs.
            pub(super) fn take_live(&mut self, other: Self) {
                $(settings!(@take $($when)? self.$field, other.$field);)*
                self.shown = other.shown;
                self.raw = other.raw;
            }
        }

        /// Returns the problem of these values of a setting, if there is one.
        pub(super) fn problem_of(key: &SettingKey, values: &[String]) -> Option<String> {
            match key.name {
                $($name => first_problem(values, $parse),)*
                _ => None,
            }
        }

        impl SettingsReader<'_> {
            pub(super) fn config(&mut self) -> Config {
                Config {
                    $($field: self.$kind($name, $parse),)*
                    dev: false,
                    shown: Arc::new(listing::in_force(self.raw)),
                    raw: Arc::new(self.raw.clone()),
                }
            }
        }
    };
}

fn first_problem<T>(
    values: &[String],
    parse: impl Fn(&str) -> Result<T, String>,
) -> Option<String> {
    values.iter().find_map(|value| parse(value).err())
}

settings! {
    value data_dir: PathBuf = "data_dir", "Data directory", Text("DIR"), "everpost-data", path,
        "Directory of the database and of everything else that must survive. Made at the first start.";
    list listen: Vec<SocketAddr> = "listen", "Listen addresses", List("ADDRESS:PORT"), "127.0.0.1:8080", socket_address,
        "Addresses with ports to listen on, each of which speaks everything: HTTP, AMQP and WebSockets. Port 0 takes a free \
         one, 0.0.0.0 listens on every interface. Clients of Service Bus that are given no port go to 5671 and 443.";
    #[live]
    optional public_url: Option<Url> = "public_url", "Public URL", Text("URL"), "https://events.example.com", public_url,
        "URL by which publishers, receivers and browsers reach the appliance, if it is another than the one \
         that it listens on. Cookies follow a change between http and https at the next start.";
    optional tls_cert: Option<PathBuf> = "tls.cert", "TLS certificate", Text("FILE"), "/etc/everpost/tls.pem", file,
        "File with the certificate chain, in PEM, for HTTPS and for AMQP over TLS. It is loaded again when it changes. \
         Goes with tls.key.";
    optional tls_key: Option<PathBuf> = "tls.key", "TLS key", Text("FILE"), "/etc/everpost/tls.key", file,
        "File with the private key of that certificate, in PEM without a password.";
    value tls_dev: bool = "tls.dev", "TLS for development", Switch, "false", switch,
        "Serves HTTPS, and AMQP over TLS, with a certificate made at each start. Clients have to trust the certificate \
         authority in the data directory, tls-dev-ca.pem. For development only; not together with tls.cert.";
    value time_scale: TimeScale = "time_scale", "Time scale", Number, "1", time_scale,
        "How many times faster than real the waits between attempts pass. Above 1 is for tests and \
         demonstrations.";
    value log_format: LogFormat = "log.format", "Format", Text("text|json"), "text",
        word(&[("text", LogFormat::Text), ("json", LogFormat::Json)]),
        "Form of the log on standard error: \"text\" for people, \"json\" for programs.";
    #[live]
    value log_level: String = "log.level", "Level", Text("LEVEL"), "info", log_level,
        "How much is logged: off, error, warn, info, debug or trace. Single modules can differ, as in \
         \"info,everpost::broker=debug\".";
    #[live]
    list egress_allow: Vec<IpNet> = "egress.allow", "Allowed private networks", List("NETWORK"), "", network,
        "Networks that webhooks may be called in although they are not public, such as 127.0.0.1/32 for \
         receivers on this machine or 10.0.0.0/8 for a private network.";
    #[live]
    value egress_require_https: bool = "egress.require_https", "Require HTTPS", Switch, "false", switch,
        "Rejects webhooks whose URL is not https.";
    list azure_subscription_id: Vec<Uuid> = "azure.subscription_id", "Subscription IDs", List("UUID"), "00000000-0000-0000-0000-000000000000",
        uuid,
        "Azure subscription in the resource ids that clients and receivers see: a UUID. Further ones are known in \
         paths too.";
    list azure_resource_group: Vec<String> = "azure.resource_group", "Resource groups", List("NAME"), "everpost", resource_group,
        "Azure resource group in the resource ids that clients and receivers see. Further ones are known in \
         paths too.";
    value service_bus_tier: ServiceBusTier = "service_bus.tier", "Service Bus tier", Text("premium|standard"), "premium",
        word(&[("premium", ServiceBusTier::Premium), ("standard", ServiceBusTier::Standard)]),
        "Azure Service Bus tier whose limits apply. With \"premium\" each queue and topic sets how large its messages may \
         be; with \"standard\" they have up to 256 KB everywhere.";
    value webhook_origin: String = "webhook.origin", "CloudEvents origin", Text("HOST"), "eventgrid.azure.net", host_name,
        "Host name that the appliance sends as its origin to receivers of CloudEvents.";
    #[live]
    value delivery_in_flight_per_subscription: usize = "delivery.in_flight_per_subscription", "Requests per subscription", Number, "32",
        number(1..=10_000),
        "Requests that may be in flight to one event subscription at once, 1 to 10,000.";
    #[live]
    value delivery_in_flight_max: usize = "delivery.in_flight_max", "Requests in total", Number, "1024", number(0..=10_000),
        "Requests that may be in flight at once over all event subscriptions, 0 to 10,000; with 0 nothing is delivered, and \
         events wait.";
    #[live]
    value delivery_response_deadline: Duration = "delivery.response_deadline_s", "Response timeout", Number, "30", seconds(1..=600),
        "Seconds that a webhook has to answer, 1 to 600.";
    #[live]
    value probation_mode: ProbationMode = "probation.mode", "Probation mode", Text("hold|azure"), "hold",
        word(&[("hold", ProbationMode::Hold), ("azure", ProbationMode::Azure)]),
        "What happens to events that fall due while a subscription is on probation: \"hold\" holds them back, \
         \"azure\" counts an attempt that is not made, and dead-letters them after a client error.";
    #[live]
    value probation_failures: u32 = "probation.failures", "Failures before probation", Number, "10", number(1..=1_000_000),
        "Failures in a row that put a subscription on probation, 1 to 1,000,000.";
    #[live]
    value probation_longest: Duration = "probation.longest_s", "Longest probation", Number, "3600",
        seconds(10..=PROBATION_LONGEST_S_MAX),
        "Seconds that a probation lasts at most, 10 to 14,400; each failed probe doubles it up to there.";
    #[live]
    value replay_resubmissions_max: u32 = "replay.resubmissions_max", "Resubmissions of one event", Number, "10", number(1..=1_000),
        "How many resubmissions may lead from an event to its latest copy, 1 to 1000; one more is rejected, \
         because something is going round in circles.";
    optional provisioning_dir: Option<PathBuf> = "provisioning.dir", "Provisioning directory", Text("DIR"), "/etc/everpost/provisioning", path,
        "Directory, which must exist, with files of topics, event subscriptions, queues and so on, as for `everpost apply`. \
         They are applied at the start and whenever a file changes, and nobody else changes what is in them.";
    value publish_bytes_max: usize = "publish.bytes_max", "Maximum request size", Number, "1536000", number(1_024..=67_108_864),
        "Bytes of one publish request, 1,024 to 67,108,864.";
    value publish_event_bytes_max: usize = "publish.event_bytes_max", "Maximum event size", Number, "1049600", number(1_024..=67_108_864),
        "Bytes of one event in a publish request, 1,024 to 67,108,864.";
    secret management_token: Option<Secret> = "management.token", "Management token", Text("TEXT"), "", token,
        "Bearer token of the management API, at least 16 characters. Without it one is made and kept in the \
         file management.token of the data directory.";
    secret master_keys: Option<MasterKeys> = "master_key", "Master key", Text("TEXT"), "", master_keys,
        "Key that encrypts the secrets in the database: 32 bytes in base64, as from `openssl rand -base64 \
         32`. Without it one is made and kept in the file master.key of the data directory. Older keys may \
         follow it, a line each; what they encrypted is encrypted again at the next start.";
    value metrics_public: bool = "metrics.public", "Public metrics", Switch, "false", switch,
        "Answers /metrics without the management token.";
    value admin_enabled: bool = "admin.enabled", "Admin pages", Switch, "true", switch,
        "Serves the admin pages.";
    list admin_hosts: Vec<OwnHost> = "admin.hosts", "Admin hosts", List("HOST"), "", host,
        "Hosts, without ports, that browsers may use for the admin pages, besides that of public_url, the \
         address that is listened on, and localhost: names such as events.lan, or addresses. Requests for \
         others are rejected, since anybody can point a name of theirs here.";
    optional admin_user: Option<String> = "admin.user", "Administrator", Text("NAME"), "admin", user,
        "Name of the administrator, for installations that nobody sets up by hand. Goes with admin.password.";
    secret admin_password: Option<Secret> = "admin.password", "Administrator's password", Text("TEXT"), "", password,
        "Password of the administrator, at least 8 characters. Goes with admin.user.";
    value sign_in_password_form: bool = "sign_in.password_form", "Password form", Switch, "true", switch,
        "Lets local users sign in to the admin pages with their passwords. Without it, everybody is signed in by \
         oidc.issuer or sign_in.proxy_user_header.";
    list sign_in_admin_groups: Vec<String> = "sign_in.admin_groups", "Groups of administrators", List("GROUP"), "", group,
        "Groups at oidc.issuer, or of sign_in.proxy_groups_header, whose people have the role admin; * for everybody. The \
         strongest role that somebody's groups have counts, and whoever has none is rejected.";
    list sign_in_operator_groups: Vec<String> = "sign_in.operator_groups", "Groups of operators", List("GROUP"), "", group,
        "Groups whose people have the role operator.";
    list sign_in_viewer_groups: Vec<String> = "sign_in.viewer_groups", "Groups of viewers", List("GROUP"), "", group,
        "Groups whose people have the role viewer.";
    optional sign_in_proxy_user_header: Option<HeaderName> = "sign_in.proxy_user_header", "User header", Text("HEADER"),
        "X-Forwarded-User", header,
        "Header in which a reverse proxy names whom it has signed in. It is believed for the admin pages, and from \
         http.trusted_proxies alone, which have to remove it from what they are sent.";
    value sign_in_proxy_groups_header: HeaderName = "sign_in.proxy_groups_header", "Groups header", Text("HEADER"),
        "X-Forwarded-Groups", header,
        "Header in which that proxy names the user's groups, separated by commas.";
    optional oidc_issuer: Option<String> = "oidc.issuer", "Issuer", Text("URL"), "https://login.example.com/realms/main", issuer,
        "OpenID Connect provider that people sign in to the admin pages with: its issuer URL, exactly as it calls itself. \
         It must be allowed by the egress policy. Goes with oidc.client_id.";
    optional oidc_client_id: Option<String> = "oidc.client_id", "Client ID", Text("ID"), "everpost", visible,
        "Name of the appliance at the provider. Its redirect URL there is /admin/login/callback below public_url.";
    secret oidc_client_secret: Option<Secret> = "oidc.client_secret", "Client secret", Text("TEXT"), "", client_secret,
        "Secret of that client. Without it, it is a public client, which PKCE alone protects.";
    value oidc_name: String = "oidc.name", "Provider's name", Text("NAME"), "OpenID Connect", user,
        "What people call the provider: the button says \"Sign in with NAME\".";
    list oidc_scopes: Vec<String> = "oidc.scopes", "Scopes", List("SCOPE"), "openid,profile,email", visible,
        "Scopes to ask the provider for.";
    value oidc_user_claim: String = "oidc.user_claim", "User claim", Text("CLAIM"), "preferred_username", visible,
        "Claim that names the user here, such as preferred_username or email.";
    value oidc_groups_claim: String = "oidc.groups_claim", "Groups claim", Text("CLAIM"), "groups", visible,
        "Claim with the user's groups, or the path to it, such as realm_access.roles.";
    value http_connections_max: usize = "http.connections_max", "Connections", Number, "10000", number(1..=1_000_000),
        "Connections that are served at once, 1 to 1,000,000, as far as the limit of open files has room for them; for each further one, a connection that has shown no key is closed.";
    #[live]
    value http_connections_per_client: usize = "http.connections_per_client", "Connections per client", Number, "1000", number(1..=1_000_000),
        "Connections that are served at once from one address (from one /64 network of IPv6), 1 to 1,000,000; \
         more of them are closed. It does not hold for http.trusted_proxies.";
    list http_trusted_proxies: Vec<IpNet> = "http.trusted_proxies", "Trusted proxies", List("NETWORK"), "", network,
        "Networks of the reverse proxies in front of the appliance, such as 127.0.0.1/32. Of requests from there, the \
         address of the client is what X-Forwarded-For or Forwarded says; of all others, that of the connection.";
    #[live]
    value storage_free_bytes_min: u64 = "storage.min_free_mb", "Minimum free disk", Number, "512", mebibytes,
        "Mebibytes that must be free on the disk of the data directory; with less, publishers are told to \
         come back later, while what is stored already is still delivered.";
    #[live]
    value retention_delivered: Duration = "retention.hours", "Retention of delivered events", Number, "168", hours(0..=RETENTION_HOURS_MAX),
        "Hours for which an event is kept after its last delivery has ended, or after it was published if no subscription \
         matched it, 0 to 876,000; with 0 it is deleted soon after. Pending events and dead letters stay.";
    #[live]
    value retention_bytes_max: u64 = "retention.max_mb", "Maximum storage", Number, "2048", mebibytes,
        "Mebibytes of the database above which delivered events are deleted early, the oldest first; 0 for no \
         limit.";
    #[live]
    optional retention_dead_letters: Option<Duration> = "retention.dead_letter_hours", "Retention of dead letters", Number, "720",
        hours(0..=RETENTION_HOURS_MAX),
        "Hours for which dead letters are kept, 0 to 876,000. Without it they stay until they are resubmitted.";
    #[live]
    optional backup_dir: Option<BackupPlace> = "backup.dir", "Backup directory", Text("DIR"), "/srv/backups", backup_place,
        "Directory, which must exist, that backups are made in on schedule, or s3://bucket/prefix. Without it there are \
         only those that somebody asks for.";
    list backup_allow: Vec<BackupPlace> = "backup.allow", "Allowed backup directories", List("DIR"), "", backup_place,
        "Directories, and buckets like s3://bucket/prefix, in or below which administrators may have backups made and set \
         backup.dir, besides that of backup.dir itself. The management token may name any.";
    optional backup_s3_endpoint: Option<EndpointUrl> = "backup.s3_endpoint", "S3 endpoint", Text("URL"), "https://s3.example.com", endpoint,
        "URL of the service that has the buckets for backups; without it, that of AWS. It must be allowed by the egress \
         policy.";
    value backup_s3_region: String = "backup.s3_region", "S3 region", Text("NAME"), "us-east-1", visible,
        "Region of those buckets.";
    optional backup_s3_access_key_id: Option<String> = "backup.s3_access_key_id", "S3 access key", Text("ID"), "AKIAIOSFODNN7EXAMPLE",
        visible,
        "Id of the access key for them. Goes with backup.s3_secret_access_key.";
    secret backup_s3_secret_access_key: Option<Secret> = "backup.s3_secret_access_key", "S3 secret", Text("TEXT"), "", client_secret,
        "Secret of that access key.";
    #[live]
    value backup_every: Duration = "backup.every_hours", "Time between backups", Number, "24", hours(1..=8_760),
        "Hours from one scheduled backup to the next, 1 to 8760.";
    #[live]
    value backup_keep: usize = "backup.keep", "Backups kept", Number, "7", number(1..=365),
        "Backups of this appliance that are kept in backup.dir, 1 to 365; older ones are deleted.";
    #[live]
    value backup_with_master_key: bool = "backup.with_master_key", "Master key in backups", Switch, "true", switch,
        "Puts the master key, the management token and the configuration file of the data directory into backups. \
         Without them a backup gives no secrets away, and cannot be started without the key.";
    optional dead_letter_export_dir: Option<PathBuf> = "dead_letter.export_dir", "Dead-letter directory", Text("DIR"), "/srv/dead-letters",
        path,
        "Directory, which must exist, that dead letters of subscriptions with a StorageBlob destination are \
         exported to. Without it they stay in their queues, unless the destination names storage of its own.";
    #[live]
    value dead_letter_export_delay: Duration = "dead_letter.export_delay_s", "Dead-letter export delay", Number, "300",
        seconds(0..=EXPORT_DELAY_S_MAX),
        "Seconds that a dead letter waits for others to be exported with it, 0 to 86,400.";
    #[live]
    value dead_letter_unavailable: WhenUnavailable = "dead_letter.unavailable", "Unavailable dead-letter storage", Text("keep|drop"), "keep",
        word(&[("keep", WhenUnavailable::Keep), ("drop", WhenUnavailable::Drop)]),
        "What happens to dead letters whose storage is unavailable for 4 hours: \"keep\" leaves them in their \
         queues and goes on trying, \"drop\" drops them as Azure does.";
    optional tracing_otlp_endpoint: Option<EndpointUrl> = "tracing.otlp_endpoint", "OTLP endpoint", Text("URL"), "http://127.0.0.1:4318", endpoint,
        "OpenTelemetry collector that traces are sent to over HTTP: its URL without /v1/traces, by default that in \
         OTEL_EXPORTER_OTLP_ENDPOINT. It must be allowed by the egress policy. Without it there are no traces.";
    #[live]
    value shutdown_drain: Duration = "shutdown.drain_s", "Shutdown grace period", Number, "25", seconds(0..=3_600),
        "Seconds that a stop waits for deliveries under way, 0 to 3600. What takes longer is delivered again \
         after the next start.";
}
