//! The second factor: setting it up, signing in with it, and losing it.

use std::time::Duration;

use http::StatusCode;

use super::person::Person;
use super::{Appliance, NAME, PASSWORD};
use crate::model::one_time_code::Seed;
use crate::store::accounts::Role;

const STEP: Duration = Duration::from_secs(30);

/// Sets the second factor of whoever is signed in up; returns its seed and the recovery codes.
pub(super) async fn set_up(appliance: &Appliance, ann: &mut Person) -> (Seed, Vec<String>) {
    let offered = ann.open("/admin/account/second-factor").await;
    let picture = "src=\"data:image/svg+xml;base64,";
    offered.expect(&["<img class=\"qr\"", picture, "Turn on"]);
    let seed = Seed::parse(&ann.hidden("seed")).expect("a seed");
    let code = seed.code_at(appliance.clock.now());
    let fields = [("code", code.as_str()), ("own-password", PASSWORD)];
    let shown = ann.send("/admin/account/second-factor", &fields).await;
    shown.expect(&["Recovery codes"]);
    let codes = shown.body.split("data-copy=\"codes\">").nth(1);
    let codes = codes.and_then(|rest| rest.split("</code>").next());
    let codes: Vec<String> = codes
        .unwrap_or("")
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect();
    assert_eq!(codes.len(), 10);
    (seed, codes)
}

#[tokio::test(start_paused = true)]
async fn signing_in_takes_a_code_that_works_once() {
    let (appliance, mut ann) = Appliance::claimed().await;
    let (seed, _) = set_up(&appliance, &mut ann).await;
    let mut elsewhere = appliance.somebody();
    let shown = elsewhere.sign_in(NAME, PASSWORD).await;
    assert_eq!(shown.path, "/admin/login/code");
    let closed = elsewhere.open("/admin/topics").await;
    assert!(closed.path.starts_with("/admin/login"), "{}", closed.path);

    // The code that set it up is used up.
    let used = seed.code_at(appliance.clock.now());
    elsewhere.open("/admin/login/code").await;
    let rejected = elsewhere
        .send("/admin/login/code", &[("code", &used)])
        .await;
    assert_eq!(rejected.status, StatusCode::UNAUTHORIZED);
    appliance.clock.advance(STEP);
    let fresh = seed.code_at(appliance.clock.now());
    let shown = elsewhere
        .send("/admin/login/code", &[("code", &fresh)])
        .await;
    assert_eq!(shown.path, "/admin");

    let mut eve = appliance.somebody();
    eve.sign_in(NAME, PASSWORD).await;
    let replayed = eve.send("/admin/login/code", &[("code", &fresh)]).await;
    assert_eq!(replayed.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn a_recovery_code_works_once_however_it_is_typed() {
    let (appliance, mut ann) = Appliance::claimed().await;
    let (_, codes) = set_up(&appliance, &mut ann).await;
    let typed = codes[3].to_lowercase().replace('-', " ");
    let mut elsewhere = appliance.somebody();
    elsewhere.sign_in(NAME, PASSWORD).await;
    let shown = elsewhere
        .send("/admin/login/code", &[("code", &typed)])
        .await;
    assert_eq!(shown.path, "/admin");
    elsewhere
        .open("/admin/account")
        .await
        .expect(&["9 recovery codes left"]);
    let mut eve = appliance.somebody();
    eve.sign_in(NAME, PASSWORD).await;
    let rejected = eve.send("/admin/login/code", &[("code", &codes[3])]).await;
    assert_eq!(rejected.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn guessing_codes_is_slowed_down_and_the_password_does_not_help() {
    let (appliance, mut ann) = Appliance::claimed().await;
    set_up(&appliance, &mut ann).await;
    let mut eve = appliance.somebody();
    for _ in 0..5 {
        eve.sign_in(NAME, PASSWORD).await;
        let rejected = eve.send("/admin/login/code", &[("code", "000000")]).await;
        assert_eq!(rejected.status, StatusCode::UNAUTHORIZED);
    }
    eve.sign_in(NAME, PASSWORD).await;
    let rejected = eve.send("/admin/login/code", &[("code", "000000")]).await;
    assert_eq!(rejected.status, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test(start_paused = true)]
async fn the_password_is_not_remembered_for_long() {
    let (appliance, mut ann) = Appliance::claimed().await;
    let (seed, _) = set_up(&appliance, &mut ann).await;
    let mut late = appliance.somebody();
    late.sign_in(NAME, PASSWORD).await;
    appliance.clock.advance(Duration::from_secs(600));
    let code = seed.code_at(appliance.clock.now());
    let shown = late.send("/admin/login/code", &[("code", &code)]).await;
    assert_eq!(shown.path, "/admin/login");
    let without = late
        .send_bare(
            "/admin/login/code",
            &[("code".to_owned(), code.to_string())],
        )
        .await;
    assert_eq!(without.path, "/admin/login");
}

#[tokio::test(start_paused = true)]
async fn setting_up_and_switching_off_take_the_password() {
    let (appliance, mut ann) = Appliance::claimed().await;
    ann.open("/admin/account/second-factor").await;
    let seed = ann.hidden("seed");
    let parsed = Seed::parse(&seed).expect("a seed");
    let code = parsed.code_at(appliance.clock.now());
    for (code, password, problem) in [
        (code.as_str(), "guessed", "This is not your password."),
        ("000000", PASSWORD, "This is not the code"),
    ] {
        let fields = [("code", code), ("own-password", password)];
        let shown = ann.send("/admin/account/second-factor", &fields).await;
        assert_eq!(shown.status, StatusCode::UNPROCESSABLE_ENTITY);
        shown.expect(&[problem, &seed]);
    }
    set_up(&appliance, &mut ann).await;
    ann.open("/admin/account").await;
    let path = "/admin/account/second-factor/remove";
    let shown = ann.send(path, &[("own-password", "guessed")]).await;
    assert_eq!(shown.status, StatusCode::UNPROCESSABLE_ENTITY);
    let shown = ann.send(path, &[("own-password", PASSWORD)]).await;
    shown.expect(&["switched off"]);
    let mut elsewhere = appliance.somebody();
    assert_eq!(elsewhere.sign_in(NAME, PASSWORD).await.path, "/admin");
}

#[tokio::test(start_paused = true)]
async fn an_administrator_helps_whoever_has_lost_it() {
    let (appliance, mut ann) = Appliance::claimed().await;
    let mut viewer = appliance.signed_in(Role::Viewer).await;
    set_up(&appliance, &mut viewer).await;
    ann.open("/admin/users/2")
        .await
        .expect(&["Remove second factor"]);
    ann.send("/admin/users/2/remove-second-factor", &[]).await;
    let mut again = appliance.somebody();
    assert_eq!(again.sign_in("viewer", PASSWORD).await.path, "/admin");
}
