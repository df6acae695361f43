//! The administration API of Service Bus (rule S9): descriptions of entities in Atom entries and feeds.

use std::fmt;

use http::{Method, Uri};
use percent_encoding::percent_decode_str;

use super::description::{self, DescribedKind, Subject};
use super::entity::EntityAddress;
use super::xml::{Element, NoXml};
use crate::base::Timestamp;
use crate::model::lease::SubQueue;
use crate::model::queue::ServiceBusTier;

const ATOM: &str = "http://www.w3.org/2005/Atom";

/// A resource of the administration API that a path identifies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtomPath {
    Namespace,
    Queues,
    Topics,
    /// A queue or a topic.
    Entity(String),
    Subscriptions(String),
    Subscription(String, String),
    Rules(String, String),
    Rule(String, String, String),
}

impl AtomPath {
    /// Parses a request path of the administration API. Returns `None` for any other path. Fixed segments, for example
    /// `subscriptions`, are case-insensitive.
    pub fn parse(path: &str) -> Option<Self> {
        let decode = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let parts: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let is = |text: &str, word: &str| text.eq_ignore_ascii_case(word);
        let own = |name: &str| name.to_owned();
        // The name of a topic may contain slashes, so the name ends at the word `subscriptions`.
        let word = parts.iter().position(|part| is(part, "subscriptions"));
        let (entity, below) = parts.split_at(word.unwrap_or(parts.len()));
        let entity_path = entity.join("/");
        let topic = entity_path.as_str();
        Some(match below {
            [] => match parts[..] {
                [word] if is(word, "$namespaceinfo") => Self::Namespace,
                [word, all] if is(word, "$Resources") && is(all, "queues") => Self::Queues,
                [word, all] if is(word, "$Resources") && is(all, "topics") => Self::Topics,
                [_, ..] if !topic.is_empty() => Self::Entity(entity_path),
                _ => return None,
            },
            _ if topic.is_empty() => return None,
            [_] => Self::Subscriptions(entity_path),
            [_, name] => Self::Subscription(entity_path, own(name)),
            [_, name, rules] if is(rules, "rules") => Self::Rules(entity_path, own(name)),
            [_, name, rules, rule] if is(rules, "rules") => {
                Self::Rule(entity_path, own(name), own(rule))
            }
            _ => return None,
        })
    }

    /// Returns all methods and paths that are served, with placeholders for names in braces.
    pub fn served() -> impl Iterator<Item = (Method, Self)> {
        let topic = || "{serviceBusTopic}".to_owned();
        let subscription = || "{subscription}".to_owned();
        let defined = [
            Self::Entity("{entity}".to_owned()),
            Self::Subscription(topic(), subscription()),
            Self::Rule(topic(), subscription(), "{rule}".to_owned()),
        ];
        let shown = [
            Self::Namespace,
            Self::Queues,
            Self::Topics,
            Self::Subscriptions(topic()),
            Self::Rules(topic(), subscription()),
        ];
        let read_only = shown.into_iter().map(|place| (Method::GET, place));
        let changeable = defined.into_iter().flat_map(|place| {
            [Method::GET, Method::PUT, Method::DELETE].map(|method| (method, place.clone()))
        });
        read_only.chain(changeable)
    }

    /// Returns the name of the queue or topic in the path. The path may also name subscriptions or rules of the topic.
    /// Returns `None` for the namespace and for the lists of queues and topics.
    pub fn topic_or_queue(&self) -> Option<&str> {
        match self {
            Self::Namespace | Self::Queues | Self::Topics => None,
            Self::Entity(name)
            | Self::Subscriptions(name)
            | Self::Subscription(name, _)
            | Self::Rules(name, _)
            | Self::Rule(name, ..) => Some(name),
        }
    }

