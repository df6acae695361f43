//! The support bundle: the facts that a support engineer needs about this appliance, in one readable document.
//!
//! The bundle contains no secrets and no event data. Endpoints are reduced to host and port, since the path of a
//! webhook often contains a secret.

use std::time::Duration;

use serde_json::{Value, json};

use crate::broker::SubscriptionCounts;
use crate::broker::diagnostics::{Diagnostics, IntegrityStatus, OutboundCheck, Report};
use crate::model::audit::{AuditAction, AuditTarget, Caller};
use crate::model::clock_skew::ClockSkew;
use crate::model::destination::EndpointUrl;
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::outbound::evaluate::EgressVerdict;
use crate::store::{CommitTimes, StoreError};
use crate::wire::resource::{self, Observed};

/// The format version of the bundle. It is raised when a part of the bundle moves or changes its meaning.
const FORMAT: u32 = 1;

/// Property names in resources.
const ENDPOINT: &str = "endpointBaseUrl";
const TOKEN_URL: &str = "tokenUrl";
const STORAGE_URL: &str = "endpointUrl";
const HEADERS: &str = "deliveryAttributeMappings";
const HEADER_KEPT: [&str; 2] = ["name", "type"];

impl Diagnostics {
    /// Creates the bundle of the current state, and records that in the audit log.
    pub async fn bundle(&self, by: &Caller) -> Result<Value, StoreError> {
        let action = AuditAction::CreateSupportBundle;
        let broker = &self.0.broker;
        broker.record(by, action, AuditTarget::appliance()).await?;
        let report = self.report().await?;
        let registry = self.0.broker.registry();
        let topics = registry
            .topics()
            .filter_map(|topic| resource::whole_entity(topic, ""));
        let topics: Vec<Value> = topics.collect();
        let subscriptions = registry.subscriptions();
        let subscriptions =
            subscriptions.map(|(topic, each)| self.subscription(topic, each, &report));
        let subscriptions: Vec<Value> = subscriptions.collect();
        Ok(json!({
            "format": FORMAT,
            "madeAt": report.at.to_string(),
            "everpost": self.identity(),
            "system": system(&report),
            "settings": self.settings_in_force(),
            "accounts": report.accounts.iter().map(|each| SubscriptionCounts::new(each, None)).collect::<Vec<_>>(),
            "topics": topics,
            "eventSubscriptions": subscriptions,
            "schema": { "version": report.schema.version, "statements": report.schema.statements },
            "log": self.log(),
        }))
    }

    fn identity(&self) -> Value {
        let facts = self.facts();
        let places = facts.places.iter();
        json!({
            "version": facts.version,
            "platform": facts.platform,
            "sqlite": facts.sqlite,
            "startedAt": facts.started_at.to_string(),
            "places": places.map(|(name, path)| json!({ "name": name, "path": path })).collect::<Vec<_>>(),
            "components": facts.components,
        })
    }

    fn settings_in_force(&self) -> Value {
        let settings = self.settings();
        let shown = settings.all.iter().map(|setting| {
            json!({
                "name": setting.name,
                "value": setting.json(),
                "origin": setting.origin.name(),
                "place": setting.place,
            })
        });
        shown.collect()
    }

    fn subscription(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        report: &Report,
    ) -> Value {
        let health = self.0.broker.health_of(subscription.id);
        let observed = Observed {
            health: &health,
            outage: None,
            now: report.at,
        };
        let mut shown = resource::render_subscription(topic, subscription, observed);
        let receiver = subscription.definition.destination.brief();
        withhold(&mut shown, receiver);
        shown
    }
}

