//! Trying a filter on stored events, batch by batch, so that neither the writer nor a page waits for it.

use std::time::Duration;

use crate::broker::{Broker, ManageError};
use crate::model::event::StoredEvent;
use crate::model::filter::Filter;
use crate::model::filter_trial::{FilterTrial, TrialFindings};
use crate::model::registry::TopicEntry;
use crate::model::rule::RuleFilter;
use crate::store::views::ReadBack;
use crate::wire::filter_trial::TrialRequest;
use crate::wire::service_bus::copy::SentMessage;
use crate::wire::service_bus::readable::readable;

/// Events that one query reads.
const BATCH_EVENTS: usize = 500;

/// Bytes after which a query ends: bounds the memory of a trial, one event aside.
const BATCH_BYTES: usize = 4 * 1_024 * 1_024;

impl Broker {
    /// Tries a filter on the newest events of `topic`. Returns whether all of them were tried `within` that
    /// time, one batch aside.
    pub async fn try_filter(
        &self,
        topic: &TopicEntry,
        request: &TrialRequest,
        within: Duration,
    ) -> Result<(TrialFindings, bool), ManageError> {
        let current = current_filter(topic, request)?;
        let mut trial = FilterTrial::new(request.filter.clone(), current);
        let add = |stored: &StoredEvent| trial.add(stored, &topic.view(&readable(&stored.event)));
        let is_complete = self.each_newest(topic, request.last, within, add).await?;
        Ok((trial.findings(), is_complete))
    }

    /// Tries the filter of a rule on the newest messages of `topic`, as [`Broker::try_filter`] does it.
    pub async fn try_rule(
        &self,
        topic: &TopicEntry,
        filter: &RuleFilter,
        last: usize,
        within: Duration,
    ) -> Result<(TrialFindings, bool), ManageError> {
        let mut findings = TrialFindings::default();
        let add = |stored: &StoredEvent| {
            let sent = SentMessage::of(&stored.event, &topic.resource_id, stored.received_at);
            let matches = sent.map_err(|error| error.to_string()).and_then(|sent| {
                let matches = filter.matches(&sent, self.entropy());
                matches.map_err(|error| error.to_string())
            });
            findings.add(stored, matches);
        };
        let is_complete = self.each_newest(topic, last, within, add).await?;
        Ok((findings, is_complete))
    }

    /// Hands out the newest events of `topic`. Returns whether there was time for all.
    async fn each_newest(
        &self,
        topic: &TopicEntry,
        last: usize,
        within: Duration,
        mut add: impl FnMut(&StoredEvent) + Send,
    ) -> Result<bool, ManageError> {
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
            for stored in &page.rows {
                add(stored);
            }
            rest -= page.rows.len();
            before = page.next_before;
            if rest == 0 || before.is_none() {
                return Ok(true);
            }
            if self.clock().now() >= deadline {
                return Ok(false);
            }
        }
    }
}

/// The filter that the tried one is compared with.
fn current_filter(
    topic: &TopicEntry,
    request: &TrialRequest,
) -> Result<Option<Filter>, ManageError> {
    let Some(name) = &request.subscription else {
        return Ok(None);
    };
    let current = topic.subscription(name);
    let missing = || ManageError::SubscriptionNotFound(topic.topic.name.clone(), name.clone());
    let current = current.ok_or_else(missing)?;
    Ok(Some(current.definition.filter.clone()))
}
