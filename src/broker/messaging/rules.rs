//! Rules of a subscription, as its receivers add and remove them.

use crate::broker::messaging::{MessageReceiver, MessagingError, NotAllowed};
use crate::broker::{ErrorKind, ManageError, Put};
use crate::model::audit::Caller;
use crate::model::lease::SubQueue;
use crate::model::name::{RuleName, SubscriptionName, TopicName};
use crate::model::rule::Rule;

impl MessageReceiver {
    /// Adds a rule, which must not be there.
    pub async fn add_rule(&self, by: &Caller, rule: Rule) -> Result<(), MessagingError> {
        let (topic, own) = self.with_rules()?;
        let name = rule.name.to_string();
        let put = Put::Create;
        match self.broker().put_rule(by, topic, own, rule, put).await {
            Ok(_) => Ok(()),
            Err(ManageError::Exists(_)) => Err(MessagingError::RuleExists {
                entity: self.address(),
                rule: name,
            }),
            Err(error) => Err(self.rules_unchanged(error)),
        }
    }

    /// Removes a rule, which must be there.
    pub async fn remove_rule(&self, by: &Caller, rule: &str) -> Result<(), MessagingError> {
        let (topic, own) = self.with_rules()?;
        let missing = || MessagingError::RuleNotFound {
            entity: self.address(),
            rule: rule.to_owned(),
        };
        let name = RuleName::parse(rule).map_err(|_| missing())?;
        let removed = self.broker().delete_rule(by, topic, own, &name).await;
        if removed.map_err(|error| self.rules_unchanged(error))? {
            return Ok(());
        }
        Err(missing())
    }

    /// Returns up to `top` rules by name, after the first `skip`.
    pub fn rules(&self, skip: usize, top: usize) -> Result<Vec<Rule>, MessagingError> {
        let (topic, own) = self.with_rules()?;
        let found = self.broker().service_bus_subscription(topic, own);
        let own = found.map_err(|error| self.rules_unchanged(error))?;
        let all = self.broker().rules(&own).into_iter();
        let page = all.skip(skip).take(top);
        Ok(page.map(|rule| Rule::clone(&rule)).collect())
    }

    /// Returns the names of the subscription of Service Bus that it is.
    fn with_rules(&self) -> Result<(&TopicName, &SubscriptionName), MessagingError> {
        let has_rules = self.topic.has_rules(&self.subscription);
        if has_rules && self.sub_queue == SubQueue::Active {
            return Ok((&self.topic.topic.name, &self.subscription.name));
        }
        Err(NotAllowed::HasNoRules.into())
    }

    fn rules_unchanged(&self, error: ManageError) -> MessagingError {
        match (error.kind(), error) {
            (ErrorKind::Unavailable, ManageError::Store(error)) => error.into(),
            (_, error) => MessagingError::RulesUnchanged {
                entity: self.address(),
                error: Box::new(error),
            },
        }
    }
}
