//! Built-in topics, to which only the appliance publishes.

use crate::model::topic::TopicId;

/// A built-in topic. It can be subscribed to like any other, and has no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemTopic {
    /// Events about exported dead letters, like those of an Azure storage account.
    DeadLetterStorage,
    /// Notices about the appliance and its deliveries.
    Everpost,
}

impl SystemTopic {
    /// All system topics.
    pub const ALL: [SystemTopic; 2] = [Self::DeadLetterStorage, Self::Everpost];

    /// Its id: negative, unlike that of any other topic.
    pub fn id(self) -> TopicId {
        match self {
            Self::DeadLetterStorage => TopicId(-1),
            Self::Everpost => TopicId(-2),
        }
    }

    /// The topic of that id.
    pub fn of(id: TopicId) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.id() == id)
    }
}
