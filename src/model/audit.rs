//! The audit log: who did what, from where, and what it changed. No entry holds a secret.
//!
//! The broker operation that performs an action also records it in the same transaction. The APIs pass only a
//! [`Caller`] for this purpose.

use std::fmt;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::named::ids;
use crate::base::{Timestamp, human};
use crate::model::access::KeyName;
use crate::model::name::{RuleName, SubscriptionName, TopicName};
use crate::model::topic::EntityKind;

/// The user, program or component that performs an action.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// A user who is signed in to the admin pages.
    User(String),
    /// A program with its own API token.
    ApiToken(String),
    /// The holder of the management token.
    ManagementToken,
    /// A person with local access, who acts directly on the database or through the configuration.
    CommandLine,
    /// A file of the provisioning directory, by its name.
    Provisioning(String),
    /// The holder of a key of an access rule.
    AccessRule(String),
    /// The appliance itself, as required by a definition. For example, it deletes an idle queue.
    Appliance,
}

impl Actor {
    /// Returns the actor to account for when clients share a limit. All access rules of a queue or topic count as one
    /// actor, because a client can have keys of several of these rules.
    #[must_use]
    pub fn holder(&self) -> Self {
        match self {
            Self::AccessRule(rule) => {
                let entity = rule
                    .rfind('/')
                    .map_or(rule.as_str(), |slash| &rule[..=slash]);
                Self::AccessRule(entity.to_owned())
            }
            Self::User(_)
            | Self::ApiToken(_)
            | Self::ManagementToken
            | Self::CommandLine
            | Self::Provisioning(_)
            | Self::Appliance => self.clone(),
        }
    }

    /// Returns the kind of the actor as it is stored and displayed.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::User(_) => "User",
            Self::ApiToken(_) => "ApiToken",
            Self::ManagementToken => "ManagementToken",
            Self::CommandLine => "CommandLine",
            Self::Provisioning(_) => "Provisioning",
            Self::AccessRule(_) => "AccessRule",
            Self::Appliance => "Appliance",
        }
    }

    /// Returns the name of the actor; empty if its kind has no name.
    pub fn name(&self) -> &str {
        match self {
            Self::User(name)
            | Self::ApiToken(name)
            | Self::Provisioning(name)
            | Self::AccessRule(name) => name,
            Self::ManagementToken | Self::CommandLine | Self::Appliance => "",
        }
    }

    /// Returns the actor with the given kind and name.
    pub fn of(kind: &str, name: String) -> Self {
        match kind {
            "User" => Self::User(name),
            "ApiToken" => Self::ApiToken(name),
            "ManagementToken" => Self::ManagementToken,
            "Provisioning" => Self::Provisioning(name),
            "AccessRule" => Self::AccessRule(name),
            "Appliance" => Self::Appliance,
            _ => Self::CommandLine,
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user {name}"), // a user may be called as others are told
            Self::ApiToken(name) => write!(f, "token {name}"),
            Self::ManagementToken => f.write_str("management token"),
            Self::CommandLine => f.write_str("command line"),
            Self::AccessRule(name) => write!(f, "access rule {name}"),
            Self::Appliance => f.write_str("appliance"),
            Self::Provisioning(file) => f.write_str(file),
        }
    }
}

/// The actor, address and time of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub actor: Actor,
    /// The address of the client; `None` for local access.
    pub address: Option<IpAddr>,
    pub at: Timestamp,
}

impl Caller {
    /// Returns a caller with local access.
    pub fn command_line(at: Timestamp) -> Self {
        Self {
            actor: Actor::CommandLine,
            address: None,
            at,
        }
    }

    /// The appliance itself.
    pub fn appliance(at: Timestamp) -> Self {
        Self {
            actor: Actor::Appliance,
            address: None,
            at,
        }
    }

    /// A user of the admin pages.
    pub fn user(name: impl Into<String>, address: Option<IpAddr>, at: Timestamp) -> Self {
        Self {
            actor: Actor::User(name.into()),
            address,
            at,
        }
    }

    /// Returns the entry about a new definition of `target` or its deletion. The store adds the changes.
    pub fn defined(&self, target: AuditTarget) -> AuditEntry {
        let changes = Vec::new();
        self.did(AuditAction::Update { changes }, target)
    }

