//! The configuration: where settings come from, what they mean, how they are shown.
//!
//! Raw settings ([`RawConfig`]) are gathered from flags, environment and file without judging them;
//! [`Config::resolve`] judges them all at once. Lower floors never see a `Config`: they are handed
//! values of their own at construction.

mod fault;
mod file;
mod flags;
mod keys;
mod listing;
mod raw;
#[cfg(test)]
mod tests;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use url::Url;
use uuid::Uuid;

pub use self::fault::{ConfigFault, ConfigFaults};
pub use self::flags::ConfigFlags;
pub use self::keys::{KEYS, Key, Kind};
pub use self::listing::{sample, show};
pub use self::raw::{CONFIG_FILE, Origin, RawConfig};

use crate::admin::hosts::OwnHost;
use crate::base::TimeScale;
use crate::model::access::Secret;
use crate::model::export::ExportRules;
use crate::model::limits::{EXPORT_DELAY_S_MAX, PROBATION_LONGEST_S_MAX, RETENTION_HOURS_MAX};
use crate::model::probation::ProbationRules;
use crate::model::retention::RetentionRules;
use crate::model::setting::Settings;
use crate::store::MasterKeys;

/// The whole configuration, checked.
#[derive(Clone, Debug)]
pub struct Config {
    pub data_dir: PathBuf,
    /// Port 0 takes a free one.
    pub listen: SocketAddr,
    /// `None`: the address that is listened on.
    pub public_url: Option<Url>,
    pub time_scale: TimeScale,
    /// In place of those in the data directory.
    pub master_keys: Option<MasterKeys>,
    pub log: LogConfig,
    pub egress: EgressConfig,
    pub azure: AzureConfig,
    pub webhook: WebhookConfig,
    pub delivery: DeliveryConfig,
    pub probation: ProbationRules,
    pub replay: ReplayConfig,
    pub publish: PublishConfig,
    pub management: ManagementConfig,
    pub metrics: MetricsConfig,
    pub admin: AdminConfig,
    pub http: HttpConfig,
    pub storage: StorageConfig,
    pub retention: RetentionRules,
    pub dead_letter: DeadLetterConfig,
    pub shutdown: ShutdownConfig,
    /// All of it as it may be shown.
    pub shown: Arc<Settings>,
}

/// `log.*`
#[derive(Clone, Debug)]
pub struct LogConfig {
    pub format: LogFormat,
    /// Directives for `tracing_subscriber::filter::Targets`.
    pub level: String,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// `egress.*`
#[derive(Clone, Debug)]
pub struct EgressConfig {
    /// Networks that may be called although they are not public.
    pub allow: Vec<IpNet>,
    pub require_https: bool,
}

/// `azure.*`: what stands in resource ids.
#[derive(Clone, Debug)]
pub struct AzureConfig {
    pub subscription_id: Uuid,
    pub resource_group: String,
}

/// `webhook.*`
#[derive(Clone, Debug)]
pub struct WebhookConfig {
    /// `WebHook-Request-Origin` of handshakes and deliveries.
    pub origin: String,
}

/// `delivery.*`
#[derive(Clone, Debug)]
pub struct DeliveryConfig {
    pub in_flight_per_subscription: usize,
    pub in_flight_max: usize,
    pub response_deadline: Duration,
}

/// `replay.*`
#[derive(Clone, Debug)]
pub struct ReplayConfig {
    /// The loop guard.
    pub resubmissions_max: u32,
}

/// `publish.*`
#[derive(Clone, Debug)]
pub struct PublishConfig {
    pub bytes_max: usize,
}

/// `management.*`
#[derive(Clone, Debug)]
pub struct ManagementConfig {
    /// In place of the one in the data directory.
    pub token: Option<Secret>,
}

/// `metrics.*`
#[derive(Clone, Debug)]
pub struct MetricsConfig {
    pub public: bool,
}

/// `admin.*`
#[derive(Clone, Debug)]
pub struct AdminConfig {
    pub enabled: bool,
    /// Further hosts that the pages answer to.
    pub hosts: Vec<OwnHost>,
    pub account: Option<AdminAccount>,
}

/// The administrator of an unattended installation.
#[derive(Clone, Debug)]
pub struct AdminAccount {
    pub user: String,
    pub password: Secret,
}

/// `http.*`
#[derive(Clone, Debug)]
pub struct HttpConfig {
    pub connections_max: usize,
    pub connections_per_client: usize,
}

/// `storage.*`
#[derive(Clone, Debug)]
pub struct StorageConfig {
    /// Bytes that must be free for publishers to be served.
    pub free_bytes_min: u64,
}

/// `dead_letter.*`
#[derive(Clone, Debug)]
pub struct DeadLetterConfig {
    /// Where subscriptions may export to on this machine.
    pub export_dir: Option<PathBuf>,
    pub exports: ExportRules,
}

/// `shutdown.*`
#[derive(Clone, Debug)]
pub struct ShutdownConfig {
    /// How long a stop waits for deliveries under way.
    pub drain: Duration,
}

impl Config {
    /// Judges the settings: all faults at once, those of gathering included.
    pub fn resolve(raw: &RawConfig) -> Result<Self, ConfigFaults> {
        let mut read = Reader {
            raw,
            faults: raw.faults.clone(),
        };
        let config = read.config();
        match read.faults.is_empty() {
            true => Ok(config),
            false => Err(ConfigFaults(read.faults)),
        }
    }
}

/// Reads settings and collects faults; where a value is at fault it goes on with the default.
struct Reader<'a> {
    raw: &'a RawConfig,
    faults: Vec<ConfigFault>,
}

