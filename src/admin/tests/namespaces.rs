//! Namespaces in the pages, their topics and what is pulled from these.

use http::StatusCode;
use serde_json::{Value, json};

use super::Appliance;
use super::person::Shown;
use crate::admin::tests::person::Person;
use crate::model::audit::Caller;
use crate::model::name::{NamespaceName, SubscriptionName, TopicName};
use crate::store::accounts::Role;
use crate::wire::resource::{self, SubscriptionContext};

/// Makes the topic `shop/orders` and its namespace.
pub(crate) async fn put_shop_orders(appliance: &Appliance) {
    let broker = &appliance.broker;
    let shop = NamespaceName::parse("shop").expect("a name");
    let namespace = resource::parse_namespace(&json!({"location": "l"})).expect("a namespace");
    broker
        .put_namespace(&Caller::command_line(broker.clock().now()), shop, namespace)
        .await
        .expect("stored");
    let orders = TopicName::parse("shop/orders").expect("a name");
    let topic = resource::parse_namespace_topic(&json!({})).expect("a topic");
    broker
        .put_topic(&Caller::command_line(broker.clock().now()), orders, topic)
        .await
        .expect("stored");
}

/// Makes an event subscription of a topic, as `body` describes it.
pub(crate) async fn put_subscription(
    appliance: &Appliance,
    (topic, name): (&str, &str),
    body: &Value,
) {
    let broker = &appliance.broker;
    let topic = TopicName::parse(topic).expect("a name");
    let entry = broker.topic(&topic).expect("a topic");
    let context = SubscriptionContext::of(&entry, appliance.clock.now(), false);
    let definition = resource::parse_subscription(body, &context).expect("a subscription");
    let name = SubscriptionName::parse(name).expect("a name");
    let put = broker
        .put_subscription(
            &Caller::command_line(broker.clock().now()),
            &topic,
            name,
            definition,
        )
        .await;
    put.expect("stored");
}

/// An appliance with `shop/orders`, whose subscription `billing` rejects the first event.
pub(crate) async fn with_dead_letter() -> (Appliance, Person) {
    let (appliance, mut person) = Appliance::claimed().await;
    put_shop_orders(&appliance).await;
    let push = json!({"endpointUrl": "https://shop.example/", "skipValidation": true});
    let push = json!({"destination": {"endpointType": "WebHook", "properties": push}});
    let body = json!({"properties": {"deliveryConfiguration": {"push": push}}});
    put_subscription(&appliance, ("shop/orders", "billing"), &body).await;
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
        .expect(&["400, 401, 403, 404, 413 and 414", "Max attempts 10"]);
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
        page.expect(&["UndeliverableDueToClientError", "404 Not Found"]);
    }
    let other = person.open("/admin/dead-letters?of=shop/orders").await;
    other.expect(&["is not a topic or event subscription."]);
    person.open("/admin/dead-letters/1").await.expect(&[
        "Resubmit",
        "/admin/topics/shop%2Forders/subscriptions/billing",
    ]);
}