    /// Returns the address of the queue, topic or subscription that the path names. For a rule, returns the address of
    /// its subscription. Returns `None` for the namespace and for lists.
    pub fn address(&self) -> Option<EntityAddress> {
        let (topic_or_queue, subscription) = match self {
            Self::Namespace
            | Self::Queues
            | Self::Topics
            | Self::Subscriptions(_)
            | Self::Rules(..) => return None,
            Self::Entity(name) => (name, None),
            Self::Subscription(topic, own) | Self::Rule(topic, own, _) => (topic, Some(own)),
        };
        Some(EntityAddress {
            topic_or_queue: topic_or_queue.clone(),
            subscription: subscription.cloned(),
            sub_queue: SubQueue::Active,
            is_transfer: false,
        })
    }

    /// Reports whether only the administration API uses the path.
    pub fn is_reserved(&self) -> bool {
        matches!(self, Self::Namespace | Self::Queues | Self::Topics)
    }

    /// Returns the path in the form from which clients extract names.
    pub fn path(&self) -> String {
        match self {
            Self::Namespace => "$namespaceinfo".to_owned(),
            Self::Queues => "$Resources/queues".to_owned(),
            Self::Topics => "$Resources/topics".to_owned(),
            Self::Entity(name) => name.clone(),
            Self::Subscriptions(topic) => format!("{topic}/Subscriptions"),
            Self::Subscription(topic, name) => format!("{topic}/Subscriptions/{name}"),
            Self::Rules(topic, name) => format!("{topic}/Subscriptions/{name}/Rules"),
            Self::Rule(topic, name, rule) => format!("{topic}/Subscriptions/{name}/Rules/{rule}"),
        }
    }
}

/// A version of the administration API: a year and a month, without a day. Later versions compare greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AtomVersion {
    year: u16,
    month: u8,
}

impl AtomVersion {
    /// The first version with `MaxMessageSizeInKilobytes`.
    pub const WITH_MESSAGE_SIZES: Self = Self {
        year: 2_021,
        month: 5,
    };

    /// Reports whether clients of a version know `MaxMessageSizeInKilobytes`. `None` means the newest version.
    pub(super) fn has_message_sizes(version: Option<Self>) -> bool {
        version.is_none_or(|version| version >= Self::WITH_MESSAGE_SIZES)
    }

    /// Reads the value of `api-version`.
    pub fn parse(text: &str) -> Option<Self> {
        let (year, month) = text.split_once('-')?;
        let is_number =
            |text: &str, digits| text.len() == digits && text.bytes().all(|c| c.is_ascii_digit());
        (is_number(year, 4) && is_number(month, 2)).then_some(Self {
            year: year.parse().ok()?,
            month: month.parse().ok()?,
        })
    }
}

impl fmt::Display for AtomVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:02}", self.year, self.month)
    }
}

/// Returns the empty feed at the path `/` of a namespace. The feed is used to test connections.
pub fn public_feed(id: &str, now: Timestamp) -> Element {
    head("feed", id, "Publicly Listed Services", now)
}

/// The reason why the body of a PUT request is not a valid description of an entity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoDescription {
    #[error("the body cannot be read: {0}")]
    NoXml(#[from] NoXml),
    #[error(
        "the body must be an Atom entry whose content is a QueueDescription, TopicDescription, \
         SubscriptionDescription or RuleDescription"
    )]
    NoEntry,
}

/// Reads the body of a PUT.
pub fn read(body: &str) -> Result<(DescribedKind, Element), NoDescription> {
    let mut entry = Element::parse(body)?;
    let content = entry
        .children
        .iter_mut()
        .find(|each| each.name == "content");
    let description = content
        .and_then(|content| content.children.pop())
        .ok_or(NoDescription::NoEntry)?;
    let kind = DescribedKind::of(&description).ok_or(NoDescription::NoEntry)?;
    Ok((kind, description))
}

/// The request that an Atom entry or feed answers. Clients extract entity names from Atom IDs, so IDs keep the letter
/// case of the requested path.
#[derive(Clone, Copy, Debug)]
pub struct AtomSource<'a> {
    /// The URL of the appliance.
    pub url: &'a str,
    /// The host of the appliance.
    pub host: &'a str,
    /// The path and query of the request.
    pub asked: &'a Uri,
    pub version: Option<AtomVersion>,
    pub now: Timestamp,
}

