//! The criteria that the filters of lists share: the topic or subscription, the text, and the time.

use crate::admin::forms::form::FormError;
use crate::admin::reader::PageReader;
use crate::base::Timestamp;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::registry::Registry;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;

pub(crate) fn given(text: &str) -> Option<String> {
    let trimmed = text.trim();
    (!trimmed.is_empty()).then(|| trimmed.to_owned())
}

#[derive(Default)]
pub(crate) struct Reading {
    faults: Vec<FormError>,
}

impl Reading {
    /// Parses the value of a field. For the error message, `noun` names the expected value, with its article.
    pub(crate) fn field<T>(
        &mut self,
        name: &str,
        text: &str,
        noun: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = given(text)?;
        parse(&text).or_else(|| {
            self.reject(name, format!("{text:?} is not {noun}."));
            None
        })
    }

    pub(crate) fn reject(&mut self, name: &str, problem: impl Into<String>) {
        self.faults.push(FormError::of(name, problem));
    }

    pub(crate) fn moment(&mut self, name: &str, text: &str) -> Option<Timestamp> {
        self.field(
            name,
            text,
            "a date and time such as 2026-11-21T06:40",
            moment,
        )
    }

    pub(crate) fn of(&mut self, text: &str, registry: &Registry) -> Of {
        let noun = "a topic or event subscription";
        let of = self.field("of", text, noun, |text| Of::named(text, registry));
        of.unwrap_or_default()
    }

    pub(crate) fn end<T>(self, read: T) -> Result<T, Vec<FormError>> {
        if self.faults.is_empty() {
            Ok(read)
        } else {
            Err(self.faults)
        }
    }
}

/// The topic or subscription whose rows a list shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Of {
    pub(crate) topic: Option<TopicId>,
    pub(crate) subscription: Option<SubscriptionId>,
}

impl Of {
    /// Finds a topic, or one of its subscriptions, by a name such as `orders` or `orders/billing`; an empty name stands
    /// for everything. `None` if there is no such topic or subscription.
    pub(crate) fn named(of: &str, registry: &Registry) -> Option<Self> {
        let (mut found, (topic, name)) = (Self::default(), taken_apart(of));
        if of.is_empty() {
            return Some(found);
        }
        let topic = registry.topic(&TopicName::parse(topic).ok()?)?;
        match name.map(SubscriptionName::parse) {
            None => found.topic = Some(topic.topic.id),
            Some(name) => found.subscription = Some(topic.subscription(&name.ok()?)?.id),
        }
        Some(found)
    }
}

/// Returns the topic and the subscription of a name such as `orders/billing` as flags of `everpost`, which are also
/// query parameters of the management API.
pub(crate) fn of_flags(of: &str) -> [(&'static str, String); 2] {
    let (topic, name) = taken_apart(of);
    let wanted = name.unwrap_or_default();
    [
        ("topic", topic.to_owned()),
        ("subscription", wanted.to_owned()),
    ]
}

/// Returns the filter value for a whole topic. The name of a namespace topic ends with a slash, since `shop/orders`
/// would be a subscription of the topic `shop`.
pub(crate) fn whole_topic(topic: &TopicName) -> String {
    match topic.namespace() {
        None => topic.to_string(),
        Some(_) => format!("{topic}/"),
    }
}

fn taken_apart(of: &str) -> (&str, Option<&str>) {
    match of.rsplit_once('/') {
        None => (of, None),
        Some((topic, "")) => (topic, None),
        Some((topic, name)) => (topic, Some(name)),
    }
}

/// Parses a time in the format and zone of the reader, or in RFC 3339; `None` if the text is not a time.
pub(crate) fn moment(text: &str) -> Option<Timestamp> {
    PageReader::current().zone.moment(text)
}

/// Converts a time as the reader writes it to UTC in RFC 3339; empty if the text is not a time.
pub(crate) fn in_utc(text: &str) -> String {
    moment(text).map_or_else(String::new, |at| at.to_string())
}
