//! The page of the audit log.

use http::StatusCode;

use super::deliver::with_subscription;
use super::{Appliance, NAME};
use crate::store::accounts::Role;

#[tokio::test(start_paused = true)]
async fn entries_are_shown_with_what_they_changed_and_without_secrets() {
    let (appliance, mut ann) = with_subscription().await;
    appliance.add_user("bob", Role::Viewer).await;
    ann.open("/admin/users/2").await;
    let role = [("role", "operator")];
    ann.send("/admin/users/2/role", &role).await;
    let page = ann.open("/admin/activity").await;
    page.expect(&[
        "created event subscription billing of topic orders",
        "created user bob",
        "command line",
        "changed role of user bob",
        "href=\"/admin/topics/orders/subscriptions/billing\"",
        "Role viewer operator",
    ]);
    for secret in ["code=hush", "argon2"] {
        assert!(!page.body.contains(secret), "{secret}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_rejected_is_not_in_it() {
    let (_appliance, mut ann) = Appliance::claimed().await;
    ann.open("/admin/new-user").await;
    let nameless = [("name", ""), ("role", "viewer")];
    let rejected = ann.send("/admin/new-user", &nameless).await;
    assert_eq!(rejected.status, StatusCode::UNPROCESSABLE_ENTITY);
    ann.send_bare("/admin/new-user", &[]).await;
    let page = ann.open("/admin/activity").await;
    assert!(!page.body.contains("created user"), "{}", page.body);
}

#[tokio::test(start_paused = true)]
async fn the_page_filters_and_leads_to_older_entries() {
    let (_appliance, mut ann) = Appliance::claimed().await;
    for index in 0..60 {
        let name = format!("user{index}");
        ann.open("/admin/new-user").await;
        let fields = [("name", name.as_str()), ("role", "viewer")];
        ann.send("/admin/new-user", &fields).await;
    }
    let page = ann.open("/admin/activity").await;
    page.expect(&["user59", "rel=\"next\""]);
    assert!(!page.body.contains("user5&"), "the first ones are older");
    let next = page.body.split("href=\"/admin/activity?before=").nth(1);
    let next = next
        .and_then(|rest| rest.split('"').next())
        .expect("a link");
    let older = ann.open(&format!("/admin/activity?before={next}")).await;
    older.expect(&["signed in", "user0"]);
    let filtered = ann.open("/admin/activity?action=SignIn&actor=ann").await;
    filtered.expect(&["signed in"]);
    assert!(!filtered.body.contains("user59"), "{}", filtered.body);
    let filtered = ann
        .open("/admin/activity?targetKind=User&target=user7")
        .await;
    filtered.expect(&["created user user7"]);
    assert!(!filtered.body.contains("user59"), "{}", filtered.body);
    ann.open("/admin/activity?actor=nobody")
        .await
        .expect(&["No activity matches this filter."]);
    ann.open("/admin/activity?to=2020-01-01")
        .await
        .expect(&["No activity matches this filter."]);
    let wrong = ann.open("/admin/activity?from=yesterday").await;
    wrong.expect(&[
        "is not a date and time such as 2026-11-21T06:40.",
        "aria-invalid",
    ]);
    ann.open(&format!("/admin/activity?actor={NAME}"))
        .await
        .expect(&["user59"]);
}

#[tokio::test(start_paused = true)]
async fn entries_that_match_are_downloaded() {
    let (_appliance, mut ann) = with_subscription().await;
    let page = ann
        .open("/admin/activity?targetKind=Topic&target=orders")
        .await;
    page.expect(&["href=\"/admin/activity/export?targetKind=Topic&#38;target=orders\""]);
    let file = ann
        .open("/admin/activity/export?targetKind=Topic&target=orders")
        .await;
    let disposition = file.headers.get("content-disposition");
    assert!(disposition.is_some_and(|it| it == "attachment; filename=\"activity.ndjson\""));
    let lines: Vec<serde_json::Value> = file
        .body
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["sentence"], "Created topic orders");
    let wrong = ann.open("/admin/activity/export?from=yesterday").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
}
