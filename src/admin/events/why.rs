//! Which event subscriptions of the topic got an event, and why the others did not.

use std::collections::HashSet;

use askama::Template;

use crate::admin::events::send::send_page;
use crate::admin::identify::subscription_page;
use crate::admin::print;
use crate::admin::session::Visitor;
use crate::admin::view::{Badge, Tone, part};
use crate::base::Timestamp;
use crate::model::event::Event;
use crate::model::explanation::Explanation;
use crate::model::registry::TopicEntry;
use crate::model::subscription::SubscriptionId;
use crate::store::views::EventDetail;
use crate::wire::explanation::why_not;

/// The answer, subscription by subscription.
#[derive(Template)]
#[template(path = "admin/parts/why_table.html")]
pub(in crate::admin) struct WhyTable {
    rows: Vec<WhyRow>,
}

struct WhyRow {
    name: String,
    href: String,
    matched: Badge,
    why: String,
    /// Where to send the event after all, for those who may.
    send: Option<String>,
}

part!(WhyTable);

impl WhyTable {
    /// What the subscriptions that `topic` has now make of `event`, and made of it.
    pub(super) fn new(event: &EventDetail, topic: &TopicEntry, visitor: &Visitor) -> Self {
        let deliveries = event.deliveries.iter();
        let got_it: HashSet<SubscriptionId> = deliveries
            .map(|delivery| delivery.row.subscription_id)
            .collect();
        let explained = topic.explain(&event.stored.event, event.stored.received_at);
        let view = topic.view(&event.stored.event);
        let send = |each: &Explanation| {
            let page = send_page(
                &event.stored.key.to_string(),
                each.subscription.name.as_str(),
            );
            let now = Explanation::new(&each.subscription, &view, visitor.now);
            (now.matched() && visitor.may_send(&page)).then_some(page)
        };
        let rows = explained.iter().map(|each| {
            let got_it = got_it.contains(&each.subscription.id);
            WhyRow {
                send: (!got_it).then(|| send(each)).flatten(),
                ..WhyRow::new(topic, each, got_it, Some(why(each, got_it)))
            }
        });
        Self {
            rows: rows.collect(),
        }
    }

    /// What they would make of `event` if it were published at `now`.
    pub(in crate::admin) fn of_pasted(event: &Event, topic: &TopicEntry, now: Timestamp) -> Self {
        let explained = topic.explain(event, now);
        let rows = explained
            .iter()
            .map(|each| WhyRow::new(topic, each, each.matched(), why_not(each)));
        Self {
            rows: rows.collect(),
        }
    }

    pub(in crate::admin) fn is_empty(&self) -> bool {
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
        }
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
