//! The status of queues, topics and subscriptions of Service Bus (rule S1).

use crate::base::named::named_enum;

named_enum! {
    /// The status of a queue, topic or subscription of Service Bus: whether messages can be sent to it and received
    /// from it.
    #[derive(Default)]
    pub enum EntityStatus {
        #[default]
        Active,
        Disabled,
        SendDisabled,
        ReceiveDisabled,
    }
}

impl EntityStatus {
    /// Returns whether messages can be both sent and received.
    pub fn is_active(&self) -> bool {
        *self == Self::Active
    }

    /// Returns whether messages can be sent.
    pub fn lets_send(self) -> bool {
        match self {
            Self::Active | Self::ReceiveDisabled => true,
            Self::Disabled | Self::SendDisabled => false,
        }
    }

    /// Returns whether messages can be received.
    pub fn lets_receive(self) -> bool {
        match self {
            Self::Active | Self::SendDisabled => true,
            Self::Disabled | Self::ReceiveDisabled => false,
        }
    }
}
