//! Delivery counters of event subscriptions, and a recount of the stored rows that verifies the counters.

use schemars::JsonSchema;
use serde::Serialize;

use crate::broker::Broker;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::subscription::SubscriptionId;
use crate::store::StoreError;
use crate::store::views::{DeliveryTotals, TotalsQuery};

/// The most times that a recount is made while changing deliveries make it disagree with the counters.
const TRIES: usize = 5;

/// The delivery counts of one event subscription.
#[derive(Clone, Debug)]
pub struct Account {
    pub topic: TopicName,
    pub subscription: SubscriptionName,
    pub id: SubscriptionId,
    pub totals: DeliveryTotals,
}

/// How the deliveries of an event subscription stand.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionCounts {
    topic: String,
    subscription: String,
    matched: u64,
    pending: u64,
    delivered: u64,
    /// Ever.
    dead_lettered: u64,
    dropped: u64,
    /// In the queue right now.
    dead_letters: u64,
    /// All that was matched is accounted for.
    balance: bool,
    /// With `verify` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    recount: Option<ShownRecount>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct ShownRecount {
    pending: u64,
    dead_letters: u64,
    agrees: bool,
}

impl SubscriptionCounts {
    pub fn new(account: &Account, verified: Option<Verified>) -> Self {
        let totals = &account.totals;
        Self {
            topic: account.topic.to_string(),
            subscription: account.subscription.to_string(),
            matched: totals.matched,
            pending: totals.pending,
            delivered: totals.delivered,
            dead_lettered: totals.dead_lettered,
            dropped: totals.dropped,
            dead_letters: totals.dead_letters,
            balance: totals.balance(),
            recount: verified.map(|verified| ShownRecount {
                pending: verified.recount.pending,
                dead_letters: verified.recount.dead_letters,
                agrees: verified.agrees,
            }),
        }
    }
}

/// A recount of the stored rows, compared with the delivery counters.
#[derive(Clone, Copy, Debug)]
pub struct Verified {
    /// The totals of the recount. `pending`, `dead_letters` and `bytes` are counted from the rows.
    pub recount: DeliveryTotals,
    pub agrees: bool,
}

impl Broker {
    /// Returns the delivery counts of all event subscriptions.
    pub async fn accounts(&self) -> Result<Vec<Account>, StoreError> {
        let registry = self.registry();
        let ids = registry.subscriptions().map(|(_, each)| each.id).collect();
        let query = TotalsQuery {
            subscriptions: ids,
            recount: false,
        };
        let totals = self.store().ledger.totals(query).await?;
        let counted = registry.subscriptions().zip(totals);
        let accounts = counted.map(|((topic, subscription), totals)| Account {
            topic: topic.topic.name.clone(),
            subscription: subscription.name.clone(),
            id: subscription.id,
            totals,
        });
        Ok(accounts.collect())
    }

    /// Recounts the rows of one event subscription. Deliveries go on during the recount, so the counters are read
    /// before and after it. The counters agree if each recounted number lies between the two readings; if not, the
    /// recount is repeated a few times.
    pub async fn verify(&self, id: SubscriptionId) -> Result<Verified, StoreError> {
        let totals = async |recount| {
            let query = TotalsQuery {
                subscriptions: vec![id],
                recount,
            };
            self.store().ledger.totals(query).await
        };
        let mut verified = Verified {
            recount: DeliveryTotals::default(),
            agrees: false,
        };
        for _ in 0..TRIES {
            let before = totals(false).await?;
            let recount = totals(true).await?[0];
            let after = totals(false).await?;
            let is_within = |count: u64, of: fn(&DeliveryTotals) -> u64| {
                let ends = || before.iter().chain(&after).map(of);
                ends().min() <= Some(count) && Some(count) <= ends().max()
            };
            let agrees = is_within(recount.pending, |totals| totals.pending)
                && is_within(recount.dead_letters, |totals| totals.dead_letters)
                && is_within(recount.bytes, |totals| totals.bytes);
            verified = Verified { recount, agrees };
            if agrees {
                break;
            }
        }
        Ok(verified)
    }
}
