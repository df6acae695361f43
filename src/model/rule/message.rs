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
    /// Finds a system property by name, in any letter case. `Subject` is the newer name of `Label`.
    pub fn find(name: &str) -> Option<Self> {
        let name = if name.eq_ignore_ascii_case("Subject") {
            Self::Label.name()
        } else {
            name
        };
        let mut all = Self::ALL.into_iter();
        all.find(|each| each.name().eq_ignore_ascii_case(name))
    }

    /// Returns whether a rule may set the property. Rules may set the properties that senders set, but not the
    /// properties that the broker sets.
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

/// The scope of a property: Service Bus or the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PropertyScope {
    System,
    User,
}

/// A property that an expression names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertyRef {
    pub scope: PropertyScope,
    pub name: String,
}

/// Formats the property as `sys.[name]` or `user.[name]`, which is valid in an expression for any name.
impl fmt::Display for PropertyRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scope = match self.scope {
            PropertyScope::System => "sys",
            PropertyScope::User => "user",
        };
        write!(f, "{scope}.[{}]", self.name.replace(']', "]]"))
    }
}

/// A message as rules see it.
pub trait MessageView {
    /// A system property of Service Bus; `None` if the message does not have the property.
    fn system(&self, property: SystemProperty) -> Option<PropertyValue>;

    /// An application property, by name in any letter case.
    fn user(&self, name: &str) -> Option<PropertyValue>;

    /// All application properties, in any order.
    fn user_properties(&self) -> Vec<(String, PropertyValue)>;
}