/// Fills in the form at `path` and sends it.
async fn fill(person: &mut Person, path: &str, fields: &[(&str, &str)]) -> Shown {
    person.open(path).await;
    person.send(path, fields).await
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_made_changed_and_deleted() {
    let (_appliance, mut person) = Appliance::claimed().await;
    let list = person.open("/admin/namespaces").await;
    list.expect(&["No namespaces yet.", "/admin/new-namespace"]);
    let new = "/admin/new-namespace";
    let rejected = fill(&mut person, new, &[("name", "no"), ("location", "local")]).await;
    assert_eq!(rejected.status, StatusCode::UNPROCESSABLE_ENTITY);
    rejected.expect(&["aria-invalid", "3 to 50"]);
    let shop = [("name", "shop"), ("location", "local"), ("capacity", "2")];
    let page = fill(&mut person, new, &shop).await;
    assert_eq!(page.path, "/admin/namespaces/shop");
    page.expect(&[
        "Namespace shop has been created.",
        "http://127.0.0.1:8080/namespaces/shop",
        "Topic limit 200",
        "Allowed networks All",
        "everpost namespaces show shop",
        "/admin/namespaces/shop/new-topic",
    ]);
    let again = fill(&mut person, new, &shop).await;
    again.expect(&["There is a namespace shop already."]);

    let edit = "/admin/namespaces/shop/edit";
    let rules = [("capacity", "1"), ("inboundIpRules", "10.0.0.0/8\nhome")];
    let rejected = fill(&mut person, edit, &rules).await;
    rejected.expect(&["an address or a network such as", "home"]);
    let rules = [
        ("capacity", "1"),
        ("inboundIpRules", "10.0.0.0/8\n192.0.2.7"),
        ("tags", "team=<b>"),
    ];
    let page = fill(&mut person, edit, &rules).await;
    page.expect(&[
        "Topic limit 100",
        "10.0.0.0/8, 192.0.2.7/32",
        "team=&#60;b&#62;",
    ]);
    person.open(edit).await.expect(&["10.0.0.0/8", "team="]);

    for (field, expected) in [("name", "o"), ("eventRetentionInDays", "8")] {
        let fields = [("name", "orders"), (field, expected)];
        let fields: Vec<_> = fields.into_iter().rev().collect();
        let rejected = fill(&mut person, "/admin/namespaces/shop/new-topic", &fields).await;
        assert_eq!(rejected.status, StatusCode::UNPROCESSABLE_ENTITY, "{field}");
    }
    let orders = [("name", "orders"), ("eventRetentionInDays", "2")];
    let page = fill(&mut person, "/admin/namespaces/shop/new-topic", &orders).await;
    assert_eq!(page.path, "/admin/topics/shop%2Forders");
    page.expect(&["Topic shop/orders has been created.", "2 d", "Retention"]);
    let retention = "/admin/topics/shop%2Forders/retention";
    let page = fill(&mut person, retention, &[("eventRetentionInDays", "7")]).await;
    page.expect(&["7 d"]);

    let delete = "/admin/namespaces/shop/delete";
    person
        .open(delete)
        .await
        .expect(&["Also deleted: 1 topic with 0 event subscriptions."]);
    let list = person.send(delete, &[]).await;
    list.expect(&["Namespace shop has been deleted.", "No namespaces yet."]);
    let gone = person.open("/admin/topics/shop%2Forders").await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn keys_are_shown_on_request_and_renewed_after_a_question() {
    let (appliance, mut person) = with_dead_letter().await;
    let shop = NamespaceName::parse("shop").expect("a name");
    let key1 = || {
        let entry = appliance.broker.namespace(&shop).expect("a namespace");
        entry.namespace.keys.key1.reveal().to_owned()
    };
    let before = key1();
    let page = person.open("/admin/namespaces/shop").await;
    assert!(!page.body.contains(&before));
    let shown = person.send("/admin/namespaces/shop/keys", &[]).await;
    shown.expect(&[&before, "Hide keys"]);
    let regenerate = "/admin/namespaces/shop/keys/key1/regenerate";
    let question = person.open(regenerate).await;
    question.expect(&["Regenerate key1 of shop?", "rejected at once"]);
    let page = person.send(regenerate, &[]).await;
    page.expect(&["key1 has been regenerated.", &key1()]);
    assert_ne!(key1(), before);
    let missing = person
        .open("/admin/namespaces/shop/keys/key3/regenerate")
        .await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);

    let mut operator = appliance.signed_in(Role::Operator).await;
    let page = operator.open("/admin/namespaces/shop").await;
    page.expect(&["Ask an administrator for a key."]);
    let keys = operator.send_bare("/admin/namespaces/shop/keys", &[]).await;
    assert_eq!(keys.status, StatusCode::FORBIDDEN);
    for path in ["edit", "delete", "new-topic", "keys/key1/regenerate"] {
        let page = operator
            .open(&format!("/admin/namespaces/shop/{path}"))
            .await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn pulled_subscriptions_have_a_form() {
    let (appliance, mut person) = with_dead_letter().await;
    let topic = "/admin/topics/shop%2Forders";
    let new = format!("{topic}/new-subscription?deliveryMode=Queue");
    person.open(topic).await.expect(&[&new]);
    let form = person.open(&new).await;
    form.expect(&[
        "New pull subscription of shop/orders",
        "Use push delivery instead",
    ]);
    assert!(!form.body.contains("name=\"endpointUrl\""), "{}", form.body);
    let long = "a".repeat(51);
    for (field, value) in [
        ("name", "a"),
        ("name", &long),
        ("receiveLockDurationInSeconds", "59"),
        ("maxDeliveryCount", "11"),
        ("eventTimeToLive", "P2D"),
        ("eventTimeToLive", "soon"),
        ("advancedFilters", "{}"),
        ("expirationTimeUtc", "2020-01-01T00:00"),
    ] {
        person.open(&new).await;
        let fields = [(field, value), ("name", "audit")];
        let page = person.send(&new, &fields).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY, "{field}");
        page.expect(&[&format!("<a href=\"#{field}\">")]);
    }
    person.open(&new).await;
    let fields = [
        ("name", "audit"),
        ("receiveLockDurationInSeconds", "90"),
        ("maxDeliveryCount", "3"),
        ("eventTimeToLive", "PT4H"),
        ("includedEventTypes", "Order.Paid"),
        (
            "advancedFilters",
            r#"[{"operatorType": "IsNotNull", "key": "subject"}]"#,
        ),
        ("labels", "north"),
    ];
    let page = person.send(&new, &fields).await;
    let audit = format!("{topic}/subscriptions/audit");
    assert_eq!(page.path, audit, "{}", page.body);
    page.expect(&[
        "Lock duration 1 min 30 s",
        "Max attempts 3 Time to live 4 h",
        "IsNotNull",
        "north",
    ]);

    let edit = format!("{audit}/edit");
    let form = person.open(&edit).await;
    form.expect(&["value=\"90\"", "value=\"4 h\"", "Order.Paid", "IsNotNull"]);
    let page = person
        .send(
            &edit,
            &[("maxDeliveryCount", "4"), ("deadLetterDestination", "drop")],
        )
        .await;
    page.expect(&[
        "Max attempts 4 Time to live As long as the topic keeps events",
        "Event types All",
        "On final failure Drop: nothing is kept",
    ]);
    person
        .open(&edit)
        .await
        .expect(&["id=\"eventTimeToLive\" name=\"eventTimeToLive\" value=\"\""]);
    person.open(&audit).await;
    person
        .send(&format!("{audit}/pause"), &[])
        .await
        .expect(&["Paused"]);
    let question = person.open(&format!("{audit}/delete")).await;
    question.expect(&["are not kept for its receivers any more"]);
    let page = person.send(&format!("{audit}/delete"), &[]).await;
    page.expect(&["Event subscription audit has been deleted."]);
    assert!(
        !appliance
            .broker
            .registry()
            .subscriptions()
            .any(|(_, each)| each.name.as_str() == "audit")
    );
}

#[tokio::test(start_paused = true)]
async fn pushed_subscriptions_have_a_form_that_keeps_what_it_does_not_show() {
    let (appliance, mut person) = with_dead_letter().await;
    let topic = "/admin/topics/shop%2Forders";
    let new = format!("{topic}/new-subscription");
    let fields = [
        ("name", "archive"),
        ("endpointUrl", "https://shop.example/rejected?code=hush"),
        ("maxDeliveryCount", "5"),
        ("schedule", "PT1M"),
        ("disableOnGone", "on"),
        ("maxEventsPerBatch", "7"),
    ];
    let rejected = fill(&mut person, &new, &fields).await;
    assert_eq!(rejected.status, StatusCode::UNPROCESSABLE_ENTITY);
    rejected.expect(&["<a href=\"#endpointUrl\">", "WebHook-Allowed-Origin"]);
    person.open(&new).await;
    let mut skipping = fields.to_vec();
    skipping.push(("skipValidation", "on"));
    let page = person.send(&new, &skipping).await;
    page.expect(&[
        "https://shop.example/rejected",
        "Max attempts 5",
        "Events per batch 7",
    ]);
    let archive = format!("{topic}/subscriptions/archive");
    let edit = format!("{archive}/edit");
    let form = person.open(&edit).await;
    form.expect(&["1 min", "value=\"5\"", "value=\"7\"", "checked"]);
    assert!(!form.body.contains("hush"));
    let page = person
        .send(
            &edit,
            &[("maxDeliveryCount", "6"), ("skipValidation", "on")],
        )
        .await;
    page.expect(&["Max attempts 6", "Events per batch 1"]);
    let url = person.send(&format!("{archive}/url"), &[]).await;
    url.expect(&["https://shop.example/rejected?code=hush"]);
    assert_eq!(appliance.broker.registry().subscriptions().count(), 2);
}

#[tokio::test(start_paused = true)]
async fn whoever_chooses_a_topic_finds_its_form() {
    let (_appliance, mut person) = with_dead_letter().await;
    let list = person.open("/admin/subscriptions").await;
    list.expect(&["<option value=\"shop/orders\">"]);
    let form = person
        .open("/admin/new-subscription?topic=shop/orders")
        .await;
    form.expect(&[
        "New push subscription of shop/orders",
        "Use pull delivery instead",
    ]);
    let custom = person
        .open("/admin/topics/everpost-system/new-subscription?deliveryMode=Queue")
        .await;
    custom.expect(&["Endpoint URL"]);
    let none = person.open("/admin/topics/everpost-system/retention").await;
    assert_eq!(none.status, StatusCode::CONFLICT);
}
