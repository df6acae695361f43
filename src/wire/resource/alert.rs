//! Alert rules and alert channels as the management API writes them: extensions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::InvalidResource;
use super::document;
use super::envelope::close_but_for;
use super::mirror::documents;
use super::rules::{Judged, RuleContext};
use crate::base::Timestamp;
use crate::model::access::Secret;
use crate::model::alert::{
    Alert, AlertChannel, AlertCondition, AlertFormat, AlertMessageState, AlertRule, EmailChannel,
    SmtpSecurity, StoredAlertChannel, StoredAlertMessage, StoredAlertRule, WebHookChannel,
};
use crate::model::limits::{
    ALERT_ADDRESSES_MAX, ALERT_COUNT_MAX, ALERT_DAYS_MAX, ALERT_MEGABYTES_MAX, ALERT_MINUTES_MAX,
    ALERT_QUIET_MINUTES_MAX, CREDENTIAL_BYTES_MAX,
};
use crate::model::name::TopicName;

documents! {
    AlertChannel => AlertChannelDocument;
    AlertCondition => AlertConditionDocument;
    AlertRule => AlertRuleDocument;
    EmailChannel => EmailDocument;
    WebHookChannel => AlertWebHook;
}

/// The definition of an alert rule.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "AlertRule", rename_all = "camelCase")]
#[schemars(rename = "AlertRuleDefinition", transform = close_but_for::<ShownOfRule>)]
struct AlertRuleDocument {
    #[serde(default = "enabled")]
    enabled: bool,
    #[serde(flatten)]
    condition: AlertCondition,
}

fn enabled() -> bool {
    true
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "AlertCondition", tag = "type")]
#[schemars(inline)]
enum AlertConditionDocument {
    /// No attempt of an event subscription has succeeded for so long.
    EndpointFailing {
        #[schemars(range(min = 1, max = ALERT_MINUTES_MAX))]
        minutes: u32,
    },
    /// The oldest pending delivery of an event subscription or a queue is older than that.
    OldPending {
        #[schemars(range(min = 1, max = ALERT_MINUTES_MAX))]
        minutes: u32,
    },
    /// At least `count` deliveries of an event subscription or a queue were dead-lettered in so many minutes.
    DeadLetters {
        #[schemars(range(min = 1, max = ALERT_COUNT_MAX))]
        count: u32,
        #[schemars(range(min = 1, max = ALERT_MINUTES_MAX))]
        minutes: u32,
    },
    /// Less is free on the disk of the data directory.
    DiskSpace {
        /// Mebibytes.
        #[schemars(range(min = 1, max = ALERT_MEGABYTES_MAX))]
        megabytes: u32,
    },
    /// Nothing was published to a topic for so long.
    NoEvents {
        /// `namespace/topic` in a namespace.
        #[schemars(extend("x-expected" = "the name of a topic"))]
        topic: TopicName,
        #[schemars(range(min = 1, max = ALERT_QUIET_MINUTES_MAX))]
        minutes: u32,
    },
    /// The TLS certificate or an API token expires within so many days.
    Expiring {
        #[schemars(range(min = 1, max = ALERT_DAYS_MAX))]
        days: u32,
    },
    /// The last backup failed.
    BackupFailed,
}

/// Who is notified.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "AlertChannel", tag = "type")]
#[schemars(rename = "AlertChannelDefinition", extend("x-rule" = "alertChannel"))]
#[schemars(transform = close_but_for::<ShownOfChannel>)]
enum AlertChannelDocument {
    Email(Box<EmailChannel>),
    WebHook(WebHookChannel),
}

