//! The page of the system.

use http::StatusCode;

use super::Appliance;
use crate::base::Timestamp;
use crate::broker::diagnostics::ProcessFacts;
use crate::store::accounts::Role;

pub(crate) fn facts(now: Timestamp) -> ProcessFacts {
    ProcessFacts {
        version: "1.2.3",
        platform: "a system on a processor".to_owned(),
        sqlite: "3.99",
        started_at: now,
        places: vec![("Data directory", "/srv/<data>".to_owned())],
        licence: "MIT OR Apache-2.0",
        components: vec!["axum 0.8.9".to_owned()],
        component_licences: vec!["MIT".to_owned(), "Zlib".to_owned()],
    }
}

#[tokio::test(start_paused = true)]
async fn the_page_tells_how_things_stand() {
    let (appliance, mut person) = Appliance::claimed().await;
    appliance
        .clock
        .advance(std::time::Duration::from_secs(1_560));
    appliance.log.push("WARN something <i>happened</i>");
    let page = person.open("/admin/system").await;
    assert_eq!(page.status, StatusCode::OK);
    page.expect(&[
        "Everpost 1.2.3",
        "26 min",
        "/srv/&#60;data&#62;",
        "WARN something &#60;i&#62;happened&#60;/i&#62;",
        "Consistent",
        "Not checked since the start",
        "MIT OR Apache-2.0",
        "axum 0.8.9",
        "of 7",
        "2 of 5 checks passed, 3 not run.",
        "none since the start",
        "Not tested yet.",
        "one or more of MIT, Zlib",
    ]);
}

#[tokio::test(start_paused = true)]
async fn the_database_is_looked_through_and_counted_on_demand() {
    let (_appliance, mut person) = Appliance::claimed().await;
    person.open("/admin/system").await;
    let page = person.send("/admin/system/check", &[]).await;
    assert_eq!(page.path, "/admin/system#integrity");
    page.expect(&["Passed just now"]);
    let page = person.send("/admin/system/count", &[]).await;
    page.expect(&["Consistent", "recounted just now"]);
}

#[tokio::test(start_paused = true)]
async fn administrators_back_up_and_failures_are_shown() {
    let (appliance, mut person) = Appliance::claimed().await;
    let page = person.open("/admin/system").await;
    page.expect(&["every 24 h to", "Back up now…"]);
    person.open("/admin/system/back-up").await;
    for elsewhere in ["/etc", "/", "/var/../etc", "/gone", "s3://bucket/a"] {
        let page = person
            .send("/admin/system/back-up", &[("directory", elsewhere)])
            .await;
        page.expect(&["neither in nor below what the settings backup.dir and backup.allow name"]);
    }
    let page = person.send("/admin/system/back-up", &[]).await;
    assert_eq!(page.path, "/admin/system#backups");
    page.expect(&["The backup has started."]);
    tokio::task::yield_now().await; // it fails at once
    let page = person.open("/admin/system").await;
    page.expect(&["The last backup failed", "the database is in memory"]);
    let metrics = appliance.broker.metrics_text();
    assert!(
        metrics.contains("everpost_backup_failures_total 1"),
        "{metrics}"
    );

    let mut operator = appliance.signed_in(Role::Operator).await;
    let page = operator.open("/admin/system").await;
    page.expect(&["The last backup failed"]);
    assert!(!page.body.contains("Back up now"), "{}", page.body);
}

#[tokio::test(start_paused = true)]
async fn viewers_do_not_see_the_log() {
    let (appliance, _) = Appliance::claimed().await;
    let mut viewer = appliance.signed_in(Role::Viewer).await;
    let page = viewer.open("/admin/system").await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
    let mut operator = appliance.signed_in(Role::Operator).await;
    let page = operator.open("/admin/system").await;
    assert_eq!(page.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn administrators_take_a_bundle_and_that_is_audited() {
    let (appliance, mut person) = Appliance::claimed().await;
    appliance.log.push("INFO a line");
    person.open("/admin/system").await;
    let page = person.send("/admin/system/support-bundle", &[]).await;
    let disposition = page.headers.get("content-disposition");
    assert!(disposition.is_some_and(|it| it == "attachment; filename=\"everpost-support.json\""));
    let bundle: serde_json::Value = serde_json::from_str(&page.body).expect("JSON");
    assert_eq!(bundle["everpost"]["version"], "1.2.3");
    assert_eq!(bundle["settings"][3]["value"], "***");
    assert_eq!(bundle["log"][0], "INFO a line");
    assert!(bundle["schema"]["version"].as_i64() > Some(0), "{bundle}");
    let activity = person.open("/admin/activity").await;
    activity.expect(&["created support bundle"]);

    let mut operator = appliance.signed_in(Role::Operator).await;
    let page = operator.open("/admin/system").await;
    assert!(!page.body.contains("Support bundle"), "{}", page.body);
}

#[tokio::test(start_paused = true)]
async fn administrators_test_a_connection_and_everybody_sees_the_result() {
    let (appliance, mut person) = Appliance::claimed().await;
    person.open("/admin/system").await;
    let url = "https://hooks.example.com/in?code=secret-of-the-hook";
    let page = person
        .send("/admin/system/test-connection", &[("url", url)])
        .await;
    assert_eq!(page.status, StatusCode::OK);
    let came_of_it = [
        "Tested 20",
        "<code>https://hooks.example.com</code>",
        "nothing leaves it",
    ];
    page.expect(&came_of_it);
    let page = person
        .send("/admin/system/test-connection", &[("url", "hooks")])
        .await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.expect(&["href=\"#url\"", "Enter a whole URL", "value=\"hooks\""]);
    let page = person.send("/admin/system/support-bundle", &[]).await;
    assert!(!page.body.contains("secret-of-the-hook"), "{}", page.body);
    let bundle: serde_json::Value = serde_json::from_str(&page.body).expect("JSON");
    let outbound_check = &bundle["system"]["wayOut"];
    assert_eq!(outbound_check["place"], "https://hooks.example.com");
    assert_eq!(outbound_check["verdict"], "Inside");
    assert_eq!(bundle["system"]["connectionsMax"], 7);
    assert_eq!(bundle["system"]["commitTimes"]["commits"], 0);

    let mut operator = appliance.signed_in(Role::Operator).await;
    let page = operator.open("/admin/system").await;
    page.expect(&came_of_it);
    assert!(!page.body.contains("URL to test"), "{}", page.body);
}
