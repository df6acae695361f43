//! From a topic to a dead letter and back.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;

use super::Appliance;
use crate::admin::tests::person::Person;
use crate::model::delivery::{DeliveryId, DeliveryState};
use crate::store::accounts::Role;

/// A topic `orders` with the subscription `billing`.
pub(crate) async fn with_subscription() -> (Appliance, Person) {
    let (appliance, mut person) = Appliance::claimed().await;
    person.open("/admin/new-topic").await;
    let page = person
        .send(
            "/admin/new-topic",
            &[
                ("name", "orders"),
                ("location", "local"),
                ("inputSchema", "EventGridSchema"),
            ],
        )
        .await;
    page.expect(&[
        "Topic orders has been created",
        "http://127.0.0.1:8080/topics/orders/api/events",
    ]);
    person.open("/admin/topics/orders/new-subscription").await;
    let page = person
        .send(
            "/admin/topics/orders/new-subscription",
            &[
                ("name", "billing"),
                ("endpointUrl", "https://shop.example/events?code=hush"),
                ("maxDeliveryAttempts", "30"),
            ],
        )
        .await;
    page.expect(&["Event subscription billing has been created.", "Active"]);
    (appliance, person)
}

/// Publishes the example of the form and returns the page of the event.
pub(crate) async fn publish(person: &mut Person) -> String {
    let form = person.open("/admin/topics/orders/publish").await;
    let example = form
        .body
        .split("</textarea>")
        .next()
        .and_then(|text| text.rsplit('>').next());
    let example = example.expect("an example").replace("&#34;", "\"");
    let page = person
        .send("/admin/topics/orders/publish", &[("events", &example)])
        .await;
    page.expect(&["1 event has been accepted."]);
    page.path
}

/// Waits until every delivery has been settled that is due.
pub(crate) async fn settle(appliance: &Appliance, id: i64, expected: DeliveryState) {
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
        let id = crate::model::delivery::DeliveryId(id);
        let found = appliance
            .store
            .views
            .delivery(id)
            .await
            .expect("a delivery");
        if found.is_some_and(|delivery| delivery.row.state == expected) {
            return;
        }
    }
    panic!("delivery {id} did not become {expected:?}");
}

