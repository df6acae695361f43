//! Which dead letters an address asks for.

use serde::Deserialize;

use crate::admin::list_filter::given;
use crate::admin::view::link;
use crate::base::Timestamp;
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::{DeliveryId, Outcome};
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::registry::Registry;
use crate::store::views::{DeadLetterQuery, GroupBy};

/// What the address of the list, and of what is done with all of it, asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::admin) struct Asked {
    /// A topic, or one of its subscriptions: `orders`, `orders/billing`.
    of: String,
    reason: String,
    outcome: String,
    status: String,
    #[serde(rename = "type")]
    event_type: String,
    subject: String,
    text: String,
    /// Moments in UTC, as a form or RFC 3339 has them.
    from: String,
    to: String,
    group: String,
    before: String,
}

/// Something in the address that is no filter.
pub(super) struct Unknown;

impl Asked {
    /// The parameters that choose dead letters.
    pub(super) fn filters(&self) -> [(&'static str, String); 9] {
        [
            ("of", self.of.clone()),
            ("reason", self.reason.clone()),
            ("outcome", self.outcome.clone()),
            ("status", self.status.clone()),
            ("type", self.event_type.clone()),
            ("subject", self.subject.clone()),
            ("text", self.text.clone()),
            ("from", self.from.clone()),
            ("to", self.to.clone()),
        ]
    }

    /// `path` for the same dead letters.
    pub(super) fn at(&self, path: &str) -> String {
        link(path, &self.filters())
    }

    /// `path` for the same, and one more parameter in the place of what is there.
    pub(super) fn with(&self, path: &str, name: &'static str, value: String) -> String {
        let mut filters = self.filters().to_vec();
        filters.retain(|(known, _)| *known != name);
        filters.push((name, value));
        link(path, &filters)
    }

    pub(super) fn is_filtered(&self) -> bool {
        self.filters().iter().any(|(_, value)| !value.is_empty())
    }

    pub(super) fn is_later_page(&self) -> bool {
        !self.before.is_empty()
    }

    /// What the dead letters are to be put together by.
    pub(super) fn group(&self) -> Option<GroupBy> {
        GroupBy::ALL.into_iter().find(|by| by.name() == self.group)
    }

    pub(super) fn group_name(&self) -> &str {
        &self.group
    }

    pub(super) fn query(
        &self,
        registry: &Registry,
        limit: usize,
    ) -> Result<DeadLetterQuery, Unknown> {
        Ok(DeadLetterQuery {
            filter: self.filter(registry)?,
            before: self.before.parse().ok().map(DeliveryId),
            limit,
        })
    }

    pub(super) fn filter(&self, registry: &Registry) -> Result<DeadLetterFilter, Unknown> {
        let outcome = |name: String| Outcome::from_name(&name).ok_or(Unknown);
        let mut filter = DeadLetterFilter {
            reason: given(&self.reason),
            outcome: given(&self.outcome).map(outcome).transpose()?,
            status: given(&self.status)
                .map(|status| status.parse().map_err(|_| Unknown))
                .transpose()?,
            event_type: given(&self.event_type),
            subject: given(&self.subject),
            text: given(&self.text),
            from: given(&self.from).map(|at| moment(&at)).transpose()?,
            to: given(&self.to).map(|at| moment(&at)).transpose()?,
            ..DeadLetterFilter::default()
        };
        if self.of.is_empty() {
            return Ok(filter);
        }
        let (topic, name) = taken_apart(&self.of);
        let topic = TopicName::parse(topic).map_err(|_| Unknown)?;
        let topic = registry.topic(&topic).ok_or(Unknown)?;
        match name {
            None => filter.topic = Some(topic.topic.id),
            Some(name) => {
                let name = SubscriptionName::parse(name).map_err(|_| Unknown)?;
                filter.subscription = Some(topic.subscription(&name).ok_or(Unknown)?.id);
            }
        }
        Ok(filter)
    }

    /// The same for `everpost` and the management API.
    pub(super) fn flags(&self) -> Vec<(&'static str, String)> {
        let (topic, subscription) = taken_apart(&self.of);
        let utc = |text: &str| moment(text).map_or_else(|_| String::new(), |at| at.to_string());
        let of = [
            ("topic", topic.to_owned()),
            ("subscription", subscription.unwrap_or_default().to_owned()),
        ];
        let others = self.filters().into_iter().filter(|(name, _)| *name != "of");
        let others = others.map(|(name, value)| match name {
            "from" | "to" => (name, utc(&value)),
            _ => (name, value),
        });
        of.into_iter().chain(others).collect()
    }
}

/// How the filter names all of a topic: behind that of a namespace topic stands a slash, since
/// `shop/orders` would be a subscription of the topic `shop`.
pub(in crate::admin) fn whole_topic(topic: &TopicName) -> String {
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

/// `2026-11-21T06:40`, as browsers write it, or RFC 3339.
fn moment(text: &str) -> Result<Timestamp, Unknown> {
    let spellings = [text.to_owned(), format!("{text}:00Z"), format!("{text}Z")];
    let mut moments = spellings.iter().filter_map(|text| text.parse().ok());
    moments.next().ok_or(Unknown)
}
