//! Names of namespaces, topics and event subscriptions, checked once when they are parsed.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::model::access::KeyName;
use crate::model::shared_access::ROOT_RULE;

/// Prefixes that Azure keeps for its own topics (rule 3.2).
const RESERVED_PREFIXES: [&str; 3] = ["microsoft-", "eventgrid-", "system-"];

/// Characters of the name of a namespace, a topic, an inspector, an alert rule or an alert channel (rule 3.2).
pub const NAME_CHARACTERS: RangeInclusive<usize> = 3..=50;

/// Characters of the name of an event subscription outside of namespaces (rule 3.3).
pub const SUBSCRIPTION_NAME_CHARACTERS: RangeInclusive<usize> = 3..=64;

/// Characters of the name of a queue, or of a topic of Service Bus (rule S1).
pub const ENTITY_NAME_CHARACTERS: RangeInclusive<usize> = 1..=260;

/// Characters of the name of a subscription of a Service Bus topic, of a rule (rule S7) and of an access rule.
pub const RULE_NAME_CHARACTERS: RangeInclusive<usize> = 1..=50;

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid name of {what}: {problem}")]
pub struct InvalidName {
    what: &'static str,
    text: String,
    problem: String,
}

impl InvalidName {
    /// Replaces the kind of object in the error by another one whose names follow the same rules.
    #[must_use]
    pub fn of(self, what: &'static str) -> Self {
        Self { what, ..self }
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as it was written.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns the text of the name, shared.
            pub fn shared(&self) -> Arc<str> {
                Arc::clone(&self.0)
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
    /// The name of a namespace: 3 to 50 letters, digits and hyphens (rule N1).
    NamespaceName
}

name! {
    /// The name of a topic of events: 3 to 50 letters, digits and hyphens (rule 3.2). The name of a namespace topic
    /// follows that of its namespace: `shop/orders`. The type is also used for the name of a queue or a topic of
    /// Service Bus: 1 to 260 letters, digits, dots, hyphens, underscores and slashes (rule S1).
    TopicName
}

name! {
    /// The name of an event subscription: 3 to 64 letters, digits and hyphens (rule 3.3). The type is also used for the
    /// name of a subscription of a Service Bus topic: 1 to 50 letters, digits, dots, hyphens and underscores (rule S7).
    SubscriptionName
}

name! {
    /// The name of an inspector: 3 to 50 letters, digits and hyphens.
    InspectorName
}

name! {
    /// The name of an alert rule: 3 to 50 letters, digits and hyphens.
    AlertRuleName
}

name! {
    /// The name of an alert channel: 3 to 50 letters, digits and hyphens.
    AlertChannelName
}

impl AlertRuleName {
    /// Checks `text` and keeps it as it is written. Two names that differ in case alone are equal.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        checked(text, "an alert rule", NAME_CHARACTERS, &[]).map(Self)
    }
}

impl AlertChannelName {
    /// Checks `text` and keeps it as it is written. Two names that differ in case alone are equal.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        checked(text, "an alert channel", NAME_CHARACTERS, &[]).map(Self)
    }
}

name! {
    /// The name of a rule of a Service Bus subscription: 1 to 50 letters, digits, hyphens, dots, underscores and
    /// dollar signs (rule S7).
    RuleName
}

impl RuleName {
    /// Checks `text` and keeps it as it is written. Two names that differ in case alone are equal.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._$".contains(c);
        let has_room = RULE_NAME_CHARACTERS.contains(&text.chars().count());
        if has_room && text.chars().all(allowed) {
            return Ok(Self(text.into()));
        }
        let characters = "letters, digits, hyphens, dots, underscores and dollar signs";
        Err(unfit(text, "a rule", &RULE_NAME_CHARACTERS, characters))
    }

    /// Returns the name of the rule that every new subscription has.
    pub fn default_rule() -> Self {
        Self("$Default".into())
    }
}

name! {
    /// The name of a shared access rule. It follows the name of its queue or topic: `orders/app`. A rule without such a
    /// name is for all queues and topics.
    AccessRuleName
}

