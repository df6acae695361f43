//! Light, dark, or as the system says.

use http::StatusCode;

use super::Appliance;

#[tokio::test(start_paused = true)]
async fn the_choice_holds_on_every_page_from_its_first_byte_on() {
    let (appliance, mut person) = Appliance::claimed().await;
    let page = person.open("/admin/events?topic=orders").await;
    page.expect(&[
        "data-theme=\"system\"",
        "content=\"light dark\"",
        "value=\"system\" aria-pressed=\"true\"",
    ]);
    let page = person.send("/admin/theme", &[("theme", "dark")]).await;
    assert_eq!(page.path, "/admin/events?topic=orders");
    for path in ["/admin", "/admin/nowhere", "/admin/events/1"] {
        let page = person.open(path).await;
        page.expect(&[
            "data-theme=\"dark\"",
            "name=\"color-scheme\" content=\"dark\"",
        ]);
    }
    person.headers = vec![("host", "evil.example")];
    person.open("/admin").await.expect(&["data-theme=\"dark\""]);
    person.headers = vec![("host", "127.0.0.1:8080")];

    person.open("/admin").await;
    person
        .send("/admin/logout", &[])
        .await
        .expect(&["data-theme=\"dark\""]);
    let other = appliance.somebody().open("/admin/login").await;
    other.expect(&["data-theme=\"system\""]);

    person.sign_in(super::NAME, super::PASSWORD).await;
    person.send("/admin/theme", &[("theme", "system")]).await;
    assert!(!person.cookies().contains_key("everpost_theme"));
    person
        .open("/admin")
        .await
        .expect(&["data-theme=\"system\""]);
}

#[tokio::test(start_paused = true)]
async fn nothing_else_can_be_chosen_and_nobody_is_led_away() {
    let (_appliance, mut person) = Appliance::claimed().await;
    person.open("/admin").await;
    let page = person
        .send("/admin/theme", &[("theme", "\"><script>")])
        .await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    page.expect(&["must be system, light or dark", "data-theme=\"system\""]);
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let fields = [
        field("theme", "light"),
        field("back", "//evil.example/admin"),
    ];
    let page = person.send_bare("/admin/theme", &fields).await;
    assert_eq!(page.path, "/admin");
    page.expect(&["data-theme=\"light\""]);
}

#[tokio::test(start_paused = true)]
async fn after_a_form_one_comes_back_to_the_overview() {
    let (_appliance, mut person) = Appliance::claimed().await;
    person.open("/admin/new-topic").await;
    person
        .send("/admin/new-topic", &[("name", "two words")])
        .await;
    let page = person.send("/admin/theme", &[("theme", "light")]).await;
    assert_eq!(page.path, "/admin");
}
