//! Trying a filter on stored events, in bites, so that neither the writer nor a page waits for it.

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::model::filter_trial::{FilterTrial, TrialFindings};
use crate::model::registry::TopicEntry;
use crate::store::StoreError;
use crate::store::views::ReadBack;

/// Events that one bite reads.
const BITE_EVENTS: usize = 500;

/// Bytes after which a bite ends: what a trial holds in memory, one event aside.
const BITE_BYTES: usize = 4 * 1_024 * 1_024;

impl Broker {
    /// Tries a filter on the newest `last` events of `topic`. Says whether all of them were tried, or
    /// `deadline` ended it.
    pub async fn try_filter(
        &self,
        topic: &TopicEntry,
        mut trial: FilterTrial,
        last: usize,
        deadline: Timestamp,
    ) -> Result<(TrialFindings, bool), StoreError> {
        let mut rest = last;
        let mut before = None;
        loop {
            let bite = ReadBack {
                topic: topic.topic.id,
                before,
                limit: rest.min(BITE_EVENTS),
                bytes_max: BITE_BYTES,
            };
            let page = self.store().views.read_back(bite).await?;
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
