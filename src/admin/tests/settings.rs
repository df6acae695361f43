//! The page of settings.

use http::StatusCode;

use super::Appliance;
use crate::admin::pages::settings::{GROUPS, belongs};
use crate::app::config::KEYS;
use crate::store::accounts::Role;

#[test]
fn every_setting_has_its_place_on_the_page() {
    for key in KEYS {
        let groups = GROUPS.iter().filter(|(_, all)| belongs(key.name, all));
        assert_eq!(groups.count(), 1, "{}", key.name);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_in_force_is_shown_with_its_origin() {
    let (_appliance, mut person) = Appliance::claimed().await;
    let page = person.open("/admin/settings").await;
    assert_eq!(page.status, StatusCode::OK);
    page.expect(&[
        "/srv/everpost.toml",
        "No configuration file yet",
        "title=\"&#60;b&#62;\"",
        "Set by --listen",
        "title=\"***\"",
        "Not set",
        "Publishing",
        "In words",
        "All 6 Changed 3",
        "Public addresses Allowed",
        "everpost config show --origin",
    ]);
}

#[tokio::test(start_paused = true)]
async fn what_differs_from_its_default_is_shown_alone() {
    let (_appliance, mut person) = Appliance::claimed().await;
    let page = person.open("/admin/settings?show=changed").await;
    page.expect(&["id=\"setting-listen\"", "id=\"setting-management.token\""]);
    for default in ["publish.bytes_max", "public_url"] {
        assert!(
            !page.body.contains(&format!("setting-{default}")),
            "{default}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn operators_try_urls_and_viewers_do_not() {
    let (appliance, mut person) = Appliance::claimed().await;
    person.open("/admin/settings").await;
    let fields = [(
        "url",
        "https://hooks.example.com/in?code=secret-of-the-hook",
    )];
    let page = person.send("/admin/settings/try-url", &fields).await;
    page.expect(&[
        "Allowed",
        "<code>https://hooks.example.com</code>",
        "nothing leaves it",
    ]);
    let page = person
        .send("/admin/settings/try-url", &[("url", "mailto:ann")])
        .await;
    page.expect(&["<code>mailto:</code>"]);
    let page = person
        .send("/admin/settings/try-url", &[("url", "hooks")])
        .await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.expect(&["href=\"#url\"", "Enter a whole URL", "value=\"hooks\""]);

    let mut operator = appliance.signed_in(Role::Operator).await;
    operator
        .open("/admin/settings")
        .await
        .expect(&["URL to test"]);
    let mut viewer = appliance.signed_in(Role::Viewer).await;
    let page = viewer.open("/admin/settings").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(!page.body.contains("URL to test"), "{}", page.body);
}

#[tokio::test(start_paused = true)]
async fn administrators_change_what_can_change_and_take_it_back() {
    let (appliance, mut person) = Appliance::claimed().await;
    let page = person.open("/admin/settings").await;
    page.expect(&[
        "It is set by EVERPOST_MANAGEMENT_TOKEN, and cannot be changed here.",
        "Change it where it is set, and restart.",
        "/admin/settings/publish.bytes_max/edit",
    ]);
    for fixed in ["management.token", "public_url"] {
        let edit = format!("/admin/settings/{fixed}/edit");
        assert!(!page.body.contains(&edit), "{fixed}");
        person.open(&edit).await;
        let rejected = person.send(&edit, &[("value", "8")]).await;
        assert_eq!(rejected.status, StatusCode::UNPROCESSABLE_ENTITY, "{fixed}");
    }
    let edit = "/admin/settings/publish.bytes_max/edit";
    person
        .open(edit)
        .await
        .expect(&["value=\"7\"", "What it means."]);
    let page = person.send(edit, &[("value", "never")]).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.expect(&["href=\"#value\"", "value=\"never\"", "write something else"]);
    let page = person.send(edit, &[("value", "8")]).await;
    page.expect(&["publish.bytes_max is saved and in force.", "Saved"]);
    let page = person.open("/admin/activity").await;
    page.expect(&["changed value of setting publish.bytes_max", "7 8"]);
    person.open("/admin/settings").await;
    let page = person
        .send("/admin/settings/publish.bytes_max/reset", &[])
        .await;
    page.expect(&["What was saved of publish.bytes_max is not in force any more."]);
    assert!(
        appliance
            .store
            .settings
            .saved()
            .await
            .expect("settings")
            .is_empty()
    );

    person
        .open("/admin/settings/probation.mode/edit")
        .await
        .expect(&[
            "<option value=\"hold\">Hold</option>",
            "<option value=\"azure\" selected>Azure</option>",
        ]);
    let lines = [("value", "10.0.0.0/8\r\n\r\n ::1/128 ")];
    person.open("/admin/settings/egress.allow/edit").await;
    person
        .send("/admin/settings/egress.allow/edit", &lines)
        .await;
    let saved = appliance.store.settings.saved().await.expect("settings");
    assert_eq!(saved["egress.allow"], "10.0.0.0/8,::1/128");
}
