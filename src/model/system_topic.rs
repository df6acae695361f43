//! Topics that every appliance has without anybody making them, and that it alone publishes to.

use crate::model::topic::TopicId;

/// A built-in topic. It can be subscribed to like any other, and has no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemTopic {
    /// Tells of the files that dead letters are kept in, as an Azure storage account would.
    DeadLetterStorage,
    /// Tells what becomes of the appliance and of its deliveries.
    Everpost,
}

impl SystemTopic {
    /// All of them.
    pub const ALL: [SystemTopic; 2] = [Self::DeadLetterStorage, Self::Everpost];

    /// Its number: below zero, where no topic that somebody makes can have one.
    pub fn id(self) -> TopicId {
        match self {
            Self::DeadLetterStorage => TopicId(-1),
            Self::Everpost => TopicId(-2),
        }
    }

    /// The one of that number.
    pub fn of(id: TopicId) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.id() == id)
    }
}
