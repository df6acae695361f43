//! The built-in topics in the pages: subscribed to like others, and nothing else.

use http::StatusCode;

use super::Appliance;

#[tokio::test(start_paused = true)]
async fn they_are_marked_and_only_subscribed_to() {
    let (_appliance, mut person) = Appliance::claimed().await;
    let list = person.open("/admin/topics").await;
    list.expect(&[
        "No topics yet.",
        "dead-letter-storage",
        "everpost-system",
        "Built in",
    ]);
    let overview = person.open("/admin").await;
    overview.expect(&["New topic"]);
    assert!(!overview.body.contains("everpost-system"));

    let path = "/admin/topics/everpost-system";
    let page = person.open(path).await;
    page.expect(&[
        "Built in",
        "alone publishes to this topic",
        "New subscription",
    ]);
    for absent in ["/publish", "/delete", "Show keys", "aeg-sas-key"] {
        assert!(!page.body.contains(absent), "{absent}");
    }
    for action in ["delete", "publish", "keys/key1/regenerate"] {
        let page = person.open(&format!("{path}/{action}")).await;
        assert_eq!(page.status, StatusCode::CONFLICT, "{action}");
        page.expect(&["built in"]);
    }

    person.open("/admin/new-topic").await;
    let zoo = [
        ("name", "zoo"),
        ("location", "local"),
        ("inputSchema", "EventGridSchema"),
    ];
    person.send("/admin/new-topic", &zoo).await;
    let list = person.open("/admin/topics").await;
    let place = |text: &str| list.body.find(text).expect(text);
    assert!(place("/admin/topics/zoo") < place("/admin/topics/dead-letter-storage"));
    for path in [
        "/admin/subscriptions?text=x",
        "/admin/events?text=x",
        "/admin/playground/convert",
    ] {
        let page = person.open(path).await;
        let place = |name: &str| page.body.find(&format!("value=\"{name}\"")).expect(name);
        assert!(place("zoo") < place("dead-letter-storage"), "{path}");
    }

    let fields = [
        ("name", "ops"),
        ("endpointUrl", "https://ops.example/"),
        ("skipValidation", "on"),
    ];
    person.open(&format!("{path}/new-subscription")).await;
    let page = person
        .send(&format!("{path}/new-subscription"), &fields)
        .await;
    page.expect(&["everpost-system", "ops"]);
    let list = person.open("/admin/topics").await;
    list.expect(&["zoo"]);
}
