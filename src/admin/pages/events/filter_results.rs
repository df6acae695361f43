//! Which event subscriptions of the topic matched an event, and why the others did not.

use std::sync::Arc;

use askama::Template;

use super::send_page;
use crate::admin::paths;
use crate::admin::security::session::Visitor;
use crate::admin::widgets::{Badge, Tone, part, print};
use crate::base::Timestamp;
use crate::broker::{TooManyTrials, explain_to_all};
use crate::model::event::Event;
use crate::model::explanation::Explanation;
use crate::model::registry::TopicEntry;
use crate::model::subscription::SkipReason;
use crate::store::views::EventDetail;
use crate::wire::explanation::{cause, unmet};

#[derive(Template)]
#[template(path = "pages/filter_results.html")]
pub(crate) struct FilterResults {
    pub(crate) topic: String,
    received_at: Timestamp,
    pub(crate) rows: Vec<Row>,
}

part!(FilterResults);

pub(crate) struct Row {
    pub(crate) explanation: Explanation,
    /// Is true if the subscription got the event, or would get it.
    matched: bool,
    /// The result of the present filter for a stored event that the subscription did not get.
    now: Option<Explanation>,
    /// The address for sending the event to the subscription anyway, if the visitor may do so.
    send: Option<String>,
}

impl FilterResults {
    /// Explains what the present subscriptions of `topic` did with a stored event, and what they would do with it now.
    pub(crate) async fn new(
        event: &EventDetail,
        topic: &Arc<TopicEntry>,
        visitor: &Visitor,
    ) -> Result<Self, TooManyTrials> {
        let stored = &event.stored;
        let mut results = Self::of_pasted(&stored.event, topic, stored.received_at).await?;
        for row in &mut results.rows {
            let subscription = &row.explanation.subscription;
            let mut deliveries = event.deliveries.iter().map(|each| each.row.subscription_id);
            row.matched = deliveries.any(|id| id == subscription.id);
            let now = row.explanation.published_at(topic, visitor.now);
            let send = send_page(stored.key, subscription.name.as_str());
            let may_send = !row.matched && now.matched() && visitor.sends(&send);
            row.send = may_send.then_some(send);
            row.now = Some(now).filter(|_| !row.matched);
            if !visitor.sees_data() {
                row.explanation = row.explanation.clone().without_data();
            }
        }
        Ok(results)
    }

    /// Explains what the subscriptions of `topic` would do with `event` if it were published at `at`.
    pub(crate) async fn of_pasted(
        event: &Event,
        topic: &Arc<TopicEntry>,
        at: Timestamp,
    ) -> Result<Self, TooManyTrials> {
        let row = |explanation: Explanation| Row {
            matched: explanation.matched(),
            explanation,
            now: None,
            send: None,
        };
        let explained = explain_to_all(topic, event, at).await?.into_iter();
        Ok(Self {
            rows: explained.map(row).collect(),
            topic: topic.topic.name.to_string(),
            received_at: at,
        })
    }

    pub(crate) fn matched(&self) -> usize {
        self.rows.iter().filter(|row| row.matched).count()
    }

    /// Returns the subscriptions whose filters match but which did not take the event, each with the reason.
    pub(crate) fn passed_over(&self) -> Vec<(&Row, String)> {
        let cause = |row: &Row| {
            let (it, later) = (&row.explanation, SkipReason::CreatedLater);
            let would = !row.matched && it.verdict.matched();
            let reason = it.abstains.filter(|reason| would && *reason != later)?;
            Some(cause(&it.subscription, reason))
        };
        let rows = self.rows.iter();
        rows.filter_map(|row| Some((row, cause(row)?))).collect()
    }
}

impl Row {
    /// Why the event does not match, a sentence each: what keeps the subscription from all events, and every part of its
    /// filter that does not hold. Empty if it matches.
    fn why_not(&self, received_at: Timestamp) -> Vec<String> {
        let it = &self.explanation;
        let cause = it.abstains.map(|reason| {
            let created_at = it.subscription.created_at;
            let later = print::span(created_at.since(received_at));
            let cause = cause(&it.subscription, reason);
            cause.replace(
                &format!("after the event, at {created_at}"),
                &format!("{later} after the event"),
            )
        });
        let failed = it.verdict.parts.iter().filter(|part| !part.holds);
        let mut why: Vec<_> = cause.into_iter().chain(failed.map(unmet)).collect();
        if it.abstains.is_some() && it.verdict.matched() {
            why.push("Its filter matches the event.".to_owned());
        }
        why
    }
}
