//! What the filters of lists have in common: whose rows, with which words, from when to when.

use crate::admin::error::PageError;
use crate::admin::forms::form::Refusal;
use crate::admin::reader::Reader;
use crate::base::Timestamp;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::registry::Registry;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;

/// An address names a topic that there is not.
pub(crate) struct NoSuchTopic;

/// The topic that a filter names, if it names one.
pub(crate) fn topic(registry: &Registry, name: &str) -> Result<Option<TopicId>, NoSuchTopic> {
    let Some(name) = given(name) else {
        return Ok(None);
    };
    let name = TopicName::parse(&name).map_err(|_| NoSuchTopic)?;
    let entry = registry.topic(&name).ok_or(NoSuchTopic)?;
    Ok(Some(entry.topic.id))
}

/// All topics to choose from, or `none` of them: values and their texts.
pub(crate) fn topic_options(registry: &Registry, none: &str) -> Vec<(String, String)> {
    let topics = registry.topics_to_choose();
    let topics = topics.map(|each| each.topic.name.to_string());
    let none = (String::new(), none.to_owned());
    let options = topics.map(|name| (name.clone(), name));
    std::iter::once(none).chain(options).collect()
}

/// What was typed; `None` for nothing.
pub(crate) fn given(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Reads the fields of a filter, and collects what is wrong with them.
#[derive(Default)]
pub(crate) struct Reading {
    faults: Vec<Refusal>,
}

impl Reading {
    /// What is typed into a field, which is to be a `noun`.
    pub(crate) fn field<T>(
        &mut self,
        name: &str,
        text: &str,
        noun: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = given(text)?;
        let read = parse(&text);
        if read.is_none() {
            let problem = format!("{text:?} is no {noun}.");
            self.faults.push(Refusal::of(name, problem));
        }
        read
    }

    pub(crate) fn moment(&mut self, name: &str, text: &str) -> Option<Timestamp> {
        self.field(name, text, "moment such as 2026-11-21T06:40", moment)
    }

    /// Whose rows the field `of` asks for.
    pub(crate) fn of(&mut self, text: &str, registry: &Registry) -> Of {
        let noun = "topic or event subscription";
        let of = self.field("of", text, noun, |text| Of::named(text, registry));
        of.unwrap_or_default()
    }

    /// What was read, if nothing is wrong.
    pub(crate) fn end<T>(self, read: T) -> Result<T, Vec<Refusal>> {
        match self.faults.is_empty() {
            true => Ok(read),
            false => Err(self.faults),
        }
    }
}

impl From<Vec<Refusal>> for PageError {
    /// For whatever has no form to show them in.
    fn from(faults: Vec<Refusal>) -> Self {
        let problems = faults.into_iter().map(|fault| fault.problem);
        Self::Unreadable(problems.collect::<Vec<_>>().join(" "))
    }
}

/// Whose rows are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Of {
    pub(crate) topic: Option<TopicId>,
    pub(crate) subscription: Option<SubscriptionId>,
}

impl Of {
    /// Those of a topic, or of one of its subscriptions: `orders`, `orders/billing`; of everything where
    /// nothing is said. `None` for something that there is not.
    pub(crate) fn named(of: &str, registry: &Registry) -> Option<Self> {
        let mut found = Self::default();
        if of.is_empty() {
            return Some(found);
        }
        let (topic, name) = taken_apart(of);
        let topic = registry.topic(&TopicName::parse(topic).ok()?)?;
        match name {
            None => found.topic = Some(topic.topic.id),
            Some(name) => {
                let name = SubscriptionName::parse(name).ok()?;
                found.subscription = Some(topic.subscription(&name)?.id);
            }
        }
        Some(found)
    }
}

/// The same for `everpost` and the management API.
pub(crate) fn of_flags(of: &str) -> [(&'static str, String); 2] {
    let (topic, subscription) = taken_apart(of);
    [
        ("topic", topic.to_owned()),
        ("subscription", subscription.unwrap_or_default().to_owned()),
    ]
}

/// How the filter names all of a topic: behind that of a namespace topic stands a slash, since
/// `shop/orders` would be a subscription of the topic `shop`.
pub(crate) fn whole_topic(topic: &TopicName) -> String {
    match topic.namespace() {
        None => topic.to_string(),
        Some(_) => format!("{topic}/"),
    }
}

/// The topic and, if one is named, the subscription.
fn taken_apart(of: &str) -> (&str, Option<&str>) {
    match of.rsplit_once('/') {
        None => (of, None),
        Some((topic, "")) => (topic, None),
        Some((topic, name)) => (topic, Some(name)),
    }
}

/// All topics and subscriptions to choose from, or `none` of them: values and their texts.
pub(crate) fn of_options(registry: &Registry, none: &str) -> Vec<(String, String)> {
    let mut options = vec![(String::new(), none.to_owned())];
    for topic in registry.topics_to_choose() {
        let name = topic.topic.name.as_str();
        options.push((whole_topic(&topic.topic.name), name.to_owned()));
        let subscriptions = topic.subscriptions.values().map(|each| {
            let subscription = each.name.as_str();
            (
                format!("{name}/{subscription}"),
                format!("{name} / {subscription}"),
            )
        });
        options.extend(subscriptions);
    }
    options
}

/// What the field for a text to look for is called.
pub(crate) fn search_label(sees_data: bool) -> &'static str {
    match sees_data {
        true => "ID, type, subject or data",
        false => "ID, type or subject",
    }
}

/// A moment as the reader writes it, or RFC 3339; `None` for what is no moment.
pub(crate) fn moment(text: &str) -> Option<Timestamp> {
    Reader::current().zone.moment(text)
}

/// The same in UTC, as programs write it; empty for what is no moment.
pub(crate) fn in_utc(text: &str) -> String {
    moment(text).map_or_else(String::new, |at| at.to_string())
}