    /// Returns the audit entry for an action of the caller.
    pub fn did(&self, action: AuditAction, target: AuditTarget) -> AuditEntry {
        AuditEntry {
            caller: self.clone(),
            action,
            target,
        }
    }
}

/// The object of an action. It keeps its name when the object itself is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditTarget {
    pub kind: TargetKind,
    /// The name or the number; `topic/name` of a subscription, `topic/subscription/name` of a rule, `queue/name` of an
    /// access rule, empty for the appliance.
    pub name: String,
}

/// The kinds of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum TargetKind {
    Appliance,
    Namespace,
    Topic,
    EventSubscription,
    Queue,
    ServiceBusTopic,
    ServiceBusSubscription,
    /// A rule of a Service Bus subscription.
    Rule,
    /// A shared access rule, for one queue or Service Bus topic, or for all of them.
    AccessRule,
    Inspector,
    AlertRule,
    AlertChannel,
    Delivery,
    DeadLetter,
    ReplayJob,
    User,
    ApiToken,
    /// Scheme, host and port: path and query may be a secret.
    Url,
    Setting,
}

impl TargetKind {
    /// Returns the target of this kind with the given name or number.
    pub fn named(self, name: impl fmt::Display) -> AuditTarget {
        AuditTarget {
            kind: self,
            name: name.to_string(),
        }
    }
}

impl From<EntityKind> for TargetKind {
    fn from(kind: EntityKind) -> Self {
        match kind {
            EntityKind::Topic => Self::Topic,
            EntityKind::Queue => Self::Queue,
            EntityKind::ServiceBusTopic => Self::ServiceBusTopic,
        }
    }
}

impl AuditTarget {
    /// Returns the target for actions that concern the whole appliance or no specific object.
    pub fn appliance() -> Self {
        TargetKind::Appliance.named("")
    }

    pub fn topic(name: &TopicName) -> Self {
        TargetKind::Topic.named(name)
    }

    pub fn subscription(topic: &TopicName, name: &SubscriptionName) -> Self {
        TargetKind::EventSubscription.named(format!("{topic}/{name}"))
    }

    pub fn service_bus_topic(name: &TopicName) -> Self {
        TargetKind::ServiceBusTopic.named(name)
    }

    pub fn service_bus_subscription(topic: &TopicName, name: &SubscriptionName) -> Self {
        TargetKind::ServiceBusSubscription.named(format!("{topic}/{name}"))
    }

    pub fn rule(topic: &TopicName, subscription: &SubscriptionName, name: &RuleName) -> Self {
        TargetKind::Rule.named(format!("{topic}/{subscription}/{name}"))
    }

    pub fn user(name: &str) -> Self {
        TargetKind::User.named(name)
    }
}

/// Formats the target for use in a sentence.
impl fmt::Display for AuditTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match self.kind {
            TargetKind::Appliance => f.write_str("the appliance"),
            TargetKind::Namespace => write!(f, "namespace {name}"),
            TargetKind::Topic => write!(f, "topic {name}"),
            TargetKind::EventSubscription => {
                let (topic, name) = name.rsplit_once('/').unwrap_or(("", name));
                write!(f, "event subscription {name} of topic {topic}")
            }
            TargetKind::Queue => write!(f, "queue {name}"),
            TargetKind::ServiceBusTopic => write!(f, "Service Bus topic {name}"),
            TargetKind::ServiceBusSubscription => {
                let (topic, name) = name.rsplit_once('/').unwrap_or(("", name));
                write!(f, "subscription {name} of Service Bus topic {topic}")
            }
            TargetKind::Rule => {
                let (subscription, name) = name.rsplit_once('/').unwrap_or(("", name));
                write!(f, "rule {name} of subscription {subscription}")
            }
            TargetKind::AccessRule => match name.rsplit_once('/') {
                Some((entity, name)) => write!(f, "access rule {name} of {entity}"),
                None => write!(f, "access rule {name}"),
            },
            TargetKind::Inspector => write!(f, "inspector {name}"),
            TargetKind::AlertRule => write!(f, "alert rule {name}"),
            TargetKind::AlertChannel => write!(f, "alert channel {name}"),
            TargetKind::Delivery => write!(f, "delivery {name}"),
            TargetKind::DeadLetter => write!(f, "dead letter {name}"),
            TargetKind::ReplayJob => write!(f, "replay job {name}"),
            TargetKind::User => write!(f, "user {name}"),
            TargetKind::ApiToken => write!(f, "API token {name}"),
            TargetKind::Url => f.write_str(name),
            TargetKind::Setting => write!(f, "setting {name}"),
        }
    }
}

