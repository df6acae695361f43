//! Publishing what is like an event that is stored.

use http::StatusCode;

use super::Appliance;
use super::namespaces::put_shop_orders;
use crate::model::event::EventKey;
use crate::store::accounts::Role;
use crate::store::views::EventDetail;

async fn event(appliance: &Appliance, page: &str) -> EventDetail {
    let key = page.trim_start_matches("/admin/events/").parse();
    let found = appliance.store.views.event(EventKey(key.expect("a key")));
    found.await.expect("a store").expect("an event")
}

#[tokio::test(start_paused = true)]
async fn an_event_is_published_again_with_an_id_and_a_time_of_its_own() {
    let (appliance, mut person) = Appliance::claimed().await;
    let schemas = [
        ("grid", "EventGridSchema"),
        ("cloud", "CloudEventSchemaV1_0"),
        ("own", "CustomEventSchema"),
    ];
    for (topic, schema) in schemas {
        person.open("/admin/new-topic").await;
        let fields = [("name", topic), ("inputSchema", schema)];
        person.send_filled("/admin/new-topic", &fields).await;
    }
    put_shop_orders(&appliance).await;
    for topic in ["grid", "cloud", "own", "shop%2Forders"] {
        let path = format!("/admin/topics/{topic}/publish");
        person.open(&path).await;
        let first = person.send_filled(&path, &[]).await;
        let like = first.path.replace("/admin/events/", "?like=");
        first.expect(&["Publish a copy", &format!("href=\"{path}{like}\"")]);
        appliance.clock.advance(std::time::Duration::from_secs(60));

        let copy = person.open(&format!("{path}{like}")).await;
        assert_eq!(copy.status, StatusCode::OK, "{}", copy.body);
        let second = person.send_filled(&path, &[]).await;
        second.expect(&["1 event has been accepted."]);
        assert_ne!(second.path, first.path);
        let (first, second) = (
            event(&appliance, &first.path).await.stored.event,
            event(&appliance, &second.path).await.stored.event,
        );
        assert_eq!(second.event_type, first.event_type);
        assert_eq!(second.subject, first.subject);
        assert_eq!(second.data, first.data);
        assert_ne!(second.time, first.time, "{topic}");
        // Where in a custom event its id is, the mapping alone knows.
        assert_eq!(second.id == first.id, topic == "own", "{topic}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_events_of_the_topic_are_copied_and_only_by_who_may_publish() {
    let (appliance, mut person) = Appliance::claimed().await;
    for topic in ["grid", "other"] {
        person.open("/admin/new-topic").await;
        person
            .send_filled("/admin/new-topic", &[("name", topic)])
            .await;
    }
    person.open("/admin/topics/grid/publish").await;
    let page = person
        .send_filled("/admin/topics/grid/publish", &[])
        .await
        .path;
    let key = page.trim_start_matches("/admin/events/").to_owned();
    let copy = |topic: &str, key: &str| format!("/admin/topics/{topic}/publish?like={key}");
    let rejected = person.open(&copy("other", &key)).await;
    assert_eq!(rejected.status, StatusCode::NOT_FOUND);
    rejected.expect(&[&format!("There is no event {key} of the topic other.")]);
    for unknown in ["4711", "x", "-1"] {
        let rejected = person.open(&copy("grid", unknown)).await;
        assert_eq!(rejected.status, StatusCode::NOT_FOUND, "{unknown}");
    }

    let mut viewer = appliance.signed_in(Role::Viewer).await;
    assert!(!viewer.open(&page).await.body.contains("Publish a copy"));
    let rejected = viewer.open(&copy("grid", &key)).await;
    assert_eq!(rejected.status, StatusCode::FORBIDDEN);
}
