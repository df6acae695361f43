//! Filters that several lists have in common.

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::base::Timestamp;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;

/// The rows of everything, of a topic, or of one of its event subscriptions.
#[derive(Default)]
pub(super) struct RowScope {
    pub(super) topic: Option<TopicId>,
    pub(super) subscription: Option<SubscriptionId>,
}

impl RowScope {
    /// Returns the scope that the parameters `topic` and `subscription` name.
    pub(super) fn named(
        topic: Option<&str>,
        subscription: Option<&str>,
        state: &ApiState,
    ) -> Result<Self, ApiError> {
        let mut scope = Self::default();
        match (topic, subscription) {
            (Some(topic), Some(name)) => {
                let (topic, name) = (TopicName::parse(topic)?, SubscriptionName::parse(name)?);
                scope.subscription = Some(state.broker.subscription(&topic, &name)?.1.id);
            }
            (Some(topic), None) => {
                scope.topic = Some(state.broker.topic(&TopicName::parse(topic)?)?.topic.id);
            }
            (None, Some(_)) => {
                return Err(ApiError::bad_request(
                    "A subscription is named together with its topic.",
                ));
            }
            (None, None) => {}
        }
        Ok(scope)
    }
}

/// Reads the parameter `name` as a moment.
pub(super) fn moment(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, ApiError> {
    let parse = |text: &str| {
        text.parse().map_err(|_| {
            ApiError::bad_request(format!(
                "The parameter {name} must be a moment such as 2026-11-21T06:40:53Z, not {text:?}."
            ))
        })
    };
    text.map(parse).transpose()
}

/// Reads the parameter `name` as one word of a list.
pub(super) fn one_of<T: Copy>(
    name: &str,
    word: Option<&str>,
    all: &[T],
    word_for: fn(T) -> &'static str,
) -> Result<Option<T>, ApiError> {
    let Some(word) = word else {
        return Ok(None);
    };
    let words = all.iter().copied().map(word_for);
    let mut pairs = all.iter().copied().zip(words.clone());
    let found = pairs.find(|(_, each)| each.eq_ignore_ascii_case(word));
    match found {
        Some((meant, _)) => Ok(Some(meant)),
        None => Err(ApiError::bad_request(format!(
            "The parameter {name} must be one of {}, not {word:?}.",
            words.collect::<Vec<_>>().join(", ")
        ))),
    }
}