/// By SMTP.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "EmailChannel", rename_all = "camelCase")]
#[schemars(inline)]
struct EmailDocument {
    #[schemars(length(min = 1), extend("x-maxBytes" = CREDENTIAL_BYTES_MAX))]
    #[schemars(extend("x-expected" = "the host of a mail server", "x-check" = "host"))]
    host: String,
    #[serde(default = "submission_port")]
    #[schemars(range(min = 1, max = u16::MAX))]
    port: u16,
    /// None is for a relay on the same machine, and takes no password.
    #[serde(default = "start_tls")]
    security: SmtpSecurity,
    #[schemars(extend("x-maxBytes" = CREDENTIAL_BYTES_MAX, "x-check" = "headerValue"))]
    username: Option<String>,
    /// Null in answers; left out, it stays.
    #[schemars(extend("x-maxBytes" = CREDENTIAL_BYTES_MAX, "x-check" = "headerValue"))]
    #[schemars(extend("x-kept" = ["host", "username"]))]
    password: Option<Secret>,
    #[schemars(length(min = 1), extend("x-maxBytes" = CREDENTIAL_BYTES_MAX))]
    #[schemars(extend("x-expected" = "a mail address", "x-check" = "mailAddress"))]
    from: String,
    #[schemars(length(min = 1, max = ALERT_ADDRESSES_MAX), extend("x-noun" = "addresses"))]
    #[schemars(with = "Vec<MailAddress>")]
    to: Vec<String>,
}

/// A mail address.
#[derive(JsonSchema)]
#[schemars(inline, extend("x-maxBytes" = CREDENTIAL_BYTES_MAX, "x-check" = "mailAddress"))]
#[expect(dead_code, reason = "for the schema alone")]
struct MailAddress(String);

/// The port of mail submission (RFC 6409).
fn submission_port() -> u16 {
    587
}

fn start_tls() -> SmtpSecurity {
    SmtpSecurity::StartTls
}

/// By HTTP.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "WebHookChannel", rename_all = "camelCase")]
#[schemars(inline)]
struct AlertWebHook {
    #[serde(default = "json_format")]
    format: AlertFormat,
    /// Null in answers; left out, it stays. PagerDuty needs none.
    #[schemars(extend("x-maxBytes" = CREDENTIAL_BYTES_MAX, "x-check" = "url", "x-kept" = []))]
    endpoint_url: Option<Secret>,
    /// The integration key of PagerDuty; for the others it is sent as a bearer token. Null in answers; left out, it
    /// stays as long as `endpointUrl` does.
    #[schemars(extend("x-maxBytes" = CREDENTIAL_BYTES_MAX, "x-check" = "bearerToken"))]
    #[schemars(extend("x-kept" = ["endpointUrl"]))]
    token: Option<Secret>,
}

fn json_format() -> AlertFormat {
    AlertFormat::Json
}

pub(super) fn judge_channel(it: &mut Judged<'_>) {
    match (it.text("type"), it.text("format")) {
        (Some("WebHook"), Some("PagerDuty")) if !it.has("token") => {
            it.missing("token", "the integration key of a PagerDuty service");
        }
        (Some("WebHook"), Some("PagerDuty")) => {}
        (Some("WebHook"), _) if !it.has("endpointUrl") => {
            it.missing("endpointUrl", "the URL that messages are posted to");
        }
        (Some("Email"), _) => judge_email(it),
        _ => {}
    }
}

fn judge_email(it: &mut Judged<'_>) {
    match (it.has("username"), it.has("password")) {
        (true, false) => it.missing("password", "the password of the user"),
        (false, true) => it.missing("username", "the user whose password it is"),
        (true, true) if it.text("security") == Some(SmtpSecurity::None.name()) => {
            let problem =
                "a password is sent over TLS only; set security to \"StartTls\" or \"Tls\"";
            it.fault("security", problem);
        }
        _ => {}
    }
}

/// Reads the body of a PUT.
pub fn parse_alert_rule(body: &Value) -> Result<AlertRule, InvalidResource> {
    document::read(body, &RuleContext::NONE)
}

/// Reads the body of a PUT; the secrets of what it replaces need not be given again.
pub fn parse_alert_channel(
    body: &Value,
    replaced: Option<&AlertChannel>,
    require_https: bool,
) -> Result<AlertChannel, InvalidResource> {
    let context = RuleContext {
        require_https,
        ..RuleContext::NONE
    };
    document::put(body, replaced, &context).map(|read| read.document)
}

