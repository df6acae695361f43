//! The page of a topic: what it got, and who still uses its keys.

use std::time::Duration;

use super::deliver::{publish, with_subscription};
use crate::model::access::{KeyName, KeyOwner, KeyRef};
use crate::model::name::TopicName;

const PAGE: &str = "/admin/topics/orders";

#[tokio::test(start_paused = true)]
async fn types_are_counted_and_lead_to_their_events() {
    let (_appliance, mut person) = with_subscription().await;
    person.open(PAGE).await.expect(&["No events lately."]);
    publish(&mut person).await;
    publish(&mut person).await;
    let page = person.open(PAGE).await;
    page.expect(&[
        "of the newest 2 events",
        "href=\"/admin/events?of=orders&#38;type=Example.Created\"",
    ]);
}

#[tokio::test(start_paused = true)]
async fn a_key_tells_when_it_was_used_until_it_is_regenerated() {
    let (appliance, mut person) = with_subscription().await;
    person.open(PAGE).await.expect(&["hidden Never used"]);
    let topic = TopicName::parse("orders").expect("a name");
    let registry = appliance.broker.registry();
    let owner = KeyOwner::Topic(registry.topic(&topic).expect("a topic").topic.id);
    appliance.broker.note_key_use(KeyRef {
        owner,
        key: KeyName::Key2,
    });
    appliance.clock.advance(Duration::from_secs(180));
    let used = ["hidden Never used", "hidden Last used 3 min ago"];
    person.open(PAGE).await.expect(&used);
    appliance.broker.sweep().await.expect("a sweep");
    person.open(PAGE).await.expect(&used);
    person.open(&format!("{PAGE}/keys/key2/regenerate")).await;
    person
        .send(&format!("{PAGE}/keys/key2/regenerate"), &[])
        .await;
    let page = person.open(PAGE).await;
    assert!(
        !page.words().contains("Last used 3 min ago"),
        "{}",
        page.words()
    );
}
