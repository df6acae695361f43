//! Claiming, signing in and out, and how long that lasts.

use std::time::Duration;

use http::StatusCode;

use super::{Appliance, NAME, PASSWORD};
use crate::admin::registry::SITE_MAP;
use crate::broker::people::PeopleError;
use crate::model::audit::Caller;

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes * 60)
}

#[tokio::test(start_paused = true)]
async fn an_unclaimed_appliance_shows_nothing_but_the_way_in() {
    let appliance = Appliance::unclaimed().await;
    let mut person = appliance.somebody();
    for path in SITE_MAP
        .pages
        .iter()
        .map(|page| format!("/admin{}", page.path.trim_end_matches('/')))
    {
        let shown = person.open(&path).await;
        assert_eq!(shown.status, StatusCode::FORBIDDEN, "{path}");
        shown.expect(&["setup-url"]);
    }
    person.open("/admin/login").await.expect(&["setup-url"]);
    for path in [
        "/admin/setup",
        "/admin/setup?token=",
        "/admin/setup?token=guessed",
    ] {
        person.open(path).await.expect(&["This link does not work"]);
    }
    let fields = [("token", "guessed"), ("name", NAME), ("password", PASSWORD)];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let shown = person.send_bare("/admin/setup", &fields).await;
    assert_eq!(shown.status, StatusCode::FORBIDDEN);
    assert!(
        !appliance
            .store
            .accounts
            .is_claimed()
            .await
            .expect("an answer")
    );
}

#[tokio::test(start_paused = true)]
async fn the_link_makes_one_account_and_signs_in() {
    let appliance = Appliance::unclaimed().await;
    let mut person = appliance.somebody();
    let link = appliance.setup.path();
    person
        .open(&link)
        .await
        .expect(&["Create the administrator’s account"]);
    let shown = person
        .send("/admin/setup", &[("name", NAME), ("password", "short")])
        .await;
    assert_eq!(shown.status, StatusCode::UNPROCESSABLE_ENTITY);
    shown.expect(&["it must have 8 to 128", "value=\"ann\""]);
    let shown = person
        .send("/admin/setup", &[("name", NAME), ("password", PASSWORD)])
        .await;
    assert_eq!(shown.path, "/admin");
    shown.expect(&["Overview", "ann"]);
    appliance.people.added().await;

    let mut late = appliance.somebody();
    let page = late.open(&link).await;
    assert_eq!(page.status.as_u16(), 410);
    page.expect(&["This link has been used", "/admin/login"]);
}

#[tokio::test(start_paused = true)]
async fn the_link_ends_after_half_an_hour() {
    let appliance = Appliance::unclaimed().await;
    let mut person = appliance.somebody();
    person.open(&appliance.setup.path()).await;
    appliance.clock.advance(minutes(30));
    let shown = person
        .send("/admin/setup", &[("name", NAME), ("password", PASSWORD)])
        .await;
    shown.expect(&["This link does not work"]);
}

#[tokio::test]
async fn an_account_from_the_configuration_is_the_first_or_none() {
    let appliance = Appliance::unclaimed().await;
    let people = &appliance.people;
    let rejected = people
        .claim(Caller::command_line(people.now()), "ann", "short")
        .await;
    assert!(
        matches!(rejected, Err(PeopleError::Password(_))),
        "{rejected:?}"
    );
    let rejected = people
        .claim(Caller::command_line(people.now()), " a", PASSWORD)
        .await;
    assert!(
        matches!(rejected, Err(PeopleError::Name(_))),
        "{rejected:?}"
    );
    assert!(
        people
            .claim(Caller::command_line(people.now()), NAME, PASSWORD)
            .await
            .expect("made")
            .is_some()
    );
    assert_eq!(
        people
            .claim(Caller::command_line(people.now()), "bob", PASSWORD)
            .await,
        Ok(None)
    );
}

#[tokio::test(start_paused = true)]
async fn signing_in_leads_to_the_page_that_was_asked_for() {
    let (appliance, _) = Appliance::claimed().await;
    let mut person = appliance.somebody();
    let shown = person.open("/admin/events?type=A*").await;
    assert_eq!(
        shown.path,
        "/admin/login?next=%2Fadmin%2Fevents%3Ftype%3DA*"
    );
    for (name, password) in [(NAME, "wrong password"), ("nobody", PASSWORD), ("", "")] {
        let shown = person
            .send("/admin/login", &[("name", name), ("password", password)])
            .await;
        assert_eq!(shown.status, StatusCode::UNAUTHORIZED);
        shown.expect(&["Name or password is wrong."]);
    }
    let shown = person
        .send("/admin/login", &[("name", "ANN"), ("password", PASSWORD)])
        .await;
    assert_eq!(shown.path, "/admin/events?type=A*");
    assert_eq!(person.open("/admin/login").await.path, "/admin");
}

#[tokio::test(start_paused = true)]
async fn the_login_form_needs_its_token() {
    let (appliance, _) = Appliance::claimed().await;
    let mut person = appliance.somebody();
    let fields = [("name", NAME), ("password", PASSWORD), ("csrf", "guessed")];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(
        person.send_bare("/admin/login", &fields).await.status,
        StatusCode::FORBIDDEN
    );
    person.open("/admin/login").await;
    assert_eq!(
        person.send_bare("/admin/login", &fields).await.status,
        StatusCode::FORBIDDEN
    );
}