#[tokio::test(start_paused = true)]
async fn what_expires_before_its_next_attempt_says_when() {
    let (appliance, mut person) = with_subscription().await;
    let edit = "/admin/topics/orders/subscriptions/billing/edit";
    person.open(edit).await;
    let brief = [("eventTimeToLiveInMinutes", "1")];
    person
        .send(edit, &brief)
        .await
        .expect(&["has been changed"]);
    // The next attempt would be minutes later.
    appliance.webhooks.will_answer(404, "no", "not here");
    let event = publish(&mut person).await;
    let mut attempts = 0;
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
        let found = appliance.store.views.delivery(DeliveryId(1)).await;
        attempts = found.expect("a store").expect("a delivery").row.attempts;
        if attempts > 0 {
            break;
        }
    }
    assert_eq!(attempts, 1);
    let page = person.open(&event).await;
    page.expect(&["No more attempts,", "expires at", "Retry now"]);
    assert!(!page.body.contains("Attempt 2"), "{}", page.body);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_event_is_a_dead_letter_and_can_be_resubmitted() {
    let (appliance, mut person) = with_subscription().await;
    appliance.webhooks.will_answer(401, "no", "who are you?");
    let event = publish(&mut person).await;
    settle(&appliance, 1, DeliveryState::DeadLettered).await;

    let page = person.open(&event).await;
    page.expect(&[
        "Example.Created",
        "Dead letter",
        "UndeliverableDueToHttpUnauthorized",
        "x-answer: no",
        "who are you?",
        "192.0.2.7:443",
        "A 401 is never retried",
    ]);
    let overview = person.open("/admin").await;
    overview.expect(&[
        "1 of 1 subscription needs attention.",
        "orders / billing",
        "401 Unauthorized",
    ]);
    for list in [
        "/admin/dead-letters",
        "/admin/dead-letters?of=orders",
        "/admin/dead-letters?of=orders/billing",
    ] {
        let page = person.open(list).await;
        page.expect(&[
            "UndeliverableDueToHttpUnauthorized",
            "401 Unauthorized",
            "billing",
        ]);
    }
    let other = person.open("/admin/dead-letters?of=orders/other").await;
    other.expect(&["&#34;orders/other&#34; is not a topic or event subscription."]);
    // What they are about together, and what leads to them.
    let all = person.open("/admin/dead-letters").await;
    all.expect(&[
        "By reason",
        "/admin/dead-letters?of=orders%2Fbilling&#38;reason=UndeliverableDueToHttpUnauthorized",
    ]);
    for (filter, finds) in [
        ("reason=UndeliverableDueToHttpUnauthorized", true),
        ("reason=TimeToLiveExceeded", false),
        ("outcome=Unauthorized&type=Example.*&subject=", true),
        ("outcome=Busy", false),
        ("outcome=Sunny", false),
        ("type=Other", false),
        ("text=CREATED", true),
        ("subject=nowhere", false),
    ] {
        let page = person.open(&format!("/admin/dead-letters?{filter}")).await;
        let found = page.body.contains("Select dead letter 1");
        assert_eq!(found, finds, "{filter}");
        page.expect(&["everpost dead-letters list --"]);
    }

    person.open("/admin/dead-letters/1").await.expect(&[
        "Resubmit",
        "What happened",
        "/admin/topics/orders",
        "Data",
    ]);
    let question = person.open("/admin/dead-letters/1/resubmit").await;
    question.expect(&["Resubmit dead letter 1?", "no other subscription gets it"]);
    let page = person.send("/admin/dead-letters/1/resubmit", &[]).await;
    page.expect(&["Dead letter 1 has been resubmitted as delivery 2."]);
    settle(&appliance, 2, DeliveryState::Delivered).await;
    person.open(&event).await.expect(&[
        "Resubmitted as <a href=\"/admin/events/1#delivery-2\">delivery 2</a>",
        "Resubmission of <a href=\"/admin/events/1#delivery-1\">delivery 1</a>",
        "Delivered",
    ]);
    let old = person.open("/admin/dead-letters/1").await;
    old.expect(&["Resubmitted as <a href=\"/admin/events/1#delivery-2\">delivery 2</a>"]);
    assert!(!old.body.contains("only a dead letter can"), "{}", old.body);
    person
        .open("/admin")
        .await
        .expect(&["The only subscription is healthy."]);
    let again = person.open("/admin/dead-letters/1/resubmit").await;
    assert_eq!(again.status, 409);
}

