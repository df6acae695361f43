//! The list of dead letters: what they are about together, and each of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use serde::Deserialize;

use crate::admin::error::PageResult;
use crate::admin::field::Field;
use crate::admin::form::Form;
use crate::admin::identify::{dead_letter_page, event_page};
use crate::admin::recipe::{Recipe, quoted};
use crate::admin::session::Visitor;
use crate::admin::view::{Empty, Frame, Moment, Pager, draw, link};
use crate::admin::{Site, hint, print};
use crate::base::Timestamp;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{DeliveryId, Outcome};
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::registry::Registry;
use crate::store::views::{DeadLetterGroup, DeadLetterQuery, DeliveryRow, Page};

/// Rows of one page.
const ROWS: usize = 50;

/// Groups shown above them; the rest is counted.
const GROUPS_SHOWN: usize = 12;

/// What the URL of the list asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::admin) struct Asked {
    /// A topic, or one of its subscriptions: `orders`, `orders/billing`.
    of: String,
    reason: String,
    outcome: String,
    #[serde(rename = "type")]
    event_type: String,
    subject: String,
    text: String,
    before: String,
}

impl Asked {
    /// The parameters of the address, without the page.
    fn filters(&self) -> [(&'static str, String); 6] {
        [
            ("of", self.of.clone()),
            ("reason", self.reason.clone()),
            ("outcome", self.outcome.clone()),
            ("type", self.event_type.clone()),
            ("subject", self.subject.clone()),
            ("text", self.text.clone()),
        ]
    }

    /// `None` where it asks for something that there is not.
    fn query(&self, registry: &Registry) -> Option<DeadLetterQuery> {
        let mut query = DeadLetterQuery {
            reason: given(&self.reason),
            outcome: match self.outcome.as_str() {
                "" => None,
                name => Some(Outcome::from_name(name)?),
            },
            event_type: given(&self.event_type),
            subject: given(&self.subject),
            text: given(&self.text),
            before: self.before.parse().ok().map(DeliveryId),
            limit: ROWS,
            ..DeadLetterQuery::default()
        };
        if self.of.is_empty() {
            return Some(query);
        }
        let (topic, name) = taken_apart(&self.of);
        let topic = registry.topic(&TopicName::parse(topic).ok()?)?;
        match name {
            None => query.topic = Some(topic.topic.id),
            Some(name) => {
                let name = SubscriptionName::parse(name).ok()?;
                query.subscription = Some(topic.subscription(&name)?.id);
            }
        }
        Some(query)
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

fn given(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[derive(Template)]
#[template(path = "admin/dead_letters.html")]
struct DeadLettersPage {
    frame: Frame,
    fields: Vec<Field>,
    is_filtered: bool,
    groups: Vec<GroupText>,
    /// Groups beyond those that are shown.
    more_groups: usize,
    rows: Vec<DeadLetterText>,
    empty: Empty,
    pager: Pager,
    recipe: Recipe,
}

struct DeadLetterText {
    id: String,
    href: String,
    event_id: String,
    event_type: String,
    event_href: String,
    topic: String,
    subscription: String,
    reason: String,
    reason_text: String,
    last: String,
    attempts: String,
    ended_at: Option<Moment>,
}

impl DeadLetterText {
    fn new(row: DeliveryRow) -> Self {
        Self {
            id: row.id.to_string(),
            href: dead_letter_page(row.id),
            event_href: event_page(row.event),
            last: last(&row),
            reason: print::visible(row.reason().unwrap_or_default()),
            reason_text: reason_text(&row),
            attempts: print::plural(u64::from(row.attempts), "attempt", "attempts"),
            ended_at: row.ended_at.map(Moment::at),
            event_id: print::visible(&row.event_id),
            event_type: print::visible(&row.event_type),
            topic: row.topic,
            subscription: row.subscription,
        }
    }
}

/// Dead letters of one subscription with one reason.
struct GroupText {
    subscription: String,
    topic: String,
    reason: String,
    reason_text: String,
    dead_letters: String,
    href: String,
    from: Moment,
    to: Moment,
}

/// The groups of the subscriptions that there are, the biggest first: days are taken together.
fn groups(found: &[DeadLetterGroup], registry: &Registry) -> Vec<GroupText> {
    let mut groups: BTreeMap<_, (u64, Timestamp, Timestamp)> = BTreeMap::new();
    for group in found {
        let key = (group.subscription, group.reason.as_str());
        let sum = groups.entry(key).or_insert((0, group.day, group.day));
        *sum = (
            sum.0 + group.dead_letters,
            sum.1.min(group.day),
            sum.2.max(group.day),
        );
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, (count, ..))| std::cmp::Reverse(*count));
    let text = |((id, reason), (count, from, to))| {
        let (topic, subscription) = registry.subscription(id)?;
        Some(GroupText::new(
            (topic.topic.name.as_str(), subscription.name.as_str()),
            reason,
            count,
            (from, to),
        ))
    };
    groups.into_iter().filter_map(text).collect()
}

impl GroupText {
    fn new(
        (topic, subscription): (&str, &str),
        reason: &str,
        count: u64,
        (from, to): (Timestamp, Timestamp),
    ) -> Self {
        let filters = [
            ("of", format!("{topic}/{subscription}")),
            ("reason", reason.to_owned()),
        ];
        Self {
            subscription: subscription.to_owned(),
            topic: topic.to_owned(),
            reason: reason.to_owned(),
            reason_text: DeadLetterReason::from_name(reason)
                .map_or("", hint::for_reason)
                .to_owned(),
            dead_letters: print::count(count),
            href: link("/admin/dead-letters", &filters),
            from: Moment::day(from),
            to: Moment::day(to),
        }
    }
}

/// What the receiver said about it, or what the reason means.
fn reason_text(row: &DeliveryRow) -> String {
    match (&row.dead_letter.description, row.dead_letter_reason) {
        (Some(own), _) => print::visible(own),
        (None, reason) => reason.map_or("", hint::for_reason).to_owned(),
    }
}

fn last(row: &DeliveryRow) -> String {
    let outcome = row
        .last_outcome
        .map_or("not tried", |outcome| outcome.name());
    match row.last_status {
        Some(status) => format!("{status} {outcome}"),
        None => outcome.to_owned(),
    }
}

/// Dead letters, newest first.
pub(in crate::admin) async fn list(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(asked): Query<Asked>,
) -> PageResult {
    let registry = site.broker.registry();
    let found = match asked.query(&registry) {
        Some(query) => site.views.dead_letters(query).await?,
        None => Page::default(), // of something that there is not
    };
    let next = found.next_before.map(|id| id.to_string());
    let filters = asked.filters();
    let is_filtered = filters.iter().any(|(_, value)| !value.is_empty());
    let later = !asked.before.is_empty();
    // Who looks for something knows what it is about.
    let mut groups = match is_filtered || later {
        true => Vec::new(),
        false => groups(&site.views.dead_letter_groups().await?, &registry),
    };
    let more_groups = groups.len().saturating_sub(GROUPS_SHOWN);
    groups.truncate(GROUPS_SHOWN);
    Ok(draw(&DeadLettersPage {
        frame: Frame::new(&visitor, "Dead letters"),
        fields: fields(&filters, &registry),
        is_filtered,
        groups,
        more_groups,
        rows: found.rows.into_iter().map(DeadLetterText::new).collect(),
        empty: empty(is_filtered),
        pager: Pager::new("/admin/dead-letters", &filters, later, next),
        recipe: recipe(&site, &asked),
    }))
}

fn fields(filters: &[(&'static str, String); 6], registry: &Registry) -> Vec<Field> {
    let form = Form::of(filters.clone());
    let reasons = DeadLetterReason::ALL.iter().map(|reason| reason.name());
    let outcomes = Outcome::ALL.iter().map(|outcome| outcome.name());
    vec![
        of_field(registry, &form),
        Field::choice("reason", "Reason", &or_any(reasons), &form),
        Field::choice("outcome", "Last answer", &or_any(outcomes), &form),
        Field::line("type", "Event type", &form).hint("Exactly, or its beginning and a *."),
        Field::line("subject", "Subject", &form).hint("Exactly, or its beginning and a *."),
        Field::line("text", "Text", &form).hint("In the event's id, type or subject."),
    ]
}

fn or_any<'a>(words: impl Iterator<Item = &'a str>) -> Vec<(&'a str, &'a str)> {
    let any = std::iter::once(("", "Any"));
    any.chain(words.map(|word| (word, word))).collect()
}

fn of_field(registry: &Registry, form: &Form) -> Field {
    let mut options = vec![(String::new(), "All topics".to_owned())];
    for topic in registry.topics() {
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
    let options: Vec<(&str, &str)> = options
        .iter()
        .map(|(value, text)| (value.as_str(), text.as_str()))
        .collect();
    Field::choice("of", "Topic or subscription", &options, form)
}

fn empty(is_filtered: bool) -> Empty {
    match is_filtered {
        true => Empty {
            text: "No dead letters here.",
            step: Some(("/admin/dead-letters".to_owned(), "Show all dead letters")),
        },
        false => Empty {
            text: "No dead letters. A delivery that is given up is kept here, to be looked at and \
                   sent again.",
            step: None,
        },
    }
}

fn recipe(site: &Site, asked: &Asked) -> Recipe {
    let (topic, subscription) = taken_apart(&asked.of);
    let subscription = subscription.unwrap_or_default();
    let filters = [
        ("topic", topic),
        ("subscription", subscription),
        ("reason", &asked.reason),
        ("outcome", &asked.outcome),
        ("type", &asked.event_type),
        ("subject", &asked.subject),
        ("text", &asked.text),
    ];
    let parameters = filters.map(|(name, value)| (name, value.to_owned()));
    let path = link("/everpost/deadLetters", &parameters);
    let mut command = "everpost dead-letters list".to_owned();
    for (name, value) in filters.iter().filter(|(_, value)| !value.is_empty()) {
        command.push_str(&format!(" --{name} {}", quoted(value)));
    }
    Recipe::get(&site.management_url(&path)).everpost(command)
}