/// The form in which the store keeps a definition.
pub fn alert_rule_to_text(rule: &AlertRule) -> String {
    document::to_text(rule)
}

/// Reads what [`alert_rule_to_text`] wrote.
pub fn alert_rule_from_text(text: &str) -> Result<AlertRule, InvalidResource> {
    document::from_text(text)
}

/// The form in which the store keeps a definition, secrets included.
pub fn alert_channel_to_text(channel: &AlertChannel) -> String {
    document::to_text(channel)
}

/// Reads what [`alert_channel_to_text`] wrote.
pub fn alert_channel_from_text(text: &str) -> Result<AlertChannel, InvalidResource> {
    document::from_text(text)
}

/// A definition without secrets, and with its name.
pub fn render_alert_definition(name: &str, definition: &impl Serialize) -> Value {
    let mut document = json!(definition);
    document["name"] = json!(name);
    document
}

/// An alert rule as answers show it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AlertRule")]
pub struct ShownAlertRule {
    #[serde(flatten)]
    definition: AlertRule,
    #[serde(flatten)]
    shown: ShownOfRule,
}

/// The properties that an alert rule has in answers, besides its definition.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ShownOfRule {
    name: String,
    /// The number of objects that it fires for.
    firing: usize,
    created_at: Timestamp,
    last_modified_at: Timestamp,
}

impl From<&StoredAlertRule> for ShownAlertRule {
    fn from(rule: &StoredAlertRule) -> Self {
        Self {
            definition: rule.rule.clone(),
            shown: ShownOfRule {
                name: rule.name.as_str().to_owned(),
                firing: rule.firing().count(),
                created_at: rule.created_at,
                last_modified_at: rule.updated_at,
            },
        }
    }
}

/// An alert channel as answers show it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AlertChannel")]
pub struct ShownAlertChannel {
    #[serde(flatten)]
    definition: AlertChannel,
    #[serde(flatten)]
    shown: ShownOfChannel,
}

/// The properties that an alert channel has in answers, besides its definition.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ShownOfChannel {
    name: String,
    /// The addresses, or the host of the URL.
    target: String,
    last_sent_at: Option<Timestamp>,
    last_failed_at: Option<Timestamp>,
    /// The error of the last failure.
    last_error: Option<String>,
    created_at: Timestamp,
    last_modified_at: Timestamp,
}

impl From<&StoredAlertChannel> for ShownAlertChannel {
    fn from(channel: &StoredAlertChannel) -> Self {
        Self {
            definition: channel.channel.clone(),
            shown: ShownOfChannel {
                name: channel.name.as_str().to_owned(),
                target: channel.channel.target(),
                last_sent_at: channel.sent_at,
                last_failed_at: channel.failed_at,
                last_error: channel.error.clone(),
                created_at: channel.created_at,
                last_modified_at: channel.updated_at,
            },
        }
    }
}

/// Something that a rule fires for.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Alert")]
pub struct ShownAlert {
    rule: String,
    /// The event subscription, the topic, the token.
    object: String,
    detail: String,
    since: Timestamp,
}

impl ShownAlert {
    pub fn new(rule: &StoredAlertRule, alert: &Alert) -> Self {
        Self {
            rule: rule.name.as_str().to_owned(),
            object: alert.object.clone(),
            detail: alert.detail.clone(),
            since: alert.since,
        }
    }
}

/// A message to one channel.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AlertMessage")]
pub struct ShownAlertMessage {
    id: i64,
    rule: String,
    channel: String,
    subject: String,
    text: String,
    state: AlertMessageState,
    attempts: u32,
    created_at: Timestamp,
    /// When it is sent once more; null if it is not.
    next_attempt_at: Option<Timestamp>,
    sent_at: Option<Timestamp>,
    /// How the last attempt failed.
    error: Option<String>,
}

