//! What the filters of lists have in common.

use crate::admin::field::Field;
use crate::admin::form::Form;
use crate::model::name::TopicName;
use crate::model::registry::Registry;
use crate::model::topic::TopicId;

/// An address names a topic that there is not.
pub(super) struct NoSuchTopic;

/// The topic that a filter names, if it names one.
pub(super) fn topic(registry: &Registry, name: &str) -> Result<Option<TopicId>, NoSuchTopic> {
    let Some(name) = given(name) else {
        return Ok(None);
    };
    let name = TopicName::parse(&name).map_err(|_| NoSuchTopic)?;
    let entry = registry.topic(&name).ok_or(NoSuchTopic)?;
    Ok(Some(entry.topic.id))
}

/// The choice among all topics.
pub(super) fn topic_field(registry: &Registry, form: &Form) -> Field {
    let topics: Vec<String> = registry
        .topics()
        .map(|each| each.topic.name.to_string())
        .collect();
    let mut options = vec![("", "All topics")];
    options.extend(topics.iter().map(|name| (name.as_str(), name.as_str())));
    Field::choice("topic", "Topic", &options, form)
}

/// What was typed; `None` for nothing.
pub(super) fn given(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
