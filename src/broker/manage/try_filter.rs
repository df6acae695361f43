//! Trying a filter on stored events, batch by batch, so that neither the writer nor a page waits for it.

use std::time::Duration;

use crate::broker::{Broker, ManageError};
use crate::model::filter::Filter;
use crate::model::filter_trial::{FilterTrial, TrialFindings};
use crate::model::registry::TopicEntry;
use crate::store::views::ReadBack;
use crate::wire::filter_trial::TrialRequest;

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
        let deadline = self.clock().now() + within;
        let mut rest = request.last;
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
                trial.add(stored, &topic.view(&stored.event));
            }
            rest -= page.rows.len();
            before = page.next_before;
            if rest == 0 || before.is_none() {
                return Ok((trial.findings(), true));
            }
            if self.clock().now() >= deadline {
                return Ok((trial.findings(), false));
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
