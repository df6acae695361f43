//! Filters, conversions, signatures and tokens, tried with pasted texts.

use http::StatusCode;

use super::Appliance;
use super::deliver::with_subscription;
use super::person::{Person, Shown};
use crate::store::accounts::Role;
use crate::wire::sas;
use crate::wire::signature::sign;

const FILTER: &str = "/admin/playground/filter";
const CONVERT: &str = "/admin/playground/convert";
const SIGNATURE: &str = "/admin/playground/signature";
const TOKEN: &str = "/admin/topics/orders/keys/token";
const SCRIPT: &str = "<script>alert(1)</script>";

const EVENT: &str = r#"{"id":"1","eventType":"Order.Paid","subject":"/orders/7","dataVersion":"1",
    "eventTime":"2026-11-21T06:40:53Z","data":{"total":12.5}}"#;
const CLOUD_EVENT: &str =
    r#"{"specversion":"1.0","id":"1","type":"Order.Paid","source":"/shop","data":{"total":12.5}}"#;

async fn send(person: &mut Person, path: &str, fields: &[(&str, &str)]) -> Shown {
    person.open(path).await;
    person.send(&format!("{path}#result"), fields).await
}

#[tokio::test(start_paused = true)]
async fn a_pasted_filter_tells_which_clause_fails() {
    let (_appliance, mut person) = Appliance::claimed().await;
    let filter = r#"{"includedEventTypes":["Order.Paid"],"advancedFilters":[
        {"operatorType":"NumberGreaterThan","key":"data.total","value":100}]}"#;
    for event in [EVENT, CLOUD_EVENT] {
        let page = send(&mut person, FILTER, &[("event", event), ("filter", filter)]).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.body);
        page.expect(&[
            "Does not match",
            "Wanted: data.total is greater than 100. The event has 12.5.",
            "eventType is one of &#34;Order.Paid&#34;",
            "Holds",
            "Fails",
        ]);
    }
    let fields = [("event", EVENT), ("filter", "{}")];
    let page = send(&mut person, FILTER, &fields).await;
    page.expect(&["Matches", "every event matches"]);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_asked_as_the_api_is() {
    let (_appliance, mut person) = with_subscription().await;
    let of = [("event", EVENT), ("of", "orders/billing")];
    let page = send(&mut person, FILTER, &of).await;
    page.expect(&[
        "Event subscription billing",
        "Matches",
        "/topics/orders/eventSubscriptions/billing/explain",
        "everpost explain --topic &#39;orders&#39; --subscription &#39;billing&#39; --file -",
    ]);
    let taken = [("event", EVENT), ("of", "orders/billing"), ("do", "take")];
    let page = send(&mut person, FILTER, &taken).await;
    page.expect(&["&#34;includedEventTypes&#34;: null"]);
    let page = send(&mut person, FILTER, &[("event", EVENT), ("of", "orders")]).await;
    page.expect(&["Subscriptions of orders", "Matched"]);

    let edit = "/admin/topics/orders/subscriptions/billing/edit";
    person.open(edit).await;
    person
        .send(edit, &[("includedEventTypes", "Order.Shipped")])
        .await;
    let page = send(&mut person, FILTER, &of).await;
    page.expect(&["Does not match", "The event has &#34;Order.Paid&#34;."]);
    let events = person.open("/admin/events").await;
    assert!(!events.body.contains("Order.Paid"), "{}", events.body);
}

