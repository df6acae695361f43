//! Rejections keep the navigation for whoever is signed in, and for nobody else.

use http::StatusCode;

use crate::admin::FORM_BYTES_MAX;
use crate::admin::tests::person::Shown;
use crate::admin::tests::{Appliance, NAME};
use crate::model::limits::PUBLISH_BYTES_MAX;
use crate::store::accounts::Role;

const NAVIGATION: &str = "<nav ";

/// Fails unless the error is in the frame and leads to `href`.
fn expect_framed(shown: &Shown, status: StatusCode, title: &str, href: &str) {
    assert_eq!(shown.status, status, "{}", shown.path);
    let link = format!("href=\"{href}\">Go ");
    shown.expect(&[
        &format!("<title>{title} · Everpost</title>"),
        NAVIGATION,
        "action=\"/admin/logout\"",
        &link,
    ]);
    assert_eq!(shown.headers["content-type"], "text/html; charset=utf-8");
}

#[tokio::test(start_paused = true)]
async fn rejections_are_in_the_frame_for_whoever_is_signed_in() {
    let (_appliance, mut ann) = Appliance::claimed().await;
    ann.open("/admin").await;
    for (path, status, title, href) in [
        (
            "/admin/nowhere",
            StatusCode::NOT_FOUND,
            "Not found",
            "/admin",
        ),
        (
            "/admin/events/1",
            StatusCode::NOT_FOUND,
            "Not found",
            "/admin/events",
        ),
        (
            "/admin/logout",
            StatusCode::METHOD_NOT_ALLOWED,
            "Not possible",
            "/admin",
        ),
        // What the framework rejects by itself looks the same.
        (
            "/admin/events?of=a&of=b",
            StatusCode::BAD_REQUEST,
            "Not understood",
            "/admin/events",
        ),
        (
            "/admin/topics/%ff",
            StatusCode::BAD_REQUEST,
            "Not understood",
            "/admin/topics",
        ),
    ] {
        let shown = ann.open(path).await;
        expect_framed(&shown, status, title, href);
    }
    let allowed = ann.open("/admin/logout").await;
    assert_eq!(allowed.headers["allow"], "POST");
}

#[tokio::test(start_paused = true)]
async fn a_rejected_form_leads_back_to_its_page() {
    let (_appliance, mut ann) = Appliance::claimed().await;
    let path = "/admin/users/1/end-sessions";
    let shown = ann.send_bare(path, &[]).await;
    expect_framed(
        &shown,
        StatusCode::FORBIDDEN,
        "Not carried out",
        "/admin/users",
    );
    shown.expect(&["href=\"/admin/users/1\">Go back"]);

    let long = "x".repeat(3 * PUBLISH_BYTES_MAX + FORM_BYTES_MAX);
    let path = "/admin/topics/orders/publish";
    let shown = ann.send_bare(path, &[("events".to_owned(), long)]).await;
    expect_framed(
        &shown,
        StatusCode::BAD_REQUEST,
        "Not understood",
        "/admin/topics",
    );
    shown.expect(&[
        "length limit exceeded",
        "href=\"/admin/topics/orders\">Go back",
    ]);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_is_told_who_can_help() {
    let (appliance, _ann) = Appliance::claimed().await;
    let mut viewer = appliance.signed_in(Role::Viewer).await;
    let shown = viewer.open("/admin/users").await;
    expect_framed(&shown, StatusCode::FORBIDDEN, "Not allowed", "/admin");
    shown.expect(&["the role admin", "An administrator can give it to you"]);
    assert!(
        !shown.body.contains(NAME),
        "no account but the own is named"
    );
}

#[tokio::test(start_paused = true)]
async fn strangers_see_no_navigation() {
    let (appliance, mut ann) = Appliance::claimed().await;
    let mut stranger = appliance.somebody();
    stranger.headers = vec![("host", "evil.example")];
    let shown = stranger.open("/admin/nowhere").await;
    assert_eq!(shown.status, StatusCode::MISDIRECTED_REQUEST);
    assert!(!shown.body.contains(NAVIGATION), "{}", shown.body);

    // What another site makes a browser send is rejected before anybody asks whose browser it is.
    ann.headers.push(("sec-fetch-site", "cross-site"));
    let shown = ann.send_bare("/admin/new-topic", &[]).await;
    assert_eq!(shown.status, StatusCode::FORBIDDEN);
    assert!(!shown.body.contains(NAVIGATION), "{}", shown.body);

    let mut stranger = appliance.somebody();
    let shown = stranger.open("/admin/theme").await;
    assert_eq!(shown.status, StatusCode::METHOD_NOT_ALLOWED);
    shown.expect(&["<title>Not possible · Everpost</title>"]);
    assert!(!shown.body.contains(NAVIGATION), "{}", shown.body);
}
