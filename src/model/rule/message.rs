//! The properties of a message that rules see.

use std::fmt;

use crate::base::named::named_enum;
use crate::model::rule::property::PropertyValue;

named_enum! {
    /// The properties that Service Bus itself knows, by their names behind `sys.`.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum SystemProperty {
        MessageId,
        CorrelationId,
        To,
        ReplyTo,
        Label,
        SessionId,
        ReplyToSessionId,
        ContentType,
        TimeToLive,
        PartitionKey,
        ViaPartitionKey,
        ScheduledEnqueueTimeUtc,
        EnqueuedTimeUtc,
        ExpiresAtUtc,
        SequenceNumber,
        EnqueuedSequenceNumber,
        DeliveryCount,
        Size,
        State,
    }
}

impl SystemProperty {
    /// The one of that name, in any letter case. `Subject` is the newer name of the label.
    pub fn find(name: &str) -> Option<Self> {
        let name = if name.eq_ignore_ascii_case("Subject") {
            Self::Label.name()
        } else {
            name
        };
        let mut all = Self::ALL.into_iter();
        all.find(|each| each.name().eq_ignore_ascii_case(name))
    }

    /// Returns whether a rule may set the property. That holds for properties that senders set, not for those of the
    /// broker.
    pub fn is_settable(self) -> bool {
        match self {
            Self::MessageId
            | Self::CorrelationId
            | Self::To
            | Self::ReplyTo
            | Self::Label
            | Self::SessionId
            | Self::ReplyToSessionId
            | Self::ContentType
            | Self::TimeToLive
            | Self::PartitionKey
            | Self::ViaPartitionKey
            | Self::ScheduledEnqueueTimeUtc => true,
            Self::EnqueuedTimeUtc
            | Self::ExpiresAtUtc
            | Self::SequenceNumber
            | Self::EnqueuedSequenceNumber
            | Self::DeliveryCount
            | Self::Size
            | Self::State => false,
        }
    }
}

/// Whose property it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    System,
    User,
}

/// A property that an expression names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertyRef {
    pub scope: Scope,
    pub name: String,
}

/// `sys.[name]`, in the form that can stand in an expression whatever the name.
impl fmt::Display for PropertyRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scope = match self.scope {
            Scope::System => "sys",
            Scope::User => "user",
        };
        write!(f, "{scope}.[{}]", self.name.replace(']', "]]"))
    }
}

/// A message as rules see it.
pub trait MessageView {
    /// A property of Service Bus' own; `None` if the message does not have it.
    fn system(&self, property: SystemProperty) -> Option<PropertyValue>;

    /// A property of the application, its name in any letter case.
    fn user(&self, name: &str) -> Option<PropertyValue>;

    /// All properties of the application, in any order.
    fn user_properties(&self) -> Vec<(String, PropertyValue)>;
}
