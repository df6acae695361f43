//! Alert rules, alerts and notification channels. This module performs no I/O.
//!
//! An alert rule fires for objects, such as failing endpoints. Each such object is one alert, which is reported once
//! when it begins and once when it ends. Alerts of a rule that begin or end at the same time share one message.

use std::collections::BTreeMap;
use std::time::Duration;

use url::Url;

use crate::base::Timestamp;
use crate::base::human::{bytes, date_time};
use crate::base::named::{ids, named_enum};
use crate::model::access::Secret;
use crate::model::limits::{
    ALERT_ATTEMPTS_MAX, ALERT_DETAIL_BYTES_MAX, ALERT_LINES_MAX, ALERT_MESSAGE_INTERVAL,
    ALERTS_PER_RULE_MAX,
};
use crate::model::name::{AlertChannelName, AlertRuleName, TopicName};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

/// A condition of the appliance to watch for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertRule {
    pub enabled: bool,
    pub condition: AlertCondition,
}

/// When a rule fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertCondition {
    /// No attempt of an event subscription has succeeded for `minutes`.
    EndpointFailing { minutes: u32 },
    /// The oldest pending delivery of an event subscription or a queue is older than `minutes`.
    OldPending { minutes: u32 },
    /// At least `count` deliveries of an event subscription or a queue were dead-lettered within `minutes`.
    DeadLetters { count: u32, minutes: u32 },
    /// The disk of the data directory has less free space than `megabytes`.
    DiskSpace { megabytes: u32 },
    /// No event was published to `topic` for `minutes`.
    NoEvents { topic: TopicName, minutes: u32 },
    /// The TLS certificate or an API token expires within `days`.
    Expiring { days: u32 },
    /// The last backup failed.
    BackupFailed,
}

/// The observations that alert rules are evaluated against.
#[derive(Clone, Debug, Default)]
pub struct AlertObservations {
    pub endpoints: Vec<(String, EndpointHealth)>,
    /// When the oldest pending delivery of each subscription was published.
    pub oldest_pending: Vec<(String, Timestamp)>,
    /// The number of dead letters of each subscription in the last minutes. The key is the number of minutes.
    pub dead_letters: BTreeMap<u32, Vec<(String, u64)>>,
    pub disk_free: Option<u64>,
    /// When the last event of each topic came.
    pub last_events: Vec<(TopicName, Timestamp)>,
    /// Objects that expire, each with its expiry.
    pub expiring: Vec<(String, Timestamp)>,
    /// The result of the last backup since the start.
    pub backup: Option<Result<(), String>>,
}

/// The health of an endpoint according to its delivery attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointHealth {
    /// Nothing was sent to the endpoint since the start.
    Unknown,
    Working,
    Failing {
        since: Timestamp,
        detail: String,
    },
}

/// An object for which a rule fires or may fire.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    object: String,
    detail: String,
    /// Is true if the rule certainly fires. If false, the state is unknown: a firing alert continues, and no alert
    /// begins.
    is_certain: bool,
}

ids! {
    /// The id of an alert rule.
    AlertRuleId,
    /// The id of an alert channel.
    AlertChannelId,
    /// The id of a message; ascending.
    AlertMessageId,
}

/// An object that a rule fires for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// The object's name, such as an event subscription, a topic or an API token.
    pub object: String,
    pub detail: String,
    pub since: Timestamp,
    /// Is true once a message has said that the alert fires.
    pub is_told: bool,
    /// Is true once the alert is over, until a message has said so.
    pub is_over: bool,
}

/// A rule as it is stored, with its alerts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAlertRule {
    pub id: AlertRuleId,
    pub name: AlertRuleName,
    pub rule: AlertRule,
    pub alerts: Vec<Alert>,
    /// When the last message was made.
    pub told_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A message about the alerts of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertMessage {
    pub subject: String,
    pub text: String,
    /// Is true if the rule fires for at least one object.
    pub is_firing: bool,
}

impl AlertCondition {
    /// The types of conditions, by their names in documents, with the words of a choice that begins with "Fires when".
    pub const TYPES: [(&str, &str); 7] = [
        ("EndpointFailing", "An endpoint fails for some time"),
        ("OldPending", "A delivery is pending too long"),
        ("DeadLetters", "There are too many dead letters"),
        ("DiskSpace", "The disk is nearly full"),
        ("NoEvents", "A topic has no events"),
        ("Expiring", "A certificate or API token expires"),
        ("BackupFailed", "A backup failed"),
    ];

