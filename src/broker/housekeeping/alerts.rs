//! Evaluation of alert rules: gathers observations, evaluates the rules, and sends the alert messages.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use url::Url;

use crate::base::Timestamp;
use crate::base::human::date_time;
use crate::broker::Broker;
use crate::model::alert::{
    AlertCondition, AlertMessage, AlertObservations, AlertSent, EndpointHealth, StoredAlertChannel,
    StoredAlertRule,
};
use crate::model::destination::DeliveryMode;
use crate::model::name::TopicName;
use crate::model::probation::Failing;
use crate::model::registry::{Registry, TopicEntry};
use crate::model::subscription::{Disabled, EventSubscription, SubscriptionId, SubscriptionStatus};
use crate::store::{DueAlertMessage, StoreError};
use crate::wire::alert::AlertNotice;

/// Pause between two evaluations of the alert rules. Alerts need no more precision than this.
const ROUND_INTERVAL: Duration = Duration::from_secs(10);

/// Returns when the TLS server certificate expires; `None` if there is no certificate to renew.
pub type CertificateEnd = Arc<dyn Fn() -> Option<Timestamp> + Send + Sync>;

impl Broker {
    /// Evaluates the alert rules until the broker stops.
    pub async fn run_alerts(self, certificate_end: CertificateEnd) {
        while !self.is_stopping() {
            if let Err(error) = self.check_alerts(certificate_end()).await {
                tracing::warn!(%error, "the alert rules could not be judged and will be again");
            }
            tokio::select! {
                () = tokio::time::sleep(ROUND_INTERVAL) => {}
                () = self.shared.alert_wake.notified() => {}
                () = self.stopping() => {}
            }
        }
    }

    /// Evaluates the alert rules once: stores changed alerts with their messages, and sends the messages that are due.
    pub async fn check_alerts(&self, certificate_end: Option<Timestamp>) -> Result<(), StoreError> {
        let rules = self.store().views.alert_rules().await?;
        let is_heard = !self.store().views.alert_channels().await?.is_empty();
        let now = self.clock().now();
        let facts = self.alert_facts(&rules, certificate_end, now).await?;
        let mut firing = 0;
        for rule in rules {
            let (alerts, message) = rule.evaluate(&facts, is_heard, now);
            firing += alerts.iter().filter(|alert| !alert.is_over).count();
            if alerts != rule.alerts || message.is_some() {
                let alerts_store = &self.store().alerts;
                alerts_store.record(rule, alerts, message, now).await?;
            }
        }
        self.meters().alerting(firing);
        self.send_due_alerts().await
    }