/// Whoever was not there when an event came, or had another filter, gets it by hand.
#[tokio::test(start_paused = true)]
async fn an_event_is_sent_to_a_subscription_that_has_not_got_it() {
    let (appliance, mut person) = with_subscription().await;
    let event = publish(&mut person).await;
    settle(&appliance, 1, DeliveryState::Delivered).await;
    let form = "/admin/topics/orders/new-subscription";
    for (name, types) in [("audit", "Example.Created"), ("picky", "Other")] {
        person.open(form).await;
        let fields = [
            ("name", name),
            ("endpointUrl", "https://shop.example/audit"),
            ("includedEventTypes", types),
        ];
        let made = person.send(form, &fields).await;
        made.expect(&["has been created."]);
    }
    let page = person.open(&event).await;
    page.expect(&["Not matched", "Send to audit"]);
    for has_it_or_will_not in ["Send to billing", "Send to picky"] {
        assert!(!page.body.contains(has_it_or_will_not), "{}", page.body);
    }
    let mut viewer = appliance.signed_in(Role::Viewer).await;
    let seen = viewer.open(&event).await;
    assert!(!seen.body.contains("Send to audit"), "{}", seen.body);

    let send = format!("{event}/send/audit");
    person
        .open(&send)
        .await
        .expect(&["Send event 1 to subscription audit?"]);
    let sent = person.send(&send, &[]).await;
    sent.expect(&["Delivery 2 of event 1 to audit has been made."]);
    settle(&appliance, 2, DeliveryState::Delivered).await;
    person.open(&send).await;
    let again = person.send(&send, &[]).await;
    let unmatched = person.open(&format!("{event}/send/picky")).await;
    for (rejected, problem) in [
        (again, "Audit has a delivery of event 1 already: 2"),
        (unmatched, "Event 1 would not go to picky now either"),
    ] {
        assert_eq!(rejected.status, StatusCode::CONFLICT);
        rejected.expect(&[problem]);
    }
    for account in appliance.broker.accounts().await.expect("accounts") {
        assert!(account.totals.balance(), "{account:?}");
        let verified = appliance.broker.verify(account.id).await;
        assert!(verified.expect("a count").agrees, "{account:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_subscription_keeps_what_comes_and_goes_on() {
    let (appliance, mut person) = with_subscription().await;
    let page = "/admin/topics/orders/subscriptions/billing";
    person.open(page).await.expect(&["Pause</button>"]);
    let paused = person.send(&format!("{page}/pause"), &[]).await;
    paused.expect(&["id=\"notice\"", "Resume</button>", "Paused"]);
    publish(&mut person).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let waiting = appliance.store.views.delivery(DeliveryId(1)).await;
    let waiting = waiting.expect("a read").expect("a delivery").row;
    assert_eq!(
        (waiting.state, waiting.attempts),
        (DeliveryState::Pending, 0)
    );
    let event = person.open("/admin/events/1").await;
    event.expect(&["Paused: nothing is sent"]);
    assert!(!event.body.contains("Retry now"), "{}", event.body);
    // From a page that was open before the pause.
    let csrf = [("csrf".to_owned(), person.hidden("csrf"))];
    let tried = person
        .send_bare("/admin/deliveries/1/retry-now", &csrf)
        .await;
    tried.expect(&["Nothing is sent: paused."]);
    person.open(page).await;
    let resumed = person.send(&format!("{page}/resume"), &[]).await;
    resumed.expect(&["is resumed.", "Pause</button>", "Active"]);
    settle(&appliance, 1, DeliveryState::Delivered).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_tells_when_the_next_one_is() {
    let (appliance, mut person) = with_subscription().await;
    appliance.webhooks.will_answer(503, "later", "");
    let event = publish(&mut person).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let page = person.open(&event).await;
    page.expect(&[
        "1 attempt of at most 30",
        "Attempt 2 in 3",
        "not available right now",
    ]);
    let page = person
        .open("/admin/topics/orders/subscriptions/billing")
        .await;
    page.expect(&[
        "503 Service Unavailable",
        "1 pending delivery",
        "11 12 h",
        "Ends after attempt 11, 1 d after publishing (time to live).",
    ]);
}

#[tokio::test(start_paused = true)]
async fn forms_say_by_the_field_what_is_wrong_and_keep_what_was_typed() {
    let (_appliance, mut person) = with_subscription().await;
    person.open("/admin/new-topic").await;
    let page = person
        .send("/admin/new-topic", &[("name", "a_b"), ("location", "moon")])
        .await;
    assert_eq!(page.status, 422);
    page.expect(&[
        "Only letters, digits and hyphens are allowed.",
        "href=\"#name\"",
        "value=\"moon\"",
    ]);
    let page = person
        .send(
            "/admin/new-topic",
            &[("name", "ORDERS"), ("location", "moon")],
        )
        .await;
    page.expect(&["There is a topic ORDERS already."]);

    let path = "/admin/topics/orders/new-subscription";
    person.open(path).await;
    let fields = [
        ("name", "audit"),
        ("endpointUrl", "ftp://x"),
        ("labels", "kept"),
    ];
    let page = person.send(path, &fields).await;
    assert_eq!(page.status, 422);
    page.expect(&[
        "Only http and https are supported",
        "href=\"#endpointUrl\"",
        "value=\"kept\"",
    ]);

    let path = "/admin/topics/orders/publish";
    person.open(path).await;
    let page = person
        .send(path, &[("events", "[{\"id\":\"kept\"}]")])
        .await;
    assert_eq!(page.status, 422);
    page.expect(&["Event 1", "kept"]);
}

#[tokio::test(start_paused = true)]
async fn secrets_are_shown_when_asked_for_and_not_before() {
    let (appliance, mut person) = with_subscription().await;
    let registry = appliance.broker.registry();
    let topic = registry.made_topics().next().expect("a topic");
    let keys = topic.topic.keys.as_ref().expect("keys");
    let key = keys.key1.reveal().to_owned();

    let page = person.open("/admin/topics/orders").await;
    assert!(!page.body.contains(&key));
    let page = person.send("/admin/topics/orders/keys", &[]).await;
    page.expect(&[&key]);
    person
        .open("/admin/topics/orders/keys/key1/regenerate")
        .await;
    let page = person
        .send("/admin/topics/orders/keys/key1/regenerate", &[])
        .await;
    page.expect(&[
        "key1 has been regenerated.",
        "Hide keys",
        "data-copy=\"key1\"",
    ]);
    assert!(
        !page.body.contains("data-copy=\"key2\""),
        "nobody asked for it"
    );
    let topic = appliance.broker.registry();
    let topic = topic.topics().find(|each| !each.topic.kind.is_built_in());
    let keys = topic
        .and_then(|each| each.topic.keys.as_ref())
        .expect("keys");
    page.expect(&[keys.key1.reveal()]);
    assert!(!page.body.contains(&key));

    let path = "/admin/topics/orders/subscriptions/billing";
    for page in [
        path.to_owned(),
        format!("{path}/edit"),
        "/admin/subscriptions".to_owned(),
    ] {
        let page = person.open(&page).await;
        assert!(!page.body.contains("hush"), "{}", page.path);
    }
    person.open(path).await;
    let page = person.send(&format!("{path}/url"), &[]).await;
    page.expect(&["https://shop.example/events?code=hush"]);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_changed_validated_and_deleted() {
    let (appliance, mut person) = with_subscription().await;
    let path = "/admin/topics/orders/subscriptions/billing";
    person.open(&format!("{path}/edit")).await;
    let page = person
        .send(
            &format!("{path}/edit"),
            &[
                ("includedEventTypes", "A\nB"),
                ("maxDeliveryAttempts", "3"),
                ("deadLetterDestination", "drop"),
            ],
        )
        .await;
    page.expect(&[
        "has been changed",
        "Event types A, B",
        "Max attempts 3 Time to live 1 d",
    ]);
    page.expect(&["On final failure Drop"]);

    let page = person.send(&format!("{path}/validate"), &[]).await;
    page.expect(&["Validation succeeded."]);

    let page = person.open(&format!("{path}/delete")).await;
    page.expect(&["are not sent to its endpoint any more"]);
    let page = person.send(&format!("{path}/delete"), &[]).await;
    assert_eq!(page.path, "/admin/topics/orders");
    page.expect(&[
        "Event subscription billing has been deleted.",
        "No subscriptions yet.",
    ]);

    let page = person.open("/admin/topics/orders/delete").await;
    page.expect(&["Delete topic orders?", "It has no event subscriptions."]);
    person
        .send("/admin/topics/orders/delete", &[])
        .await
        .expect(&["has been deleted"]);
    assert_eq!(appliance.broker.registry().made_topics().count(), 0);
    assert_eq!(person.open("/admin/topics/orders").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn events_are_found_by_what_is_known_of_them_and_paged() {
    let (appliance, mut person) = with_subscription().await;
    for _ in 0..51 {
        publish(&mut person).await;
    }
    settle(&appliance, 51, DeliveryState::Delivered).await;
    let first = person.open("/admin/events").await;
    first.expect(&["?before=2*\"", "Older"]);
    assert!(!first.body.contains("Newer</a>"));
    let last = person.open("/admin/events?before=2*").await;
    last.expect(&["/admin/events/1\"", "Newer</a>"]);
    assert!(!last.body.contains("Older"));

    for (query, found) in [
        ("type=Example.*", true),
        ("type=Example.Created&of=ORDERS", true),
        ("of=orders/billing&state=Delivered", true),
        ("state=Retrying", false),
        ("type=example.*", false),
        ("subject=/nobody*", false),
        ("text=EXAMPLE", true),
        ("text=nowhere", false),
        ("from=2027-01-15T08:00", true),
        ("to=2027-01-15T08:00", false),
        ("state=Unmatched", false),
        ("id=nobody", false),
    ] {
        let page = person.open(&format!("/admin/events?{query}")).await;
        assert_eq!(
            !page.body.contains("No events match this filter."),
            found,
            "{query}"
        );
        assert_eq!(page.status, 200, "{query}");
    }
    for (query, problem) in [
        (
            "of=nothing",
            "&#34;nothing&#34; is not a topic or event subscription.",
        ),
        (
            "state=sent",
            "&#34;sent&#34; is not a delivery status such as Pending.",
        ),
        (
            "from=yesterday",
            "is not a date and time such as 2026-11-21T06:40",
        ),
    ] {
        let page = person.open(&format!("/admin/events?{query}")).await;
        page.expect(&[problem, "aria-invalid"]);
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_fit_are_downloaded() {
    let (appliance, mut person) = with_subscription().await;
    for _ in 0..21 {
        publish(&mut person).await;
    }
    settle(&appliance, 21, DeliveryState::Delivered).await;
    let query = "of=orders%2Fbilling&state=Delivered";
    let page = person.open(&format!("/admin/events?{query}")).await;
    page.expect(&["/admin/events/export?of=orders%2Fbilling&#38;state=Delivered"]);
    let file = person.open(&format!("/admin/events/export?{query}")).await;
    let lines: Vec<Value> = file
        .body
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON on each line"))
        .collect();
    let keys: Vec<_> = lines.iter().map(|line| line["key"].as_i64()).collect();
    assert_eq!(keys, (1..=21).rev().map(Some).collect::<Vec<_>>());
    assert_eq!(lines[0]["eventType"], "Example.Created");
    assert!(lines[0]["data"].is_object());
    let nothing = person.open("/admin/events/export?text=nowhere").await;
    assert_eq!(
        (nothing.status, nothing.body.as_str()),
        (StatusCode::OK, "")
    );
    let rejected = person.open("/admin/events/export?from=yesterday").await;
    assert_eq!(rejected.status, 400);

    let mut viewer = appliance.signed_in(Role::Viewer).await;
    let page = viewer.open(&format!("/admin/events?{query}")).await;
    assert!(!page.body.contains("/admin/events/export"));
    assert_eq!(viewer.open("/admin/events/export").await.status, 403);
}

#[tokio::test(start_paused = true)]
async fn the_page_of_an_event_says_why_a_subscription_did_not_get_it() {
    let (appliance, mut person) = with_subscription().await;
    person.open("/admin/topics/orders/new-subscription").await;
    let fields = [
        ("name", "invoices"),
        ("endpointUrl", "https://shop.example/events"),
        ("maxDeliveryAttempts", "30"),
        ("subjectBeginsWith", "/invoices/<b>"),
    ];
    let created = person
        .send("/admin/topics/orders/new-subscription", &fields)
        .await;
    created.expect(&["Event subscription invoices has been created."]);
    let event = publish(&mut person).await;
    settle(&appliance, 1, DeliveryState::Delivered).await;
    appliance.clock.advance(std::time::Duration::from_secs(1));
    person.open("/admin/topics/orders/new-subscription").await;
    let fields = [
        ("name", "late"),
        ("endpointUrl", "https://shop.example/events"),
        ("maxDeliveryAttempts", "30"),
    ];
    person
        .send("/admin/topics/orders/new-subscription", &fields)
        .await;
    let page = person.open(&event).await;
    page.expect(&[
        "Matched</span>",
        "Not matched</span>",
        "Wanted: subject begins with",
        "/invoices/&#60;b&#62;",
        " after the event.",
    ]);
}

#[tokio::test(start_paused = true)]
async fn a_pasted_event_is_rejected_in_plain_words() {
    let (_appliance, mut person) = with_subscription().await;
    const PUBLISH: &str = "/admin/topics/orders/publish";
    for (events, message) in [
        ("", "Nothing is typed here"),
        ("[{\r\n\"id\" 1}]", "Line 2, column 6: a colon is expected"),
        (
            "{}",
            "A list in brackets, [ ] is expected here, and this is an object in braces, { }.",
        ),
        (
            "[1]",
            "Event 1: an object in braces, { } is expected here, and this is a number.",
        ),
    ] {
        person.open(PUBLISH).await;
        let page = person.send(PUBLISH, &[("events", events)]).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
        page.expect(&[message]);
        assert!(!page.body.contains("Unexpected token"), "{}", page.body);
    }
}
