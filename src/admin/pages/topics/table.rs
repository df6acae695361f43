//! A list of topics.

use crate::admin::lists::{self, filter};
use crate::admin::page::*;
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::widgets::chart::Spark;
use crate::model::topic::InputSchema;
use crate::store::StoreError;
use crate::store::views::{QueueDepth, TopicDay};

/// The rows, those that nobody has made last.
#[derive(Template)]
#[template(path = "pages/topic_table.html")]
pub(crate) struct TopicTable {
    rows: Vec<Row>,
    /// What to do while nobody has made a topic.
    step: Option<(String, &'static str)>,
}

part!(TopicTable);

struct Row {
    topic: Arc<TopicEntry>,
    depth: QueueDepth,
    day: TopicDay,
}

impl TopicTable {
    /// Of these topics.
    pub(crate) async fn read(
        site: &Site,
        visitor: &Visitor,
        topics: impl Iterator<Item = &Arc<TopicEntry>>,
        depths: &QueueDepths,
    ) -> Result<Self, StoreError> {
        let days = site.views.topic_days(visitor.now).await?;
        let row = |topic: &Arc<TopicEntry>| Row {
            depth: depths.topic(topic),
            day: days.get(&topic.topic.id).copied().unwrap_or_default(),
            topic: Arc::clone(topic),
        };
        let mut rows: Vec<Row> = topics.map(row).collect();
        rows.sort_by_key(|row| row.topic.topic.is_built_in());
        let step = visitor.step("/admin/new-topic", "New topic");
        Ok(Self { rows, step })
    }

    /// The same with another step while there is none.
    pub(crate) fn beginning_with(self, step: Option<(String, &'static str)>) -> Self {
        Self { step, ..self }
    }

    /// Whether somebody has made one.
    fn is_begun(&self) -> bool {
        let first = self.rows.first();
        first.is_some_and(|row| !row.topic.topic.is_built_in())
    }
}

/// The schema in which publishers send events.
pub(crate) fn input_schema(topic: &TopicEntry) -> &'static str {
    match topic.topic.definition.input_schema {
        InputSchema::EventGridSchema => "Event Grid",
        InputSchema::CloudEventSchemaV1_0 => "CloudEvents 1.0",
        InputSchema::CustomEventSchema(_) => "Custom",
    }
}
