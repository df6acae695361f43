//! Paths of entities over HTTP, and the operations on them. The paths are `/{queue}` and
//! `/{topic}/Subscriptions/{subscription}`, each optionally followed by `/$DeadLetterQueue`. The fixed words are
//! case-insensitive.

use http::Method;
use percent_encoding::percent_decode_str;

use crate::model::lease::SubQueue;
use crate::wire::service_bus::entity::EntityAddress;

const DEAD_LETTER_QUEUE: &str = "$DeadLetterQueue";
const MESSAGES: &str = "messages";
const HEAD: &str = "head";

/// A path below an entity of Service Bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityPath {
    pub entity: EntityAddress,
    /// The segments of the path behind the entity.
    below: Vec<String>,
}

/// The error for a path that names a dead-letter queue of an entity that cannot have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "dead-letter queues are those of queues and of subscriptions: \
     /{{queue}}/$DeadLetterQueue/messages/… and \
     /{{topic}}/Subscriptions/{{subscription}}/$DeadLetterQueue/messages/…"
)]
pub struct NoQueue;

/// An operation on a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueOperation {
    /// Locks the first message and returns it.
    PeekLock,
    /// Returns the first message and removes it.
    ReceiveAndDelete,
    Unlock(Claim),
    Complete(Claim),
    RenewLock(Claim),
    /// Sends messages. Dead-letter queues and subscriptions do not accept messages, although clients often try.
    Send,
}

/// The operations on entities that messages can be received from: a method, and a path below that of the entity.
const SERVED: [(Method, &str); 5] = [
    (Method::POST, "head"),
    (Method::DELETE, "head"),
    (Method::PUT, "{numberOrId}/{lockToken}"),
    (Method::DELETE, "{numberOrId}/{lockToken}"),
    (Method::POST, "{numberOrId}/{lockToken}"),
];

/// The paths of entities that messages can be received from.
const PLACES: [&str; 4] = [
    "/{queue}",
    "/{topic}/Subscriptions/{name}",
    "/{topic}/Subscriptions/{name}/$DeadLetterQueue",
    "/{namespace}/{topic}/Subscriptions/{name}/$DeadLetterQueue",
];

/// Methods and paths of all that can be asked, with names in braces; of dead letters of queues, and of topics in
/// namespaces, nobody is told twice.
pub fn served() -> impl Iterator<Item = (Method, String)> {
    let received = PLACES.into_iter().flat_map(|place| {
        SERVED.map(|(method, below)| (method, format!("{place}/{MESSAGES}/{below}")))
    });
    received.chain([(Method::POST, format!("/{{queue}}/{MESSAGES}"))])
}

/// The first segments of paths that do not belong to Service Bus.
const OF_OTHERS: [&str; 7] = [
    "admin",
    "everpost",
    "namespaces",
    "queues",
    "serviceBusTopics",
    "subscriptions",
    "topics",
];

/// The identification of a locked message in a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The sequence number or the ID of the message.
    pub number_or_id: String,
    pub token: String,
}

impl EntityPath {
    /// Parses `path`. Returns `None` for a path that does not belong to messages.
    pub fn parse(path: &str) -> Option<Result<Self, NoQueue>> {
        let decode = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let bare_path = path.trim_start_matches('/');
        let parts: Vec<String> = bare_path.split('/').map(decode).collect();
        let is_word = |part: &String| part.eq_ignore_ascii_case(DEAD_LETTER_QUEUE);
        let dead = parts.iter().position(is_word);
        let behind = match dead {
            Some(place) => place + 1,
            // The word for messages is followed by nothing, by `head`, or by a sequence number or ID and a token.
            None => {
                let last = parts.len().saturating_sub(3)..parts.len();
                let mut places = last.rev();
                let is_messages = |at: &usize| parts[*at].eq_ignore_ascii_case(MESSAGES);
                places.find(is_messages).filter(|at| *at > 0)?
            }
        };
        let (above, below) = parts.split_at(behind);
        let is_of_others = |word: &str| above[0].eq_ignore_ascii_case(word);
        let entity = EntityAddress::of_parts(above.iter().flat_map(|part| part.split('/')))
            .filter(|_| !OF_OTHERS.into_iter().any(is_of_others));
        let Some(entity) = entity else {
            return dead.map(|_| Err(NoQueue));
        };
        Some(Ok(Self {
            entity,
            below: below.to_vec(),
        }))
    }

