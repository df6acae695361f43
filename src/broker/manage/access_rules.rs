//! Shared access rules of queues and topics of Service Bus (rule S1.1).

use std::sync::Arc;

use crate::broker::Broker;
use crate::broker::manage::ManageError;
use crate::model::access::{AccessKeys, KeyName, KeyOwner, KeyRef};
use crate::model::audit::{AuditAction, AuditEntry, Caller, SecretKind, TargetKind};
use crate::model::limits::ACCESS_RULES_MAX;
use crate::model::name::{AccessRuleName, TopicName};
use crate::model::registry::TopicEntry;
use crate::model::shared_access::{AccessRule, AccessRuleDefinition, Rights};
use crate::store::{AccessRuleChange, RegistryChange};

impl Broker {
    /// Returns the access rule with this name.
    pub fn access_rule(&self, name: &AccessRuleName) -> Result<Arc<AccessRule>, ManageError> {
        let found = self.registry().access_rule(name).cloned();
        found.ok_or_else(|| ManageError::AccessRuleNotFound(name.clone()))
    }

    /// Creates an access rule, or replaces the definition of an existing one. Omitted keys are kept, or generated for
    /// a new rule.
    pub async fn put_access_rule(
        &self,
        by: &Caller,
        name: &AccessRuleName,
        definition: AccessRuleDefinition,
    ) -> Result<Arc<AccessRule>, ManageError> {
        let _one_at_a_time = self.shared.managing.lock().await;
        let registry = self.registry();
        let entity = name.entity();
        let known = registry.access_rule(name);
        let generated = || AccessKeys::generate(self.entropy());
        let before = known.map_or_else(generated, |rule| rule.keys.clone());
        let keys = AccessKeys {
            key1: definition.key1.unwrap_or(before.key1),
            key2: definition.key2.unwrap_or(before.key2),
        };
        let of = entity
            .as_ref()
            .map(|name| self.messaging_entity(name))
            .transpose()?;
        if let Some(rule) = known {
            let audit = by.defined(TargetKind::AccessRule.named(&rule.name));
            return self.change_keys(rule, definition.rights, keys, audit).await;
        }
        if registry.access_rules_of(entity.as_ref()).count() >= ACCESS_RULES_MAX {
            return Err(ManageError::TooManyAccessRules);
        }
        let name = of
            .as_ref()
            .map_or(name.clone(), |of| name.within(&of.topic.name));
        let audit = by.defined(TargetKind::AccessRule.named(&name));
        let change = AccessRuleChange::Add {
            of: of.map(|of| of.topic.id),
            name: name.clone(),
            rights: definition.rights,
            keys,
        };
        self.save(RegistryChange::AccessRule(change), Some(audit))
            .await?;
        self.access_rule(&name)
    }

    /// Deletes an access rule. Its keys no longer authorize new connections or requests. Returns whether the rule
    /// existed.
    pub async fn delete_access_rule(
        &self,
        by: &Caller,
        name: &AccessRuleName,
    ) -> Result<bool, ManageError> {
        let _one_at_a_time = self.shared.managing.lock().await;
        let Ok(rule) = self.access_rule(name) else {
            return Ok(false);
        };
        let audit = by.defined(TargetKind::AccessRule.named(&rule.name));
        let change = AccessRuleChange::Delete(rule.name.clone());
        self.save(RegistryChange::AccessRule(change), Some(audit))
            .await?;
        Ok(true)
    }

    /// Shows the two keys of an access rule.
    pub async fn show_access_rule_keys(
        &self,
        by: &Caller,
        name: &AccessRuleName,
    ) -> Result<AccessKeys, ManageError> {
        let rule = self.access_rule(name)?;
        let target = TargetKind::AccessRule.named(&rule.name);
        self.audit_shown(by, SecretKind::Keys, target).await?;
        Ok(rule.keys.clone())
    }

    /// Regenerates one of the two keys of an access rule, and returns both.
    pub async fn regenerate_access_rule_key(
        &self,
        by: &Caller,
        name: &AccessRuleName,
        key: KeyName,
    ) -> Result<AccessKeys, ManageError> {
        let _one_at_a_time = self.shared.managing.lock().await;
        let rule = self.access_rule(name)?;
        let keys = rule.keys.regenerated(key, self.entropy());
        let target = TargetKind::AccessRule.named(&rule.name);
        let audit = by.did(AuditAction::RegenerateKey { key }, target);
        let changed = self.change_keys(&rule, rule.rights, keys, audit).await?;
        Ok(changed.keys.clone())
    }

    /// Changes the rights and keys of an access rule. The caller must hold the `managing` lock.
    async fn change_keys(
        &self,
        rule: &AccessRule,
        rights: Rights,
        keys: AccessKeys,
        audit: AuditEntry,
    ) -> Result<Arc<AccessRule>, ManageError> {
        let (id, owner) = (rule.id, KeyOwner::AccessRule(rule.id));
        let is_new = |key: &KeyName| rule.keys.get(*key) != keys.get(*key);
        let renewed: Vec<KeyName> = KeyName::ALL.into_iter().filter(is_new).collect();
        let change = AccessRuleChange::Change {
            id,
            rights,
            keys,
            renewed: renewed.clone(),
        };
        self.save(RegistryChange::AccessRule(change), Some(audit))
            .await?;
        for key in renewed {
            self.shared.key_uses.forget(KeyRef { owner, key });
        }
        self.access_rule(&rule.name)
    }

    /// Replaces all access rules of a queue or topic with the given ones.
    pub async fn set_access_rules(
        &self,
        by: &Caller,
        entity: &TopicName,
        rules: Vec<(AccessRuleName, AccessRuleDefinition)>,
    ) -> Result<(), ManageError> {
        let registry = self.registry();
        let known = registry.access_rules_of(Some(entity));
        let gone = known.filter(|known| rules.iter().all(|(name, _)| *name != known.name));
        for rule in gone {
            self.delete_access_rule(by, &rule.name).await?;
        }
        for (name, definition) in rules {
            let known = registry.access_rule(&name);
            if known.is_none_or(|known| AccessRuleDefinition::from(&**known) != definition) {
                self.put_access_rule(by, &name, definition).await?;
            }
        }
        Ok(())
    }

    fn messaging_entity(&self, name: &TopicName) -> Result<Arc<TopicEntry>, ManageError> {
        let registry = self.registry();
        let found = registry
            .topic(name)
            .filter(|topic| topic.topic.kind.takes_messages());
        let missing = || ManageError::NoMessagingEntity(name.clone());
        found.cloned().ok_or_else(missing)
    }
}
