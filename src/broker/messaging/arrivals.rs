//! Receivers that wait until something arrives, or falls due.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::broker::Broker;
use crate::broker::messaging::MessagingError;
use crate::model::lease::QueueRef;
use crate::model::limits::RECEIVERS_WAITING_MAX;
use crate::model::namespace::NamespaceId;
use crate::model::session::HeldSession;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::{SessionWait, StoreError};

/// How long a receiver waits before the store is read again: a lock may lapse.
const LOOK_INTERVAL: Duration = Duration::from_secs(15);

/// How long a receiver waits at least when what seemed due could not be received.
const VAIN_PAUSE: Duration = Duration::from_secs(1);

impl Broker {
    /// Waits until something falls due in a queue, or in the session of it that is held. `in_vain` says that the
    /// caller has just found nothing to receive. May be dropped while it waits.
    pub async fn await_due(
        &self,
        of: QueueRef,
        session: Option<&HeldSession>,
        in_vain: bool,
    ) -> Result<(), MessagingError> {
        let waiter = self.wait_at(match session {
            None => Awaited::Queue(of),
            Some(held) => Awaited::Session(SessionWait::In(held.of, held.name.clone())),
        })?;
        Ok(self.due(&waiter, in_vain).await?)
    }

    pub(super) async fn due(
        &self,
        waiter: &Waiter<'_>,
        mut in_vain: bool,
    ) -> Result<(), StoreError> {
        loop {
            // Registered before the store is read, so that nothing in between is missed.
            let arrival = waiter.notify.notified();
            tokio::pin!(arrival);
            arrival.as_mut().enable();
            let mut pause = self.time_until_due(&waiter.awaited).await?;
            if std::mem::take(&mut in_vain) {
                pause = pause.max(VAIN_PAUSE);
            }
            if pause.is_zero() {
                return Ok(());
            }
            tokio::select! {
                () = &mut arrival => {}
                () = tokio::time::sleep(pause.min(LOOK_INTERVAL)) => {}
            }
        }
    }

    pub(super) fn wait_at(&self, awaited: Awaited) -> Result<Waiter<'_>, MessagingError> {
        let registry = self.registry();
        let (topic, _) = registry
            .subscription(awaited.subscription())
            .ok_or(MessagingError::EntityDeleted)?;
        let namespace = topic.namespace.as_ref();
        let owner = namespace.map_or(Owner::Topic(topic.topic.id), |entry| {
            Owner::Namespace(entry.namespace.id)
        });
        self.shared.arrivals.wait_at(awaited, owner)
    }

    async fn time_until_due(&self, awaited: &Awaited) -> Result<Duration, StoreError> {
        let ledger = &self.store().ledger;
        let due_at = match awaited {
            Awaited::Queue(of) => {
                let due = ledger.agenda(vec![*of]).await?;
                due.first().map(|due| due.at)
            }
            Awaited::Session(awaited) => ledger.session_due(awaited.clone()).await?,
        };
        let now = self.clock().now();
        Ok(due_at.map_or(LOOK_INTERVAL, |at| at.since(now)))
    }

    /// Whether receivers wait for messages of a queue, or dead letters.
    pub(in crate::broker) fn has_receivers(&self, queue: SubscriptionId) -> bool {
        self.shared.arrivals.has_receivers(queue)
    }

    /// Wakes receivers of pull subscriptions. A subscription is listed once for each event that it gets.
    pub(in crate::broker) fn announce_arrivals(&self, subscriptions: &[SubscriptionId]) {
        self.shared.arrivals.announce_each(subscriptions);
    }
}

/// What a receiver waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Awaited {
    /// A delivery of a queue.
    Queue(QueueRef),
    /// A session, or a delivery of one.
    Session(SessionWait),
}

impl Awaited {
    fn subscription(&self) -> SubscriptionId {
        match self {
            Self::Queue(of) => of.subscription,
            Self::Session(SessionWait::Next(of) | SessionWait::In(of, _)) => *of,
        }
    }
}

/// Waiting receivers, by what they wait for.
#[derive(Default)]
pub(in crate::broker) struct Arrivals {
    waiting: Mutex<HashMap<Awaited, Waiting>>,
}

struct Waiting {
    owner: Owner,
    receivers: usize,
    notify: Arc<Notify>,
}

/// Whose keys let receivers wait at a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Namespace(NamespaceId),
    /// A custom topic.
    Topic(TopicId),
}

/// A registered waiting receiver, until it is dropped.
pub(super) struct Waiter<'a> {
    arrivals: &'a Arrivals,
    awaited: Awaited,
    notify: Arc<Notify>,
}

