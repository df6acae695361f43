//! The current state: event subscriptions that need attention, their dead letters, and rejections of the last day. It
//! is read once for each page, since the navigation shows the counts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::admin::site::Site;
use crate::admin::widgets::{Badge, Tone, print, response};
use crate::base::Timestamp;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::probation::Health;
use crate::model::provisioned::Provisioned;
use crate::model::registry::{Registry, TopicEntry};
use crate::model::subscription::{
    Disabled, EventSubscription, SubscriptionId, SubscriptionStatus as Status, ValidationState,
};
use crate::store::StoreError;
use crate::store::views::DeadLetterGroup;

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3_600);

/// The number of consecutive failed attempts after which an endpoint is called failing. A single failure may be a
/// restart.
const FAILING: u32 = 2;

#[derive(Clone, Debug, Default)]
pub(crate) struct StandingView {
    pub(crate) registry: Arc<Registry>,
    healths: HashMap<SubscriptionId, Health>,
    dead_letters: HashMap<SubscriptionId, DeadLetters>,
    pub(crate) rejected: u64,
    /// The number of firing alerts.
    pub(crate) alerts: u64,
    pub(crate) provisioned: Arc<Provisioned>,
    now: Timestamp,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeadLetters {
    pub(crate) count: u64,
    /// The number of dead letters of today or yesterday (UTC), since they are counted by day.
    pub(crate) recent: u64,
    /// The most frequent reason, and the number of dead letters with it.
    pub(crate) most: Option<(DeadLetterReason, u64)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct State<'a> {
    pub(crate) subscription: &'a EventSubscription,
    pub(crate) status: Status,
    pub(crate) health: Health,
    pub(crate) dead_letters: DeadLetters,
    /// Is true for a subscription of a Service Bus topic that has no rule.
    pub(crate) is_ruleless: bool,
}

impl StandingView {
    pub(crate) async fn read(site: &Site, now: Timestamp) -> Result<Self, StoreError> {
        let registry = site.broker.registry();
        let ids = registry.subscriptions().map(|(_, each)| each.id);
        Ok(Self {
            healths: ids.map(|id| (id, site.broker.health_of(id))).collect(),
            dead_letters: by_subscription(site.views.dead_letter_groups().await?, now),
            rejected: site.views.count_rejections(now - DAY).await?,
            alerts: site.broker.meters().alerts_firing(),
            provisioned: site.broker.provisioned(),
            registry,
            now,
        })
    }

    pub(crate) fn of<'a>(&self, subscription: &'a EventSubscription) -> State<'a> {
        let id = &subscription.id;
        let topic = self.registry.subscription(*id).map(|(topic, _)| topic);
        let is_ruleless = topic.is_some_and(|topic| {
            topic.has_rules(subscription) && topic.rules.of(*id).next().is_none()
        });
        let health = self.healths.get(id).copied().unwrap_or_default();
        State {
            subscription,
            status: subscription.standing(&health, self.now),
            health,
            dead_letters: self.dead_letters.get(id).copied().unwrap_or_default(),
            is_ruleless,
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&Arc<TopicEntry>, State<'_>)> {
        let all = self.registry.subscriptions();
        all.map(|(topic, each)| (topic, self.of(each)))
    }

    pub(crate) fn needing_attention(&self) -> usize {
        let ill = self.all().filter(|(_, state)| state.needs_attention());
        ill.count()
    }

    pub(crate) fn dead_letters(&self) -> u64 {
        self.dead_letters.values().map(|each| each.count).sum()
    }
}

fn by_subscription(
    groups: Vec<DeadLetterGroup>,
    now: Timestamp,
) -> HashMap<SubscriptionId, DeadLetters> {
    let mut reasons: BTreeMap<(SubscriptionId, String), u64> = BTreeMap::new();
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
    for ((subscription, reason), count) in reasons {
        let of = all.entry(subscription).or_default();
        let is_most = of.most.is_none_or(|(_, most)| count >= most);
        let reason = DeadLetterReason::from_name(&reason).filter(|_| is_most);
        of.most = reason.map(|reason| (reason, count)).or(of.most);
    }
    all
}

