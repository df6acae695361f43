//! The password is asked for again before secrets are shown and rights change.

use std::time::Duration;

use http::StatusCode;

use super::PASSWORD;
use super::deliver::with_subscription;
use crate::admin::registry::SITE_MAP;
use crate::admin::security::password_again::CONFIRMED_FOR;
use crate::store::accounts::Role;

const KEYS: &str = "/admin/topics/orders/keys";
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn keys_are_shown_to_who_types_the_password_again() {
    let (appliance, mut ann) = with_subscription().await;
    appliance.clock.advance(CONFIRMED_FOR - SECOND);
    ann.open("/admin/topics/orders").await;
    ann.send(KEYS, &[]).await.expect(&["Hide keys"]);
    appliance.clock.advance(SECOND);
    ann.open("/admin/topics/orders").await;
    let asked = ann.send(KEYS, &[]).await;
    assert_eq!(asked.status, StatusCode::FORBIDDEN);
    asked.expect(&["Confirm your password", "15 minutes"]);
    assert!(!asked.body.contains("Hide keys"));
    let wrong = ann.send(KEYS, &[("own-password", "guessed")]).await;
    assert_eq!(wrong.status, StatusCode::FORBIDDEN);
    wrong.expect(&["This is not your password."]);
    let right = [("own-password", PASSWORD)];
    ann.send(KEYS, &right).await.expect(&["Hide keys"]);
    appliance.clock.advance(CONFIRMED_FOR - SECOND);
    ann.open("/admin/topics/orders").await;
    ann.send(KEYS, &[]).await.expect(&["Hide keys"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_typed_before_is_not_lost() {
    let (appliance, mut ann) = with_subscription().await;
    appliance.clock.advance(CONFIRMED_FOR);
    ann.open("/admin/new-user").await;
    let fields = [("name", "b<o>b"), ("role", "operator")];
    ann.send("/admin/new-user", &fields)
        .await
        .expect(&["Confirm your password", "b&#60;o&#62;b"]);
    let users = appliance.people.accounts().users().await;
    assert_eq!(users.expect("users").len(), 1);
    // The page holds the fields; a browser sends those that are hidden along.
    let made = ann.send("/admin/new-user", &[("own-password", PASSWORD)]);
    made.await.expect(&["/admin/password?token="]);
    let users = appliance.people.accounts().users().await;
    assert_eq!(users.expect("users")[1].role, Role::Operator);
}

#[tokio::test(start_paused = true)]
async fn guessing_it_is_slowed_and_needs_a_form_of_ours() {
    let (appliance, mut ann) = with_subscription().await;
    appliance.clock.advance(CONFIRMED_FOR);
    let foreign = [("own-password".to_owned(), PASSWORD.to_owned())];
    let rejected = ann.send_bare(KEYS, &foreign).await;
    rejected.expect(&["The form was too old"]);
    ann.open("/admin/topics/orders").await;
    ann.send(KEYS, &[]).await;
    for _ in 0..5 {
        ann.send(KEYS, &[("own-password", "guessed")])
            .await
            .expect(&["This is not your password."]);
    }
    let slowed = ann.send(KEYS, &[("own-password", PASSWORD)]).await;
    assert_eq!(slowed.status, StatusCode::TOO_MANY_REQUESTS);
}

#[test]
fn every_form_that_shows_secrets_or_gives_rights_asks() {
    let is_sensitive = |path: &str| {
        let by_itself = path.starts_with("/users/{user}/") && !path.ends_with("/end-sessions");
        let of_tokens = path.starts_with("/tokens/") || path == "/new-token";
        by_itself
            || of_tokens
            || path == "/new-user"
            || ["/new-access-rule", "/access-rules/{rule}/edit"].contains(&path)
            || path.contains("/keys")
            || path.ends_with("/url")
    };
    for page in &SITE_MAP.pages {
        assert_eq!(page.asks_again, is_sensitive(page.path), "{}", page.path);
    }
}
