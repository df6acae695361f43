//! What pages cost: the same statements for many event subscriptions, events and dead letters as for few.

use super::deliver::{publish, settle};
use super::subscription_list::with_subscriptions;
use crate::model::delivery::DeliveryState;
use crate::store::InlineDatabase;

const PAGES: [&str; 14] = [
    "/admin",
    "/admin/topics",
    "/admin/topics/orders",
    "/admin/topics/orders/subscriptions/billing",
    "/admin/topics/orders/new-subscription",
    "/admin/subscriptions",
    "/admin/events",
    "/admin/events/1",
    "/admin/dead-letters",
    "/admin/dead-letters/1",
    "/admin/rejected-events",
    "/admin/replays",
    "/admin/activity",
    "/admin/system",
];

/// Statements of one page, its session and the counts of the navigation among them.
const STATEMENTS_MAX: u64 = 50;

/// The statements of each page where an event was rejected by `others` event subscriptions and `billing`.
async fn costs(others: usize) -> Vec<(&'static str, u64)> {
    let (appliance, mut person) = with_subscriptions(others).await;
    for _ in 0..=others {
        appliance.webhooks.will_answer(400, "no", "no");
    }
    publish(&mut person).await;
    let ended = i64::try_from(others).expect("few"); // the last one is paused
    for id in 1..=ended {
        settle(&appliance, id, DeliveryState::DeadLettered).await;
    }
    appliance.database.count_statements().expect("a count");
    let mut costs = Vec::new();
    for page in PAGES {
        let before = InlineDatabase::statements();
        let shown = person.open(page).await;
        assert_eq!(shown.path, page, "{}", shown.body);
        costs.push((page, InlineDatabase::statements() - before));
    }
    costs
}

#[tokio::test(start_paused = true)]
async fn pages_cost_the_same_for_fifty_event_subscriptions_as_for_three() {
    let few = costs(2).await;
    assert_eq!(costs(49).await, few);
    let most = few.iter().max_by_key(|(_, statements)| *statements);
    assert!(
        most.is_some_and(|(_, statements)| *statements <= STATEMENTS_MAX),
        "{few:?}"
    );
}
