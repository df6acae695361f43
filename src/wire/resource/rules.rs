//! Validation of clients' documents beyond what a JSON schema can express: checks of single texts (`x-check`) and rules
//! for whole objects (`x-rule`). Documents from the store are read without this validation.
//!
//! An error message never quotes a text that may be a secret.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};
use ipnet::IpNet;
use lettre::message::Mailbox;
use serde_json::{Map, Value};
use url::Host;

use super::reader::one_of;
use super::{alert, credentials, dead_letter_destination, destination, filter, inspector};
use super::{namespace_subscription, queue, replay, service_bus, topic};
use crate::base::Timestamp;
use crate::model::destination::{EndpointUrl, EntityId};
use crate::model::filter::FilterKey;
use crate::model::limits::{
    DUPLICATE_WINDOW_SECONDS, IDLE_MIN, LOCK_SECONDS, MESSAGE_TIME_TO_LIVE_MIN,
    NAMESPACE_TIME_TO_LIVE_MAX, OWN_WAIT_LONGEST, OWN_WAIT_SHORTEST, SIGNING_GRACE_MAX,
};
use crate::model::name::TopicName;
use crate::model::response_script::ResponseScript;
use crate::model::signing::SigningSecret;
use crate::model::topic::{DeliverySchema, InputSchema};
use crate::wire::bad_input::quoted;
use crate::wire::client_credentials::is_token;
use crate::wire::{duration, moment, pem};

/// The time, the settings and the properties of the topic that a document is validated against.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleContext<'a> {
    pub(super) now: Timestamp,
    /// Is true if webhooks must be called over TLS (a setting, rule A).
    pub(super) require_https: bool,
    /// The schema of the events that the topic's publishers send.
    pub(super) input_schema: &'a InputSchema,
    /// How long the topic keeps events.
    pub(super) retention: Duration,
}

impl RuleContext<'_> {
    /// Context for documents whose validity depends neither on the time, nor on settings, nor on a topic.
    pub(super) const NONE: RuleContext<'static> = RuleContext {
        now: Timestamp::from_ms(0),
        require_https: false,
        input_schema: &InputSchema::EventGridSchema,
        retention: NAMESPACE_TIME_TO_LIVE_MAX,
    };
}

/// A check of a single text; the error says what is wrong with it.
pub(super) type Check = fn(&str, &RuleContext<'_>) -> Result<(), String>;

const CHECKS: [(&str, Check); 27] = [
    ("accountWord", |text, _| account_word(text)),
    ("base64", |text, _| base64(text)),
    ("bearerToken", |text, _| bearer_token(text)),
    ("certificates", |text, _| {
        pem::authorities_problem(text).map_or(Ok(()), Err)
    }),
    ("container", |text, _| container(text)),
    ("dateTime", |text, _| date_time(text)),
    ("deliverySchema", |text, context| {
        delivery_schema(text, context.input_schema)
    }),
    ("duplicateWindow", |text, _| {
        seconds(text, &DUPLICATE_WINDOW_SECONDS)
    }),
    ("entityId", |text, _| {
        EntityId::parse(text)
            .map(drop)
            .map_err(|error| error.to_string())
    }),
    ("expiration", |text, context| expiration(text, context.now)),
    ("filterKey", |text, _| {
        FilterKey::parse(text)
            .map(drop)
            .map_err(|error| error.to_string())
    }),
    ("gracePeriod", |text, _| grace_period(text)),
    ("headerName", |text, _| header_name(text)),
    ("headerValue", |text, _| header_value(text)),
    ("host", |text, _| host(text)),
    ("idle", |text, _| {
        between(text, IDLE_MIN, duration::DURATION_MAX)
    }),
    ("ipMask", |text, _| ip_mask(text)),
    ("lockDuration", |text, _| seconds(text, &LOCK_SECONDS)),
    ("mailAddress", |text, _| mail_address(text)),
    ("messageTimeToLive", |text, _| message_time_to_live(text)),
    ("script", |text, _| script(text)),
    ("signingSecret", |text, _| signing_secret(text)),
    ("timeToLive", |text, context| {
        time_to_live(text, context.retention)
    }),
    ("topicName", |text, _| {
        TopicName::parse(text)
            .map(drop)
            .map_err(|error| error.to_string())
    }),
    ("url", |text, context| url(text, context.require_https)),
    ("username", |text, _| username(text)),
    ("wait", |text, _| wait(text)),
];

/// Returns the check that schemas call `name`. Panics if there is none.
pub(super) fn check(name: &str) -> Check {
    let check = CHECKS.iter().find(|(known, _)| *known == name);
    check.expect("schemas name known checks alone").1
}

/// An object to which a rule is applied.
pub(super) struct Judged<'a> {
    pub(super) object: &'a mut Map<String, Value>,
    pub(super) before: Option<&'a Value>,
    pub(super) is_update: bool,
    pub(super) context: &'a RuleContext<'a>,
    /// The paths of what is at fault already, and therefore missing.
    pub(super) faulty: Vec<String>,
    /// The faults that the rule finds, by the names of the properties.
    pub(super) faults: Vec<(String, String)>,
}