impl AtomSource<'_> {
    /// Returns the entry for the requested entity.
    pub fn entry(&self, subject: &Subject<'_>) -> Element {
        self.of(self.asked_id(), subject)
    }

    /// Returns the entry for an element of the requested list.
    pub fn entry_of_list(&self, list: &AtomPath, subject: &Subject<'_>) -> Element {
        let (url, name) = (self.url, subject.name());
        let id = match list.topic_or_queue() {
            None => format!("{url}/{name}"),
            Some(_) => format!("{url}{}/{name}", self.asked.path().trim_end_matches('/')),
        };
        self.of(id, subject)
    }

    fn asked_id(&self) -> String {
        let query = self
            .asked
            .query()
            .map_or_else(String::new, |query| format!("?{query}"));
        format!("{}{}{query}", self.url, self.asked.path())
    }

    fn of(&self, id: String, subject: &Subject<'_>) -> Element {
        let description = description::write(subject, self.version, self.host);
        self.entry_with(id, subject.name(), description)
    }

    /// Returns the entry for the namespace, which was created at `created_at`.
    pub fn namespace(&self, created_at: Timestamp, tier: ServiceBusTier) -> Element {
        let created = created_at.to_azure();
        let name = self.host.split(['.', ':']).next().unwrap_or(self.host);
        let units = (tier == ServiceBusTier::Premium).then_some("1");
        let properties = [
            ("CreatedTime", Some(created.as_str())),
            ("MessagingSKU", Some(tier.name())),
            // The JavaScript client cannot read the entry of a Premium namespace without `MessagingUnits`.
            ("MessagingUnits", units),
            ("ModifiedTime", Some(&created)),
            ("Name", Some(name)),
            ("NamespaceType", Some("Messaging")),
        ];
        let elements = properties
            .into_iter()
            .filter_map(|(name, text)| Some(Element::of_text(name, text?)));
        let info = description::root("NamespaceInfo").with_children(elements);
        self.entry_with(self.asked_id(), name, info)
    }

    fn entry_with(&self, id: String, title: &str, content: Element) -> Element {
        let content = Element::new("content")
            .with_attribute("type", "application/xml")
            .with_children([content]);
        head("entry", id, title, self.now).with_children([content])
    }

    /// Returns a page of a list. `asked` is the query of the page, and `next` the query of the next page, if any.
    pub fn feed(
        &self,
        place: &AtomPath,
        entries: Vec<Element>,
        asked: &str,
        next: Option<&str>,
    ) -> Element {
        let path = place.path();
        let link = |relation: &str, query: &str| {
            let url = format!("{}{}?{query}", self.url, self.asked.path());
            let link = Element::new("link").with_attribute("rel", relation);
            link.with_attribute("href", &url)
        };
        let title = path.rsplit('/').next().unwrap_or(&path);
        head("feed", self.asked_id(), title, self.now)
            .with_children([link("self", asked)])
            .with_children(next.map(|query| link("next", query)))
            .with_children(entries)
    }
}

fn head(name: &str, id: impl Into<String>, title: &str, now: Timestamp) -> Element {
    let at = now.to_azure();
    let title = Element::of_text("title", title).with_attribute("type", "text");
    Element::new(name)
        .with_attribute("xmlns", ATOM)
        .with_children([
            Element::of_text("id", id),
            title,
            Element::of_text("published", at.as_str()),
            Element::of_text("updated", at.as_str()),
        ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_a_year_and_a_month() {
        let version = AtomVersion::parse;
        assert!(version("2017-04") < Some(AtomVersion::WITH_MESSAGE_SIZES));
        assert!(version("2021-05") >= Some(AtomVersion::WITH_MESSAGE_SIZES));
        assert_eq!(AtomVersion::WITH_MESSAGE_SIZES.to_string(), "2021-05");
        for text in ["", "2021", "2021-5", "2021-05-01", "2021-+5", "20211-05"] {
            assert_eq!(version(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_served_is_found_at_its_path() {
        for (method, place) in AtomPath::served() {
            let found = AtomPath::parse(&format!("/{}", place.path()));
            assert_eq!(found, Some(place), "{method}");
        }
    }
}
