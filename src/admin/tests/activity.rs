//! What people do is noted: who, from where, and what is another now.

use http::StatusCode;

use super::deliver::with_subscription;
use super::{Appliance, NAME, PASSWORD};
use crate::store::accounts::Role;
use crate::store::audit::AuditQuery;

async fn noted(appliance: &Appliance) -> Vec<String> {
    let query = AuditQuery {
        limit: 100,
        ..AuditQuery::default()
    };
    let page = appliance.store.views.audit(query).await.expect("a page");
    let told = page.rows.into_iter().map(|row| {
        let entry = row.entry;
        let changes = entry.changes.iter();
        let changes: Vec<String> = changes
            .map(|each| format!("{} {} {}", each.property, each.before, each.after))
            .collect();
        format!(
            "{} {} {}: {}",
            entry.actor.words(),
            entry.method,
            entry.path,
            changes.join("; ")
        )
    });
    told.collect()
}

#[tokio::test(start_paused = true)]
async fn changes_are_noted_with_what_they_changed_and_without_secrets() {
    let (appliance, mut ann) = Appliance::claimed().await;
    let added = appliance.people.add("bob", Role::Viewer, Some(PASSWORD));
    added.await.expect("a new user");
    ann.open("/admin/users/2").await;
    ann.send("/admin/users/2/role", &[("role", "operator")])
        .await;
    let all = noted(&appliance).await;
    assert_eq!(
        all[0],
        "ann POST /admin/users/2/role: role \"viewer\" \"operator\""
    );
    assert_eq!(all[1], "ann POST /admin/login: ");

    ann.open("/admin/new-topic").await;
    let fields = [
        ("name", "orders"),
        ("location", "local"),
        ("inputSchema", "EventGridSchema"),
    ];
    ann.send("/admin/new-topic", &fields).await;
    ann.open("/admin/topics/orders").await;
    ann.send("/admin/topics/orders/keys", &[]).await;
    ann.open("/admin/topics/orders/delete").await;
    ann.send("/admin/topics/orders/delete", &[]).await;
    let all = noted(&appliance).await;
    assert!(all[0].starts_with("ann POST /admin/topics/orders/delete:  {"));
    assert!(all[0].ends_with(" null"), "{}", all[0]);
    assert_eq!(all[1], "ann POST /admin/topics/orders/keys: ");
    assert!(all[2].starts_with("ann POST /admin/new-topic:  null {"));
    let page = ann.open("/admin/activity").await;
    page.expect(&[
        "The topic orders was deleted.",
        "The topic orders showed its keys.",
        "The topic orders was created.",
        "<details>",
    ]);
    let text = all.join("\n");
    assert!(!text.contains("argon2") && !text.contains("key1"), "{text}");
}

/// Their numbers say nothing to people, least of all once they are gone.
#[tokio::test(start_paused = true)]
async fn users_tokens_and_inspectors_are_told_by_their_names() {
    let (appliance, mut ann) = Appliance::claimed().await;
    let added = appliance.people.add("bob", Role::Viewer, Some(PASSWORD));
    added.await.expect("a new user");
    ann.open("/admin/users/2").await;
    let role = [("role", "operator")];
    ann.send("/admin/users/2/role", &role).await;
    ann.open("/admin/users/2/delete").await;
    ann.send("/admin/users/2/delete", &[]).await;
    ann.open("/admin/new-token").await;
    let token = [("name", "ci"), ("role", "viewer"), ("days", "30")];
    ann.send("/admin/new-token", &token).await;
    ann.open("/admin/tokens/1/delete").await;
    ann.send("/admin/tokens/1/delete", &[]).await;
    ann.open("/admin/new-inspector").await;
    let inspector = [("name", "bin"), ("answers", "200")];
    ann.send("/admin/new-inspector", &inspector).await;
    ann.open("/admin/inspectors/bin/edit").await;
    let answers = [("answers", "503 200")];
    ann.send("/admin/inspectors/bin/edit", &answers).await;
    ann.open("/admin/activity").await.expect(&[
        "The user bob got another role.",
        "The user bob was deleted.",
        "The API token ci was created.",
        "The API token ci was deleted.",
        "The inspector bin was created.",
        "The inspector bin was changed.",
        "<code>answers</code>: <code>&#34;200&#34;</code> → <code>&#34;503 200&#34;</code>",
    ]);
}

/// A new event subscription is compared with nothing, not with its topic.
#[tokio::test(start_paused = true)]
async fn what_is_made_below_something_is_told_as_new() {
    let (appliance, mut ann) = with_subscription().await;
    let all = noted(&appliance).await;
    let start = "ann POST /admin/topics/orders/new-subscription:  null {";
    assert!(all[0].starts_with(start), "{}", all[0]);
    assert!(!all[0].contains("code=hush"), "{}", all[0]);
    let page = ann.open("/admin/activity").await;
    page.expect(&["The event subscription billing of the topic orders was created."]);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_not_noted_as_done() {
    let (appliance, mut ann) = Appliance::claimed().await;
    let before = noted(&appliance).await.len();
    ann.open("/admin/new-user").await;
    let refused = ann
        .send("/admin/new-user", &[("name", ""), ("role", "viewer")])
        .await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    ann.send_bare("/admin/new-user", &[]).await;
    ann.open("/admin/activity").await;
    assert_eq!(noted(&appliance).await.len(), before);
}

#[tokio::test(start_paused = true)]
async fn the_page_filters_and_leads_to_older_entries() {
    let (_appliance, mut ann) = Appliance::claimed().await;
    for index in 0..60 {
        let name = format!("user{index}");
        ann.open("/admin/new-user").await;
        let fields = [("name", name.as_str()), ("role", "viewer")];
        ann.send("/admin/new-user", &fields).await;
    }
    let page = ann.open("/admin/activity").await;
    page.expect(&["user59", "rel=\"next\""]);
    assert!(!page.body.contains("user5&"), "the first ones are older");
    let next = page.body.split("href=\"/admin/activity?before=").nth(1);
    let next = next
        .and_then(|rest| rest.split('"').next())
        .expect("a link");
    let older = ann.open(&format!("/admin/activity?before={next}")).await;
    older.expect(&["POST /admin/login", "user0"]);
    let filtered = ann
        .open("/admin/activity?path=/admin/login&actor=ann")
        .await;
    filtered.expect(&["POST /admin/login"]);
    assert!(
        !filtered.body.contains("/admin/new-user"),
        "{}",
        filtered.body
    );
    ann.open("/admin/activity?actor=nobody")
        .await
        .expect(&["Nothing fits."]);
    ann.open("/admin/activity?until=2020-01-01")
        .await
        .expect(&["Nothing fits."]);
    let wrong = ann.open("/admin/activity?from=yesterday").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    ann.open(&format!("/admin/activity?actor={NAME}"))
        .await
        .expect(&["user59"]);
}