/// A rule for an object, which finds the faults of the object and fills in properties that can be told from the
/// previous version of the document.
pub(super) type Rule = fn(&mut Judged<'_>);

const RULES: [(&str, Rule); 19] = [
    ("advancedFilter", filter::judge_advanced_filter),
    ("alertChannel", alert::judge_channel),
    ("clientCertificate", credentials::judge_client_certificate),
    ("delivery", namespace_subscription::judge_delivery),
    ("filter", filter::judge_filter),
    ("header", destination::judge_header),
    ("inputSchema", topic::judge_input_schema),
    ("inspector", inspector::judge),
    ("mappedField", topic::judge_mapped_field),
    ("messagingEntity", queue::judge),
    ("replayFilter", replay::judge_filter),
    ("replaySource", replay::judge_source),
    ("replayTarget", replay::judge_target),
    ("serviceBusEntity", destination::judge_headers),
    ("serviceBusRule", service_bus::judge_rule),
    ("signingSecret", credentials::judge_signing_secret),
    ("storage", dead_letter_destination::judge_storage),
    ("storageBlob", dead_letter_destination::judge_storage_blob),
    ("webHook", destination::judge_webhook),
];

/// Returns the rule that schemas call `name`. Panics if there is none.
pub(super) fn rule(name: &str) -> Rule {
    let rule = RULES.iter().find(|(known, _)| *known == name);
    rule.expect("schemas name known rules alone").1
}

impl Judged<'_> {
    pub(super) fn fault(&mut self, name: impl Into<String>, problem: impl Into<String>) {
        self.faults.push((name.into(), problem.into()));
    }

    pub(super) fn missing(&mut self, name: &str, expected: &str) {
        self.fault(name, format!("it is missing; it must be {expected}"));
    }

    /// Reports whether a property is given and is not `null`. A property with a fault counts as given, although it is
    /// missing from the object.
    pub(super) fn has(&self, name: &str) -> bool {
        let is_there = self.object.get(name).is_some_and(|value| !value.is_null());
        is_there
            || self
                .faulty
                .iter()
                .any(|path| path.split(['.', '[']).next() == Some(name))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.object.get(name)?.as_str()
    }

    /// Returns the elements of the list in the property `name`, or none if the property is missing or is no list.
    pub(super) fn list(&self, name: &str) -> &[Value] {
        self.object
            .get(name)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// Copies a property from the previous version of the document, if that has the property.
    pub(super) fn keep(&mut self, name: &str) {
        let known = self.before.and_then(|before| before.get(name));
        self.object
            .extend(known.map(|known| (name.to_owned(), known.clone())));
    }
}

fn url(text: &str, require_https: bool) -> Result<(), String> {
    let url = EndpointUrl::parse(text).map_err(|problem| problem.to_string())?;
    if require_https && !url.is_https() {
        Err("it does not start with https".to_owned())
    } else {
        Ok(())
    }
}

fn date_time(text: &str) -> Result<(), String> {
    let invalid =
        |_| "it is no date and time with its zone, such as 2026-11-21T06:40:53Z".to_owned();
    text.parse::<Timestamp>().map(drop).map_err(invalid)
}

fn expiration(text: &str, now: Timestamp) -> Result<(), String> {
    match read_expiration(text) {
        None => Err(format!(
            "{} is not a date such as 2026-11-21T06:40:53Z",
            quoted(text)
        )),
        Some(at) if at <= now => Err(format!("{at} has passed; it must lie in the future")),
        Some(_) => Ok(()),
    }
}

/// Reads `expirationTimeUtc`. The time zone may be left out, since the property is in UTC by its name, and so may the
/// time of day, which is then midnight.
pub(super) fn read_expiration(text: &str) -> Option<Timestamp> {
    let at = moment::expiry(text).or_else(|| moment::expiry(&format!("{text}T00:00:00Z")))?;
    // Rejects a time in the last hours of 9999 that is in the year 10000 in UTC, which RFC 3339 cannot write.
    at.to_string()
        .parse()
        .is_ok_and(|read: Timestamp| read == at)
        .then_some(at)
}

/// Checks that events of the input schema can be delivered in the schema called `text`, which is not possible for every
/// pair of schemas (rule 2.1).
fn delivery_schema(text: &str, input: &InputSchema) -> Result<(), String> {
    let can_express = |schema: &DeliverySchema| schema.can_express(input);
    let possible: Vec<&str> = DeliverySchema::ALL
        .into_iter()
        .filter(can_express)
        .map(DeliverySchema::name)
        .collect();
    if possible.contains(&text) {
        Ok(())
    } else {
        Err(format!(
            "events that are published as {} cannot be delivered as {text}; it must be {}",
            input.name(),
            one_of(&possible)
        ))
    }
}

fn wait(text: &str) -> Result<(), String> {
    let (least, most) = (OWN_WAIT_SHORTEST, OWN_WAIT_LONGEST);
    match duration::parse(text) {
        Err(invalid) => Err(format!("{} is no wait: {invalid}", quoted(text))),
        Ok(wait) if (least..=most).contains(&wait) => Ok(()),
        Ok(_) => Err(format!(
            "it must be from {} to {}, but it is {}",
            duration::format(least),
            duration::format(most),
            quoted(text)
        )),
    }
}

/// The shortest time to live of a namespace subscription, of which every other one must be a multiple.
const MINUTE: Duration = Duration::from_secs(60);

fn time_to_live(text: &str, retention: Duration) -> Result<(), String> {
    let time = duration::parse(text).map_err(|invalid| {
        format!(
            "{} is no duration such as \"PT1H\": {invalid}",
            quoted(text)
        )
    })?;
    let is_whole = time.as_secs().is_multiple_of(60) && time.subsec_nanos() == 0;
    if !is_whole || time < MINUTE {
        let least = duration::format(MINUTE);
        let found = quoted(text);
        return Err(format!(
            "it must be whole minutes from {least} to the topic's retention, but it is {found}"
        ));
    }
    let most = duration::format(retention);
    // The longest time to live is accepted for any retention, since responses give it for a subscription that has none
    // of its own and follows the topic's retention.
    if time <= retention || time == NAMESPACE_TIME_TO_LIVE_MAX {
        Ok(())
    } else {
        Err(format!(
            "it must be at most {most}, the topic's eventRetentionInDays"
        ))
    }
}

fn seconds(text: &str, range: &RangeInclusive<u64>) -> Result<(), String> {
    let (least, most) = (range.start(), range.end());
    between(
        text,
        Duration::from_secs(*least),
        Duration::from_secs(*most),
    )
}

fn message_time_to_live(text: &str) -> Result<(), String> {
    between(text, MESSAGE_TIME_TO_LIVE_MIN, duration::DURATION_MAX)
}

fn between(text: &str, least: Duration, most: Duration) -> Result<(), String> {
    let found = duration::parse(text).ok();
    if found.is_some_and(|found| (least..=most).contains(&found)) {
        Ok(())
    } else {
        let (least, most) = (duration::format(least), duration::format(most));
        let found = quoted(text);
        Err(format!(
            "it must be a duration from {least} to {most}, but it is {found}"
        ))
    }
}

fn grace_period(text: &str) -> Result<(), String> {
    match duration::parse(text) {
        Err(invalid) => Err(format!("{} is no duration: {invalid}", quoted(text))),
        Ok(grace) if grace <= SIGNING_GRACE_MAX => Ok(()),
        Ok(_) => {
            let most = duration::format(SIGNING_GRACE_MAX);
            Err(format!(
                "it must be {most} at most, but it is {}",
                quoted(text)
            ))
        }
    }
}

fn ip_mask(text: &str) -> Result<(), String> {
    match read_ip_mask(text) {
        Some(_) => Ok(()),
        None => Err(format!("it must be {IP_MASK}, but it is {}", quoted(text))),
    }
}

/// The description of a valid IP mask.
pub(super) const IP_MASK: &str = "an address or a network such as \"10.1.0.0/16\"";

/// Reads a network in CIDR notation, or a single address as a network with that one address (/32 or /128).
pub(super) fn read_ip_mask(text: &str) -> Option<IpNet> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or_else(|_| address()).ok()
}

