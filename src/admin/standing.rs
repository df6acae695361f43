//! How everything stands now: which event subscriptions need attention, what lies in their dead-letter queues
//! and what was rejected. It is read once for each page, since the navigation counts it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::admin::site::Site;
use crate::admin::widgets::{Badge, Tone, print, response};
use crate::base::Timestamp;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::probation::Health;
use crate::model::registry::{Registry, TopicEntry};
use crate::model::subscription::{
    Disabled, EventSubscription, SubscriptionId, SubscriptionStatus, ValidationState,
};
use crate::store::StoreError;
use crate::store::views::DeadLetterGroup;

/// What counts as new.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3_600);

/// The state of the appliance at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing {
    pub(crate) registry: Arc<Registry>,
    healths: HashMap<SubscriptionId, Health>,
    dead_letters: HashMap<SubscriptionId, DeadLetters>,
    /// Publish requests of the last day that were rejected.
    pub(crate) rejected: u64,
    now: Timestamp,
}

/// What lies in the dead-letter queue of one event subscription.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeadLetters {
    pub(crate) count: u64,
    /// Of those, the ones of today and yesterday (UTC), since they are counted by days.
    pub(crate) recent: u64,
    /// The most frequent reason, and how many were given up for it.
    pub(crate) most: Option<(DeadLetterReason, u64)>,
}

/// Where one event subscription stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State<'a> {
    pub(crate) subscription: &'a EventSubscription,
    pub(crate) status: SubscriptionStatus,
    pub(crate) health: Health,
    pub(crate) dead_letters: DeadLetters,
}

impl Standing {
    pub(crate) async fn read(site: &Site, now: Timestamp) -> Result<Self, StoreError> {
        let registry = site.broker.registry();
        let ids = registry.subscriptions().map(|(_, each)| each.id);
        Ok(Self {
            healths: ids.map(|id| (id, site.broker.health_of(id))).collect(),
            dead_letters: by_subscription(site.views.dead_letter_groups().await?, now),
            rejected: site.views.count_rejections(now - DAY).await?,
            registry,
            now,
        })
    }

    /// Where `subscription` stands.
    pub(crate) fn of<'a>(&self, subscription: &'a EventSubscription) -> State<'a> {
        let health = self.healths.get(&subscription.id);
        let health = health.copied().unwrap_or_default();
        let dead_letters = self.dead_letters.get(&subscription.id);
        State {
            subscription,
            status: subscription.standing(&health, self.now),
            health,
            dead_letters: dead_letters.copied().unwrap_or_default(),
        }
    }

    /// All event subscriptions with their topics and states.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Arc<TopicEntry>, State<'_>)> {
        let all = self.registry.subscriptions();
        all.map(|(topic, each)| (topic, self.of(each)))
    }

    /// The event subscriptions that need somebody to look at them.
    pub(crate) fn needing_attention(&self) -> usize {
        self.all()
            .filter(|(_, state)| state.needs_attention())
            .count()
    }

    /// Everything in the dead-letter queues.
    pub(crate) fn dead_letters(&self) -> u64 {
        self.dead_letters.values().map(|each| each.count).sum()
    }
}

