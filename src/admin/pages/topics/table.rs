//! A list of topics.

use std::collections::HashMap;

use crate::admin::lists::filter::whole_topic;
use crate::admin::page::*;
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::paths::topic_page;
use crate::admin::widgets::chart::Spark;
use crate::model::topic::{InputSchema, TopicId};
use crate::store::StoreError;
use crate::store::views::{QueueDepth, TopicDay};

/// The rows, those that nobody has made last.
#[derive(Template)]
#[template(path = "pages/topic_table.html")]
pub(crate) struct TopicTable {
    rows: Vec<Row>,
    /// While nobody has made a topic.
    empty: Option<Empty>,
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
        let mut rows: Vec<Row> = topics.map(|topic| Row::new(topic, depths, &days)).collect();
        rows.sort_by_key(|row| row.topic.topic.is_built_in());
        let is_begun = rows.iter().any(|row| !row.topic.topic.is_built_in());
        Ok(Self {
            rows,
            empty: (!is_begun).then(|| empty(visitor.step("/admin/new-topic", "New topic"))),
        })
    }

    /// The same with another step while there is none.
    pub(crate) fn beginning_with(self, step: Option<(String, &'static str)>) -> Self {
        let empty = self.empty.map(|_| empty(step));
        Self { empty, ..self }
    }
}

fn empty(step: Option<(String, &'static str)>) -> Empty {
    let text = "A topic is where publishers send events.";
    Empty::new("topics", "No topics yet.", text).leading_to(step)
}

/// The schema in which publishers send events.
pub(crate) fn input_schema(topic: &TopicEntry) -> &'static str {
    match topic.topic.definition.input_schema {
        InputSchema::EventGridSchema => "Event Grid",
        InputSchema::CloudEventSchemaV1_0 => "CloudEvents 1.0",
        InputSchema::CustomEventSchema(_) => "Custom",
    }
}

impl Row {
    fn new(
        topic: &Arc<TopicEntry>,
        depths: &QueueDepths,
        days: &HashMap<TopicId, TopicDay>,
    ) -> Self {
        Self {
            topic: Arc::clone(topic),
            depth: depths.topic(topic),
            day: days.get(&topic.topic.id).copied().unwrap_or_default(),
        }
    }

    fn name(&self) -> &str {
        self.topic.topic.name.as_str()
    }

    fn page(&self) -> String {
        topic_page(self.name())
    }

    fn schema(&self) -> &'static str {
        input_schema(&self.topic)
    }

    fn published(&self) -> u64 {
        self.day.published.iter().sum()
    }

    fn spark(&self) -> Spark {
        Spark::bars("accent", &self.day.published)
    }

    fn dead_letters(&self) -> String {
        let of = whole_topic(&self.topic.topic.name);
        link("/admin/dead-letters", &[("of", of)])
    }
}
