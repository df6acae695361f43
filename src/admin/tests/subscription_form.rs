//! The form of event subscriptions: what is folded away, and headers in rows.

use http::StatusCode;

use super::Appliance;
use super::deliver::with_subscription;
use super::namespaces::with_dead_letter;
use super::person::Shown;
use crate::outbound::egress::EgressPolicy;

const NEW: &str = "/admin/topics/orders/new-subscription";
const EDIT: &str = "/admin/topics/orders/subscriptions/billing/edit";

/// The ids of the sections that are open.
fn open_folds(page: &Shown) -> Vec<&str> {
    let folds = page
        .body
        .split("<details class=\"fold panel\" id=\"")
        .skip(1);
    let tags = folds.map(|rest| rest.split('>').next().unwrap_or(""));
    let open = tags.filter(|tag| tag.ends_with(" open"));
    open.map(|tag| tag.split('"').next().unwrap_or(""))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn only_what_is_not_as_by_default_is_open() {
    let (_appliance, mut person) = with_subscription().await;
    for path in [NEW, EDIT] {
        let page = person.open(path).await;
        assert_eq!(open_folds(&page), [""; 0], "{path}");
        page.expect(&[
            "Event Grid, Events per batch: 1",
            "Max attempts: 30, Time to live: 1 d",
            "Keep as dead letter",
            "* is an ordinary character and no wildcard.",
        ]);
    }
    let typed = [
        ("labels", "north"),
        ("maxEventsPerBatch", "10"),
        ("splitBatchOnError", "on"),
        ("authentication.type", "Bearer"),
        ("authentication.token", "hush"),
        ("schedule", "PT10S"),
    ];
    let page = person.send(EDIT, &typed).await;
    page.expect(&["has been changed"]);
    let page = person.open(EDIT).await;
    let open = [
        "fold-delivery",
        "fold-retries",
        "fold-credentials",
        "fold-notes",
    ];
    assert_eq!(open_folds(&page), open);
    page.expect(&[
        "Events per batch: 10",
        ", Split batch on error",
        "Retry schedule: 10 s",
        "Bearer token",
        "Labels: north",
    ]);
    let page = person.send(EDIT, &[("maxEventsPerBatch", "0")]).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(open_folds(&page).contains(&"fold-delivery"));
}

#[tokio::test(start_paused = true)]
async fn forms_of_namespaces_are_folded_too() {
    let (_appliance, mut person) = with_dead_letter().await;
    let new = "/admin/topics/shop%2Forders/new-subscription";
    for path in [
        new.to_owned(),
        format!("{new}?deliveryMode=Queue"),
        "/admin/topics/shop%2Forders/subscriptions/billing/edit".to_owned(),
    ] {
        let page = person.open(&path).await;
        assert_eq!(open_folds(&page), [""; 0], "{path}: {}", page.body);
        page.expect(&["Max attempts: 10"]);
    }
}

#[tokio::test(start_paused = true)]
async fn headers_are_added_and_secret_ones_kept_and_not_shown() {
    let (appliance, mut person) = with_subscription().await;
    person.open(EDIT).await;
    let draft = format!("{EDIT}/draft#header-1");
    let page = person.send(&draft, &[("do", "add-header")]).await;
    assert!(open_folds(&page).contains(&"fold-headers"));
    page.expect(&[
        "Header 1",
        "name=\"deliveryAttributeMappings[0].properties.value\"",
    ]);
    let name = ("deliveryAttributeMappings[0].name", "X-Key");
    let kind = ("deliveryAttributeMappings[0].type", "Static");
    let secret = ("deliveryAttributeMappings[0].properties.isSecret", "on");
    let value = ("deliveryAttributeMappings[0].properties.value", "hush-hush");
    person
        .send(EDIT, &[name, kind, secret, value])
        .await
        .expect(&["has been changed", "X-Key"]);
    let page = person.open(EDIT).await;
    page.expect(&["value=\"X-Key\"", "Leave it empty to keep the stored one."]);
    assert!(!page.body.contains("hush-hush"));
    let page = person.send(EDIT, &[name, kind, secret]).await;
    page.expect(&["has been changed"]);
    let registry = appliance.broker.registry();
    let (_, billing) = registry.subscriptions().next().expect("one");
    let headers = billing.definition.destination.attribute_mappings();
    let kept = format!("{headers:?}");
    assert!(
        kept.contains("X-Key") && kept.contains("is_secret: true"),
        "{kept}"
    );

    person.open(EDIT).await;
    let host = ("deliveryAttributeMappings[0].name", "Host");
    let page = person.send(EDIT, &[host, kind, value]).await;
    page.expect(&["<a href=\"#deliveryAttributeMappings[0].name\">Header 1: Name</a>"]);
}

#[tokio::test(start_paused = true)]
async fn all_that_is_wrong_is_told_at_once() {
    let (appliance, mut person) = with_subscription().await;
    person.open(NEW).await;
    let typed = [
        ("name", "a b"),
        ("endpointUrl", "no url"),
        ("maxDeliveryAttempts", "31"),
        ("advancedFilters[0].operatorType", "NumberLessThan"),
        ("advancedFilters[0].key", "data.total"),
        ("advancedFilters[0].values", "1\n2"),
        ("advancedFilters[1].operatorType", "NumberIn"),
        ("advancedFilters[1].key", "data..total"),
        ("advancedFilters[1].values", "1"),
        ("deliveryAttributeMappings[0].name", "Host"),
        ("deliveryAttributeMappings[0].type", "Static"),
        ("deliveryAttributeMappings[0].properties.value", "x"),
        ("labels", "north"),
    ];
    let page = person.send(NEW, &typed).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.expect(&[
        "Correct 6 fields:",
        "<a href=\"#name\">Name</a>",
        "<a href=\"#endpointUrl\">Endpoint URL</a>",
        "<a href=\"#maxDeliveryAttempts\">Max attempts</a>",
        "<a href=\"#advancedFilters[0].values\">Clause 1: Values</a>",
        "<a href=\"#advancedFilters[1].key\">Clause 2: Key</a>",
        "<a href=\"#deliveryAttributeMappings[0].name\">Header 1: Name</a>",
        "value=\"no url\"",
        "value=\"north\"",
    ]);
    assert_eq!(page.body.matches("aria-invalid=\"true\"").count(), 6);
    for jargon in ["`", "Supplied URL"] {
        assert!(!page.body.contains(jargon), "{jargon}: {}", page.body);
    }

    person.open(EDIT).await;
    let typed = [
        ("maxEventsPerBatch", "0"),
        ("eventTimeToLiveInMinutes", "0"),
    ];
    let page = person.send_filled(EDIT, &typed).await;
    page.expect(&["Correct 2 fields:"]);
    let registry = appliance.broker.registry();
    assert_eq!(registry.subscriptions().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn inspectors_are_suggested_as_receivers() {
    let (_appliance, mut person) = with_subscription().await;
    let create = "<a href=\"/admin/new-inspector\">Create an inspector</a>";
    person.open(NEW).await.expect(&[create]);
    person.open("/admin/new-inspector").await;
    let fields = [("name", "bin"), ("answers", "200")];
    person.send("/admin/new-inspector", &fields).await;
    let page = person.open(NEW).await;
    page.expect(&[
        "list=\"inspectors\"",
        "<datalist id=\"inspectors\">\n<option value=\"https://inspector.everpost.internal/bin\">bin",
        "Pick one of your inspectors",
    ]);
    assert!(!page.body.contains(create));
}

#[tokio::test(start_paused = true)]
async fn a_filter_is_told_in_sentences() {
    let (_appliance, mut person) = with_subscription().await;
    person.open(EDIT).await;
    let typed = [
        ("advancedFilters[0].operatorType", "NumberGreaterThan"),
        ("advancedFilters[0].key", "data.total"),
        ("advancedFilters[0].values", "100"),
        ("advancedFilters[1].operatorType", "StringIn"),
        ("advancedFilters[1].key", "data.country"),
        ("advancedFilters[1].values", "NL\nPT"),
    ];
    person.send(EDIT, &typed).await.expect(&[
        "<code>data.total</code> is greater than <code>100</code>",
        "<code>data.country</code> is one of <code>&#34;NL&#34;</code>, <code>&#34;PT&#34;</code>",
        "Advanced filter as JSON",
        "&#34;operatorType&#34;: &#34;NumberGreaterThan&#34;",
    ]);
}

#[tokio::test(start_paused = true)]
async fn other_forms_tell_all_that_is_wrong_as_well() {
    let (_appliance, mut person) = with_dead_letter().await;
    for (path, fields) in [
        (
            "/admin/new-topic",
            vec![("name", "a b"), ("inputSchema", "None")],
        ),
        (
            "/admin/new-inspector",
            vec![
                ("name", "a b"),
                ("answers", "maybe"),
                ("delayInMilliseconds", "soon"),
            ],
        ),
        (
            "/admin/new-namespace",
            vec![
                ("name", "a b"),
                ("capacity", "none"),
                ("tags", "x"),
                ("location", "local"),
            ],
        ),
        (
            "/admin/namespaces/shop/edit",
            vec![("capacity", "none"), ("inboundIpRules", "x")],
        ),
        (
            "/admin/namespaces/shop/new-topic",
            vec![("name", "a b"), ("eventRetentionInDays", "none")],
        ),
    ] {
        person.open(path).await;
        let page = person.send_filled(path, &fields).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY, "{path}");
        let count = fields
            .iter()
            .filter(|(name, _)| *name != "location")
            .count();
        page.expect(&[&format!("Correct {count} fields:")]);
        assert_eq!(
            page.body.matches("aria-invalid=\"true\"").count(),
            count,
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_url_without_a_query_is_filled_in_and_kept_as_it_is() {
    let (appliance, mut person) = with_subscription().await;
    let page = person.open(EDIT).await;
    page.expect(&[
        "name=\"endpointUrl\" value=\"\"",
        "Leave it empty to keep https://shop.example/events with",
    ]);
    assert!(!page.body.contains("hush"), "{}", page.body);

    let plain = ("endpointUrl", "https://shop.example/evnets");
    person.send(EDIT, &[plain]).await.expect(&["been changed"]);
    let page = person.open(EDIT).await;
    page.expect(&["name=\"endpointUrl\" value=\"https://shop.example/evnets\""]);
    assert!(!page.body.contains("Leave it empty to keep https://"));

    let asked = appliance.webhooks.asked();
    let page = person.send_filled(EDIT, &[("labels", "north")]).await;
    page.expect(&["has been changed.", "shop.example/evnets"]);
    assert_eq!(appliance.webhooks.asked(), asked);

    let corrected = ("endpointUrl", "https://shop.example/events");
    person.open(EDIT).await;
    let page = person.send_filled(EDIT, &[corrected]).await;
    page.expect(&["has been changed.", "shop.example/events"]);
    assert_eq!(appliance.webhooks.asked(), asked + 1);
}

#[tokio::test(start_paused = true)]
async fn what_must_be_allowed_before_it_is_called_is_told_where_it_is_shut_out() {
    let advice = "must be allowed first (--egress-allow 127.0.0.1/32).";
    let net = |text: &str| text.parse().expect("a network");
    let opened = EgressPolicy {
        allow: vec![net("127.0.0.0/8")],
        ..EgressPolicy::default()
    };
    let denied = EgressPolicy {
        deny: vec![net("127.0.0.0/8")],
        ..EgressPolicy::default()
    };
    for (egress, is_told) in [
        (EgressPolicy::default(), true),
        (opened, false),
        (denied, false),
    ] {
        let (_appliance, mut person) = Appliance::calling(egress).await.claim().await;
        person.open("/admin/new-topic").await;
        let fields = [("name", "orders")];
        person.send_filled("/admin/new-topic", &fields).await;
        let page = person.open(NEW).await;
        page.expect(&["A key in its query is kept secret."]);
        assert_eq!(page.body.contains(advice), is_told, "{}", page.body);
    }
}

#[tokio::test(start_paused = true)]
async fn what_only_tries_the_filter_stands_apart() {
    let (_appliance, mut person) = with_subscription().await;
    let page = person.open(NEW).await;
    let (_, aside) = page.body.split_once("id=\"trial\">").expect("a box");
    let (aside, _) = aside.split_once("</fieldset>").expect("its end");
    for text in [
        "<legend>Try the filter</legend>",
        "Nothing of this is saved or sent.",
        "name=\"last\"",
        "Try on stored events",
    ] {
        assert!(aside.contains(text), "{text}: {aside}");
    }
    assert!(!aside.contains("subjectBeginsWith"), "{aside}");
}
