//! Which event subscriptions of the topic got an event, and why the others did not.

use std::collections::HashSet;

use askama::Template;

use crate::admin::pages::events::send::send_page;
use crate::admin::paths::subscription_page;
use crate::admin::security::session::Visitor;
use crate::admin::widgets::print;
use crate::admin::widgets::{Badge, Tone, part};
use crate::base::Timestamp;
use crate::model::event::Event;
use crate::model::explanation::Explanation;
use crate::model::registry::TopicEntry;
use crate::model::subscription::{EventSubscription, SkipReason, SubscriptionId};
use crate::store::views::EventDetail;
use crate::wire::explanation::{cause, why_not};

/// The answer, subscription by subscription.
#[derive(Template)]
#[template(path = "admin/parts/why_table.html")]
pub(crate) struct WhyTable {
    rows: Vec<WhyRow>,
}

struct WhyRow {
    name: String,
    href: String,
    matched: Badge,
    why: String,
    /// Where to send the event after all, for those who may.
    send: Option<String>,
    /// What lets it take events again, to be done on its page; empty if nothing keeps it from that.
    remedy: &'static str,
    /// Whether the event can be sent from here thereafter.
    then_send: bool,
    /// Why it took nothing, though its filter wants the event.
    passed_over: Option<String>,
}

/// A subscription that would have taken the event, had it taken any.
pub(crate) struct PassedOver {
    pub(crate) name: String,
    pub(crate) href: String,
    pub(crate) cause: String,
}

/// Of more subscriptions than these, the table alone tells.
const PASSED_OVER_MAX: usize = 3;

part!(WhyTable);

impl WhyTable {
    /// What the subscriptions that `topic` has now make of `event`, and made of it.
    pub(crate) fn new(event: &EventDetail, topic: &TopicEntry, visitor: &Visitor) -> Self {
        let deliveries = event.deliveries.iter();
        let got_it: HashSet<SubscriptionId> = deliveries
            .map(|delivery| delivery.row.subscription_id)
            .collect();
        let explained = topic.explain(&event.stored.event, event.stored.received_at);
        let view = topic.view(&event.stored.event);
        let key = event.stored.key.to_string();
        let page = |each: &Explanation| send_page(&key, each.subscription.name.as_str());
        let may_send = |each: &Explanation| visitor.may_send(&page(each));
        let send = |each: &Explanation| {
            let now = Explanation::new(&each.subscription, &view, visitor.now);
            (now.matched() && may_send(each)).then(|| page(each))
        };
        let rows = explained.iter().map(|each| {
            let got_it = got_it.contains(&each.subscription.id);
            let row = WhyRow::new(topic, each, got_it, Some(why(each, got_it)));
            match got_it {
                true => row,
                false => WhyRow {
                    send: send(each),
                    remedy: remedy(&each.subscription, visitor.now),
                    then_send: each.verdict.matched() && may_send(each),
                    passed_over: passed_over(each),
                    ..row
                },
            }
        });
        Self {
            rows: rows.collect(),
        }
    }

    /// What they would make of `event` if it were published at `now`.
    pub(crate) fn of_pasted(event: &Event, topic: &TopicEntry, now: Timestamp) -> Self {
        let explained = topic.explain(event, now);
        let rows = explained
            .iter()
            .map(|each| WhyRow::new(topic, each, each.matched(), why_not(each)));
        Self {
            rows: rows.collect(),
        }
    }

    /// The subscriptions that took nothing, though their filters want the event; none if there are many.
    pub(crate) fn passed_over(&self) -> Vec<PassedOver> {
        let rows = self.rows.iter().filter_map(|row| {
            Some(PassedOver {
                name: row.name.clone(),
                href: row.href.clone(),
                cause: row.passed_over.clone()?,
            })
        });
        let found: Vec<_> = rows.collect();
        match found.len() {
            0..=PASSED_OVER_MAX => found,
            _ => Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl WhyRow {
    fn new(
        topic: &TopicEntry,
        explanation: &Explanation,
        matched: bool,
        why: Option<String>,
    ) -> Self {
        let name = explanation.subscription.name.to_string();
        Self {
            href: subscription_page(topic.topic.name.as_str(), &name),
            name,
            matched: match matched {
                true => Badge::new(Tone::Good, "Matched"),
                false => Badge::new(Tone::Neutral, "Not matched"),
            },
            why: print::visible(&why.unwrap_or_default()),
            send: None,
            remedy: "",
            then_send: false,
            passed_over: None,
        }
    }
}

/// What a person can do on the page of a subscription that takes no events at `now`.
fn remedy(subscription: &EventSubscription, now: Timestamp) -> &'static str {
    match subscription.abstains(now) {
        None | Some(SkipReason::CreatedLater) => "",
        Some(SkipReason::NotValidated(_)) => "validate it again or correct its URL",
        Some(SkipReason::Disabled(_)) => "resume its deliveries",
        Some(SkipReason::Expired) => "give it a later end",
    }
}

/// Why the subscription took nothing, though its filter wants the event.
fn passed_over(explanation: &Explanation) -> Option<String> {
    match explanation.abstains? {
        SkipReason::CreatedLater => None,
        abstention @ (SkipReason::NotValidated(_)
        | SkipReason::Disabled(_)
        | SkipReason::Expired) => explanation
            .verdict
            .matched()
            .then(|| cause(&explanation.subscription, abstention)),
    }
}

/// What is not plain from whether the subscription got the event.
fn why(explanation: &Explanation, got_it: bool) -> String {
    let changed = match explanation.changed_since {
        true => " The event subscription was changed after the event.",
        false => "",
    };
    match (got_it, why_not(explanation)) {
        (true, None) => String::new(),
        (true, Some(why)) => format!("As things are now, it would not match: {why}"),
        (false, Some(why)) => format!("{why}{changed}"),
        (false, None) => format!("As things are now, it would match.{changed}"),
    }
}