impl State<'_> {
    /// Reports whether the subscription is active, but has dead letters of today or yesterday.
    pub(crate) fn is_dead_lettering(&self) -> bool {
        self.status == Status::Active && self.dead_letters.recent > 0
    }

    /// Reports whether the attempts fail, but not yet often enough for probation.
    pub(crate) fn is_failing(&self) -> bool {
        self.status == Status::Active && self.health.failures >= FAILING
    }

    pub(crate) fn needs_attention(&self) -> bool {
        self.badge().tone >= Tone::Warn
    }

    /// Returns the state in a word or two. The Azure term for it is on the page of the subscription.
    pub(crate) fn badge(&self) -> Badge {
        use ValidationState::{AwaitingManualAction, Creating, Failed, Succeeded, Updating};
        let say = |tone, word: &str| Badge::new(tone, word);
        match self.status {
            _ if self.is_dead_lettering() => say(Tone::Warn, "Dead-lettering").with("warn"),
            Status::Active if self.is_failing() => say(Tone::Warn, "Failing").with("warn"),
            Status::Active if self.is_ruleless => say(Tone::Warn, "No rules").with("warn"),
            Status::Active => say(Tone::Good, "Active"),
            Status::Expired => say(Tone::Rest, "Expired"),
            Status::Paused => say(Tone::Rest, "Paused").with("pause"),
            Status::Disabled(Disabled::ByOperator) => say(Tone::Rest, "Disabled"),
            Status::Disabled(Disabled::Gone { .. }) => say(Tone::Bad, "Disabled"),
            Status::Gone => say(Tone::Bad, "Gone"),
            Status::OnProbation => say(Tone::Bad, "On probation"),
            Status::NotValidated(Failed) => say(Tone::Bad, "Validation failed"),
            Status::NotValidated(AwaitingManualAction) => say(Tone::Warn, "Awaiting confirmation"),
            Status::NotValidated(Creating | Updating | Succeeded) => say(Tone::Warn, "Validating"),
        }
    }

    /// Explains the state in half a sentence; empty if the badge says it all. The time of the next attempt is not part
    /// of it, see [`State::held_until`].
    pub(crate) fn reason(&self) -> String {
        let rejected = self.subscription.validation.failure.as_deref();
        let reason = match self.status {
            Status::OnProbation => Some(self.last_response()),
            Status::NotValidated(_) => rejected.map(|why| {
                print::sentence(why.strip_prefix("the handshake failed: ").unwrap_or(why))
            }),
            Status::Disabled(Disabled::Gone { .. }) | Status::Gone => {
                Some(response::of_status(410))
            }
            Status::Active if self.is_dead_lettering() => {
                self.dead_letters.most.map(|(reason, count)| {
                    let is_all = count == self.dead_letters.count;
                    response::of_reason(reason) + if is_all { "" } else { " and others" }
                })
            }
            Status::Active if self.is_failing() => {
                let failed = print::plural(self.health.failures, "attempt", "attempts");
                Some(format!("{failed} failed in a row"))
            }
            Status::Active if self.is_ruleless => Some("It gets no messages".to_owned()),
            Status::Active | Status::Expired | Status::Disabled(_) | Status::Paused => None,
        };
        reason.unwrap_or_default()
    }

    /// Returns the result of the attempt that put the endpoint on probation: `503 Service Unavailable`.
    pub(crate) fn last_response(&self) -> String {
        let probation = self.health.probation;
        let last = probation.map(|last| response::words(last.cause, last.status, None));
        last.unwrap_or_default()
    }

    pub(crate) fn held_until(&self) -> Option<Timestamp> {
        let probation = self.health.probation?;
        (self.status == Status::OnProbation).then_some(probation.until)
    }

    /// Reports whether delivery is stopped until an operator acts.
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
