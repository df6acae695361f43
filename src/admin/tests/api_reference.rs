//! The pages about the API.

use serde_json::Value;

use super::*;

#[tokio::test(start_paused = true)]
async fn every_operation_of_the_document_has_a_page() {
    let (_appliance, mut ann) = Appliance::claimed().await;
    let list = ann.open("/admin/api").await;
    assert_eq!(list.status, 200);
    let paths = API_DOCUMENT["paths"].as_object().expect("paths");
    let operations = paths
        .values()
        .flat_map(|item| item.as_object().expect("an item").values());
    let ids = operations.filter_map(|operation| operation["operationId"].as_str());
    for id in ids.filter(|id| !id.ends_with("ByResourceId")) {
        let path = format!("/admin/api/{id}");
        assert!(
            list.body.contains(&format!("href=\"{path}\"")),
            "{id} is not listed"
        );
        let page = ann.open(&path).await;
        assert_eq!(page.status, 200, "{path}");
        assert!(page.body.contains("curl "), "{path} has no example");
        for rest in page.body.split("href=\"#schema-").skip(1) {
            let name = rest.split('"').next().expect("a name");
            assert!(
                page.body.contains(&format!("id=\"schema-{name}\"")),
                "{path}: {name}"
            );
        }
    }
    assert_eq!(ann.open("/admin/api/nothing").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_search_finds_what_has_all_words() {
    let (_appliance, mut ann) = Appliance::claimed().await;
    let found = ann.open("/admin/api?q=REPLAY+operator").await;
    assert!(found.body.contains("startReplay"), "{}", found.body);
    assert!(!found.body.contains("listReplays") && !found.body.contains("putTopic"));
    let nothing = ann.open("/admin/api?q=replay+nonsense").await;
    assert!(nothing.body.contains("No operation matches this search."));
}

#[tokio::test(start_paused = true)]
async fn a_page_tells_path_role_limits_and_example() {
    let (_appliance, mut ann) = Appliance::claimed().await;
    ann.open("/admin/api/putEventSubscription").await.expect(&[
        "PUT /topics/{topic}/eventSubscriptions/{name}",
        "resourceGroups/<wbr>{resourceGroupName}/<wbr>providers/",
        "<dd>admin</dd>",
        "whole number, from 1 to 30, 30 unless given",
        "Authorization: Bearer $TOKEN",
        "id=\"schema-AdvancedFilter\"",
    ]);
}

#[tokio::test(start_paused = true)]
async fn viewers_get_the_document_and_strangers_do_not() {
    let (appliance, _) = Appliance::claimed().await;
    let mut viewer = appliance.signed_in(Role::Viewer).await;
    let document = viewer.open("/admin/api/openapi.json").await;
    assert_eq!(document.status, 200);
    let parsed: Value = serde_json::from_str(&document.body).expect("JSON");
    assert_eq!(parsed, ***API_DOCUMENT);
    let stranger = appliance.somebody().open("/admin/api/openapi.json").await;
    assert!(
        stranger.path.starts_with("/admin/login"),
        "{}",
        stranger.path
    );
}
