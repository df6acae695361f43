//! Which event subscriptions of the topic matched an event, and why the others did not.

use std::collections::HashSet;

use crate::admin::page::*;
use crate::admin::pages::events::send::send_page;
use crate::admin::paths::subscription_page;
use crate::model::event::Event;
use crate::model::explanation::Explanation;
use crate::model::subscription::{SkipReason, SubscriptionId};
use crate::store::views::EventDetail;
use crate::wire::explanation::{cause, why_not};

/// The answer, subscription by subscription.
#[derive(Template)]
#[template(path = "pages/filter_results.html")]
pub(crate) struct FilterResults {
    topic: Arc<TopicEntry>,
    pub(crate) rows: Vec<Row>,
}

part!(FilterResults);

pub(crate) struct Row {
    explanation: Explanation,
    /// Whether it got the event, or would get it.
    matched: bool,
    reason: String,
    /// Where to send the event after all, for those who may.
    send: Option<String>,
    /// What has to be done on its page before it takes events again; empty for nothing.
    remedy: &'static str,
}

impl FilterResults {
    /// What the subscriptions that `topic` has now make of `event`, and made of it.
    pub(crate) fn new(event: &EventDetail, topic: &Arc<TopicEntry>, visitor: &Visitor) -> Self {
        let deliveries = event.deliveries.iter();
        let got_it: HashSet<SubscriptionId> = deliveries
            .map(|delivery| delivery.row.subscription_id)
            .collect();
        let explained = topic.explain(&event.stored.event, event.stored.received_at);
        let view = topic.view(&event.stored.event);
        let key = event.stored.key.to_string();
        let rows = explained.into_iter().map(|each| {
            let each = match visitor.sees_data() {
                true => each,
                false => each.without_data(),
            };
            let matched = got_it.contains(&each.subscription.id);
            let now = Explanation::new(&each.subscription, &view, visitor.now);
            let page = send_page(&key, each.subscription.name.as_str());
            let may_send = !matched && now.matched() && visitor.may_send(&page);
            Row {
                reason: reason(&each, matched),
                remedy: if matched {
                    ""
                } else {
                    remedy(&each, visitor.now)
                },
                send: may_send.then_some(page),
                explanation: each,
                matched,
            }
        });
        Self {
            rows: rows.collect(),
            topic: Arc::clone(topic),
        }
    }

    /// What they would make of `event` if it were published at `now`.
    pub(crate) fn of_pasted(event: &Event, topic: &Arc<TopicEntry>, now: Timestamp) -> Self {
        let rows = topic.explain(event, now).into_iter().map(|each| Row {
            matched: each.matched(),
            reason: reason(&each, each.matched()),
            send: None,
            remedy: "",
            explanation: each,
        });
        Self {
            rows: rows.collect(),
            topic: Arc::clone(topic),
        }
    }

    fn page(&self, row: &Row) -> String {
        subscription_page(self.topic.topic.name.as_str(), row.name())
    }

    /// Those whose filters match, but which took nothing, and why.
    pub(crate) fn passed_over(&self) -> Vec<(String, String, String)> {
        let rows = self.rows.iter().filter(|row| !row.matched);
        let passed_over = rows.filter_map(|row| {
            let abstention = row.explanation.abstains?;
            let is_passed_over =
                abstention != SkipReason::CreatedLater && row.explanation.verdict.matched();
            is_passed_over.then(|| {
                let cause = cause(&row.explanation.subscription, abstention);
                (row.name().to_owned(), self.page(row), cause)
            })
        });
        passed_over.collect()
    }
}

impl Row {
    fn name(&self) -> &str {
        self.explanation.subscription.name.as_str()
    }

    fn badge(&self) -> Badge {
        match self.matched {
            true => Badge::new(Tone::Good, "Matched").bare(),
            false => Badge::new(Tone::Rest, "Not matched").bare(),
        }
    }
}

/// What a person can do on the page of a subscription that takes no events at `now`.
fn remedy(explanation: &Explanation, now: Timestamp) -> &'static str {
    match explanation.subscription.abstains(now) {
        None | Some(SkipReason::CreatedLater) => "",
        Some(SkipReason::NotValidated(_)) => "Validate it again or correct its URL.",
        Some(SkipReason::Disabled(_)) => "Resume it.",
        Some(SkipReason::Expired) => "Give it a later expiration.",
    }
}

/// Why the event matched, or why not.
fn reason(explanation: &Explanation, matched: bool) -> String {
    let changed = match explanation.changed_since {
        true => " The subscription was changed after the event.",
        false => "",
    };
    let text = match (matched, why_not(explanation)) {
        (true, None) => wanted(explanation),
        (true, Some(why)) => format!("As it is now, it would not match: {why}"),
        (false, Some(why)) => format!("{why}{changed}"),
        (false, None) => format!("As it is now, it would match.{changed}"),
    };
    // The sentence is that of the API, in UTC.
    let created_at = explanation.subscription.created_at;
    let text = text.replace(&created_at.to_string(), &Time::at(created_at).text());
    print::visible(&text)
}

/// What the filter asks for, all of which the event has.
fn wanted(explanation: &Explanation) -> String {
    let parts = explanation.verdict.parts.iter();
    let wanted: Vec<&str> = parts.map(|part| part.wanted.as_str()).collect();
    match wanted.as_slice() {
        [] => "No filter: it gets every event of the topic.".to_owned(),
        wanted => format!("The filter allows {}.", wanted.join(" and ")),
    }
}
