//! Creation, change and deletion of Service Bus topics, subscriptions and rules (rule S7).

use std::sync::Arc;

use crate::broker::Broker;
use crate::broker::manage::queues::{Put, Queue, check_fixed, check_targets};
use crate::broker::manage::{ManageError, check_path, entity_not_found, entity_of_kind};
use crate::model::access::AccessKeys;
use crate::model::audit::{AuditTarget, Caller};
use crate::model::destination::Destination;
use crate::model::limits::{
    RULE_BYTES_MAX, RULES_MEMORY_MAX, RULES_PER_TOPIC_MAX, SUBSCRIPTIONS_PER_TOPIC_MAX,
};
use crate::model::name::{RuleName, SubscriptionName, TopicName};
use crate::model::queue::{MessageSubscription, ServiceBusTopic};
use crate::model::registry::{SubscriptionKind, TopicEntry};
use crate::model::rule::Rule;
use crate::model::subscription::{EventSubscription, OnDelete};
use crate::model::topic::{EntityKind, TopicKind};
use crate::store::RegistryChange;
use crate::wire::resource;

impl Broker {
    /// Returns all Service Bus topics, ordered by name.
    pub fn service_bus_topics(&self) -> Vec<Arc<TopicEntry>> {
        self.entities(EntityKind::ServiceBusTopic)
    }

    /// Returns the Service Bus topic with this name.
    pub fn service_bus_topic(&self, name: &TopicName) -> Result<Arc<TopicEntry>, ManageError> {
        self.entity(EntityKind::ServiceBusTopic, name)
    }

    /// Returns the Service Bus subscription with this name, and its topic.
    pub fn service_bus_subscription(
        &self,
        topic: &TopicName,
        name: &SubscriptionName,
    ) -> Result<Queue, ManageError> {
        let entry = self.service_bus_topic(topic)?;
        let found = message_subscription(&entry, name).ok().flatten().cloned();
        let missing = || ManageError::ServiceBusSubscriptionNotFound(topic.clone(), name.clone());
        Ok((entry, found.ok_or_else(missing)?))
    }

    /// Creates a Service Bus topic, or replaces the definition of an existing one, if `put` allows that change.
    pub async fn put_service_bus_topic(
        &self,
        by: &Caller,
        name: TopicName,
        definition: ServiceBusTopic,
        put: Put,
    ) -> Result<Arc<TopicEntry>, ManageError> {
        let _one_at_a_time = self.shared.managing.lock().await;
        let registry = self.registry();
        let found = entity_of_kind(&registry, &name, EntityKind::ServiceBusTopic)?;
        let missing = || entity_not_found(EntityKind::ServiceBusTopic, &name);
        let known = found.map_or(&name, |entry| &entry.topic.name);
        let target = AuditTarget::service_bus_topic(known);
        put.check(found.is_some(), &target, missing)?;
        let tier = self.options().service_bus_tier;
        definition.upkeep.check_size(tier)?;
        let change = match found {
            None => {
                check_path(&registry, name.as_str())?;
                RegistryChange::AddTopic {
                    namespace: None,
                    name: name.clone(),
                    kind: TopicKind::ServiceBus(definition),
                    keys: AccessKeys::generate(self.entropy()),
                }
            }
            Some(entry) => {
                let before = entry.topic.kind.service_bus();
                let changed = before.and_then(|before| before.fixed_change(&definition));
                check_fixed("Topic", changed)?;
                RegistryChange::ChangeTopic {
                    id: entry.topic.id,
                    kind: TopicKind::ServiceBus(definition),
                }
            }
        };
        self.save(change, Some(by.defined(target))).await?;
        self.service_bus_topic(&name)
    }

    /// Deletes a Service Bus topic with its subscriptions and their messages. Returns whether the topic existed.
    pub async fn delete_service_bus_topic(
        &self,
        by: &Caller,
        name: &TopicName,
    ) -> Result<bool, ManageError> {
        self.delete_entity(by, EntityKind::ServiceBusTopic, name, OnDelete::Discard)
            .await
    }