#[tokio::test(start_paused = true)]
async fn guessing_is_slowed_down() {
    let (appliance, _) = Appliance::claimed().await;
    let mut person = appliance.somebody();
    person.open("/admin/login").await;
    let wrong = [("name", NAME), ("password", "wrong password")];
    for _ in 0..5 {
        let shown = person.send("/admin/login", &wrong).await;
        assert_eq!(shown.status, StatusCode::UNAUTHORIZED);
    }
    let right = [("name", NAME), ("password", PASSWORD)];
    let shown = person.send("/admin/login", &right).await;
    assert_eq!(shown.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(shown.headers.get("retry-after").expect("a header"), "1");
    appliance.clock.advance(Duration::from_secs(1));
    let shown = person.send("/admin/login", &right).await;
    assert_eq!(shown.path, "/admin");
}

#[tokio::test(start_paused = true)]
async fn where_too_many_sign_in_the_next_one_is_told_to_come_back() {
    let (appliance, _) = Appliance::claimed().await;
    let crowd = appliance.people.crowd().await;
    let mut person = appliance.somebody();
    let shown = person.sign_in(NAME, PASSWORD).await;
    assert_eq!(shown.status, StatusCode::SERVICE_UNAVAILABLE);
    let said = "Try again in a moment: too many people are signing in.";
    shown.expect(&[said, "value=\"ann\""]);
    drop(crowd);
    let right = [("name", NAME), ("password", PASSWORD)];
    let shown = person.send("/admin/login", &right).await;
    assert_eq!(shown.path, "/admin");
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_when_idle_and_in_any_case_after_twelve_hours() {
    let (appliance, mut person) = Appliance::claimed().await;
    for _ in 0..24 {
        appliance.clock.advance(minutes(29));
        assert_eq!(person.open("/admin").await.path, "/admin");
    }
    appliance.clock.advance(minutes(24)); // 12 h since the start
    let ended = person.open("/admin").await;
    assert_eq!(ended.path, "/admin/login?news=session-ended");
    ended.expect(&["Your session has ended. Sign in to go on where you were."]);

    let (appliance, mut person) = Appliance::claimed().await;
    appliance.clock.advance(minutes(30));
    let ended = person.open("/admin/topics").await;
    assert_eq!(
        ended.path,
        "/admin/login?news=session-ended&next=%2Fadmin%2Ftopics"
    );
}

#[tokio::test(start_paused = true)]
async fn signing_out_ends_the_session_for_every_holder_of_the_cookie() {
    let (appliance, mut person) = Appliance::claimed().await;
    let mut thief = appliance.somebody();
    thief.take_cookies(&person);
    assert_eq!(thief.open("/admin/topics").await.path, "/admin/topics");
    person.open("/admin").await;
    let out = person.send("/admin/logout", &[]).await;
    out.expect(&["You are signed out."]);
    let late = person.send_bare("/admin/new-topic", &[]).await;
    late.expect(&["what you sent was not carried out"]);
    assert_eq!(
        thief.open("/admin/topics").await.path,
        "/admin/login?news=session-ended&next=%2Fadmin%2Ftopics"
    );
}

#[tokio::test(start_paused = true)]
async fn signing_in_gives_a_new_id_which_the_database_does_not_know() {
    let (appliance, person) = Appliance::claimed().await;
    let first = person
        .cookies()
        .get("everpost_session")
        .expect("a session")
        .clone();
    let mut other = appliance.somebody();
    other.take_cookies(&person);
    other.open("/admin").await;
    other.send("/admin/logout", &[]).await;
    other.open("/admin/login").await;
    other
        .send("/admin/login", &[("name", NAME), ("password", PASSWORD)])
        .await;
    let second = other
        .cookies()
        .get("everpost_session")
        .expect("a session")
        .clone();
    assert_ne!(first, second);
    let now = appliance.clock.now();
    let by_cookie = appliance.store.accounts.session(second, now).await;
    assert_eq!(by_cookie.expect("an answer"), None);
}

#[tokio::test(start_paused = true)]
async fn behind_tls_the_cookie_is_tied_to_the_host() {
    let appliance = Appliance::at("https://events.example.com").await;
    let mut person = appliance.somebody();
    person.open(&appliance.setup.path()).await;
    person
        .send("/admin/setup", &[("name", NAME), ("password", PASSWORD)])
        .await;
    let names: Vec<&str> = person.cookies().keys().map(String::as_str).collect();
    assert_eq!(names, ["__Host-everpost_session"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_in_the_address_is_filled_in_escaped_and_cut() {
    let (appliance, _) = Appliance::claimed().await;
    let mut person = appliance.somebody();
    let shown = person.open("/admin/login?name=%22%3E%3Cb%3E").await;
    shown.expect(&["value=\"&#34;&#62;&#60;b&#62;\""]);
    let long = "x".repeat(65);
    let shown = person.open(&format!("/admin/login?name={long}")).await;
    shown.expect(&[&format!("value=\"{}\"", &long[1..])]);
}
