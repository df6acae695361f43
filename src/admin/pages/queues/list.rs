//! The list of queues.

use super::*;

/// Messages that are not available, and are looked at in each queue of a page: about a millisecond's worth.
pub(crate) const COUNTED_MAX: u64 = 1_000;

pub(crate) async fn list(Query(filter): Query<NameFilter>, call: Call) -> PageResult {
    let (filter, visitor) = (Filled::with(filter), &call.visitor);
    let (mut list, found) = List::by_name(LIST, &filter, queues(&call), key, "queues");
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
        filter: Filled<NameFilter> = filter,
    })
}

/// Exports the queues that match the filter, one JSON document a line, as the management API shows them.
pub(crate) async fn export(Query(filter): Query<NameFilter>, call: Call) -> PageResult {
    let found = filter.matching(queues(&call), key);
    let tier = call.broker.options().service_bus_tier;
    let mut lines = Vec::new();
    for queues in found.chunks(ROWS) {
        let counts = counts(&call, queues).await?;
        let documents = queues.iter().zip(&counts);
        lines.extend(documents.flat_map(|(queue, counts)| {
            let id = queue.subscription.id;
            let bytes = call.broker.queue_bytes(&[id, id.transfers()]);
            line(&queue.document(counts, bytes, tier))
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

fn queues(call: &Call) -> Vec<Queue> {
    let all = call.broker.queues().into_iter();
    all.filter_map(Queue::of).collect()
}

fn key(queue: &Queue) -> String {
    queue.topic_name().key()
}
