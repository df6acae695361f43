//! Alert rules and alert channels: creating, changing, deleting and trying them.

use crate::broker::Broker;
use crate::model::alert::{
    AlertChannel, AlertMessage, AlertRule, AlertSent, StoredAlertChannel, StoredAlertRule,
};
use crate::model::audit::{AuditAction, Caller, TargetKind};
use crate::model::limits::{ALERT_CHANNELS_MAX, ALERT_RULES_MAX};
use crate::model::name::{AlertChannelName, AlertRuleName};
use crate::store::{PutOutcome, StoreError};

/// Why an alert rule or an alert channel was not found, or not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AlertError {
    #[error("there is no alert rule {0}")]
    NoRule(AlertRuleName),
    #[error("there is no alert channel {0}")]
    NoChannel(AlertChannelName),
    #[error("there are {ALERT_RULES_MAX} alert rules, which is the most there can be; delete one")]
    TooManyRules,
    #[error(
        "there are {ALERT_CHANNELS_MAX} alert channels, which is the most there can be; delete one"
    )]
    TooManyChannels,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Broker {
    pub async fn alert_rule(&self, name: &AlertRuleName) -> Result<StoredAlertRule, AlertError> {
        let rules = self.store().views.alert_rules().await?;
        let found = rules.into_iter().find(|each| each.name == *name);
        found.ok_or_else(|| AlertError::NoRule(name.clone()))
    }

    /// Creates a rule, or changes one. Returns whether it is new.
    pub async fn put_alert_rule(
        &self,
        by: &Caller,
        name: &AlertRuleName,
        rule: AlertRule,
    ) -> Result<bool, AlertError> {
        let put = self.store().alerts.put_rule(name.clone(), rule, by.clone());
        let outcome = put.await?;
        self.shared.alert_wake.notify_one();
        is_new(outcome, AlertError::TooManyRules)
    }

    /// Deletes a rule. What it fires for is forgotten, and nobody is told.
    pub async fn delete_alert_rule(
        &self,
        by: &Caller,
        name: &AlertRuleName,
    ) -> Result<bool, AlertError> {
        let alerts = &self.store().alerts;
        let deleted = alerts.delete_rule(name.clone(), by.clone()).await?;
        self.shared.alert_wake.notify_one();
        Ok(deleted)
    }

    pub async fn alert_channel(
        &self,
        name: &AlertChannelName,
    ) -> Result<StoredAlertChannel, AlertError> {
        let channels = self.store().views.alert_channels().await?;
        let found = channels.into_iter().find(|each| each.name == *name);
        found.ok_or_else(|| AlertError::NoChannel(name.clone()))
    }

    /// Creates a channel, or changes one. Returns whether it is new.
    pub async fn put_alert_channel(
        &self,
        by: &Caller,
        name: &AlertChannelName,
        channel: AlertChannel,
    ) -> Result<bool, AlertError> {
        let alerts = &self.store().alerts;
        let outcome = alerts
            .put_channel(name.clone(), channel, by.clone())
            .await?;
        self.shared.alert_wake.notify_one();
        is_new(outcome, AlertError::TooManyChannels)
    }

    /// Deletes a channel with its messages. Returns whether there was one.
    pub async fn delete_alert_channel(
        &self,
        by: &Caller,
        name: &AlertChannelName,
    ) -> Result<bool, AlertError> {
        let alerts = &self.store().alerts;
        Ok(alerts.delete_channel(name.clone(), by.clone()).await?)
    }

    /// Sends a test message at once, and tells what the other side answered, or what went wrong.
    pub async fn test_alert_channel(
        &self,
        by: &Caller,
        name: &AlertChannelName,
    ) -> Result<AlertSent, AlertError> {
        let channel = self.alert_channel(name).await?;
        let target = TargetKind::AlertChannel.named(name);
        self.record(by, AuditAction::SendTestMessage, target)
            .await?;
        let (message, now) = (AlertMessage::test(), self.clock().now());
        let sent = self.tell(&channel, "test", &message, now).await;
        let (alerts, now) = (&self.store().alerts, self.clock().now());
        alerts
            .record_sent(channel.id, None, sent.clone(), now)
            .await?;
        Ok(sent)
    }
}

fn is_new(outcome: PutOutcome, too_many: AlertError) -> Result<bool, AlertError> {
    match outcome {
        PutOutcome::Created => Ok(true),
        PutOutcome::Replaced => Ok(false),
        PutOutcome::TooMany => Err(too_many),
    }
}
