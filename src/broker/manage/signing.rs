//! Rotating the signing secret of an event subscription.

use std::sync::Arc;

use crate::broker::{Broker, ManageError};
use crate::model::audit::{AuditAction, Caller, Target};
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::signing::{Signing, SigningSecret};
use crate::model::subscription::{EventSubscription, SubscriptionDefinition};
use crate::store::RegistryChange;
use crate::wire::resource::Rotation;

impl Broker {
    /// Signs with a new secret from now on, and with the older ones during the grace time. Returns the new
    /// secret.
    pub async fn rotate_signing_secret(
        &self,
        by: &Caller,
        topic: &TopicName,
        name: &SubscriptionName,
        rotation: Rotation,
    ) -> Result<(SigningSecret, Arc<EventSubscription>), ManageError> {
        let _one_at_a_time = self.shared.managing.lock().await;
        let (entry, current) = self.changing_subscription(topic, name)?;
        let made = || SigningSecret::generate(self.entropy());
        let secret = rotation.secret.unwrap_or_else(made);
        let mut definition = current.definition.clone();
        let webhook = definition
            .destination
            .webhook_mut()
            .ok_or_else(|| ManageError::NothingSent(name.clone()))?;
        let signing = &mut webhook.credentials.signing;
        *signing = signing.rotated(secret.clone(), self.clock().now(), rotation.grace)?;
        let change = RegistryChange::ChangeSubscription {
            id: current.id,
            definition,
            validation: current.validation.clone(),
        };
        let target = Target::subscription(&entry.topic.name, &current.name);
        let audit = by.did(AuditAction::RotateSigningSecret, target);
        self.save(change, Some(audit)).await?;
        Ok((secret, self.subscription(topic, name)?.1))
    }

    /// Signs no more, and forgets the secrets.
    pub async fn remove_signing_secrets(
        &self,
        by: &Caller,
        topic: &TopicName,
        name: &SubscriptionName,
    ) -> Result<(), ManageError> {
        let unsigned = |mut definition: SubscriptionDefinition| {
            if let Some(webhook) = definition.destination.webhook_mut() {
                webhook.credentials.signing = Signing::default();
            }
            definition
        };
        let action = AuditAction::RemoveSigningSecrets;
        self.redefine(by, action, topic, name, unsigned).await?;
        Ok(())
    }
}
