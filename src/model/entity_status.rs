//! What may be done with a queue, a topic or a subscription of Service Bus (rule S1).

use crate::base::named::named_enum;

named_enum! {
    /// Whether messages can be sent to it and received from it.
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
    /// Whether both can be done.
    pub fn is_active(&self) -> bool {
        *self == Self::Active
    }

    /// Whether messages can be sent.
    pub fn lets_send(self) -> bool {
        match self {
            Self::Active | Self::ReceiveDisabled => true,
            Self::Disabled | Self::SendDisabled => false,
        }
    }

    /// Whether they can be received.
    pub fn lets_receive(self) -> bool {
        match self {
            Self::Active | Self::SendDisabled => true,
            Self::Disabled | Self::ReceiveDisabled => false,
        }
    }
}
