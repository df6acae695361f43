//! Trial of a filter on stored events. Works in batches, so that neither the writer nor a page waits for the trial.

use std::sync::Arc;
use std::time::Duration;

use crate::broker::background::{MATCHING, MatchingFor, in_background};
use crate::broker::{Broker, ManageError};
use crate::model::event::StoredEvent;
use crate::model::filter::Filter;
use crate::model::filter_trial::{FilterTrial, TrialFindings};
use crate::model::registry::TopicEntry;
use crate::model::rule::{RuleFilter, Steps};
use crate::store::views::ReadBack;
use crate::wire::filter_trial::TrialRequest;
use crate::wire::service_bus::copy::SentMessage;
use crate::wire::service_bus::readable::readable;

/// Maximum number of events that one query reads.
const BATCH_EVENTS: usize = 500;

/// Maximum number of events that are matched before other background tasks may run.
const TURN_EVENTS: usize = 10;

/// Number of bytes after which a query stops reading. Limits the memory of a trial, except that one event may exceed
/// it.
const BATCH_BYTES: usize = 4 * 1_024 * 1_024;

impl Broker {
    /// Tries a filter on the newest events of `topic`. Returns whether all requested events were tried in the time
    /// `within`, which the last batch may exceed.
    pub async fn try_filter(
        &self,
        topic: &TopicEntry,
        request: &TrialRequest,
        within: Duration,
    ) -> Result<(TrialFindings, bool), ManageError> {
        let current = current_filter(topic, request)?;
        let trial = FilterTrial::new(request.filter.clone(), current);
        let seen_by = topic.clone();
        let add = move |trial: &mut FilterTrial, stored: &StoredEvent| {
            trial.add(stored, &seen_by.view(&readable(&stored.event)));
        };
        let tried = self.each_newest(topic, request.last, within, trial, add);
        let (trial, is_complete) = tried.await?;
        Ok((trial.findings(), is_complete))
    }

    /// Tries the filter of a rule on the newest messages of `topic`, like [`Broker::try_filter`].
    pub async fn try_rule(
        &self,
        topic: &TopicEntry,
        filter: &RuleFilter,
        last: usize,
        within: Duration,
    ) -> Result<(TrialFindings, bool), ManageError> {
        let (filter, entropy) = (filter.clone(), self.entropy().clone());
        let resource_id = Arc::clone(&topic.resource_id);
        let add = move |findings: &mut TrialFindings, stored: &StoredEvent| {
            let sent = SentMessage::of(&stored.event, &resource_id, stored.received_at);
            let matches = sent.map_err(|error| error.to_string()).and_then(|sent| {
                let matches = filter.matches(&sent, &entropy, &mut Steps::of_message());
                matches.map_err(|error| error.to_string())
            });
            findings.add(stored, matches);
        };
        let findings = TrialFindings::default();
        self.each_newest(topic, last, within, findings, add).await
    }

    /// Adds the newest events of `topic` to the findings, in the background. Returns whether all requested events were
    /// added in time.
    async fn each_newest<F: Send + 'static>(
        &self,
        topic: &TopicEntry,
        last: usize,
        within: Duration,
        mut findings: F,
        add: impl Fn(&mut F, &StoredEvent) + Send + Sync + 'static,
    ) -> Result<(F, bool), ManageError> {
        let add = Arc::new(add);
        let deadline = self.clock().now() + within;
        let mut rest = last;
        let mut before = None;
        loop {
            let batch = ReadBack {
                topic: topic.topic.id,
                before,
                limit: rest.min(BATCH_EVENTS),
                bytes_max: BATCH_BYTES,
            };
            let page = self.store().views.read_back(batch).await?;
            rest -= page.rows.len();
            before = page.next_before;
            let mut rows = page.rows.into_iter();
            while rows.len() > 0 {
                let turn: Vec<_> = rows.by_ref().take(TURN_EVENTS).collect();
                let add = Arc::clone(&add);
                let place = MATCHING.take(MatchingFor::Trials).await;
                findings = in_background(place, move || {
                    turn.iter().for_each(|stored| add(&mut findings, stored));
                    findings
                })
                .await;
            }
            if rest == 0 || before.is_none() {
                return Ok((findings, true));
            }
            if self.clock().now() >= deadline {
                return Ok((findings, false));
            }
        }
    }
}

/// Returns the current filter of the requested subscription, for comparison; `None` if no subscription is requested.
fn current_filter(
    topic: &TopicEntry,
    request: &TrialRequest,
) -> Result<Option<Filter>, ManageError> {
    let Some(name) = &request.subscription else {
        return Ok(None);
    };
    let missing = || ManageError::SubscriptionNotFound(topic.topic.name.clone(), name.clone());
    let current = topic.subscription(name).ok_or_else(missing)?;
    Ok(Some(current.definition.filter.clone()))
}
