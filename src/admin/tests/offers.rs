//! What pages offer is what their visitor may do: every link leads somewhere, every form is taken.

use std::collections::{BTreeSet, VecDeque};

use http::StatusCode;

use super::Appliance;
use super::deliver::{publish, settle};
use super::person::{Person, Shown};
use super::replays::with_dead_letters;
use crate::admin::registry::SITE_MAP;
use crate::model::delivery::DeliveryState;
use crate::store::accounts::Role;

/// Something of everything: dead letters, a pending delivery, a replay job, an inspector, an empty topic.
async fn furnished() -> (Appliance, Person) {
    let (appliance, mut ann) = with_dead_letters(2).await;
    let job = "/admin/dead-letters/resubmit-all?of=orders%2Fbilling";
    ann.open(job).await;
    ann.send(job, &[("kind", "Subscription")]).await;
    ann.open("/admin/replays/1").await;
    ann.send("/admin/replays/1/pause", &[])
        .await
        .expect(&["Resume"]);
    appliance.webhooks.will_answer(503, "no", "later");
    publish(&mut ann).await;
    settle(&appliance, 3, DeliveryState::Pending).await;
    for (form, fields) in [
        (
            "/admin/new-inspector",
            vec![("name", "bin"), ("answers", "200")],
        ),
        (
            "/admin/new-topic",
            vec![
                ("name", "quiet"),
                ("location", "local"),
                ("inputSchema", "EventGridSchema"),
            ],
        ),
    ] {
        ann.open(form).await;
        ann.send(form, &fields).await.expect(&["has been created"]);
    }
    (appliance, ann)
}

/// The addresses of a page's links and of the forms that only ask, and those that its other forms are
/// sent to.
fn offers(page: &Shown) -> (Vec<String>, Vec<String>) {
    let attribute = |tag: &str, name: &str| {
        let value = tag.split(&format!(" {name}=\"")).nth(1)?;
        let value = value.split('"').next()?.replace("&amp;", "&");
        Some(value.replace("&#38;", "&"))
    };
    let tags = |name: &str| {
        let start = format!("<{name} ");
        let tags = page.body.split(&start).skip(1);
        let tags = tags.map(|rest| format!(" {}", rest.split('>').next().unwrap_or("")));
        tags.collect::<Vec<_>>()
    };
    let links = tags("a")
        .into_iter()
        .filter_map(|tag| attribute(&tag, "href"));
    let mut links: Vec<_> = links.filter(|link| link.starts_with("/admin")).collect();
    let mut forms = Vec::new();
    for tag in tags("form") {
        let action = attribute(&tag, "action").unwrap_or_else(|| page.path.clone());
        match attribute(&tag, "method").as_deref() {
            Some("post") => forms.push(action),
            _ => links.push(action),
        }
    }
    (links, forms)
}

/// The path and the names of the parameters: pages that differ by nothing else offer the same.
fn kind(path: &str) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let path = path.split('#').next().unwrap_or(path);
    let names = query
        .split('&')
        .map(|pair| pair.split('=').next().unwrap_or(""));
    let names: BTreeSet<_> = names.collect();
    format!("{path}?{names:?}")
}

/// Looks at everything that can be reached, and gives what the forms are sent to.
async fn look_around(person: &mut Person) -> BTreeSet<String> {
    let mut waiting = VecDeque::from(["/admin".to_owned()]);
    let (mut seen, mut sent_to) = (BTreeSet::new(), BTreeSet::new());
    while let Some(path) = waiting.pop_front() {
        if !seen.insert(kind(&path)) {
            continue;
        }
        let page = person.open(&path).await;
        assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.body);
        let (links, forms) = offers(&page);
        waiting.extend(links);
        for form in forms {
            // These two need no token of the session, and do what they are asked to.
            let is_open = ["/admin/logout", "/admin/theme"].contains(&form.as_str());
            if is_open || !sent_to.insert(form.clone()) {
                continue;
            }
            let token = [("csrf".to_owned(), "stale".to_owned())];
            let rejected = person.send_bare(&form, &token).await;
            assert!(
                rejected.body.contains("The form was too old"),
                "{path} offers {form}: {}",
                rejected.body
            );
        }
    }
    assert!(seen.len() > 25, "{seen:?}");
    sent_to
}

