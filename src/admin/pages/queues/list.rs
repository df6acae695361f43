//! The list of queues.

use super::*;

/// Messages that are not available, and are looked at in each queue of a page: about a millisecond's worth.
pub(crate) const COUNTED_MAX: u64 = 1_000;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct QueueFilter {
    /// In the name.
    text: String,
    /// The name behind which the page begins.
    before: String,
}

pub(crate) async fn list(Query(filter): Query<QueueFilter>, call: Call) -> PageResult {
    let (filter, visitor) = (Filled::with(filter), &call.visitor);
    let mut found = filter.values.find(&call);
    let fitting = found.len();
    found.retain(|queue| filter.values.is_ahead(queue));
    let has_more = found.len() > ROWS;
    found.truncate(ROWS);
    let next = found.last().filter(|_| has_more).map(Queue::name);
    let mut list = List::new(LIST, &filter).with_older(next, &filter);
    list.turns = ["First", "Previous", "Next"];
    let all = call.broker.queues().len();
    list.is_blank = all == 0;
    if fitting > 0 {
        list.shown = format!("{} of {}", found.len(), print::count(fitting as u64));
    }
    list.of_matching(Some(fitting as u64), Some(all as u64), "queues");
    list.recipe = Recipe::of(&call, "/queues", "everpost queues list");
    if !found.is_empty() {
        list.export = Some(link("/admin/export-queues", &filter.pairs()));
    }
    let counts = counts(&call, &found).await?;
    let (sent, received) = (
        call.views.topic_days(visitor.now).await?,
        call.views.subscription_days(None, visitor.now).await?,
    );
    let rows = found.into_iter().zip(counts).map(|(queue, counts)| {
        let sent = sent.get(&queue.topic.topic.id).copied().unwrap_or_default();
        let received = received.get(&queue.subscription.id);
        let received = received.map_or(0, |day| day.delivered.iter().sum());
        (queue, counts, sent, received)
    });
    answer!("pages/queue_list.html", visitor, "Queues", {
        // With what was sent to them and completed in the last day.
        rows: Vec<(Queue, MessageCounts, TopicDay, u64)> = rows.collect(),
        list: List = list,
        filter: Filled<QueueFilter> = filter,
        // Of all, those that do not match included.
        all: usize = all,
    })
}

/// Those that match, each on a line as the management API shows it.
pub(crate) async fn export(Query(filter): Query<QueueFilter>, call: Call) -> PageResult {
    let found = filter.find(&call);
    let mut lines = Vec::new();
    for queues in found.chunks(ROWS) {
        let counts = counts(&call, queues).await?;
        let documents = queues.iter().zip(&counts);
        lines.extend(documents.flat_map(|(queue, counts)| {
            let bytes = call.broker.queue_bytes(&[queue.subscription.id]);
            line(&queue.document(counts, bytes))
        }));
    }
    Ok(file("queues.ndjson", NDJSON, lines))
}

async fn counts(call: &Call, queues: &[Queue]) -> PageResult<Vec<MessageCounts>> {
    let ids = queues.iter().map(|queue| queue.subscription.id).collect();
    let (views, now) = (&call.views, call.visitor.now);
    let counts = views.message_counts(ids, now, COUNTED_MAX);
    Ok(counts.await?)
}

impl QueueFilter {
    /// Those that match, by name.
    fn find(&self, call: &Call) -> Vec<Queue> {
        let text = self.text.trim().to_lowercase();
        let all = call.broker.queues().into_iter().filter_map(Queue::of);
        let fitting = all.filter(|queue| queue.topic_name().key().contains(&text));
        fitting.collect()
    }

    fn is_ahead(&self, queue: &Queue) -> bool {
        let before = cursor(&self.before).map(|it: String| it.to_lowercase());
        before.is_none_or(|before| *queue.topic_name().key() > *before)
    }
}