impl Arrivals {
    /// Nobody takes all places: an event subscription and an owner may have more of them only while they have
    /// fewer than are left.
    fn wait_at(&self, awaited: Awaited, owner: Owner) -> Result<Waiter<'_>, MessagingError> {
        let mut waiting = self.waiting.lock().unwrap();
        let count = |is_counted: &dyn Fn(&Awaited, &Waiting) -> bool| -> usize {
            let counted = waiting
                .iter()
                .filter(|(awaited, each)| is_counted(awaited, each));
            counted.map(|(_, each)| each.receivers).sum()
        };
        let left = RECEIVERS_WAITING_MAX - count(&|_, _| true);
        let here = count(&|each, _| each.subscription() == awaited.subscription());
        if here >= left || count(&|_, each| each.owner == owner) >= left {
            return Err(MessagingError::TooManyWaiting);
        }
        let here = waiting.entry(awaited.clone()).or_insert_with(|| Waiting {
            owner,
            receivers: 0,
            notify: Arc::default(),
        });
        here.receivers += 1;
        Ok(Waiter {
            arrivals: self,
            awaited,
            notify: Arc::clone(&here.notify),
        })
    }

    fn has_receivers(&self, queue: SubscriptionId) -> bool {
        let waiting = self.waiting.lock().unwrap();
        waiting.keys().any(|each| each.subscription() == queue)
    }

    /// Wakes one receiver for each of `count` deliveries.
    pub(super) fn announce(&self, awaited: &Awaited, count: usize) {
        if let Some(here) = self.waiting.lock().unwrap().get(awaited) {
            for _ in 0..count.min(here.receivers) {
                here.notify.notify_one();
            }
        }
    }

    /// Wakes one receiver of pending deliveries, and one of those that wait for a session, for each entry of
    /// `subscriptions`.
    fn announce_each(&self, subscriptions: &[SubscriptionId]) {
        let waiting = self.waiting.lock().unwrap();
        if waiting.is_empty() {
            return; // as with nearly every publishing
        }
        for subscription in subscriptions {
            let places = [
                Awaited::Queue(QueueRef::pending(*subscription)),
                Awaited::Session(SessionWait::Next(*subscription)),
            ];
            for here in places.iter().filter_map(|awaited| waiting.get(awaited)) {
                here.notify.notify_one();
            }
        }
    }

    /// Wakes all receivers: something is available earlier than they expect.
    pub(in crate::broker) fn announce_all(&self, of: QueueRef) {
        let waiting = self.waiting.lock().unwrap();
        let places = [
            Awaited::Queue(of),
            Awaited::Session(SessionWait::Next(of.subscription)),
        ];
        for here in places.iter().filter_map(|awaited| waiting.get(awaited)) {
            here.notify.notify_waiters();
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.arrivals.waiting.lock().unwrap();
        if let Some(here) = waiting.get_mut(&self.awaited) {
            here.receivers -= 1;
            if here.receivers == 0 {
                waiting.remove(&self.awaited);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(subscription: i64) -> Awaited {
        Awaited::Queue(QueueRef::dead_letters(SubscriptionId(subscription)))
    }

    #[test]
    fn nobody_takes_all_places_and_places_are_given_back() {
        let arrivals = Arrivals::default();
        let all = |subscriptions: std::ops::Range<i64>, namespace: i64| {
            let owner = Owner::Namespace(NamespaceId(namespace));
            let each = subscriptions.cycle();
            let taken = each.map_while(|each| arrivals.wait_at(queue(each), owner).ok());
            taken.collect::<Vec<_>>()
        };
        let half = RECEIVERS_WAITING_MAX / 2;
        let by_one_key = all(0..9, 1);
        assert_eq!(by_one_key.len(), half, "of one namespace, beside nobody");
        assert_eq!(all(9..10, 2).len(), half / 2, "half of what is left");
        let of_topics: Vec<_> = (10..20)
            .map(|topic| arrivals.wait_at(queue(topic), Owner::Topic(TopicId(topic))))
            .collect();
        assert!(of_topics.iter().all(Result::is_ok));
        let refused = arrivals.wait_at(queue(0), Owner::Namespace(NamespaceId(1)));
        assert_eq!(refused.err(), Some(MessagingError::TooManyWaiting));
        drop((by_one_key, of_topics));
        assert!(arrivals.waiting.lock().unwrap().is_empty());
        assert_eq!(all(0..1, 1).len(), half, "of one event subscription");
    }
}
