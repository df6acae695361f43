//! A list of topics.

use super::*;

/// The rows, those that nobody has made last.
#[derive(Template)]
#[template(path = "pages/topic_table.html")]
pub(crate) struct TopicTable {
    rows: Vec<(Arc<TopicEntry>, QueueDepth, TopicDay)>,
    /// The first step to offer while nobody has made a topic: an address and a label.
    step: Option<(String, &'static str)>,
}

part!(TopicTable);

impl TopicTable {
    pub(crate) async fn read<'a>(
        call: &Call<impl Sync>,
        topics: impl Iterator<Item = &'a Arc<TopicEntry>>,
        step: Option<(String, &'static str)>,
    ) -> Result<Self, StoreError> {
        let mut topics: Vec<_> = topics.cloned().collect();
        topics.sort_by_key(|topic| topic.topic.kind.is_built_in());
        let depths = QueueDepths::of(call, &topics).await?;
        let days = call.views.topic_days(call.visitor.now).await?;
        let row = |topic: Arc<TopicEntry>| {
            let day = days.get(&topic.topic.id).copied().unwrap_or_default();
            (Arc::clone(&topic), depths.topics([&topic]), day)
        };
        let rows = topics.into_iter().map(row).collect();
        Ok(Self { rows, step })
    }
}