    /// Returns a short name of the condition.
    pub fn title(&self) -> &'static str {
        match self {
            Self::EndpointFailing { .. } => "Endpoint failing",
            Self::OldPending { .. } => "Deliveries pending too long",
            Self::DeadLetters { .. } => "Dead letters",
            Self::DiskSpace { .. } => "Low disk space",
            Self::NoEvents { .. } => "No events",
            Self::Expiring { .. } => "Certificate or token expiring",
            Self::BackupFailed => "Backup failed",
        }
    }

    /// Describes the condition in a clause.
    pub fn describe(&self) -> String {
        match self {
            Self::EndpointFailing { minutes } => format!("An endpoint fails for {minutes} min"),
            Self::OldPending { minutes } => {
                format!("A delivery is pending for more than {minutes} min")
            }
            Self::DeadLetters { count, minutes } => {
                format!("At least {count} dead letters within {minutes} min")
            }
            Self::DiskSpace { megabytes } => {
                let least = bytes(mebibytes(*megabytes));
                format!("Less than {least} of disk free")
            }
            Self::NoEvents { topic, minutes } => {
                format!("No event on topic {topic} for {minutes} min")
            }
            Self::Expiring { days } => {
                format!("The TLS certificate or an API token expires within {days} d")
            }
            Self::BackupFailed => "The last backup failed".to_owned(),
        }
    }

    fn findings(&self, facts: &AlertObservations, now: Timestamp) -> Vec<Finding> {
        match self {
            Self::EndpointFailing { minutes } => {
                let endpoints = facts.endpoints.iter();
                let found = endpoints.filter_map(|(of, health)| failing(of, health, *minutes, now));
                found.collect()
            }
            Self::OldPending { minutes } => {
                let pending = facts.oldest_pending.iter();
                let old = pending.filter(|(_, at)| now.since(*at) > *minutes * MINUTE);
                let said = |at| format!("oldest pending since {} UTC", date_time(at));
                old.map(|(of, at)| certain(of, said(*at))).collect()
            }
            Self::DeadLetters { count, minutes } => {
                let counted = facts.dead_letters.get(minutes).into_iter().flatten();
                let many = counted.filter(|(_, found)| *found >= u64::from(*count));
                let said = |found| format!("dead letters within {minutes} min: {found}");
                many.map(|(of, found)| certain(of, said(found))).collect()
            }
            Self::DiskSpace { megabytes } => low_disk(facts.disk_free, *megabytes),
            Self::NoEvents { topic, minutes } => {
                let mut all = facts.last_events.iter();
                let last = all.find(|(name, _)| name == topic);
                let quiet = last.filter(|(_, at)| now.since(*at) > *minutes * MINUTE);
                let said = |at| format!("no event since {} UTC", date_time(at));
                let finding = quiet.map(|(name, at)| certain(name.as_str(), said(*at)));
                Vec::from_iter(finding)
            }
            Self::Expiring { days } => {
                let soon = |at: Timestamp| at <= now + *days * DAY;
                let said = |at: Timestamp| {
                    if at <= now {
                        format!("expired at {} UTC", date_time(at))
                    } else {
                        format!("expires at {} UTC", date_time(at))
                    }
                };
                let expiring = facts.expiring.iter().filter(|(_, at)| soon(*at));
                expiring.map(|(of, at)| certain(of, said(*at))).collect()
            }
            Self::BackupFailed => {
                let finding = match &facts.backup {
                    None => Some(uncertain("backup")),
                    Some(Ok(())) => None,
                    Some(Err(error)) => Some(certain("backup", error)),
                };
                Vec::from_iter(finding)
            }
        }
    }
}

fn certain(object: impl Into<String>, detail: impl Into<String>) -> Finding {
    let mut detail: String = detail.into();
    detail.truncate(detail.floor_char_boundary(ALERT_DETAIL_BYTES_MAX));
    Finding {
        object: object.into(),
        detail,
        is_certain: true,
    }
}

fn uncertain(object: impl Into<String>) -> Finding {
    Finding {
        is_certain: false,
        ..certain(object, "")
    }
}

/// Returns a finding if an endpoint fails or may fail. An endpoint that fails after a restart may have failed before
/// the restart, so a firing alert continues.
fn failing(of: &str, health: &EndpointHealth, minutes: u32, now: Timestamp) -> Option<Finding> {
    match health {
        EndpointHealth::Working => None,
        EndpointHealth::Failing { since, detail } if now.since(*since) >= minutes * MINUTE => {
            Some(certain(of, detail))
        }
        EndpointHealth::Unknown | EndpointHealth::Failing { .. } => Some(uncertain(of)),
    }
}