/// A recorded action, with the details that a reader of the audit log needs. Variants and their members are stored by
/// their names, so none may be renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all_fields = "camelCase")]
pub enum AuditAction {
    Create {
        changes: Vec<Change>,
    },
    Update {
        changes: Vec<Change>,
    },
    Delete {
        changes: Vec<Change>,
    },
    /// An event subscription or a replay job was paused.
    Pause,
    Resume,
    /// A replay job was cancelled.
    Cancel,
    /// The receiver of an event subscription was asked again whether it wants events.
    Validate,
    ShowSecrets {
        what: SecretKind,
    },
    RegenerateKey {
        key: KeyName,
    },
    CreateSasToken {
        key: KeyName,
        expires_at: String,
    },
    RotateSigningSecret,
    RemoveSigningSecrets,
    /// Events were published manually to a topic.
    PublishEvents {
        events: u64,
    },
    /// A message was sent manually to a queue.
    SendMessage,
    /// Dead letters were imported from files to a topic or an event subscription.
    ImportDeadLetters {
        events: u64,
    },
    /// A stored event was sent to an event subscription that had not received it.
    SendEvent {
        event: i64,
    },
    RetryNow,
    Resubmit {
        dead_letters: u64,
        /// The target topic or URL; `None` if the dead letters were resubmitted to their own event subscriptions.
        #[serde(skip_serializing_if = "Option::is_none")]
        to: Option<String>,
        edited: bool,
    },
    PurgeDeadLetters {
        dead_letters: u64,
    },
    /// A receiver that had locked the dead letters completed them.
    CompleteDeadLetters {
        dead_letters: u64,
    },
    StartReplay {
        deliveries: u64,
    },
    /// The stored requests of an inspector were deleted.
    ClearRequests {
        requests: u64,
    },
    /// A message was sent to an alert channel to try it.
    SendTestMessage,
    /// The first account was made.
    SetUp,
    SignIn,
    /// A sign-in was rejected here although the sign-in provider or a reverse proxy had identified the person.
    RejectSignIn {
        reason: String,
    },
    SignOut,
    ChangePassword,
    CreatePasswordLink,
    SetUpSecondFactor,
    RemoveSecondFactor,
    Disable,
    Enable,
    /// The sessions of a user, or of everybody on the appliance, were ended.
    EndSessions {
        sessions: u64,
    },
    CreateSupportBundle,
    StartBackup {
        directory: String,
    },
    CheckIntegrity,
    RecountDeliveries,
    TestConnection,
    /// A URL was checked against the rules for webhooks; nothing was called.
    CheckUrl,
}

/// Kinds of secrets, or values equivalent to secrets, that an operation can reveal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecretKind {
    Keys,
    Url,
    DeliveryAttributes,
    SigningSecrets,
}

/// A property that has another value now. `null` stands for what there was not, or is not any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Change {
    /// Names with dots in between; empty for the whole resource.
    pub property: String,
    pub before: Value,
    pub after: Value,
}

impl AuditAction {
    /// Returns the name of the variant, which is stored and used in filters.
    pub fn name(&self) -> String {
        let action = serde_json::to_value(self).unwrap_or_default();
        action["action"].as_str().unwrap_or_default().to_owned()
    }

    /// Reports whether the action creates, redefines or deletes its target. If the target is defined in the
    /// provisioning directory, only the files of that directory may do so.
    pub fn redefines(&self) -> bool {
        matches!(
            self,
            Self::Create { .. }
                | Self::Update { .. }
                | Self::Delete { .. }
                | Self::Pause
                | Self::Resume
                | Self::Disable
                | Self::Enable
        )
    }

    /// Returns the changes that the action made to its target.
    pub fn changes(&self) -> &[Change] {
        if let Self::Create { changes } | Self::Update { changes } | Self::Delete { changes } = self
        {
            changes
        } else {
            &[]
        }
    }
}

/// An audit entry: an action, its caller and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    pub caller: Caller,
    pub action: AuditAction,
    pub target: AuditTarget,
}