impl AccessRuleName {
    /// Checks `text` and keeps it as it is written. Two names that differ in case alone are equal.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let (entity, own) = match text.rsplit_once(IN_NAMESPACE) {
            Some((entity, own)) => (Some(entity), own),
            None => (None, text),
        };
        entity.map(TopicName::of_service_bus).transpose()?;
        let own = part(own, "an access rule", RULE_NAME_CHARACTERS)?;
        let mut reserved = KeyName::ALL
            .map(KeyName::name)
            .into_iter()
            .chain([ROOT_RULE]);
        match reserved.find(|name| own.eq_ignore_ascii_case(name)) {
            Some(name) => Err(InvalidName {
                what: "an access rule",
                text: text.to_owned(),
                problem: format!("{name} is there already, with keys of its own"),
            }),
            None => Ok(Self(text.into())),
        }
    }

    /// Returns the queue or topic of the rule; `None` for all of them.
    pub fn entity(&self) -> Option<TopicName> {
        let (entity, _) = self.0.rsplit_once(IN_NAMESPACE)?;
        Some(TopicName(entity.into()))
    }

    /// The rule `own` of a queue or topic.
    pub fn of(entity: &TopicName, own: &str) -> Result<Self, InvalidName> {
        Self::parse(&format!("{entity}{IN_NAMESPACE}{own}"))
    }

    /// Returns the name with its queue or topic in the spelling of `entity`.
    pub fn within(&self, entity: &TopicName) -> Self {
        Self(format!("{entity}{IN_NAMESPACE}{}", self.own()).into())
    }

    /// Returns the name without the name of the queue or topic.
    pub fn own(&self) -> &str {
        last_part(&self.0)
    }
}

impl InspectorName {
    /// Checks `text` and keeps it as it is written. Two names that differ in case alone are equal.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        checked(text, "an inspector", NAME_CHARACTERS, &[]).map(Self)
    }
}

impl NamespaceName {
    /// Checks `text` and keeps it as it is written. Two names that differ in case alone are equal.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        checked(text, "a namespace", NAME_CHARACTERS, &RESERVED_PREFIXES).map(Self)
    }
}

impl TopicName {
    /// The name of a topic of any kind, or of a queue: `orders`, `shop/orders` in a namespace, `billing.v2/jobs`.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        entity(text, "a topic or queue").map(Self)
    }

    /// The name of a queue, or of a topic of Service Bus.
    pub fn of_service_bus(text: &str) -> Result<Self, InvalidName> {
        entity(text, "a queue or topic").and_then(|name| {
            // In an address, the name of a subscription follows this word.
            let is_word = |part: &str| part.eq_ignore_ascii_case("Subscriptions");
            if name.split(IN_NAMESPACE).any(is_word) {
                Err(InvalidName {
                    what: "a queue or topic",
                    text: text.to_owned(),
                    problem: "no part of it can be \"Subscriptions\"".to_owned(),
                })
            } else {
                Ok(Self(name))
            }
        })
    }

    /// Reads the name of a queue or topic as Azure Resource Manager writes it, with `~` for a slash.
    pub fn of_service_bus_resource(text: &str) -> Result<Self, InvalidName> {
        Self::of_service_bus(&text.replace('~', "/"))
    }

    /// The name of a custom topic, which belongs to no namespace.
    pub fn custom(text: &str) -> Result<Self, InvalidName> {
        checked(text, "a topic", NAME_CHARACTERS, &RESERVED_PREFIXES).map(Self)
    }

    /// The name of the topic `text` of a namespace.
    pub fn in_namespace(namespace: &NamespaceName, text: &str) -> Result<Self, InvalidName> {
        let topic = Self::custom(text)?;
        Ok(Self(format!("{namespace}{IN_NAMESPACE}{topic}").into()))
    }

    /// Returns the namespace of a topic of events; `None` for a custom topic.
    pub fn namespace(&self) -> Option<NamespaceName> {
        let (namespace, _) = self.0.rsplit_once(IN_NAMESPACE)?;
        Some(NamespaceName(namespace.into()))
    }

    /// The path of the topic in the management API: `/topics/orders`, `/namespaces/shop/topics/orders`.
    pub fn path(&self) -> String {
        match self.namespace() {
            None => format!("/topics/{self}"),
            Some(namespace) => format!("/namespaces/{namespace}/topics/{}", self.own()),
        }
    }

    /// Returns the name without the name of the namespace, or the last part of a name of Service Bus.
    pub fn own(&self) -> &str {
        last_part(&self.0)
    }
}

fn last_part(name: &str) -> &str {
    name.rsplit_once(IN_NAMESPACE).map_or(name, |(_, own)| own)
}

/// Returns a name as one segment of a path, with its slashes encoded.
pub fn segment(name: &str) -> String {
    name.replace(IN_NAMESPACE, "%2F")
}

/// Returns the names of all levels above a name: `a` and `a/b` for `a/b/c`.
pub fn above(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices(IN_NAMESPACE).map(|(at, _)| &name[..at])
}