fn mebibytes(count: u32) -> u64 {
    u64::from(count) << 20
}

/// Returns the finding for low disk space. The alert ends only when 10% more than the threshold is free, so that it
/// does not flap.
fn low_disk(free: Option<u64>, megabytes: u32) -> Vec<Finding> {
    const OBJECT: &str = "disk";
    let least = mebibytes(megabytes);
    let finding = match free {
        Some(free) if free < least => Some(certain(OBJECT, format!("{} free", bytes(free)))),
        Some(free) if free >= least + least / 10 => None,
        Some(_) | None => Some(uncertain(OBJECT)),
    };
    Vec::from_iter(finding)
}

impl StoredAlertRule {
    /// Returns the rule's alerts according to `facts`, and the message about changes if one is due now. If `is_heard`
    /// is false, there is no message, and firing alerts are reported later.
    pub fn evaluate(
        &self,
        facts: &AlertObservations,
        is_heard: bool,
        now: Timestamp,
    ) -> (Vec<Alert>, Option<AlertMessage>) {
        let findings = if self.rule.enabled {
            self.rule.condition.findings(facts, now)
        } else {
            Vec::new()
        };
        let mut alerts = self.after(&findings, now);
        let is_soon = |told_at| now.since(told_at) < ALERT_MESSAGE_INTERVAL && told_at <= now;
        let has_news = alerts.iter().any(|alert| alert.is_over || !alert.is_told);
        let message = if has_news && is_heard && !self.told_at.is_some_and(is_soon) {
            Some(self.message(&alerts))
        } else {
            None
        };
        if message.is_some() || !is_heard {
            alerts.retain(|alert| !alert.is_over);
        }
        for alert in &mut alerts {
            alert.is_told |= message.is_some();
        }
        (alerts, message)
    }

    /// Returns the alerts updated with the current findings. An alert that ends before it was reported is removed.
    fn after(&self, findings: &[Finding], now: Timestamp) -> Vec<Alert> {
        let found = |alert: &Alert| findings.iter().find(|each| each.object == alert.object);
        let follow = |alert: &Alert| match found(alert) {
            Some(Finding {
                is_certain: false, ..
            }) => Some(alert.clone()),
            Some(Finding { detail, .. }) => Some(Alert {
                detail: detail.clone(),
                is_over: false,
                ..alert.clone()
            }),
            None if alert.is_told => Some(Alert {
                is_over: true,
                ..alert.clone()
            }),
            None => None,
        };
        let mut alerts: Vec<Alert> = self.alerts.iter().filter_map(follow).collect();
        let is_known = |each: &Finding| self.alerts.iter().any(|known| known.object == each.object);
        let new = findings
            .iter()
            .filter(|each| each.is_certain && !is_known(each));
        alerts.extend(new.map(|Finding { object, detail, .. }| Alert {
            object: object.clone(),
            detail: detail.clone(),
            since: now,
            is_told: false,
            is_over: false,
        }));
        alerts.truncate(ALERTS_PER_RULE_MAX);
        alerts
    }

    fn message(&self, alerts: &[Alert]) -> AlertMessage {
        let title = self.rule.condition.title();
        let (over, firing): (Vec<&Alert>, Vec<&Alert>) = alerts.iter().partition(|it| it.is_over);
        let (old, new): (Vec<&Alert>, Vec<&Alert>) =
            firing.iter().copied().partition(|it| it.is_told);
        let subject = if new.is_empty() {
            format!("Resolved: {title}: {}", named(&over))
        } else {
            format!("{title}: {}", named(&new))
        };
        let mut lines: Vec<String> = Vec::new();
        lines.extend(new.iter().map(|it| format!("{}: {}", it.object, it.detail)));
        lines.extend(over.iter().map(|it| format!("Resolved: {}", it.object)));
        if lines.len() > ALERT_LINES_MAX {
            let more = lines.split_off(ALERT_LINES_MAX).len();
            lines.push(format!("and {more} more"));
        }
        if !old.is_empty() {
            lines.push(format!("Still firing: {}", named(&old)));
        }
        AlertMessage {
            subject,
            text: lines.join("\n"),
            is_firing: !firing.is_empty(),
        }
    }

    /// Returns the alerts that are firing.
    pub fn firing(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.iter().filter(|alert| !alert.is_over)
    }
}