fn host(text: &str) -> Result<(), String> {
    let invalid = |_| "it is not the name or the address of a host".to_owned();
    Host::parse(text).map(drop).map_err(invalid)
}

fn mail_address(text: &str) -> Result<(), String> {
    let invalid = |_| "it is not a mail address such as ops@example.com".to_owned();
    text.parse::<Mailbox>().map(drop).map_err(invalid)
}

fn script(text: &str) -> Result<(), String> {
    text.parse::<ResponseScript>()
        .map(drop)
        .map_err(|problem| problem.to_string())
}

fn signing_secret(text: &str) -> Result<(), String> {
    SigningSecret::parse(text)
        .map(drop)
        .map_err(|problem| problem.to_string())
}

/// Checks the name of a storage account, a region or the id of an access key, which become parts of host names and of
/// signatures.
fn account_word(text: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let problem = "it must be 1 to 128 letters, digits, hyphens, dots and underscores";
    if (1..=128).contains(&text.len()) && text.chars().all(allowed) {
        Ok(())
    } else {
        Err(problem.to_owned())
    }
}

fn base64(text: &str) -> Result<(), String> {
    STANDARD
        .decode(text)
        .map(drop)
        .map_err(|_| "it is not base64".to_owned())
}

fn username(text: &str) -> Result<(), String> {
    if text.contains(':') {
        Err("it must not contain a colon, which ends it in the header".to_owned())
    } else {
        header_value(text)
    }
}