impl Reader<'_> {
    fn config(&mut self) -> Config {
        Config {
            data_dir: self.value("data_dir", values::path),
            listen: self.value("listen", values::socket_address),
            public_url: self.optional("public_url", values::public_url),
            time_scale: self.value("time_scale", values::time_scale),
            master_keys: self.optional("master_key", values::master_keys),
            log: LogConfig {
                format: self.value("log.format", values::log_format),
                level: self.value("log.level", values::log_level),
            },
            egress: EgressConfig {
                allow: self.list("egress.allow", values::network),
                require_https: self.value("egress.require_https", values::switch),
            },
            azure: AzureConfig {
                subscription_id: self.value("azure.subscription_id", values::uuid),
                resource_group: self.value("azure.resource_group", values::resource_group),
            },
            webhook: WebhookConfig {
                origin: self.value("webhook.origin", values::host_name),
            },
            delivery: self.delivery(),
            probation: self.probation(),
            replay: ReplayConfig {
                resubmissions_max: self
                    .value("replay.resubmissions_max", values::number(1..=1_000)),
            },
            publish: PublishConfig {
                bytes_max: self.value("publish.bytes_max", values::number(1_024..=67_108_864)),
            },
            management: ManagementConfig {
                token: self.optional("management.token", values::token),
            },
            metrics: MetricsConfig {
                public: self.value("metrics.public", values::switch),
            },
            admin: AdminConfig {
                enabled: self.value("admin.enabled", values::switch),
                hosts: self.list("admin.hosts", values::host),
                account: self.admin_account(),
            },
            http: HttpConfig {
                connections_max: self.value("http.connections_max", values::number(1..=1_000_000)),
                connections_per_client: self
                    .value("http.connections_per_client", values::number(1..=1_000_000)),
            },
            storage: StorageConfig {
                free_bytes_min: self.value("storage.min_free_mb", values::mebibytes),
            },
            retention: self.retention(),
            dead_letter: self.dead_letter(),
            shutdown: ShutdownConfig {
                drain: self.value("shutdown.drain_s", values::seconds(0..=3_600)),
            },
            shown: Arc::new(listing::in_force(self.raw)),
        }
    }

    fn delivery(&mut self) -> DeliveryConfig {
        let in_flight = values::number(1..=10_000);
        DeliveryConfig {
            in_flight_per_subscription: self
                .value("delivery.in_flight_per_subscription", &in_flight),
            in_flight_max: self.value("delivery.in_flight_max", &in_flight),
            response_deadline: self.value("delivery.response_deadline_s", values::seconds(1..=600)),
        }
    }

    fn probation(&mut self) -> ProbationRules {
        let longest = values::seconds(10..=PROBATION_LONGEST_S_MAX);
        ProbationRules {
            failures: self.value("probation.failures", values::number(1..=1_000_000)),
            longest: self.value("probation.longest_s", longest),
            mode: self.value("probation.mode", values::probation_mode),
        }
    }

    fn retention(&mut self) -> RetentionRules {
        let most: u64 = self.value("retention.max_mb", values::mebibytes);
        RetentionRules {
            delivered: self.value("retention.hours", values::hours(0..=RETENTION_HOURS_MAX)),
            dead_letters: self.optional(
                "retention.dead_letter_hours",
                values::hours(0..=RETENTION_HOURS_MAX),
            ),
            bytes_max: (most > 0).then_some(most),
        }
    }

    fn dead_letter(&mut self) -> DeadLetterConfig {
        DeadLetterConfig {
            export_dir: self.optional("dead_letter.export_dir", values::path),
            exports: ExportRules {
                delay: self.value(
                    "dead_letter.export_delay_s",
                    values::seconds(0..=EXPORT_DELAY_S_MAX),
                ),
                when_unavailable: self.value("dead_letter.unavailable", values::when_unavailable),
            },
        }
    }

    fn admin_account(&mut self) -> Option<AdminAccount> {
        let user = self.optional("admin.user", values::user);
        let password = self.optional("admin.password", values::password);
        let is_given = |name: &str| self.raw.given(Key::named(name)).is_some();
        let (missing, present) = match (is_given("admin.user"), is_given("admin.password")) {
            (true, false) => ("admin.password", "admin.user"),
            (false, true) => ("admin.user", "admin.password"),
            (true, true) | (false, false) => {
                let (user, password) = user.zip(password)?;
                return Some(AdminAccount { user, password });
            }
        };
        let problem = format!("is missing, but {present} is set; set both or none");
        let fault = ConfigFault::of_absence(Key::named(missing), &problem);
        self.faults.push(fault);
        None
    }

    fn value<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> T {
        let default = || {
            let default = Key::named(name).default;
            parse(default.expect("only for settings with a default")).expect("defaults are valid")
        };
        self.optional(name, &parse).unwrap_or_else(default)
    }

    /// `None` if it is not given, or at fault.
    fn optional<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let key = Key::named(name);
        let given = self.raw.given(key)?;
        let parsed = match given.values.as_slice() {
            [value] => parse(value),
            _ => Err("takes one value, not a list".to_owned()),
        };
        let fault = |problem: String| ConfigFault::of_value(key, &given.origin, &problem);
        parsed
            .map_err(|problem| self.faults.push(fault(problem)))
            .ok()
    }

    fn list<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Vec<T> {
        let key = Key::named(name);
        let (values, origin) = self.raw.lookup(key);
        let mut parsed = Vec::new();
        for value in &values {
            match parse(value) {
                Ok(value) => parsed.push(value),
                Err(problem) => self
                    .faults
                    .push(ConfigFault::of_value(key, &origin, &problem)),
            }
        }
        parsed
    }
}