/// Returns the objects of alerts in short, such as `orders/billing and 2 more`.
fn named(alerts: &[&Alert]) -> String {
    match alerts {
        [] => String::new(),
        [one] => one.object.clone(),
        [first, others @ ..] => format!("{} and {} more", first.object, others.len()),
    }
}

impl AlertMessage {
    /// Returns the message for a test of a channel.
    pub fn test() -> Self {
        Self {
            subject: "Test message".to_owned(),
            text: "Alerts of this Everpost arrive here.".to_owned(),
            is_firing: true,
        }
    }
}

/// Returns the time of the next attempt to send a message after `attempts` attempts; `None` if no attempts are left.
pub fn next_attempt(attempts: u32, now: Timestamp) -> Option<Timestamp> {
    let wait = ALERT_MESSAGE_INTERVAL * 2_u32.pow(attempts.saturating_sub(1).min(16));
    (attempts < ALERT_ATTEMPTS_MAX).then_some(now + wait)
}

/// A notification channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertChannel {
    Email(Box<EmailChannel>),
    WebHook(WebHookChannel),
}

/// Messages by SMTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmailChannel {
    pub host: String,
    pub port: u16,
    pub security: SmtpSecurity,
    pub username: Option<String>,
    pub password: Option<Secret>,
    pub from: String,
    pub to: Vec<String>,
}

named_enum! {
    /// How the connection to a mail server is encrypted.
    pub enum SmtpSecurity {
        StartTls,
        Tls,
        /// Not at all: for a relay on the same machine.
        None,
    }
}

/// Messages by HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebHookChannel {
    pub format: AlertFormat,
    /// The URL is a secret, because anyone who knows it can post to it.
    pub endpoint_url: Option<Secret>,
    /// The integration key of PagerDuty; for others a bearer token.
    pub token: Option<Secret>,
}

named_enum! {
    /// The format of the body of an alert message.
    pub enum AlertFormat {
        Json,
        Slack,
        Teams,
        Discord,
        Ntfy,
        PagerDuty,
    }
}

/// The URL of PagerDuty's Events API.
const PAGER_DUTY: &str = "https://events.pagerduty.com/v2/enqueue";

impl WebHookChannel {
    pub fn url(&self) -> Option<Url> {
        let pager_duty = Some(PAGER_DUTY).filter(|_| self.format == AlertFormat::PagerDuty);
        let own = self.endpoint_url.as_ref().map(Secret::reveal);
        own.or(pager_duty)?.parse().ok()
    }
}

impl AlertChannel {
    /// Returns the display name of the channel's type.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Email(_) => "E-mail",
            Self::WebHook(webhook) => match webhook.format {
                AlertFormat::Json => "Webhook",
                AlertFormat::Slack => "Slack",
                AlertFormat::Teams => "Teams",
                AlertFormat::Discord => "Discord",
                AlertFormat::Ntfy => "ntfy",
                AlertFormat::PagerDuty => "PagerDuty",
            },
        }
    }

    /// Returns the recipients or the address of the channel without secrets.
    pub fn target(&self) -> String {
        match self {
            Self::Email(email) => email.to.join(", "),
            Self::WebHook(webhook) => {
                let url = webhook.url();
                let host = url.as_ref().and_then(Url::host_str);
                host.unwrap_or_default().to_owned()
            }
        }
    }
}

/// A channel as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAlertChannel {
    pub id: AlertChannelId,
    pub name: AlertChannelName,
    pub channel: AlertChannel,
    pub sent_at: Option<Timestamp>,
    /// The time of the last failure. Its description is in `error`.
    pub failed_at: Option<Timestamp>,
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl StoredAlertChannel {
    /// Returns whether the last message could not be delivered.
    pub fn is_failing(&self) -> bool {
        self.failed_at.is_some() && self.failed_at > self.sent_at
    }
}

named_enum! {
    /// The delivery state of an alert message.
    pub enum AlertMessageState {
        Pending,
        Sent,
        Failed,
    }
}

/// A message to one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAlertMessage {
    pub id: AlertMessageId,
    pub rule: String,
    pub channel: String,
    pub message: AlertMessage,
    pub state: AlertMessageState,
    pub attempts: u32,
    pub created_at: Timestamp,
    pub next_attempt_at: Option<Timestamp>,
    pub sent_at: Option<Timestamp>,
    pub error: Option<String>,
}

/// The result of a test of a channel: what the other side answered, or what went wrong.
pub type AlertSent = Result<String, String>;

#[cfg(test)]
mod tests;
