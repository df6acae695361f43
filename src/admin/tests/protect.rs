//! What every page has in common: headers, tokens, roles, errors.

use http::StatusCode;

use super::Appliance;
use crate::admin::registry::SITE_MAP;

/// A path that could be that of a page.
pub(crate) fn sample(path: &str) -> String {
    let path = path
        .replace("{topic}", "orders")
        .replace("{name}", "billing")
        .replace("{key}/regenerate", "key1/regenerate")
        .replace("{key}", "1")
        .replace("{id}", "1")
        .replace("{user}", "1")
        .replace("{token}", "1")
        .replace("{session}", "none");
    format!("/admin{}", path.trim_end_matches('/'))
}

#[tokio::test(start_paused = true)]
async fn every_form_needs_the_token() {
    let (_appliance, mut person) = Appliance::claimed().await;
    let token = |value: &str| ("csrf".to_owned(), value.to_owned());
    for page in &SITE_MAP.pages {
        let path = sample(page.path);
        for fields in [vec![], vec![token("")], vec![token("guessed")]] {
            let shown = person.send_bare(&path, &fields).await;
            let rejected = [StatusCode::FORBIDDEN, StatusCode::METHOD_NOT_ALLOWED];
            assert!(rejected.contains(&shown.status), "{path}: {}", shown.status);
        }
    }
    person.open("/admin").await.expect(&["Sign out"]);
}

#[tokio::test(start_paused = true)]
async fn another_site_cannot_send_forms() {
    let (_appliance, mut person) = Appliance::claimed().await;
    person.open("/admin").await;
    person.headers.push(("sec-fetch-site", "cross-site"));
    let shown = person.send("/admin/logout", &[]).await;
    assert_eq!(shown.status, StatusCode::FORBIDDEN);
    person.headers.pop();
    person.headers.push(("origin", "https://evil.example"));
    person.open("/admin").await;
    let shown = person.send("/admin/logout", &[]).await;
    assert_eq!(shown.status, StatusCode::FORBIDDEN);
    person.open("/admin").await.expect(&["Sign out"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_not_ours_opens_nothing() {
    let (_appliance, mut person) = Appliance::claimed().await;
    let style = crate::admin::assets::url("everpost.css");
    for (host, status) in [
        ("127.0.0.1:8080", StatusCode::OK),
        ("grid.lan:8080", StatusCode::OK),
        ("evil.example:8080", StatusCode::MISDIRECTED_REQUEST),
        ("192.168.1.5", StatusCode::MISDIRECTED_REQUEST),
    ] {
        person.headers = vec![("host", host)];
        for path in ["/admin", "/admin/login", "/admin/setup", "/admin/nowhere"] {
            let shown = person.get(path).await;
            let rejected = shown.status() == StatusCode::MISDIRECTED_REQUEST;
            assert_eq!(rejected, status != StatusCode::OK, "{host} {path}");
        }
        assert_eq!(person.get(&style).await.status(), StatusCode::OK, "{host}");
    }
    person.headers = vec![("host", "evil<b>.example")];
    let shown = person.open("/admin/topics").await;
    assert_eq!(shown.status, StatusCode::MISDIRECTED_REQUEST);
    shown.expect(&[
        "admin.hosts",
        "evil&#60;b&#62;.example",
        "href=\"http://127.0.0.1:8080/admin\"",
    ]);
    assert!(!shown.body.contains("Sign out"), "{}", shown.body);
}

#[tokio::test(start_paused = true)]
async fn every_answer_carries_the_headers() {
    let (appliance, mut person) = Appliance::claimed().await;
    let mut stranger = appliance.somebody();
    let style = crate::admin::assets::url("everpost.css");
    for path in [
        "/admin",
        "/admin/nowhere",
        "/admin/events/x",
        "/admin/login",
        &style,
    ] {
        for shown in [person.open(path).await, stranger.open(path).await] {
            let header = |name: &str| {
                let value = shown.headers.get(name);
                let value = value.unwrap_or_else(|| panic!("{path} has no {name}"));
                value.to_str().expect("a text").to_owned()
            };
            assert!(header("content-security-policy").starts_with("default-src 'none';"));
            assert_eq!(header("x-content-type-options"), "nosniff");
            assert_eq!(header("referrer-policy"), "no-referrer");
            assert_eq!(header("cross-origin-opener-policy"), "same-origin");
            assert_eq!(header("cross-origin-resource-policy"), "same-origin");
            match path == style {
                true => assert!(header("cache-control").contains("immutable")),
                false => assert_eq!(header("cache-control"), "no-store"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn files_are_sent_once() {
    let appliance = Appliance::unclaimed().await;
    let mut person = appliance.somebody();
    let style = crate::admin::assets::url("everpost.css");
    let first = person.open(&style).await;
    assert_eq!(
        first.headers.get("content-type").expect("a type"),
        "text/css; charset=utf-8"
    );
    let tag = first
        .headers
        .get("etag")
        .expect("a tag")
        .to_str()
        .expect("a text")
        .to_owned();
    person.headers.push(("if-none-match", tag.leak()));
    assert_eq!(person.open(&style).await.status, StatusCode::NOT_MODIFIED);
    for path in ["/admin/static/nothing.css", "/admin/static/..%2FCargo.toml"] {
        assert_eq!(
            person.open(path).await.status,
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_there_is_not_is_not_found() {
    let (_appliance, mut person) = Appliance::claimed().await;
    for path in [
        "/admin/nowhere",
        "/admin/topics/nothing",
        "/admin/topics/a_b",
        "/admin/topics/nothing/subscriptions/none",
        "/admin/events/1",
        "/admin/events/x",
        "/admin/events/99999999999999999999",
        "/admin/dead-letters/1",
        "/admin/dead-letters/x/resubmit",
    ] {
        let shown = person.open(path).await;
        assert_eq!(shown.status, StatusCode::NOT_FOUND, "{path}");
        shown.expect(&["Not found", "aria-label=\"Pages\""]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_answers_a_form_says_so_and_its_address_is_opened() {
    let (_appliance, mut person) = Appliance::claimed().await;
    const MARK: &str = "data-answers-form";
    let shown = person.open("/admin/new-topic").await;
    assert!(!shown.body.contains(MARK), "{}", shown.body);
    let shown = person.send("/admin/new-topic", &[("name", "a b")]).await;
    assert_eq!(shown.status, StatusCode::UNPROCESSABLE_ENTITY);
    shown.expect(&[MARK]);
    for path in [
        "/users/1/role",
        "/users/1/disable",
        "/users/1/enable",
        "/users/1/password-link",
        "/users/1/remove-second-factor",
        "/first-event/publish",
        "/first-event/fail",
        "/first-event/reject",
        "/first-event/repair",
        "/settings/try-url",
        "/system/count",
        "/system/check",
        "/system/test-connection",
        "/account/password",
        "/account/second-factor/remove",
    ] {
        let shown = person.open(&format!("/admin{path}")).await;
        assert_eq!(shown.status, StatusCode::OK, "{path}");
    }
}
