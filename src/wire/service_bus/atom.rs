//! The administration API of Service Bus (rule S9): descriptions in entries and feeds of Atom.

use std::sync::Arc;

use http::Method;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::description::{self, Kind};
use super::xml::{Element, NoXml};
use crate::base::Timestamp;
use crate::model::shared_access::AccessRule;

const ATOM: &str = "http://www.w3.org/2005/Atom";

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
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

impl Place {
    /// The place at `path`; `None` where there is none. Words that are not names come in any letter case.
    pub fn parse(path: &str) -> Option<Self> {
        let decode = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let parts: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let is = |text: &str, word: &str| text.eq_ignore_ascii_case(word);
        let own = |name: &str| name.to_owned();
        // The words behind the name of a topic, which may have slashes in it.
        let word = parts.iter().position(|part| is(part, "subscriptions"));
        let (entity, below) = parts.split_at(word.unwrap_or(parts.len()));
        let entity = entity.join("/");
        let topic = entity.as_str();
        Some(match below {
            [] => match parts[..] {
                [word] if is(word, "$namespaceinfo") => Self::Namespace,
                [word, all] if is(word, "$Resources") && is(all, "queues") => Self::Queues,
                [word, all] if is(word, "$Resources") && is(all, "topics") => Self::Topics,
                [_, ..] if !topic.is_empty() => Self::Entity(entity),
                _ => return None,
            },
            _ if topic.is_empty() => return None,
            [_] => Self::Subscriptions(entity),
            [_, name] => Self::Subscription(entity, own(name)),
            [_, name, rules] if is(rules, "rules") => Self::Rules(entity, own(name)),
            [_, name, rules, rule] if is(rules, "rules") => {
                Self::Rule(entity, own(name), own(rule))
            }
            _ => return None,
        })
    }

    /// All that is served: each place, with names in braces, and what can be done there.
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
        let shown = shown.into_iter().map(|place| (Method::GET, place));
        let defined = defined.into_iter().flat_map(|place| {
            [Method::GET, Method::PUT, Method::DELETE].map(|method| (method, place.clone()))
        });
        shown.chain(defined)
    }

    /// Returns the queue or topic that it is, or belongs to.
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

    /// Whether its path means nothing anywhere else.
    pub fn is_reserved(&self) -> bool {
        matches!(self, Self::Namespace | Self::Queues | Self::Topics)
    }

    /// Its path, as clients take names out of it.
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

/// Whether the version is one of this API: a year and a month, and no day.
pub fn is_version(text: &str) -> bool {
    let mut parts = text.split('-');
    let is_number = |part: Option<&str>, digits: usize| {
        part.is_some_and(|part| part.len() == digits && part.bytes().all(|c| c.is_ascii_digit()))
    };
    is_number(parts.next(), 4) && is_number(parts.next(), 2) && parts.next().is_none()
}

/// Why a body describes nothing.
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
pub fn read(body: &str) -> Result<(Kind, Element), NoDescription> {
    let mut entry = Element::parse(body)?;
    let content = entry
        .children
        .iter_mut()
        .find(|each| each.name == "content");
    let description = content.and_then(|content| content.children.pop());
    let description = description.ok_or(NoDescription::NoEntry)?;
    let kind = Kind::of(&description).ok_or(NoDescription::NoEntry)?;
    Ok((kind, description))
}

/// Where answers come from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The URL of the appliance.
    pub url: &'a str,
    /// Its host.
    pub host: &'a str,
    pub now: Timestamp,
}

impl Source<'_> {
    /// The entry of what the management API shows like this.
    pub fn entry(
        &self,
        place: &Place,
        (kind, shown): (Kind, &Value),
        rules: &[Arc<AccessRule>],
    ) -> Element {
        let name = shown["name"].as_str().unwrap_or_default();
        self.of(
            place,
            name,
            description::write(kind, shown, rules, self.host),
        )
    }

    /// The entry of the namespace, which was created then.
    pub fn namespace(&self, created_at: Timestamp) -> Element {
        let created = created_at.to_azure();
        let name = self.host.split(['.', ':']).next().unwrap_or(self.host);
        let properties = [
            ("CreatedTime", created.as_str()),
            ("MessagingSKU", "Standard"),
            ("ModifiedTime", &created),
            ("Name", name),
            ("NamespaceType", "Messaging"),
        ];
        let properties = properties.map(|(name, text)| Element::of_text(name, text));
        let info = description::root("NamespaceInfo").with_children(properties);
        self.of(&Place::Namespace, name, info)
    }

    fn of(&self, place: &Place, title: &str, content: Element) -> Element {
        let content = Element::new("content")
            .with_attribute("type", "application/xml")
            .with_children([content]);
        self.head("entry", &place.path(), title)
            .with_children([content])
    }

    /// A page of a list. `more` has its query, and that of the next page if there is one.
    pub fn feed(
        &self,
        place: &Place,
        entries: Vec<Element>,
        (asked, next): (&str, Option<&str>),
    ) -> Element {
        let path = place.path();
        let link = |relation: &str, query: &str| {
            let url = format!("{}/{path}?{query}", self.url);
            let link = Element::new("link").with_attribute("rel", relation);
            link.with_attribute("href", &url)
        };
        let title = path.rsplit('/').next().unwrap_or(&path);
        self.head("feed", &path, title)
            .with_children([link("self", asked)])
            .with_children(next.map(|query| link("next", query)))
            .with_children(entries)
    }

    fn head(&self, name: &str, path: &str, title: &str) -> Element {
        let now = self.now.to_azure();
        let title = Element::of_text("title", title).with_attribute("type", "text");
        Element::new(name)
            .with_attribute("xmlns", ATOM)
            .with_children([
                Element::of_text("id", format!("{}/{path}", self.url)),
                title,
                Element::of_text("published", now.as_str()),
                Element::of_text("updated", now.as_str()),
            ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_served_is_found_at_its_path() {
        for (method, place) in Place::served() {
            let found = Place::parse(&format!("/{}", place.path()));
            assert_eq!(found, Some(place), "{method}");
        }
    }
}