ids! {
    /// The id of an entry; ascending.
    AuditId,
}

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    pub id: AuditId,
    pub entry: AuditEntry,
}

impl AuditEntry {
    /// Sets the number of dead letters to the number that the transaction has found. Returns `None` if it has found
    /// none.
    pub fn of_dead_letters(mut self, count: usize) -> Option<Self> {
        if let AuditAction::Resubmit { dead_letters, .. }
        | AuditAction::PurgeDeadLetters { dead_letters }
        | AuditAction::CompleteDeadLetters { dead_letters } = &mut self.action
        {
            *dead_letters = u64::try_from(count).unwrap_or(u64::MAX);
        }
        (count > 0).then_some(self)
    }

    /// Returns the part of the log that limits the entry, if an actor with few rights can repeat the action at will.
    /// Each access rule, the appliance, rejected sign-ins, and each kind of sign-in or account action of a user on
    /// their own account have a separate part. Returns `None` for other entries.
    pub fn share(&self) -> Option<String> {
        let (actor, action) = (&self.caller.actor, &self.action);
        if matches!(action, AuditAction::RejectSignIn { .. }) {
            return Some(action.name()); // anybody may come by any name
        }
        let is_free_to_all = matches!(
            action,
            AuditAction::SignIn
                | AuditAction::SignOut
                | AuditAction::ChangePassword
                | AuditAction::SetUpSecondFactor
                | AuditAction::RemoveSecondFactor
                | AuditAction::EndSessions { .. }
        );
        let (kind, name) = (actor.kind(), actor.name());
        match actor {
            Actor::AccessRule(_) | Actor::Appliance => Some(format!("{kind}/{name}")),
            Actor::User(_) if is_free_to_all && self.is_own() => {
                Some(format!("{kind}/{name}/{}", action.name()))
            }
            Actor::User(_)
            | Actor::ApiToken(_)
            | Actor::ManagementToken
            | Actor::CommandLine
            | Actor::Provisioning(_) => None,
        }
    }

    /// Reports whether a user performed the action on their own account.
    fn is_own(&self) -> bool {
        self.target.kind == TargetKind::User
            && matches!(&self.caller.actor, Actor::User(name) if *name == self.target.name)
    }