impl SubscriptionName {
    /// Parses the name of a subscription of any kind, including the subscription of a queue.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        if ENTITY_NAME_CHARACTERS.contains(&text.chars().count()) && is_later_part(text) {
            Ok(Self(text.into()))
        } else {
            let problem = "letters, digits, dots, hyphens and underscores, and not dots alone";
            Err(unfit(
                text,
                "a subscription",
                &ENTITY_NAME_CHARACTERS,
                problem,
            ))
        }
    }

    /// The name of an event subscription of a custom topic.
    pub fn of_custom_topic(text: &str) -> Result<Self, InvalidName> {
        checked(
            text,
            "an event subscription",
            SUBSCRIPTION_NAME_CHARACTERS,
            &[],
        )
        .map(Self)
    }

    /// The name of a subscription of a Service Bus topic.
    pub fn of_service_bus(text: &str) -> Result<Self, InvalidName> {
        part(text, "a subscription", RULE_NAME_CHARACTERS).map(Self)
    }

    /// Returns the name of the subscription that belongs to a queue: the last part of the queue's name.
    pub fn of_queue(queue: &TopicName) -> Self {
        Self(queue.own().into())
    }

    /// Reads the name of an event subscription of a namespace topic, which has up to 50 characters (rule N1).
    pub fn of_namespace_topic(text: &str) -> Result<Self, InvalidName> {
        checked(text, "an event subscription", NAME_CHARACTERS, &[]).map(Self)
    }
}

/// The separator between the names of a namespace and its topic, and between the parts of names of Service Bus.
const IN_NAMESPACE: char = '/';

/// Checks the name of an entity of Service Bus, which may have several parts. No part is `.` or `..`, since paths do
/// not keep them, and the first part does not begin with a dot.
fn entity(text: &str, what: &'static str) -> Result<Arc<str>, InvalidName> {
    let mut parts = text.split(IN_NAMESPACE);
    let has_room = ENTITY_NAME_CHARACTERS.contains(&text.chars().count());
    if has_room && parts.next().is_some_and(is_part) && parts.all(is_later_part) {
        return Ok(text.into());
    }
    let problem = "letters, digits, dots, hyphens and underscores, with slashes between parts; no dot at the beginning, and no part of dots alone";
    Err(unfit(text, what, &ENTITY_NAME_CHARACTERS, problem))
}

/// A name of Service Bus that has one part.
fn part(
    text: &str,
    what: &'static str,
    length: RangeInclusive<usize>,
) -> Result<Arc<str>, InvalidName> {
    if length.contains(&text.chars().count()) && is_part(text) {
        Ok(text.into())
    } else {
        Err(unfit(
            text,
            what,
            &length,
            "letters, digits, dots, hyphens and underscores, no dot at the beginning",
        ))
    }
}

fn is_part(text: &str) -> bool {
    has_allowed(text) && !text.starts_with('.')
}

/// Returns whether a text can be any part of a name but the first.
fn is_later_part(text: &str) -> bool {
    has_allowed(text) && !text.chars().all(|c| c == '.')
}

fn has_allowed(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    !text.is_empty() && text.chars().all(allowed)
}

fn unfit(
    text: &str,
    what: &'static str,
    length: &RangeInclusive<usize>,
    characters: &str,
) -> InvalidName {
    let (shortest, longest) = (length.start(), length.end());
    InvalidName {
        what,
        text: text.to_owned(),
        problem: format!("it must have {shortest} to {longest} {characters}"),
    }
}

fn checked(
    text: &str,
    what: &'static str,
    length: RangeInclusive<usize>,
    reserved: &[&str],
) -> Result<Arc<str>, InvalidName> {
    match problem(text, &length, reserved) {
        None => Ok(text.into()),
        Some(problem) => Err(InvalidName {
            what,
            text: text.to_owned(),
            problem,
        }),
    }
}