fn by_subscription(
    groups: Vec<DeadLetterGroup>,
    now: Timestamp,
) -> HashMap<SubscriptionId, DeadLetters> {
    let mut reasons: HashMap<(SubscriptionId, String), u64> = HashMap::new();
    let mut all: HashMap<SubscriptionId, DeadLetters> = HashMap::new();
    for group in groups {
        let of = all.entry(group.subscription).or_default();
        of.count += group.dead_letters;
        if now.since(group.day) < 2 * DAY {
            of.recent += group.dead_letters;
        }
        let key = (group.subscription, group.reason);
        *reasons.entry(key).or_default() += group.dead_letters;
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    // The last one stays.
    reasons.sort_by(|((_, one), few), ((_, other), many)| (few, one).cmp(&(many, other)));
    for ((subscription, reason), count) in reasons {
        if let Some(reason) = DeadLetterReason::from_name(&reason) {
            all.entry(subscription).or_default().most = Some((reason, count));
        }
    }
    all
}

impl State<'_> {
    /// Whether it delivers, but some of what it delivers is given up.
    pub(crate) fn is_dead_lettering(&self) -> bool {
        self.status == SubscriptionStatus::Active && self.dead_letters.recent > 0
    }

    pub(crate) fn needs_attention(&self) -> bool {
        self.tone() >= Tone::Warn
    }

    /// What it is called, with its icon.
    pub(crate) fn badge(&self) -> Badge {
        let (tone, word) = self.look();
        let badge = Badge::new(tone, word);
        if self.is_dead_lettering() {
            badge.with("warn")
        } else if self.status == SubscriptionStatus::Paused {
            badge.with("pause")
        } else {
            badge
        }
    }

    pub(crate) fn tone(&self) -> Tone {
        self.look().0
    }

    /// Its state in a word or two; Azure's word for it is on its own page.
    pub(crate) fn word(&self) -> &'static str {
        self.look().1
    }

    fn look(&self) -> (Tone, &'static str) {
        match self.status {
            _ if self.is_dead_lettering() => (Tone::Warn, "Dead-lettering"),
            SubscriptionStatus::Active => (Tone::Good, "Active"),
            SubscriptionStatus::Expired => (Tone::Rest, "Expired"),
            SubscriptionStatus::Paused => (Tone::Rest, "Paused"),
            SubscriptionStatus::Disabled(Disabled::ByOperator) => (Tone::Rest, "Disabled"),
            SubscriptionStatus::Disabled(Disabled::Gone { .. }) => (Tone::Bad, "Disabled"),
            SubscriptionStatus::Gone => (Tone::Bad, "Gone"),
            SubscriptionStatus::OnProbation => (Tone::Bad, "On probation"),
            SubscriptionStatus::NotValidated(ValidationState::Failed) => {
                (Tone::Bad, "Validation failed")
            }
            SubscriptionStatus::NotValidated(ValidationState::AwaitingManualAction) => {
                (Tone::Warn, "Awaiting confirmation")
            }
            SubscriptionStatus::NotValidated(
                ValidationState::Creating | ValidationState::Updating | ValidationState::Succeeded,
            ) => (Tone::Warn, "Validating"),
        }
    }

    /// What lies behind it in half a sentence; empty where the word says it all. When a delivery is tried
    /// next is not part of it, see [`State::held_until`].
    pub(crate) fn reason(&self) -> String {
        match self.status {
            SubscriptionStatus::OnProbation => self.last_response(),
            SubscriptionStatus::NotValidated(_) => {
                let failure = self.subscription.validation.failure.as_deref();
                failure.map(print::sentence).unwrap_or_default()
            }
            SubscriptionStatus::Disabled(Disabled::Gone { .. }) | SubscriptionStatus::Gone => {
                response::of_status(410)
            }
            SubscriptionStatus::Active => {
                let most = self.dead_letters.most.filter(|_| self.is_dead_lettering());
                most.map_or_else(String::new, |(reason, count)| {
                    let dead = print::plural(count, "dead letter", "dead letters");
                    format!("{} ({dead})", response::of_reason(reason))
                })
            }
            SubscriptionStatus::Expired
            | SubscriptionStatus::Disabled(Disabled::ByOperator)
            | SubscriptionStatus::Paused => String::new(),
        }
    }

    /// What the endpoint last did that put it on probation: `503 Service Unavailable`.
    pub(crate) fn last_response(&self) -> String {
        let probation = self.health.probation;
        probation.map_or_else(String::new, |probation| {
            response::words(probation.cause, probation.status, None)
        })
    }

    /// Until when its deliveries are held because it is on probation.
    pub(crate) fn held_until(&self) -> Option<Timestamp> {
        let probation = self.health.probation?;
        (self.status == SubscriptionStatus::OnProbation).then_some(probation.until)
    }

    /// Whether nothing is delivered before somebody does something.
    pub(crate) fn is_stopped(&self) -> bool {
        !self.subscription.may_deliver()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_letters_are_counted_with_the_most_frequent_reason() {
        let day = |days: i64| Timestamp::from_ms(days * 86_400_000);
        let group = |reason: DeadLetterReason, day, dead_letters| DeadLetterGroup {
            subscription: SubscriptionId(1),
            reason: reason.name().to_owned(),
            day,
            dead_letters,
        };
        let (late, bad) = (
            DeadLetterReason::TimeToLiveExceeded,
            DeadLetterReason::UndeliverableDueToHttpBadRequest,
        );
        let groups = vec![
            group(late, day(10), 3),
            group(bad, day(19), 2),
            group(bad, day(20), 2),
        ];
        let counted = by_subscription(groups, day(20) + Duration::from_secs(3_600));
        let counted = counted[&SubscriptionId(1)];
        assert_eq!((counted.count, counted.recent), (7, 4));
        assert_eq!(counted.most, Some((bad, 4)));
    }
}
