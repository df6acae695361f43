//! Where a dead-letter queue is: `/{topic}/Subscriptions/{subscription}/$DeadLetterQueue`, the fixed words in
//! any letter case, and what can be asked there.

use http::Method;
use percent_encoding::percent_decode_str;

const DEAD_LETTER_QUEUE: &str = "$DeadLetterQueue";
const SUBSCRIPTIONS: &str = "Subscriptions";
const MESSAGES: &str = "messages";
const HEAD: &str = "head";

/// A path that has to do with dead-letter queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub topic: String,
    pub subscription: String,
    /// What stands behind the queue's name.
    below: Vec<String>,
}

/// A path names a dead-letter queue where there cannot be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "dead-letter queues are those of event subscriptions: \
     /{{topic}}/Subscriptions/{{subscription}}/$DeadLetterQueue/messages/…"
)]
pub struct NoQueue;

/// What is asked of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Lock the first one and show it.
    PeekLock,
    /// Show the first one and remove it.
    ReceiveAndDelete,
    Unlock(Claim),
    Complete(Claim),
    RenewLock(Claim),
    /// Nobody can, but many try.
    Send,
}

/// What can be asked, and where below a queue; of `Send` nobody is told.
const SERVED: [(Method, &str); 5] = [
    (Method::POST, "head"),
    (Method::DELETE, "head"),
    (Method::PUT, "{numberOrId}/{lockToken}"),
    (Method::DELETE, "{numberOrId}/{lockToken}"),
    (Method::POST, "{numberOrId}/{lockToken}"),
];

/// Methods and paths of all that can be asked, with names in braces.
pub fn served() -> impl Iterator<Item = (Method, String)> {
    ["{topic}", "{namespace}/{topic}"]
        .into_iter()
        .flat_map(|topic| {
            let queue = queue_path(topic, "{name}");
            SERVED.map(|(method, below)| (method, format!("{queue}/{MESSAGES}/{below}")))
        })
}

/// A locked one, as its address has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its sequence number, or the id of its message.
    pub number_or_id: String,
    pub token: String,
}

impl Address {
    /// The address in `path`; `None` for a path that has nothing to do with dead-letter queues.
    pub fn parse(path: &str) -> Option<Result<Self, NoQueue>> {
        let decode = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let parts: Vec<String> = path
            .trim_start_matches('/')
            .split('/')
            .map(decode)
            .collect();
        let place = parts
            .iter()
            .position(|part| part.eq_ignore_ascii_case(DEAD_LETTER_QUEUE))?;
        let (above, below) = (&parts[..place], &parts[place + 1..]);
        let [topic @ .., word, subscription] = above else {
            return Some(Err(NoQueue));
        };
        if topic.is_empty() || !word.eq_ignore_ascii_case(SUBSCRIPTIONS) {
            return Some(Err(NoQueue));
        }
        Some(Ok(Self {
            topic: topic.join("/"),
            subscription: subscription.clone(),
            below: below.to_vec(),
        }))
    }

    /// What `method` asks here; `None` for what there is not.
    pub fn operation(&self, method: &Method) -> Option<Operation> {
        let below: Vec<&str> = self.below.iter().map(String::as_str).collect();
        let (messages, rest) = below.split_first()?;
        if !messages.eq_ignore_ascii_case(MESSAGES) {
            return None;
        }
        match (method.as_str(), rest) {
            ("POST", [head]) if head.eq_ignore_ascii_case(HEAD) => Some(Operation::PeekLock),
            ("DELETE", [head]) if head.eq_ignore_ascii_case(HEAD) => {
                Some(Operation::ReceiveAndDelete)
            }
            ("POST", [] | [""]) => Some(Operation::Send),
            (method, [number_or_id, token]) => {
                let claim = Claim {
                    number_or_id: (*number_or_id).to_owned(),
                    token: (*token).to_owned(),
                };
                match method {
                    "PUT" => Some(Operation::Unlock(claim)),
                    "DELETE" => Some(Operation::Complete(claim)),
                    "POST" => Some(Operation::RenewLock(claim)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// The path of a queue.
pub fn queue_path(topic: &str, subscription: &str) -> String {
    format!("/{topic}/{SUBSCRIPTIONS}/{subscription}/{DEAD_LETTER_QUEUE}")
}

/// The path of a locked one.
pub fn lock_path(topic: &str, subscription: &str, sequence_number: i64, token: &str) -> String {
    let queue = queue_path(topic, subscription);
    format!("{queue}/{MESSAGES}/{sequence_number}/{token}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(path: &str) -> (String, String) {
        let address = Address::parse(path).expect(path).expect(path);
        (address.topic, address.subscription)
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
            assert_eq!(Address::parse(path), None, "{path}");
        }
        for path in [
            "/orders/$DeadLetterQueue/messages/head",
            "/$DeadLetterQueue",
            "/subscriptions/billing/$DeadLetterQueue",
            "/orders/topics/billing/$DeadLetterQueue",
            "/orders/Subscriptions/billing/$Transfer/$DeadLetterQueue/messages/head",
        ] {
            assert_eq!(Address::parse(path), Some(Err(NoQueue)), "{path}");
        }
    }

    #[test]
    fn methods_and_paths_are_operations() {
        let claim = || Claim {
            number_or_id: "42".to_owned(),
            token: "t".to_owned(),
        };
        for (method, below, expected) in [
            (Method::POST, "messages/head", Some(Operation::PeekLock)),
            (
                Method::DELETE,
                "MESSAGES/HEAD",
                Some(Operation::ReceiveAndDelete),
            ),
            (Method::POST, "messages", Some(Operation::Send)),
            (Method::POST, "messages/", Some(Operation::Send)),
            (
                Method::PUT,
                "messages/42/t",
                Some(Operation::Unlock(claim())),
            ),
            (
                Method::DELETE,
                "messages/42/t",
                Some(Operation::Complete(claim())),
            ),
            (
                Method::POST,
                "messages/42/t",
                Some(Operation::RenewLock(claim())),
            ),
            (Method::GET, "messages/head", None),
            (Method::GET, "messages/42/t", None),
            (Method::POST, "", None),
            (Method::POST, "messages/42/t/x", None),
            (Method::POST, "$management", None),
        ] {
            let path = format!("/orders/Subscriptions/billing/$DeadLetterQueue/{below}");
            let address = Address::parse(&path).expect("a queue").expect("a queue");
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
        for below in ["", "head", "{numberOrId}/{lockToken}", "head/x/y"] {
            for method in &methods {
                let path = format!("{}/messages/{below}", queue_path("{topic}", "{name}"));
                let address = Address::parse(&path).expect("a queue").expect("a queue");
                let can_be_asked = address
                    .operation(method)
                    .is_some_and(|operation| operation != Operation::Send);
                let is_told = served().any(|told| told == (method.clone(), path.clone()));
                assert_eq!(is_told, can_be_asked, "{method} {path}");
            }
        }
        assert_eq!(served().count(), 2 * SERVED.len());
    }

    #[test]
    fn paths_that_are_written_are_read_back() {
        let path = lock_path("shop/orders", "billing", 42, "t");
        assert_eq!(
            path,
            "/shop/orders/Subscriptions/billing/$DeadLetterQueue/messages/42/t"
        );
        let address = Address::parse(&path).expect("a queue").expect("a queue");
        let claim = Claim {
            number_or_id: "42".to_owned(),
            token: "t".to_owned(),
        };
        assert_eq!(
            address.operation(&Method::PUT),
            Some(Operation::Unlock(claim))
        );
    }
}