    /// Creates a Service Bus subscription with its first rule, or replaces the definition of an existing one, if `put`
    /// allows that change.
    pub async fn put_service_bus_subscription(
        &self,
        by: &Caller,
        topic: &TopicName,
        name: SubscriptionName,
        definition: MessageSubscription,
        rule: Rule,
        put: Put,
    ) -> Result<Queue, ManageError> {
        check_size(&rule)?;
        let one_at_a_time = self.shared.managing.lock().await;
        let entry = self.service_bus_topic(topic)?;
        check_targets(&self.registry(), topic, &definition.pull.receiving)?;
        let found = message_subscription(&entry, &name)?;
        let missing = || ManageError::ServiceBusSubscriptionNotFound(topic.clone(), name.clone());
        let known = found.map_or(&name, |current| &current.name);
        let target = AuditTarget::service_bus_subscription(&entry.topic.name, known);
        put.check(found.is_some(), &target, missing)?;
        let change = match found {
            None if entry.subscriptions.size() >= SUBSCRIPTIONS_PER_TOPIC_MAX => {
                return Err(ManageError::TooManySubscriptions(topic.clone()));
            }
            None => {
                check_room(&entry, &rule, None)?;
                RegistryChange::AddServiceBusSubscription {
                    topic: entry.topic.id,
                    name: name.clone(),
                    definition: definition.subscription(),
                    rule,
                }
            }
            Some(current) => {
                let before = MessageSubscription::of(&current.definition);
                let changed = before.and_then(|before| before.fixed_change(&definition));
                check_fixed("Subscription", changed)?;
                RegistryChange::ChangeSubscription {
                    id: current.id,
                    definition: definition.changed(&current.definition),
                    validation: current.validation.clone(),
                }
            }
        };
        self.save(change, Some(by.defined(target))).await?;
        drop(one_at_a_time);
        self.service_bus_subscription(topic, &name)
    }

    /// Deletes a Service Bus subscription with its messages. Returns whether the subscription existed.
    pub async fn delete_service_bus_subscription(
        &self,
        by: &Caller,
        topic: &TopicName,
        name: &SubscriptionName,
    ) -> Result<bool, ManageError> {
        let one_at_a_time = self.shared.managing.lock().await;
        let registry = self.registry();
        let Some(entry) = entity_of_kind(&registry, topic, EntityKind::ServiceBusTopic)? else {
            return Ok(false);
        };
        let Some(subscription) = message_subscription(entry, name)? else {
            return Ok(false);
        };
        let target = AuditTarget::service_bus_subscription(&entry.topic.name, &subscription.name);
        let delete = RegistryChange::DeleteSubscription {
            id: subscription.id,
            pending: OnDelete::Discard,
        };
        self.save(delete, Some(by.defined(target))).await?;
        drop(one_at_a_time);
        self.on_subscription_deleted(entry, subscription);
        self.note_deleted();
        Ok(true)
    }

    /// Returns the queue or topic that a Service Bus destination refers to; `None` for other destinations.
    pub(in crate::broker) fn service_bus_entity(
        &self,
        destination: &Destination,
    ) -> Result<Option<Arc<TopicEntry>>, ManageError> {
        let found = destination.entity();
        let entity = found.map(|found| self.entity(found.kind, found.to.entity.name()));
        entity.transpose()
    }

    /// Rejects a Service Bus destination that does not exist or could form a loop: subscriptions of queues and Service
    /// Bus topics cannot have Service Bus destinations.
    pub(super) fn check_destination(
        &self,
        topic: &TopicEntry,
        destination: &Destination,
    ) -> Result<(), ManageError> {
        let entity = self
            .service_bus_entity(destination)
            .map_err(|missing| ManageError::NoDestination(missing.to_string()))?;
        if entity.is_some() && topic.topic.kind.takes_messages() {
            Err(ManageError::ForwardInstead(topic.topic.name.clone()))
        } else {
            Ok(())
        }
    }

    /// Returns the rules of a subscription, ordered by name.
    pub fn rules(&self, (topic, subscription): &Queue) -> Vec<Arc<Rule>> {
        topic.rules.of(subscription.id).cloned().collect()
    }