#[tokio::test(start_paused = true)]
async fn wrong_input_is_told_by_its_field() {
    let (_appliance, mut person) = with_subscription().await;
    let secret = ("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let (id, at) = (("webhook-id", "1"), ("webhook-timestamp", "1800000000"));
    let long = "x".repeat(65_537);
    for (path, fields, field, problem) in [
        (
            FILTER,
            vec![("event", "no")],
            "event",
            "This is not JSON. Line 1, column 2:",
        ),
        (FILTER, vec![("event", "[]")], "event", "not an empty list"),
        (
            FILTER,
            vec![("event", EVENT)],
            "filter",
            "Write a filter here",
        ),
        (
            FILTER,
            vec![("event", EVENT), ("filter", "[]")],
            "filter",
            "must be a JSON object",
        ),
        (
            FILTER,
            vec![("event", EVENT), ("filter", "{")],
            "filter",
            "This is not JSON",
        ),
        (
            FILTER,
            vec![
                ("event", EVENT),
                ("filter", "{\"advancedFilters\":[{\"key\":\"data.total\"}]}"),
            ],
            "filter",
            "AdvancedFilters[0].operatorType",
        ),
        (
            FILTER,
            vec![("event", EVENT), ("filter", &long)],
            "filter",
            "more than the 64 KiB",
        ),
        (
            FILTER,
            vec![("event", EVENT), ("of", "gone")],
            "of",
            "any more",
        ),
        (
            FILTER,
            vec![("event", EVENT), ("do", "take")],
            "of",
            "Choose the event subscription",
        ),
        (
            CONVERT,
            vec![("event", "{}")],
            "event",
            " has no &#34;id&#34;.",
        ),
        (
            CONVERT,
            vec![("event", EVENT), ("topic", "gone")],
            "topic",
            "any more",
        ),
        (
            CONVERT,
            vec![
                ("event", CLOUD_EVENT),
                ("eventDeliverySchema", "EventGridSchema"),
            ],
            "eventDeliverySchema",
            "published as CloudEventSchemaV1_0 cannot be delivered as EventGridSchema",
        ),
        (
            CONVERT,
            vec![
                ("event", EVENT),
                ("eventDeliverySchema", "CustomInputSchema"),
            ],
            "eventDeliverySchema",
            "cannot be delivered as CustomInputSchema",
        ),
        (SIGNATURE, vec![("secret", "hush")], "secret", "whsec_"),
        (
            SIGNATURE,
            vec![secret],
            "webhook-id",
            "Paste the value of the header",
        ),
        (
            SIGNATURE,
            vec![secret, id, at],
            "webhook-signature",
            "Paste the value",
        ),
        (TOKEN, vec![("key", "key3")], "key", "key1 or key2"),
        (
            TOKEN,
            vec![("key", "key1"), ("endsAt", "soon")],
            "endsAt",
            "Enter a date and a time",
        ),
        (
            TOKEN,
            vec![("key", "key1"), ("endsAt", "2020-01-01T00:00")],
            "endsAt",
            "Choose a time in the future.",
        ),
    ] {
        let page = send(&mut person, path, &fields).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY, "{fields:?}");
        page.expect(&[&format!("<a href=\"#{field}\">"), problem]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_webhook_would_be_sent_is_shown() {
    let (_appliance, mut person) = Appliance::claimed().await;
    let cloud = ("eventDeliverySchema", "CloudEventSchemaV1_0");
    let page = send(&mut person, CONVERT, &[("event", EVENT), cloud]).await;
    page.expect(&[
        "Event Grid sent as CloudEvents 1.0",
        "content-type: application/cloudevents+json; charset=utf-8",
        "webhook-request-origin: eventgrid.azure.net",
        "&#34;specversion&#34;:&#34;1.0&#34;,&#34;type&#34;:&#34;Order.Paid&#34;",
    ]);
    let batch = [("event", EVENT), cloud, ("batch", "on")];
    let page = send(&mut person, CONVERT, &batch).await;
    page.expect(&[
        "content-type: application/cloudevents-batch+json",
        "[{&#34;id",
    ]);
    let page = send(&mut person, CONVERT, &[("event", EVENT)]).await;
    page.expect(&[
        "aeg-data-version: 1",
        "&#34;metadataVersion&#34;:&#34;1&#34;",
    ]);
}

#[tokio::test(start_paused = true)]
async fn a_signature_is_checked_and_the_secret_forgotten() {
    let (appliance, mut person) = Appliance::claimed().await;
    let text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let secret = crate::model::signing::SigningSecret::parse(text).expect("a secret");
    let now = appliance.clock.now();
    let signature = sign([&secret].into_iter(), "msg-1", now, b"{}");
    let seconds = (now.as_ms() / 1_000).to_string();
    let fields = |body| {
        [
            ("secret", text),
            ("webhook-id", "msg-1"),
            ("webhook-timestamp", seconds.as_str()),
            ("webhook-signature", signature.as_str()),
            ("body", body),
        ]
    };
    let page = send(&mut person, SIGNATURE, &fields("{}")).await;
    page.expect(&["Valid", "value=\"msg-1\""]);
    assert!(!page.body.contains(text));
    let page = send(&mut person, SIGNATURE, &fields("{ }")).await;
    page.expect(&["Not valid", "No signature fits the secret."]);
    assert!(!page.body.contains(text));
}

#[tokio::test(start_paused = true)]
async fn a_token_is_made_with_the_chosen_key_and_audited() {
    let (appliance, mut person) = with_subscription().await;
    person.open("/admin/topics/orders").await.expect(&[TOKEN]);
    let page = send(
        &mut person,
        TOKEN,
        &[("key", "key2"), ("endsAt", "2099-01-01T00:00")],
    )
    .await;
    let token = page.body.split("data-copy=\"token\">").nth(1);
    let token = token.and_then(|rest| rest.split('<').next());
    let token = token.expect("a token").replace("&#38;", "&");
    page.expect(&["aeg-sas-token: r="]);

    let registry = appliance.broker.registry();
    let mut topics = registry.made_topics();
    let keys = topics.next().and_then(|each| each.topic.keys.clone());
    let mut keys = keys.expect("keys");
    let now = appliance.clock.now();
    let claims = sas::verify(&token, &keys, now).expect("a good token");
    let claims = claims.expect("a right one");
    assert_eq!(
        claims.resource,
        "http://127.0.0.1:8080/topics/orders/api/events"
    );
    assert_eq!(claims.expires_at.to_string(), "2099-01-01T00:00:00.000Z");
    keys.key2 = keys.key1.clone();
    let rejected = sas::verify(&token, &keys, now);
    assert_eq!(rejected, Ok(None));

    let activity = person.open("/admin/activity").await;
    activity.expect(&["created SAS token for topic orders"]);
    assert!(!activity.body.contains(&token));
    let page = person.open("/admin/playground/token?topic=orders").await;
    assert_eq!(page.path, TOKEN);
}

#[tokio::test(start_paused = true)]
async fn viewers_try_what_they_like_but_make_no_tokens() {
    let (appliance, _) = with_subscription().await;
    for role in [Role::Viewer, Role::Operator] {
        let mut person = appliance.signed_in(role).await;
        let page = send(&mut person, FILTER, &[("event", EVENT), ("filter", "{}")]).await;
        page.expect(&["every event matches"]);
        let page = person.open("/admin/playground").await;
        assert!(!page.body.contains("/playground/token"), "{}", page.body);
        for path in [TOKEN, "/admin/playground/token?topic=orders"] {
            assert_eq!(person.open(path).await.status, StatusCode::FORBIDDEN);
        }
        let page = person.open("/admin/topics/orders").await;
        assert!(!page.body.contains(TOKEN), "{}", page.body);
    }
}

#[tokio::test(start_paused = true)]
async fn hostile_texts_are_inert() {
    let (_appliance, mut person) = Appliance::claimed().await;
    let event = EVENT
        .replace("Order.Paid", SCRIPT)
        .replace("12.5", "\"\u{202e}gpj\"");
    let filter = format!(
        r#"{{"advancedFilters":[{{"operatorType":"StringIn","key":"data.total","values":["{SCRIPT}"]}}]}}"#
    );
    let pages = [
        send(
            &mut person,
            FILTER,
            &[("event", &event), ("filter", &filter)],
        )
        .await,
        send(
            &mut person,
            FILTER,
            &[("event", SCRIPT), ("filter", SCRIPT)],
        )
        .await,
        send(&mut person, FILTER, &[("event", &event), ("of", SCRIPT)]).await,
        send(&mut person, CONVERT, &[("event", &event)]).await,
        send(
            &mut person,
            SIGNATURE,
            &[("webhook-id", SCRIPT), ("body", SCRIPT)],
        )
        .await,
    ];
    for page in pages {
        assert!(!page.body.contains(SCRIPT), "{}", page.body);
        page.expect(&["&#60;script&#62;"]);
    }
}
