//! The list of many event subscriptions.

use std::collections::BTreeSet;

use super::Appliance;
use super::deliver::with_subscription;
use crate::admin::tests::person::Person;
use crate::model::audit::Caller;
use crate::model::name::{SubscriptionName, TopicName};

const LIST: &str = "/admin/subscriptions";

/// The names on a page, and where the next one is.
fn read(body: &str) -> (Vec<String>, Option<String>) {
    let names = body.split("href=\"/admin/topics/orders/subscriptions/");
    let names = names.skip(1).filter_map(|rest| rest.split('"').next());
    let next = body
        .split("rel=\"next\"")
        .next()
        .filter(|before| *before != body);
    let next = next.and_then(|before| before.rsplit("href=\"").next()?.split('"').next());
    let next = next.map(|href| href.replace("&#38;", "&"));
    (names.map(str::to_owned).collect(), next)
}

/// `count` of them besides `billing`, the last one paused.
pub(crate) async fn with_subscriptions(count: usize) -> (Appliance, Person) {
    let (appliance, person) = with_subscription().await;
    let topic = TopicName::parse("orders").expect("a name");
    let billing = SubscriptionName::parse("billing").expect("a name");
    let (_, billing) = appliance.broker.subscription(&topic, &billing).expect("it");
    let by = Caller::command_line(appliance.clock.now());
    for number in 0..count {
        let name = SubscriptionName::parse(&format!("s-{number:03}")).expect("a name");
        let mut definition = billing.definition.clone();
        definition.options.paused = number + 1 == count;
        let put = appliance
            .broker
            .put_subscription(&by, &topic, name, definition);
        put.await.expect("a subscription");
    }
    (appliance, person)
}

#[tokio::test(start_paused = true)]
async fn many_subscriptions_take_turns_on_pages() {
    let (_appliance, mut person) = with_subscriptions(120).await;
    let (mut seen, mut pages) = (Vec::new(), Vec::new());
    let mut next = Some(format!("{LIST}?topic=orders"));
    while let Some(path) = next {
        let page = person.open(&path).await;
        page.expect(&["of 121", "everpost subscriptions list"]);
        let (names, following) = read(&page.body);
        pages.push(names.len());
        seen.extend(names);
        next = following;
    }
    assert_eq!(pages, [50, 50, 21]);
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 121);
    assert_eq!(
        seen[..2],
        ["s-119", "billing"],
        "the paused one comes first"
    );

    let topic = person.open("/admin/topics/orders").await;
    topic.expect(&["121 subscriptions", "All subscriptions", "topic=orders"]);
    assert!(topic.body.len() < 150_000, "{}", topic.body.len());
}