    /// Returns the rule with this name.
    pub fn rule(
        &self,
        (topic, subscription): &Queue,
        name: &RuleName,
    ) -> Result<Arc<Rule>, ManageError> {
        let found = topic.rules.find(subscription.id, name).cloned();
        found.ok_or_else(|| {
            let (topic, subscription) = (topic.topic.name.clone(), subscription.name.clone());
            ManageError::RuleNotFound(topic, subscription, name.clone())
        })
    }

    /// Creates a rule, or replaces an existing one, if `put` allows that change.
    pub async fn put_rule(
        &self,
        by: &Caller,
        topic: &TopicName,
        subscription: &SubscriptionName,
        rule: Rule,
        put: Put,
    ) -> Result<Arc<Rule>, ManageError> {
        let _one_at_a_time = self.shared.managing.lock().await;
        let (entry, current) = self.service_bus_subscription(topic, subscription)?;
        check_size(&rule)?;
        let found = entry.rules.find(current.id, &rule.name);
        let missing = || {
            let (topic, subscription) = (topic.clone(), subscription.clone());
            ManageError::RuleNotFound(topic, subscription, rule.name.clone())
        };
        // A replaced rule keeps the spelling of its name.
        let name = found.map_or(&rule.name, |found| &found.name).clone();
        let target = AuditTarget::rule(&entry.topic.name, &current.name, &name);
        put.check(found.is_some(), &target, missing)?;
        check_room(&entry, &rule, found.map(|found| &**found))?;
        self.note_use(&current);
        let change = RegistryChange::PutRule {
            of: current.id,
            rule: Rule {
                name: name.clone(),
                ..rule
            },
        };
        self.save(change, Some(by.defined(target))).await?;
        let saved = self.service_bus_subscription(topic, subscription)?;
        self.rule(&saved, &name)
    }

    /// Deletes a rule. Returns whether the rule existed.
    pub async fn delete_rule(
        &self,
        by: &Caller,
        topic: &TopicName,
        subscription: &SubscriptionName,
        name: &RuleName,
    ) -> Result<bool, ManageError> {
        let _one_at_a_time = self.shared.managing.lock().await;
        let (entry, current) = self.service_bus_subscription(topic, subscription)?;
        let Some(found) = entry.rules.find(current.id, name) else {
            return Ok(false);
        };
        let target = AuditTarget::rule(&entry.topic.name, &current.name, &found.name);
        self.note_use(&current);
        let change = RegistryChange::DeleteRule {
            of: current.id,
            name: found.name.clone(),
        };
        self.save(change, Some(by.defined(target))).await?;
        Ok(true)
    }
}

/// Returns the Service Bus subscription with this name; `None` if the topic has no subscription with the name. Returns
/// an error if the name is that of an event subscription.
fn message_subscription<'a>(
    topic: &'a TopicEntry,
    name: &SubscriptionName,
) -> Result<Option<&'a Arc<EventSubscription>>, ManageError> {
    let found = topic.subscription(name);
    match found.filter(|found| topic.subscription_kind(found) != SubscriptionKind::ServiceBus) {
        Some(other) => {
            let of = topic.topic.name.clone();
            Err(ManageError::EventSubscriptionInTheWay(
                of,
                other.name.clone(),
            ))
        }
        None => Ok(found),
    }
}

fn check_size(rule: &Rule) -> Result<(), ManageError> {
    match resource::rule_to_text(rule).len() {
        bytes if bytes > RULE_BYTES_MAX => Err(ManageError::RuleTooLarge(bytes)),
        _ => Ok(()),
    }
}

/// Rejects a rule that would exceed the number or memory limit of the topic. `replaced` is the rule that it replaces;
/// `None` for a new rule.
fn check_room(topic: &TopicEntry, rule: &Rule, replaced: Option<&Rule>) -> Result<(), ManageError> {
    let name = || topic.topic.name.clone();
    if replaced.is_none() && topic.rules.all().count() >= RULES_PER_TOPIC_MAX {
        return Err(ManageError::TooManyRules(name()));
    }
    let growth = rule.bytes().saturating_sub(replaced.map_or(0, Rule::bytes));
    let taken: usize = topic.rules.all().map(|each| each.bytes()).sum();
    if growth == 0 || taken + growth <= RULES_MEMORY_MAX {
        Ok(())
    } else {
        Err(ManageError::RulesTooLarge(name(), rule.name.clone()))
    }
}