#[tokio::test(start_paused = true)]
async fn everything_that_is_offered_may_be_done() {
    let (appliance, _) = furnished().await;
    let mut viewer = appliance.signed_in(Role::Viewer).await;
    let why = "<small>Viewer</small>";
    viewer.open("/admin/topics/orders").await.expect(&[why]);
    let sent_to = look_around(&mut viewer).await;
    let own = |form: &String| {
        form.starts_with("/admin/account") || form.starts_with("/admin/playground/")
    };
    assert!(sent_to.iter().all(own), "{sent_to:?}");
    let mut operator = appliance.signed_in(Role::Operator).await;
    let sent_to = look_around(&mut operator).await;
    for form in [
        "/admin/topics/orders/publish",
        "/admin/topics/orders/subscriptions/billing/pause",
        "/admin/topics/orders/subscriptions/billing/validate",
        "/admin/dead-letters/1/resubmit",
        "/admin/replays/1/resume",
        "/admin/deliveries/3/retry-now",
    ] {
        assert!(sent_to.contains(form), "no {form} in {sent_to:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_viewer_sees_whom_to_ask() {
    let (appliance, mut ann) = furnished().await;
    let mut viewer = appliance.signed_in(Role::Viewer).await;
    for (path, for_ann, for_viewer) in [
        (
            "/admin/topics",
            "New topic</a>",
            "Ask an administrator for a new topic.",
        ),
        (
            "/admin/topics/orders",
            "Show keys",
            "Ask an administrator for a key.",
        ),
        (
            "/admin/topics/orders/subscriptions/billing",
            "Show with query",
            "An administrator can see its query.",
        ),
        (
            "/admin/inspectors",
            "New inspector</a>",
            "Ask an administrator for a new inspector.",
        ),
    ] {
        ann.open(path).await.expect(&[for_ann]);
        let page = viewer.open(path).await;
        page.expect(&[for_viewer]);
        assert!(!page.body.contains(for_ann), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_viewer_cannot_tell_by_a_search_what_data_says() {
    let (appliance, mut ann) = with_dead_letters(1).await;
    ann.open("/admin/topics/orders/publish").await;
    let events = r#"[{"id":"1","eventType":"T","subject":"s","eventTime":"2026-11-21T06:40:53Z",
        "dataVersion":"1","data":{"hush":"a private matter"}}]"#;
    appliance.webhooks.will_answer(400, "no", "what is this?");
    ann.send("/admin/topics/orders/publish", &[("events", events)])
        .await;
    settle(&appliance, 2, DeliveryState::DeadLettered).await;
    let mut viewer = appliance.signed_in(Role::Viewer).await;
    for (list, row) in [
        ("/admin/events", "/admin/events/2\""),
        ("/admin/dead-letters", "/admin/dead-letters/2\""),
    ] {
        let query = format!("{list}?text=private");
        ann.open(&query)
            .await
            .expect(&[row, "ype, subject or data"]);
        let page = viewer.open(&query).await;
        page.expect(&["ype or subject"]);
        assert!(!page.body.contains(row), "{list}");
        viewer
            .open(&format!("{list}?text=T&type=T"))
            .await
            .expect(&[row]);
    }
}

#[tokio::test(start_paused = true)]
async fn every_page_of_the_navigation_tells_the_commands_that_say_the_same() {
    let (appliance, _) = furnished().await;
    let mut admin = appliance.signed_in(Role::Admin).await;
    let groups = SITE_MAP.nav("/admin", Role::Admin).into_iter();
    let links: Vec<_> = groups.flatten().collect();
    assert!(links.len() > 15, "{}", links.len());
    // The playground's tools have their own.
    for link in links
        .iter()
        .filter(|link| link.listing.title != "Playground")
    {
        let page = admin.open(&link.href).await;
        page.expect(&["ame on the command line", "data-copy=\"command\""]);
    }
}

#[tokio::test(start_paused = true)]
async fn forms_and_questions_show_the_way_up() {
    let (appliance, _) = furnished().await;
    let mut admin = appliance.signed_in(Role::Admin).await;
    let topic =
        "<span aria-hidden=\"true\">/</span><a href=\"/admin/topics/orders\">orders</a></nav>";
    for (path, trail) in [
        ("new-topic", "<a href=\"/admin/topics\">Topics</a></nav>"),
        ("new-user", "<a href=\"/admin/users\">Users</a></nav>"),
        ("topics/orders/delete", topic),
        ("topics/orders/keys/token", topic),
    ] {
        let page = admin.open(&format!("/admin/{path}")).await;
        page.expect(&["<nav class=\"trail\" aria-label=\"Breadcrumb\">", trail]);
    }
}
