//! Explanations of how filters evaluate an event. The evaluation shares the background places of published events, and
//! takes turns with other work.

use std::sync::Arc;
use std::vec;

use crate::base::Timestamp;
use crate::broker::background::{MATCHING, MatchingFor, by_steps};
use crate::broker::publish::{STEPS_AT_ONCE_MAX, STEPS_OF_A_TURN_MAX};
use crate::model::event::Event;
use crate::model::explanation::Explanation;
use crate::model::limits::TRIALS_WAITING_MAX;
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::wire::service_bus::readable::readable;

/// The error for a trial that is rejected because too many others are waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{TRIALS_WAITING_MAX} others wait to learn what filters make of large events")]
pub struct TooManyTrials;

/// Runs a trial, such as of a filter, that may take up to `steps` steps. With too many steps for the calling thread,
/// the trial runs in the background, in turn with other trials.
pub async fn try_out<T: Send + 'static>(
    steps: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, TooManyTrials> {
    check_waiting(steps)?;
    Ok(by_steps(MatchingFor::Trials, steps, work).await)
}

/// Checks that not too many trials are waiting, if a trial of `steps` steps has to wait for a place in the background.
fn check_waiting(steps: usize) -> Result<(), TooManyTrials> {
    let waits = steps > STEPS_AT_ONCE_MAX;
    if waits && MATCHING.waiting(&MatchingFor::Trials) >= TRIALS_WAITING_MAX {
        return Err(TooManyTrials);
    }
    Ok(())
}

/// Explains `event`, published to `topic` at `at`, for each subscription of the topic, in the order of their names.
pub async fn explain_to_all(
    topic: &Arc<TopicEntry>,
    event: &Event,
    at: Timestamp,
) -> Result<Vec<Explanation>, TooManyTrials> {
    let of = topic.subscriptions.values().cloned().collect();
    Explaining::new(topic, of, event, at).finish().await
}

/// Explains `event`, published to `topic` at `at`, for one subscription.
pub async fn explain_to_one(
    topic: &Arc<TopicEntry>,
    subscription: &Arc<EventSubscription>,
    event: &Event,
    at: Timestamp,
) -> Result<Explanation, TooManyTrials> {
    let of = vec![Arc::clone(subscription)];
    let mut explained = Explaining::new(topic, of, event, at).finish().await?;
    Ok(explained.remove(0))
}

/// An event, the subscriptions whose filters are still to be evaluated, and the explanations made so far.
struct Explaining {
    topic: Arc<TopicEntry>,
    event: Event,
    at: Timestamp,
    left: vec::IntoIter<Arc<EventSubscription>>,
    explained: Vec<Explanation>,
}

impl Explaining {
    fn new(
        topic: &Arc<TopicEntry>,
        of: Vec<Arc<EventSubscription>>,
        event: &Event,
        at: Timestamp,
    ) -> Self {
        Self {
            topic: Arc::clone(topic),
            event: event.clone(),
            at,
            left: of.into_iter(),
            explained: Vec::new(),
        }
    }

    async fn finish(mut self) -> Result<Vec<Explanation>, TooManyTrials> {
        // The steps are estimated before the first filter is evaluated, since that filter alone may take the longest.
        let steps = self.event.size() * self.left.len();
        check_waiting(steps)?;
        while self.left.len() > 0 {
            let turn = move || {
                self.take_turn();
                self
            };
            self = by_steps(MatchingFor::Trials, steps, turn).await;
        }
        Ok(self.explained)
    }

    /// Evaluates filters until they have taken about `STEPS_OF_A_TURN_MAX` steps, or until none is left.
    fn take_turn(&mut self) {
        let event = readable(&self.event);
        let view = self.topic.view(&event);
        while view.steps() <= STEPS_OF_A_TURN_MAX {
            let Some(next) = self.left.next() else {
                break;
            };
            let explanation = Explanation::new(&self.topic, &next, &view, self.at);
            self.explained.push(explanation);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::event::EventData;
    use crate::model::name::TopicName;
    use crate::model::topic::{CustomTopic, ServiceBusNamespace, Topic, TopicId, TopicKind};
    use crate::wire::resource::{SubscriptionContext, parse_subscription};

    const NOW: Timestamp = Timestamp::from_ms(1_000_000);

    fn topic() -> Arc<TopicEntry> {
        let topic = Topic {
            id: TopicId(1),
            service_bus_namespace: ServiceBusNamespace::DEFAULT,
            name: TopicName::parse("orders").expect("a name"),
            kind: TopicKind::Custom(CustomTopic::default()),
            keys: None,
            created_at: NOW,
            updated_at: NOW,
        };
        Arc::new(TopicEntry::without_subscriptions(topic))
    }

    /// A subscription that wants one of 25 numbers among those of the event.
    fn subscription(topic: &TopicEntry) -> Arc<EventSubscription> {
        let values: Vec<i32> = (-25..0).collect();
        let filter = json!({ "enableAdvancedFilteringOnArrays": true, "advancedFilters": [
            { "operatorType": "NumberIn", "key": "data.n", "values": values }] });
        let webhook = json!({ "endpointUrl": "http://a.test/" });
        let destination = json!({ "endpointType": "WebHook", "properties": webhook });
        let body = json!({ "properties": { "destination": destination, "filter": filter } });
        let context = SubscriptionContext {
            input_schema: topic.topic.kind.input_schema(),
            event_retention: None,
            now: NOW,
            replaces: None,
            require_https: false,
        };
        let definition = parse_subscription(&body, &context).expect("a subscription");
        Arc::new(EventSubscription::unstored(definition, NOW))
    }

    fn event(numbers: usize) -> Event {
        Event {
            id: "1".to_owned(),
            source: None,
            event_type: "T".to_owned(),
            subject: Some("/s".to_owned()),
            time: None,
            data_version: Some("1".to_owned()),
            attributes: Vec::new(),
            data: EventData::Json(json!({ "n": vec![1; numbers] }).to_string()),
        }
    }

    #[test]
    fn costly_filters_get_a_turn_each_and_cheap_ones_share_one() {
        let topic = topic();
        let left_after_a_turn = |numbers| {
            let of = vec![subscription(&topic); 3];
            let mut explaining = Explaining::new(&topic, of, &event(numbers), NOW);
            explaining.take_turn();
            explaining.left.len()
        };
        assert_eq!(left_after_a_turn(10), 0);
        assert_eq!(left_after_a_turn(STEPS_OF_A_TURN_MAX / 25 + 1), 2);
    }

    #[tokio::test]
    async fn whoever_asks_gets_all_explanations_of_many_turns() {
        let topic = topic();
        let of = vec![subscription(&topic); 3];
        let costly = event(STEPS_OF_A_TURN_MAX / 25 + 1);
        let explaining = Explaining::new(&topic, of, &costly, NOW);
        let explained = explaining.finish().await.expect("explanations");
        assert_eq!(explained.len(), 3);
        let one = explain_to_one(&topic, &subscription(&topic), &costly, NOW).await;
        assert_eq!(one.expect("an explanation").verdict, explained[0].verdict);
    }
}
