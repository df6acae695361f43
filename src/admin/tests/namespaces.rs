//! Topics of namespaces in the pages: shown and published to, but made elsewhere.

use http::StatusCode;
use serde_json::json;

use super::{Appliance, Person};
use crate::model::name::{NamespaceName, SubscriptionName, TopicName};
use crate::wire::resource::{self, SubscriptionContext};

/// An appliance with `shop/orders`, whose subscription `billing` rejects the first event.
async fn with_dead_letter() -> (Appliance, Person) {
    let (appliance, mut person) = Appliance::claimed().await;
    let broker = &appliance.broker;
    let shop = NamespaceName::parse("shop").expect("a name");
    let namespace = resource::parse_namespace(&json!({"location": "l"})).expect("a namespace");
    broker.put_namespace(shop, namespace).await.expect("stored");
    let orders = TopicName::parse("shop/orders").expect("a name");
    let topic = resource::parse_namespace_topic(&json!({})).expect("a topic");
    let topic = broker
        .put_topic(orders.clone(), topic)
        .await
        .expect("stored");
    let context = SubscriptionContext::of(&topic, appliance.clock.now(), false);
    let body = json!({"properties": {"deliveryConfiguration": {"push": {"destination":
        {"endpointType": "WebHook", "properties":
            {"endpointUrl": "https://shop.example/", "skipValidation": true}}}}}});
    let definition = resource::parse_subscription(&body, &context).expect("a subscription");
    let billing = SubscriptionName::parse("billing").expect("a name");
    let put = broker.put_subscription(&orders, billing, definition).await;
    put.expect("stored");
    appliance.webhooks.will_answer(404, "no", "who are you?");
    let form = person.open("/admin/topics/shop%2Forders/publish").await;
    form.expect(&["Publish to shop/orders", "specversion"]);
    let event = json!({"id": "e1", "source": "/s", "type": "Order.Paid", "specversion": "1.0"});
    let sent = [("events", &*event.to_string())];
    let page = person
        .send("/admin/topics/shop%2Forders/publish", &sent)
        .await;
    page.expect(&["1 event has been accepted.", "shop/orders"]);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    (appliance, person)
}

#[tokio::test(start_paused = true)]
async fn events_and_dead_letters_are_shown_under_the_whole_name() {
    let (_appliance, mut person) = with_dead_letter().await;
    person
        .open("/admin/topics")
        .await
        .expect(&["/admin/topics/shop%2Forders", "of=shop%2Forders%2F"]);
    person.open("/admin/topics/shop%2Forders").await.expect(&[
        "http://127.0.0.1:8080/namespaces/shop/topics/orders:publish",
        "/admin/topics/shop%2Forders/subscriptions/billing",
    ]);
    person
        .open("/admin/topics/shop%2Forders/subscriptions/billing")
        .await
        .expect(&["400, 401, 403, 404, 413 or 414", "At most 10 attempts"]);
    person
        .open("/admin/events?of=shop/orders/")
        .await
        .expect(&["Order.Paid", "shop/orders"]);
    for list in [
        "/admin/dead-letters",
        "/admin/dead-letters?of=shop%2Forders%2F",
        "/admin/dead-letters?of=shop/orders/billing",
    ] {
        let page = person.open(list).await;
        page.expect(&["UndeliverableDueToClientError", "404 NotFound"]);
    }
    let other = person.open("/admin/dead-letters?of=shop/orders").await;
    other.expect(&["No dead letters here."]);
    person.open("/admin/dead-letters/1").await.expect(&[
        "Resubmit",
        "/admin/topics/shop%2Forders/subscriptions/billing",
    ]);
}

#[tokio::test(start_paused = true)]
async fn there_are_no_forms_for_what_they_cannot_make() {
    let (_appliance, mut person) = with_dead_letter().await;
    let topic = person.open("/admin/topics/shop%2Forders").await;
    assert!(!topic.body.contains("new-subscription"), "{}", topic.body);
    for path in [
        "/admin/topics/shop%2Forders/new-subscription",
        "/admin/topics/shop%2Forders/subscriptions/billing/edit",
    ] {
        let page = person.open(path).await;
        assert_eq!(page.status, StatusCode::CONFLICT, "{path}");
        page.expect(&["is a topic of a namespace"]);
    }
}