/// Removes secrets from a resource: endpoints become `receiver`, other URLs host and port, and header values go.
fn withhold(value: &mut Value, receiver: &str) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match name.as_str() {
                    ENDPOINT => *member = json!(receiver),
                    TOKEN_URL | STORAGE_URL => *member = host(member),
                    HEADERS => withhold_headers(member),
                    _ => withhold(member, receiver),
                }
            }
        }
        Value::Array(members) => members
            .iter_mut()
            .for_each(|member| withhold(member, receiver)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the host and port of a URL; null if it cannot be parsed.
fn host(url: &Value) -> Value {
    let parsed = url.as_str().and_then(|url| EndpointUrl::parse(url).ok());
    json!(parsed.as_ref().map(EndpointUrl::authority))
}

/// Removes the values of headers.
fn withhold_headers(headers: &mut Value) {
    for header in headers.as_array_mut().into_iter().flatten() {
        if let Some(header) = header.as_object_mut() {
            header.retain(|name, _| HEADER_KEPT.contains(&name.as_str()));
        }
    }
}

fn system(report: &Report) -> Value {
    let (storage, engine_status) = (&report.storage, &report.engine_status);
    let sizes = &storage.sizes;
    json!({
        "timeScale": report.time_scale.factor(),
        "databaseBytes": sizes.file,
        "usedBytes": sizes.used(),
        "freeBytes": sizes.free,
        "pageBytes": sizes.page,
        "logBytes": sizes.log,
        "diskFreeBytes": sizes.disk_free,
        "diskIsLow": report.disk_is_low,
        "wallClock": format!("{:?}", report.wall_clock),
        "pressure": storage.pressure.map(|pressure| pressure.name()),
        "oldestEventAt": storage.oldest.map(|(_, at)| at.to_string()),
        "eventsPrunedSinceStart": storage.pruned.events,
        "storeReaders": engine_status.readers,
        "changesWaiting": engine_status.changes_waiting,
        "changesMax": engine_status.changes_max,
        "commitTimes": commit_times(&engine_status.commit_times),
        "logWrittenBackAt": engine_status.checkpointed_at.map(|at| at.to_string()),
        "runtimeThreads": report.workers,
        "runtimeTasks": report.tasks,
        "runtimeBusyShare": report.busy,
        "connections": report.connections,
        "connectionsMax": report.connections_max,
        "requestsInFlight": report.in_flight,
        "requestsInFlightMax": report.in_flight_max,
        "subscriptionsOnProbation": report.on_probation,
        "integrity": IntegrityStatus::of(&report.integrity, &report.found_at_start),
        "wayOut": report.outbound_check.as_ref().map(outbound_check),
    })
}

fn commit_times(times: &CommitTimes) -> Value {
    json!({
        "commits": times.commits,
        "medianMs": milliseconds(times.median),
        "longestMs": milliseconds(times.longest),
    })
}

/// Converts a duration to milliseconds with three decimals.
fn milliseconds(span: Duration) -> f64 {
    span.as_micros() as f64 / 1_000.0
}

fn outbound_check(tried: &OutboundCheck) -> Value {
    let connectivity = &tried.connectivity;
    let call = connectivity.call.as_ref();
    let (reached, error) = match call.map(|call| &call.response) {
        Some(Ok(reached)) => (Some(reached), None),
        Some(Err(error)) => (None, Some(error.to_string())),
        None => (None, None),
    };
    let (verdict, addresses, reason) = match &connectivity.verdict {
        EgressVerdict::Allowed(permits) => {
            let addresses = permits.iter().map(|(address, _)| address.to_string());
            ("Allowed", addresses.collect(), None)
        }
        EgressVerdict::Inside => ("Inside", Vec::new(), None),
        EgressVerdict::Denied(denied) => ("Denied", Vec::new(), Some(denied.to_string())),
        EgressVerdict::Unresolved(reason) => ("Unresolved", Vec::new(), Some(reason.clone())),
    };
    json!({
        "at": tried.at.to_string(),
        "place": tried.place,
        "verdict": verdict,
        "addresses": addresses,
        "lookupMs": connectivity.lookup.map(milliseconds),
        "connectMs": call.and_then(|call| call.connect).map(milliseconds),
        "waitMs": reached.map(|reached| milliseconds(reached.wait)),
        "status": reached.map(|reached| reached.status),
        "clockSkewMs": reached.and_then(|reached| reached.clock_skew).map(ClockSkew::as_ms),
        "error": error.or(reason),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_receivers_no_more_than_their_host_and_names_of_headers_are_left() {
        let mut subscription = json!({"properties": {"destination": {"properties": {
        "endpointBaseUrl": "https://hooks.example.com/services/T0/B0/secret",
        "authentication": {"tokenUrl": "https://login.example.com:8443/tenant/secret"},
        "maxEventsPerBatch": 3,
        "deliveryAttributeMappings": [
            {"name": "X-Team", "type": "Static", "properties": {"value": "secret"}},
            {"name": "X-Id", "type": "Dynamic", "properties": {"sourceField": "id"}},
        ]}}}});
        withhold(&mut subscription, "hooks.example.com");
        assert_eq!(
            subscription["properties"]["destination"]["properties"],
            json!({
                "endpointBaseUrl": "hooks.example.com",
                "authentication": {"tokenUrl": "login.example.com:8443"},
                "maxEventsPerBatch": 3,
                "deliveryAttributeMappings": [
                    {"name": "X-Team", "type": "Static"}, {"name": "X-Id", "type": "Dynamic"},
                ],
            })
        );
    }
}