fn bearer_token(text: &str) -> Result<(), String> {
    if is_token(text) {
        Ok(())
    } else {
        Err("it must be visible ASCII without spaces".to_owned())
    }
}

/// Checks the name of a container by Azure's rule for its length and characters. Such a name is also safe as the name
/// of a directory or a bucket.
fn container(text: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_inner = |c: Option<char>| c.is_some_and(|c| c != '-');
    let is_well_formed = (3..=63).contains(&text.len())
        && text.chars().all(allowed)
        && is_inner(text.chars().next())
        && is_inner(text.chars().last());
    if is_well_formed {
        Ok(())
    } else {
        Err(format!(
            "{} is not the name of a container: 3 to 63 lower-case letters, digits and inner hyphens",
            quoted(text)
        ))
    }
}

/// Prefixes that the names of custom headers may not have (rule 6.4), since they are those of headers that deliveries
/// have themselves (`aeg-`), or that sign a delivery and give its origin (`webhook-`).
const RESERVED_PREFIXES: [&str; 2] = ["aeg-", "webhook-"];

/// Names that custom headers may not have: headers that belong to the connection or the body (rule 6.4), and related
/// ones, with which HTTP/2 would reject the whole request. `Expect` is among them, since it would make a delivery wait
/// for the receiver before its body is sent.
const FORBIDDEN_HEADERS: [&str; 11] = [
    "Host",
    "Expect",
    "Content-Length",
    "Content-Type",
    "Connection",
    "Transfer-Encoding",
    "Keep-Alive",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Upgrade",
];

fn header_name(text: &str) -> Result<(), String> {
    let found = quoted(text);
    if HeaderName::from_bytes(text.as_bytes()).is_err() {
        let allowed = "letters, digits and !#$%&'*+-.^_`|~";
        return Err(format!(
            "{found} is not the name of a header; only {allowed} are allowed"
        ));
    }
    let name = text.to_ascii_lowercase();
    let mut reserved = RESERVED_PREFIXES.iter();
    if let Some(prefix) = reserved.find(|prefix| name.starts_with(**prefix)) {
        return Err(format!(
            "{found} is reserved, as are all names that start with {prefix:?}"
        ));
    }
    let mut forbidden = FORBIDDEN_HEADERS.iter();
    if forbidden.any(|forbidden| forbidden.eq_ignore_ascii_case(text)) {
        Err(format!(
            "{found} cannot be set, and neither can any other of {}",
            one_of(&FORBIDDEN_HEADERS)
        ))
    } else {
        Ok(())
    }
}

pub(super) fn header_value(text: &str) -> Result<(), String> {
    let problem = |_| "control characters such as line breaks are not allowed".to_owned();
    HeaderValue::from_str(text).map(drop).map_err(problem)
}
