//! Delivery counts, and a recount of the rows to check them against.

use serde_json::{Value, json};

use crate::broker::Broker;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::subscription::SubscriptionId;
use crate::store::StoreError;
use crate::store::views::{DeliveryTotals, Recount};

/// How often a recount is repeated if deliveries changed meanwhile.
const TRIES: usize = 5;

/// The delivery counts of one event subscription.
#[derive(Clone, Debug)]
pub struct Account {
    pub topic: TopicName,
    pub subscription: SubscriptionName,
    pub id: SubscriptionId,
    pub totals: DeliveryTotals,
}

impl Account {
    /// The JSON of the API.
    pub fn render(&self) -> Value {
        let totals = &self.totals;
        json!({
            "topic": self.topic.as_str(),
            "subscription": self.subscription.as_str(),
            "matched": totals.matched,
            "pending": totals.pending,
            "delivered": totals.delivered,
            "deadLettered": totals.dead_lettered,
            "dropped": totals.dropped,
            "deadLetters": totals.dead_letters,
            "balance": totals.balance(),
        })
    }
}

/// A recount of the rows, and whether the counters agree.
#[derive(Clone, Copy, Debug)]
pub struct Verified {
    pub recount: Recount,
    pub agrees: bool,
}

impl Broker {
    /// The delivery counts of all event subscriptions.
    pub async fn accounts(&self) -> Result<Vec<Account>, StoreError> {
        let registry = self.registry();
        let ids = registry.subscriptions().map(|(_, each)| each.id).collect();
        let totals = self.store().views.totals(ids).await?;
        let accounts = registry.subscriptions().zip(totals);
        let accounts = accounts.map(|((topic, subscription), totals)| Account {
            topic: topic.topic.name.clone(),
            subscription: subscription.name.clone(),
            id: subscription.id,
            totals,
        });
        Ok(accounts.collect())
    }

    /// Recounts one event subscription. Deliveries go on meanwhile, so the counters are read before and
    /// after; this is repeated a few times until they agree.
    pub async fn verify(&self, id: SubscriptionId) -> Result<Verified, StoreError> {
        let views = &self.store().views;
        let mut verified = Verified {
            recount: Recount::default(),
            agrees: false,
        };
        for _ in 0..TRIES {
            let before = views.totals(vec![id]).await?;
            let recount = views.recount(id).await?;
            let after = views.totals(vec![id]).await?;
            let is_within = |count: u64, of: fn(&DeliveryTotals) -> u64| {
                let ends = || before.iter().chain(&after).map(of);
                ends().min() <= Some(count) && Some(count) <= ends().max()
            };
            let agrees = is_within(recount.pending, |totals| totals.pending)
                && is_within(recount.dead_letters, |totals| totals.dead_letters);
            verified = Verified { recount, agrees };
            if agrees {
                break;
            }
        }
        Ok(verified)
    }
}
