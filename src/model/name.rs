//! Names of topics and event subscriptions: checked once, at the door.

use std::fmt;

/// Prefixes that Azure keeps for its own topics (spec 3.2).
const RESERVED_PREFIXES: [&str; 3] = ["microsoft", "eventgrid", "system"];

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid name of {what}: {problem}")]
pub struct InvalidName {
    what: &'static str,
    text: String,
    problem: String,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $shortest:literal..=$longest:literal, $reserved:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name(String);

        impl $name {
            /// Checks `text` and keeps it as it is written. Two names that differ in case alone are equal.
            pub fn parse(text: &str) -> Result<Self, InvalidName> {
                match problem(text, $shortest, $longest, $reserved) {
                    None => Ok(Self(text.to_owned())),
                    Some(problem) => Err(InvalidName { what: $what, text: text.to_owned(), problem }),
                }
            }

            /// The name as it was written.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The form by which names are compared and looked up.
            pub fn key(&self) -> String {
                self.0.to_ascii_lowercase()
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.0.eq_ignore_ascii_case(&other.0)
            }
        }

        impl Eq for $name {}

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// The name of a topic: 3 to 50 letters, digits and hyphens (spec 3.2).
    TopicName, "a topic", 3..=50, &RESERVED_PREFIXES
}

name! {
    /// The name of an event subscription: 3 to 64 letters, digits and hyphens (spec 3.3).
    SubscriptionName, "an event subscription", 3..=64, &[]
}

fn problem(text: &str, shortest: usize, longest: usize, reserved: &[&str]) -> Option<String> {
    if !(shortest..=longest).contains(&text.chars().count()) {
        return Some(format!("it must have {shortest} to {longest} characters"));
    }
    if !text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Some("only letters, digits and hyphens are allowed".to_owned());
    }
    let lower = text.to_ascii_lowercase();
    let prefix = reserved.iter().find(|prefix| lower.starts_with(**prefix))?;
    Some(format!("names that start with {prefix:?} are reserved"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for (text, valid) in [
            ("orders", true),
            ("Orders-2", true),
            ("abc", true),
            ("ab", false),
            (&"x".repeat(50), true),
            (&"x".repeat(51), false),
            ("under_score", false),
            ("with space", false),
            ("größe", false),
            ("System-x", false),
            ("eventgrid1", false),
            ("microsoft", false),
        ] {
            assert_eq!(TopicName::parse(text).is_ok(), valid, "{text}");
        }
        assert!(SubscriptionName::parse(&"x".repeat(64)).is_ok());
        assert!(SubscriptionName::parse("system-x").is_ok());
        assert_eq!(
            TopicName::parse("ORDERS").ok(),
            TopicName::parse("orders").ok()
        );
    }
}