/// Returns all problems of a name; `None` if it is valid.
fn problem(text: &str, length: &RangeInclusive<usize>, reserved: &[&str]) -> Option<String> {
    let mut problems = Vec::new();
    if !length.contains(&text.chars().count()) {
        let (shortest, longest) = (length.start(), length.end());
        problems.push(format!("it must have {shortest} to {longest} characters"));
    }
    if !text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        problems.push("only letters, digits and hyphens are allowed".to_owned());
    }
    let lower = text.to_ascii_lowercase();
    if let Some(prefix) = reserved.iter().find(|prefix| lower.starts_with(**prefix)) {
        problems.push(format!("names that start with {prefix:?} are reserved"));
    }
    (!problems.is_empty()).then(|| problems.join("; "))
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
            ("EventGrid-x", false),
            ("microsoft-", false),
            ("eventgrid1", true),
            ("eventgridtopic-abc", true),
            ("microsoft", true),
            ("systems-2", true),
        ] {
            assert_eq!(TopicName::custom(text).is_ok(), valid, "{text}");
        }
        assert!(SubscriptionName::of_custom_topic(&"x".repeat(64)).is_ok());
        assert!(SubscriptionName::of_custom_topic("a.b").is_err());
        assert!(SubscriptionName::of_namespace_topic(&"x".repeat(50)).is_ok());
        assert!(SubscriptionName::of_namespace_topic(&"x".repeat(51)).is_err());
        assert!(SubscriptionName::of_custom_topic("system-x").is_ok());
        assert_eq!(
            TopicName::parse("ORDERS").ok(),
            TopicName::parse("orders").ok()
        );
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        for (text, problem) in [
            ("ab", "it must have 3 to 50 characters"),
            (
                "under_score",
                "only letters, digits and hyphens are allowed",
            ),
            (
                "b!",
                "it must have 3 to 50 characters; only letters, digits and hyphens are allowed",
            ),
            (
                "system-!",
                "only letters, digits and hyphens are allowed; names that start with \"system-\" are reserved",
            ),
        ] {
            let error = TopicName::custom(text).expect_err(text).to_string();
            assert!(error.ends_with(&format!(": {problem}")), "{error}");
        }
    }

    #[test]
    fn topics_of_namespaces_are_named_behind_them() {
        let shop = NamespaceName::parse("Shop").expect("a name");
        let orders = TopicName::in_namespace(&shop, "orders").expect("a name");
        assert_eq!(
            (orders.as_str(), orders.own(), orders.namespace()),
            ("Shop/orders", "orders", Some(shop))
        );
        assert_eq!(TopicName::parse("shop/ORDERS").ok(), Some(orders));
        let custom = TopicName::parse("orders").expect("a name");
        assert_eq!((custom.own(), custom.namespace()), ("orders", None));
        assert!(TopicName::custom("shop/orders").is_err());
        assert!(NamespaceName::parse(&"x".repeat(51)).is_err());
    }

    #[test]
    fn queues_have_names_of_several_parts() {
        for (text, valid) in [
            ("a", true),
            ("Billing.V2_x-y/jobs", true),
            ("a/b/c", true),
            ("system/orders-", true),
            (&"x".repeat(260), true),
            (&"x".repeat(261), false),
            ("", false),
            ("a b", false),
            ("größe", false),
            ("$a", false),
            ("/a", false),
            ("a/", false),
            ("a//b", false),
            ("a/../b", false),
            ("a/subscriptions/b", false),
        ] {
            let name = TopicName::of_service_bus(text);
            assert_eq!(name.is_ok(), valid, "{text}");
        }
        let jobs = TopicName::of_service_bus("a.b/c/jobs").expect("a name");
        let resource = TopicName::of_service_bus_resource("a.b~c/jobs");
        assert_eq!(resource.as_ref(), Ok(&jobs));
        assert!(TopicName::of_service_bus("a.b~c").is_err());
        assert_eq!(
            (jobs.own(), segment(jobs.as_str()).as_str()),
            ("jobs", "a.b%2Fc%2Fjobs")
        );
        assert_eq!(SubscriptionName::of_queue(&jobs).as_str(), "jobs");
        assert_eq!(above("a.b/c/jobs").collect::<Vec<_>>(), ["a.b", "a.b/c"]);
        for (text, valid) in [
            ("a", true),
            ("Mail.Sender_2-x", true),
            (&"x".repeat(50), true),
            (&"x".repeat(51), false),
            ("", false),
            (".a", false),
            ("a/b", false),
        ] {
            let name = SubscriptionName::of_service_bus(text);
            assert_eq!(name.is_ok(), valid, "{text}");
        }
        // A topic of events may be called like that.
        assert!(TopicName::parse("shop/subscriptions").is_ok());
    }

    #[test]
    fn rules_have_more_kinds_of_names() {
        let default = RuleName::default_rule();
        assert_eq!(RuleName::parse("$DEFAULT").ok(), Some(default));
        for (text, valid) in [
            ("a", true),
            ("Orders.Paid_v2-x", true),
            (&"x".repeat(50), true),
            (&"x".repeat(51), false),
            ("", false),
            ("a b", false),
            ("a/b", false),
            ("größe", false),
        ] {
            assert_eq!(RuleName::parse(text).is_ok(), valid, "{text}");
        }
    }
}
