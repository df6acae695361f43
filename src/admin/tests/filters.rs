//! Trying filters on stored events, and building them.

use super::deliver::{publish, with_subscription};

const NEW: &str = "/admin/topics/orders/new-subscription";
const BILLING: &str = "/admin/topics/orders/subscriptions/billing";

#[tokio::test(start_paused = true)]
async fn a_filter_is_tried_in_the_form_before_anything_is_saved() {
    let (appliance, mut person) = with_subscription().await;
    let event = publish(&mut person).await;
    person.open(NEW).await;
    let typed = [
        ("do", "try"),
        ("name", "audit"),
        ("labels", "kept"),
        ("subjectBeginsWith", "/nowhere"),
    ];
    let page = person.send(&format!("{NEW}/draft#trial"), &typed).await;
    assert_eq!(page.status, 200);
    page.expect(&[
        "The filter matches 0 of 1 event of orders",
        "Would not match: 1",
        &format!("href=\"{event}\""),
        "Wanted: subject begins with &#34;/nowhere&#34;. The event has",
        "everpost topics try-filter orders --file -",
        "value=\"audit\"",
        "value=\"kept\"",
    ]);
    let registry = appliance.broker.registry();
    assert_eq!(registry.subscriptions().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_changed_filter_is_compared_with_the_one_in_force() {
    let (_appliance, mut person) = with_subscription().await;
    let event = publish(&mut person).await;
    person.open(&format!("{BILLING}/edit")).await;
    let draft = format!("{BILLING}/edit/draft#trial");
    let page = person
        .send(&draft, &[("do", "try"), ("includedEventTypes", "Other")])
        .await;
    page.expect(&[
        "The saved filter matches 1.",
        "No longer matched: 1",
        "eventType is one of &#34;Other&#34;. The event has &#34;Example.Created&#34;",
        "--compare billing",
    ]);
    assert_eq!(page.body.matches(&format!("href=\"{event}\"")).count(), 1);
    page.expect(&["Would not match: 1", "1 listed above."]);
    assert!(!page.body.contains("Newly matched"), "there are none");
    let page = person.send(&draft, &[("do", "try"), ("last", "7")]).await;
    assert!(!page.body.contains("listed above"), "{}", page.body);
    page.expect(&["The saved filter matches the same.", "--last 7"]);
    assert!(!page.body.contains("Newly matched"));
    // Whoever loads the address of a draft again finds the form.
    let form = person.open(&format!("{BILLING}/edit/draft")).await;
    form.expect(&["Edit event subscription billing", "Try on stored events"]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_tried_is_told_by_the_field() {
    let (_appliance, mut person) = with_subscription().await;
    person.open(NEW).await;
    let draft = format!("{NEW}/draft#trial");
    let page = person.send(&draft, &[("do", "try")]).await;
    page.expect(&["The topic has no stored events to try the filter on."]);
    let page = person.send(&draft, &[("do", "try"), ("last", "0")]).await;
    assert_eq!(page.status, 422);
    page.expect(&[
        "href=\"#last\"",
        "It must be a number from 1 to 10000, not 0.",
    ]);
    let page = person.send(&draft, &[("do", "dance")]).await;
    assert_eq!(page.status, 400);
}

#[tokio::test(start_paused = true)]
async fn the_filter_in_force_is_tried_on_a_page_of_its_own() {
    let (_appliance, mut person) = with_subscription().await;
    publish(&mut person).await;
    let page = person.open(BILLING).await;
    page.expect(&[&format!("href=\"{BILLING}/try-filter\"")]);
    let page = person.open(&format!("{BILLING}/try-filter?last=10")).await;
    page.expect(&[
        "The filter matches 1 of 1 event of orders",
        "Would match: 1",
        &format!("href=\"{BILLING}/edit#trial\""),
        "value=\"10\"",
    ]);
    let page = person.open(&format!("{BILLING}/try-filter?last=x")).await;
    assert_eq!(page.status, 422);
}

#[tokio::test(start_paused = true)]
async fn clauses_are_built_by_buttons_and_keep_what_was_typed() {
    let (appliance, mut person) = with_subscription().await;
    publish(&mut person).await;
    person.open(NEW).await;
    let typed = [
        ("name", "audit"),
        ("endpointUrl", "https://shop.example/audit"),
        ("maxDeliveryAttempts", "7"),
        ("authentication.token", "typed"),
        ("advancedFilters[0].operatorType", "NumberInRange"),
        ("advancedFilters[0].key", "data.total"),
        ("advancedFilters[0].values", "1, 10\r\n20, 30"),
    ];
    let with = |button: &'static str| [&typed[..], &[("do", button)]].concat();
    let page = person
        .send(&format!("{NEW}/draft#trial"), &with("add-clause"))
        .await;
    page.expect(&[
        "<legend>Clause 2</legend>",
        "is in one of",
        "title=\"NumberInRange\" selected",
        "value=\"data.total\"",
        "1, 10\r\n20, 30</textarea>",
        "<option value=\"eventType\">",
        "value=\"7\"",
        "value=\"typed\"",
    ]);
    let page = person
        .send(&format!("{NEW}/draft#trial"), &with("to-json"))
        .await;
    page.expect(&["name=\"advancedFilters\"", "&#34;NumberInRange&#34;"]);
    assert!(!page.body.contains("<legend>Clause"));
    let page = person
        .send(&format!("{NEW}/draft#trial"), &with("remove-clause-0"))
        .await;
    assert!(!page.body.contains("<legend>Clause"));

    let page = person.send(NEW, &typed).await;
    page.expect(&["has been created", "NumberInRange"]);
    let registry = appliance.broker.registry();
    let (_, audit) = registry
        .subscriptions()
        .find(|(_, each)| each.name.as_str() == "audit")
        .expect("the subscription");
    assert_eq!(audit.definition.filter.advanced.clauses.len(), 1);
    let edit = "/admin/topics/orders/subscriptions/audit/edit";
    let page = person.open(edit).await;
    page.expect(&["value=\"data.total\"", "1, 10\n20, 30</textarea>"]);
}

#[tokio::test(start_paused = true)]
async fn a_clause_that_is_wrong_is_told_by_its_row() {
    let (_appliance, mut person) = with_subscription().await;
    person.open(NEW).await;
    let typed = [
        ("name", "audit"),
        ("endpointUrl", "https://shop.example/audit"),
        ("advancedFilters[0].operatorType", "IsNotNull"),
        ("advancedFilters[0].key", "data.total"),
        ("advancedFilters[0].values", ""),
        ("advancedFilters[1].operatorType", "NumberGreaterThan"),
        ("advancedFilters[1].key", "data.total"),
        ("advancedFilters[1].values", "many"),
    ];
    let page = person.send(NEW, &typed).await;
    assert_eq!(page.status, 422);
    page.expect(&[
        "href=\"#advancedFilters[1].values\">Clause 2: Values</a>",
        "It must be a number, but it is &#34;many&#34;.",
    ]);
}