    /// Reports whether the path is that of a dead-letter queue.
    pub fn is_dead_letters(&self) -> bool {
        match self.entity.sub_queue {
            SubQueue::Active => false,
            SubQueue::DeadLetter => true,
        }
    }

    /// Reports whether the path ends with the entity.
    pub fn is_entity(&self) -> bool {
        self.below.iter().all(String::is_empty)
    }

    /// Returns the operation that `method` asks for at this address; `None` if there is none.
    pub fn operation(&self, method: &Method) -> Option<QueueOperation> {
        let below: Vec<&str> = self.below.iter().map(String::as_str).collect();
        let (messages, rest) = below.split_first()?;
        if !messages.eq_ignore_ascii_case(MESSAGES) {
            return None;
        }
        match (method.as_str(), rest) {
            ("POST", [head]) if head.eq_ignore_ascii_case(HEAD) => Some(QueueOperation::PeekLock),
            ("DELETE", [head]) if head.eq_ignore_ascii_case(HEAD) => {
                Some(QueueOperation::ReceiveAndDelete)
            }
            ("POST", [] | [""]) => Some(QueueOperation::Send),
            (method, [number_or_id, token]) => {
                let claim = Claim {
                    number_or_id: (*number_or_id).to_owned(),
                    token: (*token).to_owned(),
                };
                match method {
                    "PUT" => Some(QueueOperation::Unlock(claim)),
                    "DELETE" => Some(QueueOperation::Complete(claim)),
                    "POST" => Some(QueueOperation::RenewLock(claim)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Returns the path of a locked message.
    pub fn lock_path(&self, sequence_number: i64, token: &str) -> String {
        format!("/{}/{MESSAGES}/{sequence_number}/{token}", self.entity)
    }
}

/// Returns the path of the dead-letter queue of a subscription.
pub fn queue_path(topic: &str, subscription: &str) -> String {
    let address = EntityAddress {
        topic_or_queue: topic.to_owned(),
        subscription: Some(subscription.to_owned()),
        sub_queue: SubQueue::DeadLetter,
        is_transfer: false,
    };
    format!("/{address}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(path: &str) -> (String, String) {
        let address = EntityPath::parse(path).expect(path).expect(path);
        assert!(address.is_dead_letters(), "{path}");
        let entity = address.entity;
        (
            entity.topic_or_queue,
            entity.subscription.unwrap_or_default(),
        )
    }

    #[test]
    fn queues_topics_and_subscriptions_are_found_by_what_is_asked() {
        for (path, expected) in [
            ("/jobs/messages", "/jobs"),
            ("/jobs/Messages/HEAD", "/jobs"),
            ("/messages/messages/7/t", "/messages"),
            ("/shop/orders/messages/", "/shop/orders"),
            ("/a.b/c/jobs/messages/head", "/a.b/c/jobs"),
            ("/a.b%2Fc%2Fjobs/messages/head", "/a.b/c/jobs"),
            (
                "/orders/subscriptions/billing/messages/head",
                "/orders/Subscriptions/billing",
            ),
            (
                "/jobs/%24deadletterqueue/messages/head",
                "/jobs/$DeadLetterQueue",
            ),
        ] {
            let address = EntityPath::parse(path).expect(path).expect(path);
            assert_eq!(format!("/{}", address.entity), expected, "{path}");
        }
        for path in [
            "/messages",
            "/messages/head",
            "/admin/queues/messages",
            "/everpost/alerts/messages",
            "/admin/queues/jobs/messages/7",
            "/namespaces/shop/topics/messages/eventSubscriptions/billing",
            "/topics/messages",
            "/topics/messages/api/events",
            "/Topics/messages/eventSubscriptions/billing",
            "/queues/messages/listKeys",
            "/serviceBusTopics/messages/subscriptions/billing",
            "/a/messages/7/t/u",
        ] {
            assert_eq!(EntityPath::parse(path), None, "{path}");
        }
    }

    #[test]
    fn queues_are_found_in_any_letter_case() {
        let expected = ("orders".to_owned(), "billing".to_owned());
        for path in [
            "/orders/Subscriptions/billing/$DeadLetterQueue/messages/head",
            "/orders/subscriptions/billing/$deadletterqueue/Messages/Head",
            "//orders/SUBSCRIPTIONS/billing/%24DEADLETTERQUEUE",
        ] {
            assert_eq!(parsed(path), expected, "{path}");
        }
        let in_namespace = "/shop/orders/subscriptions/billing/$DeadLetterQueue/messages/head";
        assert_eq!(parsed(in_namespace).0, "shop/orders");
        for path in [
            "/orders",
            "/subscriptions/s/resourceGroups/g",
            "/",
            "/a/$dead",
        ] {
            assert_eq!(EntityPath::parse(path), None, "{path}");
        }
        for path in [
            "/$DeadLetterQueue",
            "/topics/orders/$DeadLetterQueue/messages/head",
            "/subscriptions/billing/$DeadLetterQueue",
        ] {
            assert_eq!(EntityPath::parse(path), Some(Err(NoQueue)), "{path}");
        }
    }

    #[test]
    fn methods_and_paths_are_operations() {
        let claim = || Claim {
            number_or_id: "42".to_owned(),
            token: "t".to_owned(),
        };
        for (method, below, expected) in [
            (
                Method::POST,
                "messages/head",
                Some(QueueOperation::PeekLock),
            ),
            (
                Method::DELETE,
                "MESSAGES/HEAD",
                Some(QueueOperation::ReceiveAndDelete),
            ),
            (Method::POST, "messages", Some(QueueOperation::Send)),
            (Method::POST, "messages/", Some(QueueOperation::Send)),
            (
                Method::PUT,
                "messages/42/t",
                Some(QueueOperation::Unlock(claim())),
            ),
            (
                Method::DELETE,
                "messages/42/t",
                Some(QueueOperation::Complete(claim())),
            ),
            (
                Method::POST,
                "messages/42/t",
                Some(QueueOperation::RenewLock(claim())),
            ),
            (Method::GET, "messages/head", None),
            (Method::GET, "messages/42/t", None),
            (Method::POST, "", None),
            (Method::POST, "messages/42/t/x", None),
            (Method::POST, "$management", None),
        ] {
            let path = format!("/orders/Subscriptions/billing/$DeadLetterQueue/{below}");
            let address = EntityPath::parse(&path).expect("a queue").expect("a queue");
            assert_eq!(address.operation(&method), expected, "{method} {below}");
        }
    }

    #[test]
    fn what_is_told_is_all_that_can_be_asked() {
        let methods = [
            Method::GET,
            Method::PUT,
            Method::PATCH,
            Method::POST,
            Method::DELETE,
        ];
        for place in PLACES {
            for below in ["", "/head", "/{numberOrId}/{lockToken}", "/head/x"] {
                for method in &methods {
                    let path = format!("{place}/messages{below}");
                    let address = EntityPath::parse(&path).expect("a queue").expect("a queue");
                    let asked = address.operation(method);
                    let can_be_asked = asked.is_some_and(|asked| match asked {
                        QueueOperation::Send => place == "/{queue}",
                        QueueOperation::PeekLock
                        | QueueOperation::ReceiveAndDelete
                        | QueueOperation::Unlock(_)
                        | QueueOperation::Complete(_)
                        | QueueOperation::RenewLock(_) => below != "/head/x",
                    });
                    let is_told = served().any(|told| told == (method.clone(), path.clone()));
                    assert_eq!(is_told, can_be_asked, "{method} {path}");
                }
            }
        }
        assert_eq!(served().count(), PLACES.len() * SERVED.len() + 1);
    }

    #[test]
    fn paths_that_are_written_are_read_back() {
        let queue = queue_path("shop/orders", "billing");
        let queue = EntityPath::parse(&queue)
            .expect("a queue")
            .expect("a queue");
        let path = queue.lock_path(42, "t");
        assert_eq!(
            path,
            "/shop/orders/Subscriptions/billing/$DeadLetterQueue/messages/42/t"
        );
        let address = EntityPath::parse(&path).expect("a queue").expect("a queue");
        let claim = Claim {
            number_or_id: "42".to_owned(),
            token: "t".to_owned(),
        };
        assert_eq!(
            address.operation(&Method::PUT),
            Some(QueueOperation::Unlock(claim))
        );
    }
}
