//! Addresses of messaging entities, as clients specify them over AMQP and HTTP.

use std::fmt;

use crate::model::lease::SubQueue;

const DEAD_LETTER: &str = "$DeadLetterQueue";
const SUBSCRIPTIONS: &str = "Subscriptions";
const TRANSFER: &str = "$Transfer";

/// A queue, a topic or a subscription of a topic, or one of its sub-queues.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntityAddress {
    /// The name of a queue or a topic, which may have slashes in it, in the letter case that the client used.
    pub topic_or_queue: String,
    /// The name of a subscription of the topic.
    pub subscription: Option<String>,
    pub sub_queue: SubQueue,
    /// Is true for the transfer dead-letter queue.
    pub is_transfer: bool,
}

impl EntityAddress {
    /// Reads the parts of a path. Words that are not names may be in any letter case, and empty parts are ignored.
    /// Returns `None` if the parts name nothing.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let mut take = |word: &str| {
            let last = parts.last();
            let is_last = last.is_some_and(|last| last.eq_ignore_ascii_case(word));
            is_last.then(|| parts.pop()).is_some()
        };
        let sub_queue = if take(DEAD_LETTER) {
            SubQueue::DeadLetter
        } else {
            SubQueue::Active
        };
        let is_transfer = sub_queue == SubQueue::DeadLetter && take(TRANSFER);
        let (name, subscription) = match parts.as_slice() {
            [] => return None,
            [name @ .., word, subscription]
                if !name.is_empty() && word.eq_ignore_ascii_case(SUBSCRIPTIONS) =>
            {
                (name, Some((*subscription).to_owned()))
            }
            name => (name, None),
        };
        Some(Self {
            topic_or_queue: name.join("/"),
            subscription,
            sub_queue,
            is_transfer,
        })
    }

    /// Returns the path of the entity without that of its sub-queue: `queue`, `topic` or `topic/Subscriptions/name`.
    pub fn path(&self) -> String {
        let name = &self.topic_or_queue;
        self.subscription.as_deref().map_or_else(
            || name.clone(),
            |own| format!("{name}/{SUBSCRIPTIONS}/{own}"),
        )
    }
}

/// Writes the path of the entity, including its sub-queue.
impl fmt::Display for EntityAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())?;
        if self.is_transfer {
            write!(f, "/{TRANSFER}")?;
        }
        match self.sub_queue {
            SubQueue::Active => Ok(()),
            SubQueue::DeadLetter => write!(f, "/{DEAD_LETTER}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Option<EntityAddress> {
        EntityAddress::of_parts(path.split('/'))
    }

    #[test]
    fn every_spelling_is_one_address() {
        for (path, written, name, subscription) in [
            ("jobs", "jobs", "jobs", None),
            ("//Shop//jobs/", "Shop/jobs", "Shop/jobs", None),
            (
                "jobs/$deadletterQUEUE",
                "jobs/$DeadLetterQueue",
                "jobs",
                None,
            ),
            (
                "jobs/$transfer/$DeadLetterQueue",
                "jobs/$Transfer/$DeadLetterQueue",
                "jobs",
                None,
            ),
            (
                "a/b/subscriptions/s",
                "a/b/Subscriptions/s",
                "a/b",
                Some("s"),
            ),
            (
                "t/SUBSCRIPTIONS/s/$DeadLetterQueue",
                "t/Subscriptions/s/$DeadLetterQueue",
                "t",
                Some("s"),
            ),
            (
                "subscriptions/s",
                "subscriptions/s",
                "subscriptions/s",
                None,
            ),
        ] {
            let address = of(path).expect(path);
            assert_eq!(address.to_string(), written, "{path}");
            assert_eq!(address.topic_or_queue, name, "{path}");
            assert_eq!(address.subscription.as_deref(), subscription, "{path}");
            assert_eq!(of(written), Some(address), "{path}");
        }
        for path in ["", "/", "$DeadLetterQueue", "$Transfer/$DeadLetterQueue/"] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