    /// Describes the action in a sentence without a subject and a full stop.
    pub fn describe(&self) -> String {
        let target = &self.target;
        let is_own = self.is_own();
        let is_everything = target.kind == TargetKind::Appliance;
        let of = |what: &str| {
            if is_own {
                format!("own {what}")
            } else {
                format!("{what} of {target}")
            }
        };
        match &self.action {
            AuditAction::Create { .. } => format!("Created {target}"),
            AuditAction::Update { changes } => updated(changes, target),
            AuditAction::Delete { .. } => format!("Deleted {target}"),
            AuditAction::Pause => format!("Paused {target}"),
            AuditAction::Resume => format!("Resumed {target}"),
            AuditAction::Cancel => format!("Cancelled {target}"),
            AuditAction::Validate => format!("Requested validation of {target}"),
            AuditAction::ShowSecrets { what } => format!("Viewed {} of {target}", what.words()),
            AuditAction::RegenerateKey { key } => format!("Regenerated {key} of {target}"),
            AuditAction::CreateSasToken { key, expires_at } => {
                let at = expires_at.parse::<Timestamp>().ok();
                let shown = at.map(|at| format!("{} UTC", human::date_time(at)));
                let until = shown.as_ref().unwrap_or(expires_at);
                format!("Created SAS token for {target} with {key}, valid until {until}")
            }
            AuditAction::RotateSigningSecret => format!("Rotated signing secret of {target}"),
            AuditAction::RemoveSigningSecrets => format!("Removed signing secrets of {target}"),
            AuditAction::PublishEvents { events } => {
                format!("Published {} to {target}", count(*events, "event"))
            }
            AuditAction::SendMessage => format!("Sent a message to {target}"),
            AuditAction::ImportDeadLetters { events } => {
                format!("Imported {} to {target}", count(*events, "dead letter"))
            }
            AuditAction::SendEvent { event } => format!("Sent event {event} to {target}"),
            AuditAction::RetryNow => format!("Retried {target}"),
            AuditAction::Resubmit {
                dead_letters,
                to,
                edited,
            } => {
                let verb = if *edited {
                    "Edited and resubmitted"
                } else {
                    "Resubmitted"
                };
                let destination = to
                    .as_ref()
                    .map_or_else(String::new, |to| format!(" to {to}"));
                if target.kind == TargetKind::DeadLetter {
                    format!("{verb} {target}{destination}")
                } else {
                    format!(
                        "{verb} {}{destination}",
                        count(*dead_letters, "dead letter")
                    )
                }
            }
            AuditAction::PurgeDeadLetters { dead_letters }
            | AuditAction::CompleteDeadLetters { dead_letters } => {
                let is_purge = matches!(self.action, AuditAction::PurgeDeadLetters { .. });
                let verb = if is_purge { "Purged" } else { "Completed" };
                let removed = format!("{verb} {}", count(*dead_letters, "dead letter"));
                match (is_everything, target.kind) {
                    (true, _) => removed,
                    (false, TargetKind::DeadLetter) => format!("Deleted {target}"),
                    (false, _) => format!("{removed} of {target}"),
                }
            }
            AuditAction::StartReplay { deliveries } => {
                format!("Started {target} over {}", count(*deliveries, "event"))
            }
            AuditAction::ClearRequests { requests } => {
                format!("Cleared {} of {target}", count(*requests, "request"))
            }
            AuditAction::SendTestMessage => format!("Sent test message to {target}"),
            AuditAction::SetUp => format!("Set up Everpost with administrator {}", target.name),
            AuditAction::SignIn => "Signed in".to_owned(),
            AuditAction::RejectSignIn { reason } => format!("Was rejected at sign-in: {reason}"),
            AuditAction::SignOut => "Signed out".to_owned(),
            AuditAction::ChangePassword => format!("Changed {}", of("password")),
            AuditAction::CreatePasswordLink => format!("Created password link for {target}"),
            AuditAction::SetUpSecondFactor => format!("Set up {}", of("second factor")),
            AuditAction::RemoveSecondFactor => format!("Removed {}", of("second factor")),
            AuditAction::Disable => format!("Disabled {target}"),
            AuditAction::Enable => format!("Enabled {target}"),
            AuditAction::EndSessions { sessions } => {
                let ended = format!("Ended {}", count(*sessions, "session"));
                match (is_everything, is_own) {
                    (true, _) => format!("{ended} of all users"),
                    (_, true) => format!("{ended} of their own"),
                    (false, false) => format!("{ended} of {target}"),
                }
            }
            AuditAction::CreateSupportBundle => "Created support bundle".to_owned(),
            AuditAction::StartBackup { directory } => format!("Started backup to {directory}"),
            AuditAction::CheckIntegrity => "Checked integrity of the database".to_owned(),
            AuditAction::RecountDeliveries => "Recounted deliveries".to_owned(),
            AuditAction::TestConnection => format!("Tested connection to {target}"),
            AuditAction::CheckUrl => format!("Checked URL {target}"),
        }
    }
}

impl SecretKind {
    fn words(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Url => "full URL",
            Self::DeliveryAttributes => "delivery attributes",
            Self::SigningSecrets => "signing secrets",
        }
    }
}

/// The maximum number of properties that a sentence names. Further properties are only counted.
const NAMED_MAX: usize = 3;

fn updated(changes: &[Change], target: &AuditTarget) -> String {
    // The sentence uses only the last part of a property name. The entry has the full name.
    let last = |change: &Change| {
        let property = &change.property;
        let last = property
            .rsplit_once('.')
            .map_or(&**property, |(_, last)| last);
        last.to_owned()
    };
    let mut names: Vec<String> = changes.iter().take(NAMED_MAX).map(last).collect();
    if changes.len() > NAMED_MAX {
        names.push(format!("{} more", changes.len() - NAMED_MAX));
    }
    if names.is_empty() {
        format!("Saved {target} without changes")
    } else {
        format!("Changed {} of {target}", names.join(", "))
    }
}

fn count(number: u64, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_is_told_as_somebody_else() {
        for other in [
            Actor::ApiToken("ci".to_owned()),
            Actor::ManagementToken,
            Actor::CommandLine,
            Actor::Provisioning("orders.yaml".to_owned()),
            Actor::AccessRule("orders/send".to_owned()),
            Actor::Appliance,
        ] {
            let told = other.to_string();
            assert_ne!(Actor::User(told.clone()).to_string(), told);
        }
    }
}