impl From<&StoredAlertMessage> for ShownAlertMessage {
    fn from(message: &StoredAlertMessage) -> Self {
        Self {
            id: message.id.0,
            rule: message.rule.clone(),
            channel: message.channel.clone(),
            subject: message.message.subject.clone(),
            text: message.message.text.clone(),
            state: message.state,
            attempts: message.attempts,
            created_at: message.created_at,
            next_attempt_at: message.next_attempt_at,
            sent_at: message.sent_at,
            error: message.error.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(body: &Value) -> Result<AlertChannel, InvalidResource> {
        parse_alert_channel(body, None, false)
    }

    fn problem<T: std::fmt::Debug>(read: Result<T, InvalidResource>) -> String {
        read.expect_err("it is wrong").to_string()
    }

    #[test]
    fn rules_are_read_back_as_they_were_written() {
        for body in [
            json!({ "type": "EndpointFailing", "minutes": 10 }),
            json!({ "type": "OldPending", "minutes": 1 }),
            json!({ "type": "DeadLetters", "count": 1, "minutes": 1_440 }),
            json!({ "type": "DiskSpace", "megabytes": 1 }),
            json!({ "type": "NoEvents", "topic": "shop/orders", "minutes": 10_080 }),
            json!({ "type": "Expiring", "days": 14, "enabled": false }),
            json!({ "type": "BackupFailed", "enabled": true }),
        ] {
            let rule = parse_alert_rule(&body).expect("a rule");
            assert_eq!(rule.enabled, body["enabled"] != false, "{body}");
            assert_eq!(
                alert_rule_from_text(&alert_rule_to_text(&rule)),
                Ok(rule.clone())
            );
            // What answers show can be sent back.
            let shown = render_alert_definition("a-rule", &rule);
            assert_eq!(parse_alert_rule(&shown), Ok(rule), "{shown}");
        }
    }

    #[test]
    fn all_types_of_conditions_are_listed_once() {
        let listed: Vec<_> = AlertCondition::TYPES
            .iter()
            .map(|(name, _)| format!("\"{name}\""))
            .collect();
        let said = problem(parse_alert_rule(&json!({})));
        let (_, names) = said.split_once("it must be ").expect("a list of types");
        let names: Vec<_> = names
            .split('"')
            .skip(1)
            .step_by(2)
            .map(|name| format!("\"{name}\""))
            .collect();
        assert_eq!(names, listed);
    }

    #[test]
    fn what_is_wrong_with_a_rule_is_named() {
        for (body, expected) in [
            (
                json!({}),
                "type: it is missing; it must be \"EndpointFailing\", \"OldPending\"",
            ),
            (json!({ "type": "Fire" }), "but it is \"Fire\""),
            (
                json!({ "type": "EndpointFailing" }),
                "minutes: it is missing; it must be a whole number from 1 to 1440",
            ),
            (
                json!({ "type": "EndpointFailing", "minutes": 0 }),
                "minutes: it must be a whole number from 1 to 1440",
            ),
            (
                json!({ "type": "BackupFailed", "minutes": 5 }),
                "minutes: there is no such property",
            ),
            (
                json!({ "type": "NoEvents", "minutes": 5, "topic": "a b" }),
                "letters, digits, dots, hyphens and underscores",
            ),
            (
                json!({ "type": "NoEvents", "minutes": 5 }),
                "it must be the name of a topic",
            ),
            (
                json!({ "type": "Expiring", "days": "soon" }),
                "days: it must be a whole number from 1 to 365",
            ),
            (
                json!({ "type": "BackupFailed", "enable": true }),
                "\"enabled\"",
            ),
        ] {
            let said = problem(parse_alert_rule(&body));
            assert!(said.contains(expected), "{body}: {said}");
        }
    }

    fn email() -> Value {
        json!({ "type": "Email", "host": "smtp.example.com", "from": "Everpost <everpost@example.com>",
            "to": ["ops@example.com"], "username": "everpost", "password": "hush" })
    }

    fn slack() -> Value {
        json!({ "type": "WebHook", "format": "Slack", "endpointUrl": "https://hooks.slack.test/services/hush",
            "token": "secret" })
    }

    #[test]
    fn channels_are_read_back_as_they_were_written_and_never_show_a_secret() {
        for body in [email(), slack()] {
            let read = channel(&body).expect("a channel");
            assert_eq!(
                alert_channel_from_text(&alert_channel_to_text(&read)),
                Ok(read.clone())
            );
            let shown = render_alert_definition("a-channel", &read);
            let text = format!("{shown} {read:?}");
            assert!(!text.contains("hush") && !text.contains("secret"), "{text}");
            // What is left out stays, as in what answers show.
            assert_eq!(
                parse_alert_channel(&shown, Some(&read), false),
                Ok(read),
                "{shown}"
            );
        }
        let AlertChannel::Email(read) = channel(&email()).expect("a channel") else {
            panic!("it is e-mail");
        };
        assert_eq!((read.port, read.security), (587, SmtpSecurity::StartTls));
    }

    #[test]
    fn a_secret_does_not_go_to_somebody_else() {
        let known = channel(&email()).expect("a channel");
        let mut changed = email();
        changed["host"] = json!("smtp.evil.test");
        changed["password"] = Value::Null;
        let said = problem(parse_alert_channel(&changed, Some(&known), false));
        assert!(said.contains("password: it is missing"), "{said}");
        let known = channel(&slack()).expect("a channel");
        let changed =
            json!({ "type": "WebHook", "format": "Slack", "endpointUrl": "https://evil.test/" });
        let read = parse_alert_channel(&changed, Some(&known), false);
        let Ok(AlertChannel::WebHook(read)) = read else {
            panic!("{read:?}");
        };
        assert_eq!(read.token, None);
    }

    #[test]
    fn what_is_wrong_with_a_channel_is_named() {
        let with = |mut body: Value, name: &str, value: Value| {
            body[name] = value;
            body
        };
        for (body, expected) in [
            (
                json!({}),
                "type: it is missing; it must be \"Email\" or \"WebHook\"",
            ),
            (
                with(email(), "host", json!("a b")),
                "host: it is not the name or the address of a host",
            ),
            (
                with(email(), "port", json!(0)),
                "port: it must be a whole number from 1 to 65535",
            ),
            (
                with(email(), "from", json!("nobody")),
                "from: it is not a mail address",
            ),
            (
                with(email(), "to", json!([])),
                "to: it must have 1 to 20 addresses",
            ),
            (
                with(email(), "to", json!(["ops@example.com", "x"])),
                "to[1]: it is not a mail address",
            ),
            (
                with(email(), "security", json!("none")),
                "security: a password is sent over TLS only",
            ),
            (
                with(email(), "username", Value::Null),
                "username: it is missing",
            ),
            (
                with(slack(), "format", json!("Pager")),
                "format: it must be \"Json\", \"Slack\"",
            ),
            (
                with(slack(), "endpointUrl", json!("slack")),
                "endpointUrl: it is not an absolute URL",
            ),
            (
                with(slack(), "endpointUrl", Value::Null),
                "endpointUrl: it is missing",
            ),
            (
                with(slack(), "token", json!("a b")),
                "token: it must be visible ASCII",
            ),
            (
                json!({ "type": "WebHook", "format": "PagerDuty" }),
                "token: it is missing",
            ),
            (
                with(slack(), "host", json!("x")),
                "host: there is no such property",
            ),
        ] {
            let said = problem(channel(&body));
            assert!(said.contains(expected), "{body}: {said}");
        }
        let said = problem(parse_alert_channel(
            &with(slack(), "endpointUrl", json!("http://hush.test")),
            None,
            true,
        ));
        assert_eq!(said, "endpointUrl: it does not start with https.");
    }
}
