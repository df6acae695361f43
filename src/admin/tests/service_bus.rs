//! A Service Bus topic from its form to the messages in its subscriptions.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use super::Appliance;
use crate::model::lease::Disposition;
use crate::model::name::{SubscriptionName, TopicName};
use crate::store::accounts::Role;

const TOPIC: &str = "/admin/service-bus-topics/Contracts.V1%2Fsales";
const LARGE: &str = "/admin/service-bus-topics/Contracts.V1%2Fsales/subscriptions/large.ones";

impl Appliance {
    /// Dead-letters the next message of the subscription `large.ones`.
    async fn dead_letter(&self) {
        let topic = TopicName::parse("contracts.v1/SALES").expect("a name");
        let name = SubscriptionName::parse("large.ones").expect("a name");
        let found = self.broker.service_bus_subscription(&topic, &name);
        let (_, subscription) = found.expect("the subscription");
        let dead = Disposition::DeadLetter(Arc::default());
        self.receive_from(&subscription, Some(dead)).await;
    }
}

#[tokio::test]
async fn a_topic_has_a_size_detects_duplicates_and_may_be_idle() {
    let (_appliance, mut ann) = Appliance::claimed().await;
    let form = "/admin/new-service-bus-topic";
    let page = ann.open(form).await;
    page.expect(&["value=\"1024\"", "Detect duplicates"]);
    let wrong = [
        ("name", "news"),
        ("maxSizeInMegabytes", "0"),
        ("autoDeleteOnIdle", "PT1M"),
    ];
    let page = ann.send_filled(form, &wrong).await;
    page.expect(&[
        "<a href=\"#maxSizeInMegabytes\">",
        "<a href=\"#autoDeleteOnIdle\">",
    ]);
    ann.open(form).await;
    let fields = [
        ("name", "news"),
        ("maxSizeInMegabytes", "5"),
        ("requiresDuplicateDetection", "on"),
        ("duplicateDetectionHistoryTimeWindow", "PT1M"),
        ("autoDeleteOnIdle", "P1D"),
    ];
    let page = ann.send_filled(form, &fields).await;
    page.expect(&["0 B of 5 MiB", "Dropped within 1 min", "When idle for 1 d"]);
    let edit = "/admin/service-bus-topics/news/edit";
    let page = ann.open(edit).await;
    page.expect(&["value=\"1 min\"", "value=\"1 d\""]);
    let fields = [
        ("duplicateDetectionHistoryTimeWindow", "PT2M"),
        ("autoDeleteOnIdle", ""),
    ];
    let page = ann.send_filled(edit, &fields).await;
    page.expect(&[
        "Topic news has been changed.",
        "Dropped within 2 min",
        "5 MiB",
    ]);
    assert!(!page.body.contains("When idle for"));
}

