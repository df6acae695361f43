//! The page of alerts: what fires, what is watched, who is notified, and the last messages.

mod form;

pub(crate) use form::{AlertChannelForm, AlertRuleForm};

use crate::admin::action::{Call, Deletable, Names, Subject, name_of};
use crate::admin::error::PageResult;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::answer;
use crate::admin::site::{Site, named_in};
use crate::admin::widgets::{Badge, Empty, Flash, Icon, Tone, filters};
use crate::model::alert::{
    AlertMessageState, StoredAlertChannel, StoredAlertMessage, StoredAlertRule,
};
use crate::model::name::{AlertChannelName, AlertRuleName};

const PAGE: &str = "/admin/alerts";

/// Messages on the page; `GET /everpost/alerts/messages` has all.
const MESSAGES_SHOWN: usize = 20;

pub(crate) async fn show(call: Call) -> PageResult {
    let messages = call.views.alert_messages(None, MESSAGES_SHOWN).await?.rows;
    let recipe = Recipe::of(&call, "/everpost/alerts", "everpost alerts list");
    answer!("pages/alerts.html", &call.visitor, "Alerts", {
        rules: Vec<StoredAlertRule> = call.views.alert_rules().await?,
        channels: Vec<StoredAlertChannel> = call.views.alert_channels().await?,
        messages: Vec<StoredAlertMessage> = messages,
        recipe: Recipe = recipe,
    })
}

fn firing(rules: &[StoredAlertRule]) -> usize {
    rules.iter().map(|rule| rule.firing().count()).sum()
}

fn all_fail(channels: &[StoredAlertChannel]) -> bool {
    !channels.is_empty() && channels.iter().all(StoredAlertChannel::is_failing)
}

fn state_of_rule(rule: &StoredAlertRule) -> Badge {
    match (rule.rule.enabled, rule.firing().count()) {
        (false, _) => Badge::new(Tone::Rest, "Disabled"),
        (true, 0) => Badge::new(Tone::Good, "Enabled"),
        (true, _) => Badge::new(Tone::Bad, "Firing"),
    }
}

fn state_of_channel(channel: &StoredAlertChannel) -> Badge {
    match (channel.is_failing(), channel.sent_at) {
        (true, _) => Badge::new(Tone::Bad, "Failing"),
        (false, Some(_)) => Badge::new(Tone::Good, "Working"),
        (false, None) => Badge::new(Tone::Rest, "Not used yet"),
    }
}

fn state_of_message(message: &StoredAlertMessage) -> Badge {
    match message.state {
        AlertMessageState::Pending => Badge::new(Tone::Warn, "Pending"),
        AlertMessageState::Sent => Badge::new(Tone::Good, "Sent"),
        AlertMessageState::Failed => Badge::new(Tone::Bad, "Failed"),
    }
}

impl Subject for StoredAlertRule {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        let name = named_in("alert rule", name_of(names, "rule"), AlertRuleName::parse)?;
        Ok(site.broker.alert_rule(&name).await?)
    }

    fn page(&self) -> String {
        PAGE.to_owned()
    }

    fn address(&self) -> String {
        format!("/admin/alert-rules/{}", self.name)
    }
}

impl Subject for StoredAlertChannel {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        let text = name_of(names, "channel");
        let name = named_in("alert channel", text, AlertChannelName::parse)?;
        Ok(site.broker.alert_channel(&name).await?)
    }

    fn page(&self) -> String {
        PAGE.to_owned()
    }

    fn address(&self) -> String {
        format!("/admin/alert-channels/{}", self.name)
    }
}

/// Enables or disables a rule.
pub(crate) async fn enable(call: Call<StoredAlertRule>, enabled: bool) -> PageResult<Flash> {
    let (name, mut rule) = (&call.of.name, call.of.rule.clone());
    rule.enabled = enabled;
    call.broker.put_alert_rule(call.by(), name, rule).await?;
    let now = if enabled { "enabled" } else { "disabled" };
    Ok(Flash::done(format!("Alert rule {name} has been {now}.")))
}

impl Deletable for StoredAlertRule {
    const NOUN: &'static str = "alert rule";
    const LOSES: &'static str = "No more alerts are sent for it.";

    async fn delete(call: &Call<Self>) -> PageResult<bool> {
        let (broker, name) = (&call.broker, &call.of.name);
        Ok(broker.delete_alert_rule(call.by(), name).await?)
    }
}

pub(crate) async fn test_channel(call: Call<StoredAlertChannel>) -> PageResult<Flash> {
    send_test(&call, &call.of.name).await
}

/// Sends a test message, and says what the other side answered.
async fn send_test<S>(call: &Call<S>, name: &AlertChannelName) -> PageResult<Flash> {
    let sent = call.broker.test_alert_channel(call.by(), name).await?;
    Ok(match sent {
        Ok(answer) => Flash::done(format!("Test message sent to {name}. Answer: {answer}")),
        Err(error) => Flash::failed(format!("Test message to {name} failed: {error}.")),
    })
}

impl Deletable for StoredAlertChannel {
    const NOUN: &'static str = "alert channel";
    const LOSES: &'static str = "It gets no more alerts, and the list of its messages is deleted.";

    async fn delete(call: &Call<Self>) -> PageResult<bool> {
        let (broker, name) = (&call.broker, &call.of.name);
        Ok(broker.delete_alert_channel(call.by(), name).await?)
    }
}
