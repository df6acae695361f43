//! Users, roles and sessions.

use http::StatusCode;

use super::person::{Person, Shown};
use super::protect::sample;
use super::{Appliance, NAME, PASSWORD};
use crate::admin::registry::SITE_MAP;
use crate::model::audit::Caller;
use crate::store::accounts::Role;

const ANOTHER: &str = "a very different password";

fn is_for_others(shown: &Shown) -> bool {
    shown.status == StatusCode::FORBIDDEN && shown.body.contains("This takes the role")
}

#[tokio::test(start_paused = true)]
async fn every_page_keeps_to_its_roles() {
    let (appliance, _ann) = Appliance::claimed().await;
    for role in Role::ALL {
        let mut person = appliance.signed_in(role).await;
        for page in SITE_MAP.pages.iter().filter(|page| page.path != "/logout") {
            let path = sample(page.path);
            let access = page.access;
            if page.path != "/live" {
                let read = person.open(&path).await;
                if read.status != StatusCode::METHOD_NOT_ALLOWED {
                    assert_eq!(is_for_others(&read), role < access.reads, "{role:?} {path}");
                }
            }
            // Without its token no form does anything, so that the walk goes on.
            let sent = person.send_bare(&path, &[]).await;
            if sent.status == StatusCode::METHOD_NOT_ALLOWED {
                continue;
            }
            assert_eq!(
                is_for_others(&sent),
                role < access.changes,
                "{role:?} {path}"
            );
            assert!(access.changes >= access.reads, "{path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_administrators_find_users_in_the_navigation() {
    let (appliance, mut ann) = Appliance::claimed().await;
    ann.open("/admin").await.expect(&["href=\"/admin/users\""]);
    let mut viewer = appliance.signed_in(Role::Viewer).await;
    let shown = viewer.open("/admin").await;
    assert!(!shown.body.contains("/admin/users"), "{}", shown.body);
}

/// Makes a user by the form, and returns the path of the link to pass on.
async fn invite(ann: &mut Person, name: &str, role: &str) -> String {
    ann.open("/admin/new-user").await;
    let fields = [("name", name), ("role", role)];
    let shown = ann.send("/admin/new-user", &fields).await;
    link_in(&shown)
}

fn link_in(shown: &Shown) -> String {
    let link = shown.body.split("http://127.0.0.1:8080").nth(1);
    let link = link.unwrap_or_else(|| panic!("no link:\n{}", shown.body));
    link.split('<').next().unwrap_or("").to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_new_user_chooses_a_password_by_a_link_that_works_once() {
    let (appliance, mut ann) = Appliance::claimed().await;
    let link = invite(&mut ann, "bob", "operator").await;
    ann.open("/admin/users").await.expect(&["bob", "Invited"]);
    let mut bob = appliance.somebody();
    let rejected = bob.sign_in("bob", "").await;
    assert_eq!(rejected.status, StatusCode::UNAUTHORIZED);

    bob.open(&link).await.expect(&["You sign in as <b>bob"]);
    let rejected = bob.send("/admin/password", &[("password", "short")]).await;
    assert_eq!(rejected.status, StatusCode::UNPROCESSABLE_ENTITY);
    let shown = bob.send("/admin/password", &[("password", ANOTHER)]).await;
    shown.expect(&["Your password is set. Sign in with it."]);
    let fields = [("password", ANOTHER)];
    let shown = bob.send_filled("/admin/login", &fields).await;
    assert_eq!(shown.path, "/admin", "{}", shown.body);
    let used = bob.open(&link).await;
    assert_eq!(used.status, StatusCode::FORBIDDEN);
    used.expect(&["This link does not work"]);
    ann.open("/admin/users").await.expect(&["Active"]);
}

#[tokio::test(start_paused = true)]
async fn a_link_ends_after_three_days_and_gives_way_to_a_newer_one() {
    let (appliance, mut ann) = Appliance::claimed().await;
    let first = invite(&mut ann, "bob", "viewer").await;
    ann.open("/admin/users/2").await;
    let second = link_in(&ann.send("/admin/users/2/password-link", &[]).await);
    let mut bob = appliance.somebody();
    assert_eq!(bob.open(&first).await.status, StatusCode::FORBIDDEN);
    assert_eq!(bob.open(&second).await.status, StatusCode::OK);
    let life = crate::broker::people::LINK_LIFE;
    appliance.clock.advance(life);
    assert_eq!(bob.open(&second).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test(start_paused = true)]
async fn guessing_links_is_slowed_down() {
    let (appliance, _ann) = Appliance::claimed().await;
    let by = &Caller::command_line(appliance.clock.now());
    let bob = appliance.people.add(by, "bob", Role::Viewer, None).await;
    let (_, link) = bob.expect("a new user");
    let link = link.expect("a link");
    let mut eve = appliance.somebody();
    eve.address = "192.0.2.1:443".parse().ok();
    for _ in 0..5 {
        let shown = eve.open("/admin/password?token=guessed").await;
        assert_eq!(shown.status, StatusCode::FORBIDDEN);
    }
    let shown = eve.open("/admin/password?token=guessed").await;
    assert_eq!(shown.status, StatusCode::TOO_MANY_REQUESTS);
    let mut bob = appliance.somebody();
    bob.address = "198.51.100.1:443".parse().ok();
    let path = format!("/admin/password?token={}", link.reveal());
    bob.open(&path).await.expect(&["Choose a password"]);
}

#[tokio::test(start_paused = true)]
async fn names_are_taken_once_and_judged() {
    let (_appliance, mut ann) = Appliance::claimed().await;
    for (name, role, problem) in [
        ("ANN", "viewer", "There is a user of that name already."),
        ("", "viewer", "It must have 1 to 64 characters"),
        ("bob", "root", "Choose one of the roles."),
    ] {
        ann.open("/admin/new-user").await;
        let fields = [("name", name), ("role", role)];
        let shown = ann.send("/admin/new-user", &fields).await;
        assert_eq!(shown.status, StatusCode::UNPROCESSABLE_ENTITY, "{name}");
        shown.expect(&[problem]);
    }
}

#[tokio::test(start_paused = true)]
async fn all_that_is_wrong_with_a_token_is_told_at_once() {
    let (_appliance, mut ann) = Appliance::claimed().await;
    let path = "/admin/new-token";
    for (days, problem) in [("0", "from 1 to 3650."), ("ten", "Enter a whole number.")] {
        ann.open(path).await;
        let fields = [("name", ""), ("role", "viewer"), ("days", days)];
        let rejected = ann.send(path, &fields).await;
        assert_eq!(rejected.status, StatusCode::UNPROCESSABLE_ENTITY);
        rejected.expect(&["href=\"#name\"", "1 to 64 characters", problem]);
    }
    let fields = [("name", "robot"), ("role", "viewer"), ("days", "")];
    ann.send(path, &fields).await.expect(&["evp_"]);
    ann.open(path).await;
    let taken = ann.send(path, &fields).await;
    assert_eq!(taken.status, StatusCode::UNPROCESSABLE_ENTITY);
    taken.expect(&["href=\"#name\""]);
}

#[tokio::test(start_paused = true)]
async fn the_last_administrator_stays_one() {
    let (appliance, mut ann) = Appliance::claimed().await;
    let last = "This is the last user with a password here and the role admin.";
    let operator = [("role", "operator")];
    ann.open("/admin/users/1").await;
    ann.send("/admin/users/1/role", &operator)
        .await
        .expect(&[last]);
    ann.open("/admin/users/1/delete").await;
    ann.send("/admin/users/1/delete", &[]).await.expect(&[last]);

    // Somebody who has not chosen a password yet is nobody to rely on.
    let link = invite(&mut ann, "bob", "admin").await;
    ann.open("/admin/users/1").await;
    ann.send("/admin/users/1/role", &operator)
        .await
        .expect(&[last]);
    let mut bob = appliance.somebody();
    bob.open(&link).await;
    bob.send("/admin/password", &[("password", ANOTHER)]).await;
    ann.open("/admin/users/1").await;
    let shown = ann.send("/admin/users/1/role", &operator).await;
    assert!(is_for_others(&shown), "ann is no administrator any more");
}

#[tokio::test(start_paused = true)]
async fn whoever_is_disabled_or_deleted_is_out_at_once() {
    let (appliance, mut ann) = Appliance::claimed().await;
    let mut viewer = appliance.signed_in(Role::Viewer).await;
    ann.open("/admin/users/2")
        .await
        .expect(&["viewer", "End session"]);
    ann.send("/admin/users/2/disable", &[])
        .await
        .expect(&["Disabled"]);
    assert!(viewer.open("/admin").await.path.starts_with("/admin/login"));
    let rejected = viewer.sign_in("viewer", PASSWORD).await;
    assert_eq!(rejected.status, StatusCode::UNAUTHORIZED);
    ann.open("/admin/users/2").await;
    ann.send("/admin/users/2/enable", &[])
        .await
        .expect(&["Active"]);
    assert_eq!(viewer.sign_in("viewer", PASSWORD).await.path, "/admin");

    ann.open("/admin/users/2/delete")
        .await
        .expect(&["1 session ends at once."]);
    ann.send("/admin/users/2/delete", &[]).await;
    assert!(viewer.open("/admin").await.path.starts_with("/admin/login"));
    let shown = ann.open("/admin/users/2").await;
    assert_eq!(shown.status, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn another_password_takes_the_present_one_and_ends_other_sessions() {
    let (appliance, mut ann) = Appliance::claimed().await;
    let mut elsewhere = appliance.somebody();
    elsewhere.sign_in(NAME, PASSWORD).await;
    ann.open("/admin/account").await.expect(&["End session"]);
    for (present, password, problem) in [
        ("guessed", ANOTHER, "This is not your password."),
        (PASSWORD, "short", "it must have 8 to 128"),
    ] {
        let fields = [("present", present), ("password", password)];
        let shown = ann.send("/admin/account/password", &fields).await;
        assert_eq!(shown.status, StatusCode::UNPROCESSABLE_ENTITY);
        shown.expect(&[problem]);
        ann.open("/admin/account").await;
    }
    let fields = [("present", PASSWORD), ("password", ANOTHER)];
    let shown = ann.send("/admin/account/password", &fields).await;
    shown.expect(&["Your password has been changed"]);
    assert!(!shown.body.contains("End session"), "{}", shown.body);
    assert!(
        elsewhere
            .open("/admin")
            .await
            .path
            .starts_with("/admin/login")
    );
    let rejected = elsewhere.sign_in(NAME, PASSWORD).await;
    assert_eq!(rejected.status, StatusCode::UNAUTHORIZED);
    assert_eq!(elsewhere.sign_in(NAME, ANOTHER).await.path, "/admin");
}

#[tokio::test(start_paused = true)]
async fn guessing_the_present_password_is_slowed_down() {
    let (_appliance, mut ann) = Appliance::claimed().await;
    let wrong = [("present", "guessed"), ("password", ANOTHER)];
    for _ in 0..5 {
        ann.open("/admin/account").await;
        let shown = ann.send("/admin/account/password", &wrong).await;
        assert_eq!(shown.status, StatusCode::UNPROCESSABLE_ENTITY);
    }
    ann.open("/admin/account").await;
    let shown = ann.send("/admin/account/password", &wrong).await;
    assert_eq!(shown.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(shown.headers["retry-after"], "1");
}

/// The paths of the buttons that end a session.
fn endings(shown: &Shown) -> Vec<String> {
    let actions = shown.body.split("action=\"").skip(1);
    let actions = actions.filter_map(|rest| rest.split('"').next());
    let ends = |action: &&str| action.ends_with("/end") && !action.ends_with("/sessions/end");
    actions.filter(ends).map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn sessions_are_seen_and_ended_by_their_user_and_by_administrators() {
    let (appliance, mut ann) = Appliance::claimed().await;
    let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
    let mut viewer = appliance.somebody();
    viewer.headers.push(("user-agent", firefox));
    appliance.add_user("vic", Role::Viewer).await;
    viewer.sign_in("vic", PASSWORD).await;
    let mut elsewhere = appliance.somebody();
    elsewhere.sign_in("vic", PASSWORD).await;

    let all = ann.open("/admin/sessions").await;
    all.expect(&["Firefox on Linux", "End 2 other sessions"]);
    let of_others = endings(&all);
    assert_eq!(of_others.len(), 2);
    let own = viewer.open("/admin/account").await;
    let own = endings(&own);
    assert_eq!(own.len(), 1, "the present one is not offered");
    viewer.send(&own[0], &[]).await.expect(&["has been ended"]);
    assert!(
        elsewhere
            .open("/admin")
            .await
            .path
            .starts_with("/admin/login")
    );

    // Nobody ends a session of somebody else as if it were their own.
    let anns = appliance.people.accounts();
    let anns = anns
        .sessions(None, 9, appliance.clock.now())
        .await
        .expect("sessions");
    let anns = anns
        .iter()
        .find(|row| row.user_name == NAME)
        .expect("ann's");
    viewer.open("/admin/account").await;
    let path = format!("/admin/account/sessions/{}/end", anns.id);
    let token = [("csrf".to_owned(), viewer.hidden("csrf"))];
    let rejected = viewer.send_bare(&path, &token).await;
    assert_eq!(rejected.status, StatusCode::NOT_FOUND);

    let mine = ann.open("/admin/sessions").await;
    let vics = endings(&mine);
    ann.send(&vics[0], &[]).await.expect(&["has been ended"]);
    assert!(viewer.open("/admin").await.path.starts_with("/admin/login"));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_ended_stays_ended() {
    let (appliance, _ann) = Appliance::claimed().await;
    let accounts = appliance.people.accounts();
    let now = appliance.clock.now();
    let rows = accounts.sessions(None, 9, now).await.expect("sessions");
    let id = rows[0].id.clone();
    let record = crate::store::accounts::SessionRecord {
        id: id.clone(),
        record: "{}".to_owned(),
        user: Some(rows[0].user),
        started_at: now,
        used_at: now,
        expires_at: rows[0].expires_at,
        address: None,
        browser: None,
    };
    accounts.delete_session(id.clone()).await.expect("ended");
    // A request that began before comes to its end.
    accounts.save_session(record).await.expect("saved");
    assert_eq!(accounts.session(id, now).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn all_other_sessions_end_at_once() {
    let (appliance, mut ann) = Appliance::claimed().await;
    let mut viewer = appliance.signed_in(Role::Viewer).await;
    let mut elsewhere = appliance.somebody();
    elsewhere.sign_in(NAME, PASSWORD).await;
    ann.open("/admin/account").await;
    let shown = ann.send("/admin/account/sessions/end", &[]).await;
    shown.expect(&["1 session has been ended."]);
    assert!(
        elsewhere
            .open("/admin")
            .await
            .path
            .starts_with("/admin/login")
    );
    assert_eq!(viewer.open("/admin").await.path, "/admin");
    ann.open("/admin/sessions").await;
    ann.send("/admin/sessions/end", &[]).await;
    assert!(viewer.open("/admin").await.path.starts_with("/admin/login"));
    assert_eq!(ann.open("/admin").await.path, "/admin");
}

#[tokio::test(start_paused = true)]
async fn viewers_do_not_see_what_events_carry() {
    let (appliance, mut ann) = Appliance::claimed().await;
    ann.open("/admin/new-topic").await;
    ann.send(
        "/admin/new-topic",
        &[
            ("name", "orders"),
            ("location", "local"),
            ("inputSchema", "EventGridSchema"),
        ],
    )
    .await;
    ann.open("/admin/topics/orders/publish").await;
    let events = r#"[{"id":"1","eventType":"T","subject":"s","eventTime":"2026-11-21T06:40:53Z",
        "dataVersion":"1","data":{"hush":"a private matter"}}]"#;
    ann.send("/admin/topics/orders/publish", &[("events", events)])
        .await;
    ann.open("/admin/events/1")
        .await
        .expect(&["a private matter"]);
    let mut viewer = appliance.signed_in(Role::Viewer).await;
    let shown = viewer.open("/admin/events/1?as=text").await;
    assert_eq!(shown.status, StatusCode::OK);
    assert!(!shown.body.contains("private"), "{}", shown.body);
    assert!(is_for_others(&viewer.open("/admin/events/1/data").await));
    let mut operator = appliance.signed_in(Role::Operator).await;
    operator
        .open("/admin/events/1")
        .await
        .expect(&["a private matter"]);
}
