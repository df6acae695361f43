//! The page of settings.

use http::StatusCode;

use super::Appliance;
use crate::admin::pages::settings::{GROUPS, belongs};
use crate::app::config::KEYS;
use crate::model::setting::{Setting, SettingOrigin, Settings};
use crate::store::accounts::Role;

/// One of each kind.
pub(crate) fn settings() -> Settings {
    let setting = |name, value: Option<&str>, origin, place: &str| Setting {
        name,
        title: "In words",
        value: value.map(str::to_owned),
        origin,
        place: place.to_owned(),
        doc: "What it means.",
        variable: "EVERPOST_X".to_owned(),
        flag: "--x".to_owned(),
    };
    Settings {
        all: vec![
            setting("listen", Some("\"<b>\""), SettingOrigin::Flag, "--listen"),
            setting("publish.bytes_max", Some("7"), SettingOrigin::Default, ""),
            setting("public_url", None, SettingOrigin::Default, ""),
            setting(
                "management.token",
                Some("\"***\""),
                SettingOrigin::Environment,
                "EVERPOST_MANAGEMENT_TOKEN",
            ),
        ],
        file: "/srv/everpost.toml".to_owned(),
        file_was_read: false,
    }
}

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
        "There is no file there",
        "title=\"&#60;b&#62;\"",
        "Set by --listen",
        "title=\"***\"",
        "Not set",
        "Publishing",
        "In words",
        "All 4 Changed 2",
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
    page.expect(&["href=\"#url\"", "write it whole", "value=\"hooks\""]);

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