#[tokio::test(start_paused = true)]
async fn a_topic_gets_subscriptions_rules_and_messages() {
    let (appliance, mut ann) = Appliance::claimed().await;
    let list = ann.open("/admin/service-bus-topics").await;
    list.expect(&["No Service Bus topics yet.", "/admin/new-service-bus-topic"]);
    let form = "/admin/new-service-bus-topic";
    ann.open(form).await;
    let wrong = [("name", "two words"), ("defaultMessageTimeToLive", "soon")];
    let page = ann.send_filled(form, &wrong).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.expect(&[
        "<a href=\"#name\">",
        "<a href=\"#defaultMessageTimeToLive\">",
    ]);
    ann.open(form).await;
    let page = ann
        .send_filled(form, &[("name", "Contracts.V1/sales")])
        .await;
    page.expect(&[
        "Topic Contracts.V1/sales has been created.",
        "No subscriptions yet.",
    ]);
    assert_eq!(page.path, TOPIC);
    ann.open(form).await;
    let page = ann.send_filled(form, &[("name", "Contracts.V1")]).await;
    page.expect(&["<a href=\"#name\">", "would be above the other"]);

    let edit = format!("{TOPIC}/edit");
    ann.open(&edit).await;
    let page = ann.send_filled(&edit, &[("status", "SendDisabled")]).await;
    page.expect(&[
        "Topic Contracts.V1/sales has been changed.",
        "Sending disabled",
    ]);
    ann.open(&edit).await;
    ann.send_filled(&edit, &[("status", "Active")]).await;

    let form = format!("{TOPIC}/new-subscription");
    ann.open(&form).await;
    let page = ann
        .send_filled(&form, &[("filter", "sys.Label LIKE")])
        .await;
    page.expect(&["<a href=\"#name\">", "<a href=\"#filter\">"]);
    for (name, filter, shown) in [
        ("large.ones", "", "all messages"),
        ("all", "sys.Label LIKE '%'", "sys.Label LIKE &#39;%&#39;"),
    ] {
        ann.open(&form).await;
        let fields = [("name", name), ("filter", filter)];
        let page = ann.send_filled(&form, &fields).await;
        let said = format!("Subscription {name} has been created.");
        page.expect(&[&said, "$Default", shown, "Dead-lettered"]);
    }
    let form = format!("{LARGE}/new-rule");
    ann.open(&form).await;
    let fields = [
        ("name", "large"),
        ("sqlFilter.sqlExpression", "sys.Label ="),
    ];
    let page = ann.send_filled(&form, &fields).await;
    page.expect(&["<a href=\"#sqlFilter.sqlExpression\">"]);
    ann.open(&form).await;
    let fields = [
        ("name", "large"),
        ("filterType", "CorrelationFilter"),
        ("correlationFilter.label", "large"),
        ("action.sqlExpression", "SET size = 'L'"),
    ];
    let page = ann.send_filled(&form, &fields).await;
    page.expect(&[
        "Rule large has been created.",
        "label = &#34;large&#34;",
        "SET size",
    ]);
    let delete = format!("{LARGE}/rules/$Default/delete");
    ann.open(&delete).await.expect(&["Delete rule $Default?"]);
    ann.send(&delete, &[])
        .await
        .expect(&["Rule $Default has been deleted."]);
    let delete = format!("{LARGE}/rules/large/delete");
    ann.open(&delete).await.expect(&["It is the only rule"]);

    let send = format!("{TOPIC}/send");
    for subject in ["small", "large"] {
        ann.open(&send).await;
        let fields = [
            ("body", "{}"),
            ("subject", subject),
            ("messageId", subject),
            ("properties", "limit = 3\nname = \"3\""),
        ];
        let page = ann.send_filled(&send, &fields).await;
        page.expect(&[&format!("Message {subject} has been accepted.")]);
    }
    let page = ann.open(LARGE).await;
    page.expect(&["Rules", "/messages/"]);
    let number = page.body.split("/messages/").nth(1).expect("a message");
    let number: String = number.chars().take_while(char::is_ascii_digit).collect();
    let message = format!("{LARGE}/messages/{number}");
    let page = ann.open(&message).await;
    page.expect(&[
        "Contracts.V1/sales",
        "RuleName",
        "<code>size</code>",
        "&#34;L&#34;",
        "<code>limit</code></dt><dd><code>3</code>",
        "<code>name</code></dt><dd><code>&#34;3&#34;</code>",
        "Which rules the message matches",
        "<td class=\"pb\">Yes</td>",
        "label = &#34;large&#34;",
    ]);

    let edit = format!("{LARGE}/rules/large/edit");
    let form = ann.open(&edit).await;
    form.expect(&["SET size = &#39;L&#39;", "value=\"large\""]);
    let fields = [
        ("filterType", "SqlFilter"),
        ("sqlFilter.sqlExpression", "sys.Label LIKE 'l%'"),
        ("action.sqlExpression", ""),
    ];
    let page = ann.send_filled(&edit, &fields).await;
    page.expect(&["Rule large has been changed.", "sys.Label LIKE"]);
    ann.open(&edit).await;
    let other = [
        ("filterType", "CorrelationFilter"),
        ("correlationFilter.label", "small"),
    ];
    ann.send_filled(&edit, &other).await;
    let why = "Label is &#34;large&#34;, not &#34;small&#34;.";
    let no = "<td class=\"pb\">No</td>";
    ann.open(&message).await.expect(&[no, why]);
    let mut viewer = appliance.signed_in(Role::Viewer).await;
    let page = viewer.open(&message).await;
    page.expect(&[no]);
    assert!(!page.body.contains(why), "a viewer sees no values");
    ann.open(&edit).await;
    ann.send_filled(&edit, &fields).await;
    let trial = format!("{LARGE}/try-rule?rule=large");
    ann.open(&trial)
        .await
        .expect(&["matches 2 of the newest 3 messages"]);
    let trial = format!("{LARGE}/try-rule?sql=sys.Label%3D%27small%27&last=10");
    ann.open(&trial)
        .await
        .expect(&["matches 1 of the newest 3 messages"]);
    let page = ann.open(&format!("{LARGE}/try-rule?sql=a%3E&last=0")).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.expect(&["<a href=\"#last\">"]);

    appliance.dead_letter().await;
    let page = ann.open(TOPIC).await;
    page.expect(&[
        "2 subscriptions",
        "is-bad",
        "of=Contracts.V1%2Fsales%2Flarge.ones",
    ]);
    ann.open("/admin/service-bus-topics")
        .await
        .expect(&["Contracts.V1/sales", "is-bad"]);
    let dead = ann
        .open("/admin/dead-letters?of=Contracts.V1%2Fsales%2Flarge.ones")
        .await;
    dead.expect(&["large.ones"]);
    let activity = ann.open("/admin/activity").await;
    activity.expect(&[LARGE, TOPIC]);

    let keys = format!("{TOPIC}/keys");
    ann.open(TOPIC).await.expect(&["SharedAccessKey=KEY;"]);
    ann.send(&keys, &[])
        .await
        .expect(&["SharedAccessKeyName=key1;"]);

    for page in [&send, &edit, &trial, &format!("{TOPIC}/new-subscription")] {
        let status = viewer.open(page).await.status;
        assert_eq!(status, StatusCode::FORBIDDEN, "{page}");
    }
    for (page, absent) in [(LARGE, "New rule"), (TOPIC, "New subscription")] {
        let page = viewer.open(page).await;
        assert!(!page.body.contains(absent), "{absent}: {}", page.body);
    }

    let delete = format!("{LARGE}/delete");
    ann.open(&delete).await.expect(&[
        "Delete subscription large.ones?",
        "1 dead letter is dropped.",
    ]);
    let page = ann.send(&delete, &[]).await;
    page.expect(&["Subscription large.ones has been deleted."]);
    assert_eq!(page.path, TOPIC);
    let delete = format!("{TOPIC}/delete");
    ann.open(&delete).await.expect(&[
        "Delete topic Contracts.V1/sales?",
        "Also deleted: 1 subscription: all.",
    ]);
    let page = ann.send(&delete, &[]).await;
    page.expect(&["Topic Contracts.V1/sales has been deleted."]);
    assert_eq!(json!(page.path), json!("/admin/service-bus-topics"));
}

/// Each of these is something else that is not there.
#[tokio::test]
async fn pages_of_what_is_not_there_are_not_found() {
    let (_appliance, mut ann) = Appliance::claimed().await;
    ann.open("/admin/new-service-bus-topic").await;
    let form = "/admin/new-service-bus-topic";
    ann.send_filled(form, &[("name", "news")]).await;
    for path in [
        "/admin/topics/nothing",
        "/admin/queues/nothing",
        "/admin/queues/news",
        "/admin/service-bus-topics/nothing",
        "/admin/service-bus-topics/news/subscriptions/nothing",
        "/admin/access-rules/nothing",
        "/admin/access-rules/news%2Fnothing",
        "/admin/topics/news/delete",
    ] {
        let page = ann.open(path).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
    }
}