    /// Gathers the observations for the enabled rules. Queries the store only for conditions in use.
    async fn alert_facts(
        &self,
        rules: &[StoredAlertRule],
        certificate_end: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<AlertObservations, StoreError> {
        let enabled = rules.iter().filter(|rule| rule.rule.enabled);
        let conditions: Vec<_> = enabled.map(|rule| &rule.rule.condition).collect();
        let is_asked = |is_it: fn(&AlertCondition) -> bool| conditions.iter().any(|it| is_it(it));
        let registry = self.registry();
        let mut facts = AlertObservations {
            disk_free: self.store().upkeep.free_bytes(),
            backup: self
                .backups()
                .last
                .map(|last| last.error.map_or(Ok(()), Err)),
            ..AlertObservations::default()
        };
        if is_asked(|it| matches!(it, AlertCondition::EndpointFailing { .. })) {
            facts.endpoints = self.endpoint_facts(&registry, now);
        }
        if is_asked(|it| matches!(it, AlertCondition::OldPending { .. })) {
            let oldest = self.store().views.oldest_pending().await?;
            facts.oldest_pending = named(&registry, oldest);
        }
        if is_asked(|it| matches!(it, AlertCondition::NoEvents { .. })) {
            facts.last_events = self.last_events(&registry, now).await?;
        }
        if is_asked(|it| matches!(it, AlertCondition::Expiring { .. })) {
            facts.expiring = self.expiring(certificate_end).await?;
        }
        facts.dead_letters = self.dead_letter_facts(&registry, &conditions, now).await?;
        Ok(facts)
    }

    /// Returns the endpoint health of every push subscription, except those that are intentionally not delivered to.
    fn endpoint_facts(&self, registry: &Registry, now: Timestamp) -> Vec<(String, EndpointHealth)> {
        let sent = |(_, each): &(_, &Arc<EventSubscription>)| {
            each.definition.destination.delivery_mode() == DeliveryMode::Push
        };
        let sent = registry.subscriptions().filter(sent);
        let facts = sent.filter_map(|(topic, each)| {
            let health = self.endpoint_health(each, now)?;
            Some((title(topic, each), health))
        });
        facts.collect()
    }

    /// Returns the health of an endpoint; `None` if delivery to it is intentionally off, e.g. paused or expired.
    fn endpoint_health(
        &self,
        subscription: &EventSubscription,
        now: Timestamp,
    ) -> Option<EndpointHealth> {
        let known = self.health().known(subscription.id);
        let health = known.unwrap_or_default();
        let failing = |since, detail| Some(EndpointHealth::Failing { since, detail });
        match subscription.standing(&health, now) {
            SubscriptionStatus::Disabled(Disabled::Gone { at }) => {
                failing(at, "disabled after the response 410".to_owned())
            }
            SubscriptionStatus::Expired
            | SubscriptionStatus::Paused
            | SubscriptionStatus::Disabled(Disabled::ByOperator)
            | SubscriptionStatus::NotValidated(_) => None,
            SubscriptionStatus::Active
            | SubscriptionStatus::Gone
            | SubscriptionStatus::OnProbation => match (health.failing, health.gone_since) {
                (Some(it), _) => failing(it.since, every_attempt_failed(it)),
                (None, Some(since)) => failing(since, "the last response was 410".to_owned()),
                (None, None) if known.is_some() => Some(EndpointHealth::Working),
                (None, None) => Some(EndpointHealth::Unknown),
            },
        }
    }

    /// Returns dead-letter counts per subscription, for each period in minutes that an enabled rule uses.
    async fn dead_letter_facts(
        &self,
        registry: &Registry,
        conditions: &[&AlertCondition],
        now: Timestamp,
    ) -> Result<BTreeMap<u32, Vec<(String, u64)>>, StoreError> {
        let mut periods = BTreeSet::new();
        for condition in conditions {
            if let AlertCondition::DeadLetters { minutes, .. } = condition {
                periods.insert(*minutes);
            }
        }
        let mut facts = BTreeMap::new();
        for minutes in periods {
            let from = now - minutes * Duration::from_secs(60);
            let counted = self.store().views.dead_lettered_since(from).await?;
            facts.insert(minutes, named(registry, counted));
        }
        Ok(facts)
    }

    /// Returns when the last event of each topic was received; without events, when the topic was created.
    async fn last_events(
        &self,
        registry: &Registry,
        now: Timestamp,
    ) -> Result<Vec<(TopicName, Timestamp)>, StoreError> {
        /// Length of the interval that events are counted in; an event may be received at its end.
        const MINUTE: Duration = Duration::from_secs(60);
        let newest: HashMap<_, _> = self.store().views.last_events().await?;
        let last = |entry: &Arc<TopicEntry>| {
            let topic = &entry.topic;
            let last = newest
                .get(&topic.id)
                .map(|start| (*start + MINUTE).min(now));
            (topic.name.clone(), last.unwrap_or(topic.created_at))
        };
        Ok(registry.made_topics().map(last).collect())
    }

    async fn expiring(
        &self,
        certificate_end: Option<Timestamp>,
    ) -> Result<Vec<(String, Timestamp)>, StoreError> {
        let certificate = certificate_end.map(|at| ("TLS certificate".to_owned(), at));
        let tokens = self.store().accounts.tokens().await?.into_iter();
        let tokens =
            tokens.filter_map(|it| Some((format!("API token {}", it.name), it.expires_at?)));
        Ok(certificate.into_iter().chain(tokens).collect())
    }

    async fn send_due_alerts(&self) -> Result<(), StoreError> {
        let due = self.store().alerts.due(self.clock().now()).await?;
        let sending = due.iter().map(|each| self.send_alert(each));
        for sent in join_all(sending).await {
            sent?;
        }
        Ok(())
    }

    async fn send_alert(&self, due: &DueAlertMessage) -> Result<(), StoreError> {
        let (channel, attempts) = (&due.channel, due.attempts + 1);
        let sent = self
            .tell(channel, &due.rule, &due.message, due.created_at)
            .await;
        self.meters().alert_sent(sent.is_ok());
        if let Err(error) = &sent {
            tracing::warn!(channel = %channel.name, rule = due.rule, attempts, error, "an alert message was not sent");
        }
        let (alerts, now) = (&self.store().alerts, self.clock().now());
        let message = Some((due.id, attempts));
        alerts.record_sent(channel.id, message, sent, now).await
    }

    /// Sends an alert message of `rule`, created at `at`, to `channel`.
    pub(in crate::broker) async fn tell(
        &self,
        channel: &StoredAlertChannel,
        rule: &str,
        message: &AlertMessage,
        at: Timestamp,
    ) -> AlertSent {
        let options = self.options();
        let public_url = &options.public_url;
        let url = Url::parse(public_url).ok();
        let notice = AlertNotice {
            rule,
            message,
            link: &format!("{public_url}/admin/alerts"),
            source: url.as_ref().and_then(Url::host_str).unwrap_or_default(),
            at,
        };
        self.outbound().send_alert(&channel.channel, &notice).await
    }
}

/// Returns the text of an alert about an endpoint that has failed for long enough.
fn every_attempt_failed(failing: Failing) -> String {
    let last = match failing.status {
        Some(status) => format!("last response {status}"),
        None => format!("last result: {}", failing.last.title("")),
    };
    let since = date_time(failing.since);
    format!("every attempt has failed since {since} UTC, {last}")
}

fn title(topic: &TopicEntry, subscription: &EventSubscription) -> String {
    format!("{}/{}", topic.topic.name, subscription.name)
}

/// Replaces subscription ids with names and drops subscriptions that no longer exist. A queue has the name of its
/// topic.
fn named<T>(registry: &Registry, found: Vec<(SubscriptionId, T)>) -> Vec<(String, T)> {
    let name = |id| {
        let (topic, subscription) = registry.subscription(id)?;
        Some(match &topic.own {
            Some(_) => topic.topic.name.to_string(),
            None => title(topic, subscription),
        })
    };
    found
        .into_iter()
        .filter_map(|(id, value)| Some((name(id)?, value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::delivery::Outcome;

    #[test]
    fn an_alert_says_how_an_endpoint_fails() {
        let said = |last, status| {
            let since = Timestamp::from_ms(0);
            every_attempt_failed(Failing {
                since,
                last,
                status,
            })
        };
        for (last, status, end) in [
            (Outcome::Busy, Some(503), "UTC, last response 503"),
            (
                Outcome::TimedOut,
                None,
                "UTC, last result: No response in time",
            ),
            (
                Outcome::SocketError,
                None,
                "UTC, last result: Connection failed",
            ),
        ] {
            let text = said(last, status);
            assert!(text.ends_with(end), "{text}");
        }
    }
}
