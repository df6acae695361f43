//! Every form that changes something leaves its entries in the audit log, in the transaction of the change.

use std::collections::BTreeSet;

use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode, header};

use super::deliver::settle;
use super::{Appliance, PASSWORD};
use crate::admin::registry::SITE_MAP;
use crate::admin::tests::person::Person;
use crate::api::tests::audit::{furniture, session};
use crate::api::{
    ApiOptions, ApiParts, AzureScope, BodyMemory, Denials, Doors, Guesses, ManagementToken,
};
use crate::broker::diagnostics::{Diagnostics, RuntimeInfo};
use crate::model::access::Secret;
use crate::model::audit::Caller;
use crate::model::delivery::DeliveryState;
use crate::model::limits::PUBLISH_BYTES_MAX;
use crate::store::accounts::{Role, UserId};
use crate::store::audit::AuditQuery;

type Fields = &'static [(&'static str, &'static str)];

/// A form: the page that takes it, where it is sent, with what, and the sentences of its entries.
type Form = (&'static str, &'static str, Fields, &'static [&'static str]);

const NOTHING: Fields = &[];

/// What leaves no entry, and why.
const UNAUDITED: [(&str, &str); 7] = [
    ("/account/time-zone", "how own pages show times"),
    (
        "/topics/{topic}/new-subscription/draft",
        "only draws the form again",
    ),
    (
        "/topics/{topic}/subscriptions/{name}/edit/draft",
        "only draws the form again",
    ),
    ("/playground/filter", "only answers"),
    ("/playground/convert", "only answers"),
    ("/playground/signature", "only answers"),
    ("/account/second-factor", "is tried with those that sign in"),
];

const EVENTS: &str = r#"[{"id":"5","eventType":"T","subject":"s","dataVersion":"1","eventTime":"2026-11-21T06:40:53Z","data":{}}]"#;
const EVENT: &str = r#"{"id":"5","eventType":"T","subject":"s","dataVersion":"1","eventTime":"2026-11-21T06:40:53Z","data":{}}"#;
const WEBHOOK: &str = "https://inspector.everpost.internal/bin";

#[rustfmt::skip] // a table
const FORMS: &[Form] = &[
    ("/topics/{topic}/keys", "/topics/orders/keys", NOTHING, &["Viewed keys of topic orders"]),
    ("/topics/{topic}/keys/{key}/regenerate", "/topics/orders/keys/key1/regenerate", NOTHING,
        // The page that follows shows the key.
        &["Regenerated key1 of topic orders", "Viewed keys of topic orders"]),
    ("/topics/{topic}/keys/token", "/topics/orders/keys/token",
        &[("key", "key2"), ("validFor", "other"), ("endsAt", "2030-01-01T00:00")],
        &["Created SAS token for topic orders with key2, valid until 2030-01-01 00:00:00 UTC"]),
    ("/topics/{topic}/delete", "/topics/orders/delete", NOTHING, &["Deleted topic orders"]),
    ("/topics/{topic}/retention", "/topics/shop%2Forders/retention", &[("eventRetentionInDays", "3")],
        &["Changed eventRetentionInDays of topic shop/orders"]),
    ("/topics/{topic}/publish", "/topics/orders/publish", &[("events", EVENTS)],
        &["Published 1 event to topic orders"]),
    ("/new-topic", "/new-topic",
        &[("name", "new"), ("location", "local"), ("inputSchema", "EventGridSchema")],
        &["Created topic new"]),
    ("/new-namespace", "/new-namespace",
        &[("name", "new"), ("location", "local"), ("capacity", "1")], &["Created namespace new"]),
    ("/namespaces/{namespace}/edit", "/namespaces/shop/edit", &[("capacity", "1"), ("tags", "a=1")],
        &["Changed a of namespace shop"]),
    ("/namespaces/{namespace}/keys", "/namespaces/shop/keys", NOTHING,
        &["Viewed keys of namespace shop"]),
    ("/namespaces/{namespace}/keys/{key}/regenerate", "/namespaces/shop/keys/key2/regenerate", NOTHING,
        &["Regenerated key2 of namespace shop", "Viewed keys of namespace shop"]),
    ("/namespaces/{namespace}/new-topic", "/namespaces/shop/new-topic",
        &[("name", "new"), ("eventRetentionInDays", "7")], &["Created topic shop/new"]),
    ("/namespaces/{namespace}/delete", "/namespaces/shop/delete", NOTHING, &["Deleted namespace shop"]),
    ("/subscriptions/pause", "/subscriptions/pause?of=orders/billing", NOTHING,
        &["Paused event subscription billing of topic orders"]),
    ("/subscriptions/resume", "/subscriptions/resume?of=orders/crm", NOTHING,
        &["Resumed event subscription crm of topic orders"]),
    ("/topics/{topic}/new-subscription", "/topics/orders/new-subscription",
        &[("name", "new"), ("endpointUrl", WEBHOOK)], &["Created event subscription new of topic orders"]),
    ("/topics/{topic}/subscriptions/{name}/edit", "/topics/orders/subscriptions/billing/edit",
        &[("endpointUrl", WEBHOOK), ("maxDeliveryAttempts", "7")],
        &["Changed maxDeliveryAttempts of event subscription billing of topic orders"]),
    ("/topics/{topic}/subscriptions/{name}/signing", "/topics/orders/subscriptions/billing/signing",
        &[("gracePeriod", "P1D")], &["Rotated signing secret of event subscription billing of topic orders"]),
    ("/topics/{topic}/subscriptions/{name}/signing/stop",
        "/topics/orders/subscriptions/billing/signing/stop", NOTHING,
        &["Removed signing secrets of event subscription billing of topic orders"]),
    ("/topics/{topic}/subscriptions/{name}/url", "/topics/orders/subscriptions/billing/url", NOTHING,
        &["Viewed full URL of event subscription billing of topic orders"]),
    ("/topics/{topic}/subscriptions/{name}/validate", "/topics/orders/subscriptions/billing/validate",
        NOTHING, &["Requested validation of event subscription billing of topic orders"]),
    ("/topics/{topic}/subscriptions/{name}/retry-now", "/topics/orders/subscriptions/billing/retry-now", NOTHING,
        &["Retried event subscription billing of topic orders"]),
    ("/topics/{topic}/subscriptions/{name}/pause", "/topics/orders/subscriptions/billing/pause", NOTHING,
        &["Paused event subscription billing of topic orders"]),
    ("/topics/{topic}/subscriptions/{name}/resume", "/topics/orders/subscriptions/crm/resume", NOTHING,
        &["Resumed event subscription crm of topic orders"]),
    ("/topics/{topic}/subscriptions/{name}/delete", "/topics/orders/subscriptions/billing/delete", NOTHING,
        &["Deleted event subscription billing of topic orders"]),
    ("/events/{key}/send/{subscription}", "/events/1/send/crm", NOTHING,
        &["Sent event 1 to event subscription crm of topic orders"]),
    ("/dead-letters/resubmit", "/dead-letters/resubmit?of=1", NOTHING, &["Resubmitted dead letter 1"]),
    ("/dead-letters/resubmit-all", "/dead-letters/resubmit-all", &[("kind", "Subscription")],
        &["Started replay job 3 over 1 event"]),
    ("/dead-letters/purge", "/dead-letters/purge?of=orders/billing", NOTHING,
        &["Purged 1 dead letter of event subscription billing of topic orders"]),
    ("/dead-letters/{id}/delete", "/dead-letters/1/delete", NOTHING, &["Deleted dead letter 1"]),
    ("/dead-letters/{id}/edit", "/dead-letters/1/edit", &[("event", EVENT), ("kind", "Subscription")],
        &["Edited and resubmitted dead letter 1"]),
    ("/dead-letters/{id}/resubmit", "/dead-letters/1/resubmit", NOTHING, &["Resubmitted dead letter 1"]),
    ("/replays/{id}/pause", "/replays/1/pause", NOTHING, &["Paused replay job 1"]),
    ("/replays/{id}/resume", "/replays/2/resume", NOTHING, &["Resumed replay job 2"]),
    ("/replays/{id}/cancel", "/replays/1/cancel", NOTHING, &["Cancelled replay job 1"]),
    ("/new-alert-rule", "/new-alert-rule", &[("name", "new"), ("type", "BackupFailed")], &["Created alert rule new"]),
    ("/alert-rules/{rule}/edit", "/alert-rules/disk-space/edit",
        &[("type", "DiskSpace"), ("megabytes", "7"), ("enabled", "on")], &["Changed megabytes of alert rule disk-space"]),
    ("/alert-rules/{rule}/enable", "/alert-rules/disk-space/enable", NOTHING,
        &["Saved alert rule disk-space without changes"]),
    ("/alert-rules/{rule}/disable", "/alert-rules/disk-space/disable", NOTHING,
        &["Changed enabled of alert rule disk-space"]),
    ("/alert-rules/{rule}/delete", "/alert-rules/disk-space/delete", NOTHING, &["Deleted alert rule disk-space"]),
    ("/new-alert-channel", "/new-alert-channel",
        &[("name", "new"), ("type", "WebHook"), ("format", "Ntfy"), ("endpointUrl", WEBHOOK)],
        &["Created alert channel new"]),
    ("/alert-channels/{channel}/edit", "/alert-channels/bin/edit", &[("type", "WebHook"), ("format", "Json"), ("token", "t")],
        &["Saved alert channel bin without changes"]),
    ("/alert-channels/{channel}/test", "/alert-channels/bin/test", NOTHING,
        &["Sent test message to alert channel bin"]),
    ("/alert-channels/{channel}/delete", "/alert-channels/bin/delete", NOTHING, &["Deleted alert channel bin"]),
    ("/new-queue", "/new-queue", &[("name", "new")], &["Created queue new"]),
    ("/queues/{queue}/edit", "/queues/jobs/edit", &[("maxDeliveryCount", "3")],
        &["Changed maxDeliveryCount of queue jobs"]),
    ("/queues/{queue}/keys", "/queues/jobs/keys", NOTHING, &["Viewed keys of queue jobs"]),
    ("/queues/{queue}/keys/{key}/regenerate", "/queues/jobs/keys/key1/regenerate", NOTHING,
        &["Regenerated key1 of queue jobs", "Viewed keys of queue jobs"]),
    ("/queues/{queue}/send", "/queues/jobs/send", &[("body", "hello")], &["Sent a message to queue jobs"]),
    ("/queues/{queue}/delete", "/queues/jobs/delete", NOTHING, &["Deleted queue jobs"]),
    ("/new-access-rule", "/new-access-rule", &[("name", "new"), ("entity", "jobs"), ("send", "on")],
        &["Created access rule new of jobs"]),
    ("/access-rules/{rule}/edit", "/access-rules/jobs%2Fapp/edit", &[("manage", "on")],
        &["Changed rights of access rule app of jobs"]),
    ("/access-rules/{rule}/keys", "/access-rules/jobs%2Fapp/keys", NOTHING, &["Viewed keys of access rule app of jobs"]),
    ("/access-rules/{rule}/keys/{key}/regenerate", "/access-rules/jobs%2Fapp/keys/key1/regenerate", NOTHING,
        &["Regenerated key1 of access rule app of jobs", "Viewed keys of access rule app of jobs"]),
    ("/access-rules/{rule}/delete", "/access-rules/jobs%2Fapp/delete", NOTHING, &["Deleted access rule app of jobs"]),
    ("/new-service-bus-topic", "/new-service-bus-topic", &[("name", "new")], &["Created Service Bus topic new"]),
    ("/service-bus-topics/{topic}/edit", "/service-bus-topics/prices/edit", &[("status", "SendDisabled")],
        &["Changed status of Service Bus topic prices"]),
    ("/service-bus-topics/{topic}/keys", "/service-bus-topics/prices/keys", NOTHING, &["Viewed keys of Service Bus topic prices"]),
    ("/service-bus-topics/{topic}/keys/{key}/regenerate", "/service-bus-topics/prices/keys/key1/regenerate", NOTHING,
        &["Regenerated key1 of Service Bus topic prices", "Viewed keys of Service Bus topic prices"]),
    ("/service-bus-topics/{topic}/send", "/service-bus-topics/prices/send", &[("body", "hello")],
        &["Sent a message to Service Bus topic prices"]),
    ("/service-bus-topics/{topic}/delete", "/service-bus-topics/prices/delete", NOTHING, &["Deleted Service Bus topic prices"]),
    ("/service-bus-topics/{topic}/new-subscription", "/service-bus-topics/prices/new-subscription", &[("name", "new")],
        &["Created subscription new of Service Bus topic prices"]),
    ("/service-bus-topics/{topic}/subscriptions/{name}/edit", "/service-bus-topics/prices/subscriptions/all/edit",
        &[("maxDeliveryCount", "3"), ("deadLetteringOnFilterEvaluationExceptions", "on")],
        &["Changed maxDeliveryCount of subscription all of Service Bus topic prices"]),
    ("/service-bus-topics/{topic}/subscriptions/{name}/delete", "/service-bus-topics/prices/subscriptions/all/delete", NOTHING,
        &["Deleted subscription all of Service Bus topic prices"]),
    ("/service-bus-topics/{topic}/subscriptions/{name}/new-rule", "/service-bus-topics/prices/subscriptions/all/new-rule",
        &[("name", "new"), ("filterType", "FalseFilter")], &["Created rule new of subscription prices/all"]),
    ("/service-bus-topics/{topic}/subscriptions/{name}/rules/{rule}/edit",
        "/service-bus-topics/prices/subscriptions/all/rules/$Default/edit", &[("filterType", "FalseFilter")],
        &["Changed filterType of rule $Default of subscription prices/all"]),
    ("/service-bus-topics/{topic}/subscriptions/{name}/rules/{rule}/delete",
        "/service-bus-topics/prices/subscriptions/all/rules/$Default/delete", NOTHING,
        &["Deleted rule $Default of subscription prices/all"]),
    ("/new-inspector", "/new-inspector", &[("name", "new"), ("answers", "200")], &["Created inspector new"]),
    ("/inspectors/{name}/edit", "/inspectors/bin/edit", &[("answers", "200")],
        &["Changed answers of inspector bin"]),
    ("/inspectors/{name}/subscribe", "/inspectors/bin/subscribe", &[("topic", "orders")],
        &["Created event subscription bin of topic orders"]),
    ("/inspectors/{name}/clear", "/inspectors/bin/clear", NOTHING, &["Cleared 5 requests of inspector bin"]),
    ("/inspectors/{name}/delete", "/inspectors/bin/delete", NOTHING, &["Deleted inspector bin"]),
    ("/deliveries/{id}/retry-now", "/deliveries/2/retry-now", NOTHING, &["Retried delivery 2"]),
    // Each step of the guide is made of several changes.
    ("/first-event", "/first-event", &[("topic", "guided")],
        &["Created topic guided", "Created inspector guided-inspector",
            "Created event subscription first-event of topic guided", "Created inspector guided-rejecting",
            "Created event subscription rejected-event of topic guided"]),
    ("/first-event/{step}", "/first-event/publish", &[("topic", "orders")],
        &["Changed answers of inspector orders-inspector",
            "Created event subscription first-event of topic orders", "Published 1 event to topic orders"]),
    ("/first-event/{step}", "/first-event/fail", &[("topic", "orders")],
        &["Changed answers of inspector orders-inspector",
            "Created event subscription first-event of topic orders", "Published 1 event to topic orders"]),
    ("/first-event/{step}", "/first-event/reject", &[("topic", "orders")],
        &["Created inspector orders-rejecting", "Created event subscription rejected-event of topic orders",
            "Published 1 event to topic orders"]),
    ("/first-event/repair", "/first-event/repair", &[("topic", "orders"), ("delivery", "1")],
        &["Created inspector orders-rejecting", "Created event subscription rejected-event of topic orders",
            "Resubmitted dead letter 1"]),
    ("/new-user", "/new-user", &[("name", "new"), ("role", "viewer")], &["Created user new"]),
    ("/users/{user}/role", "/users/2/role", &[("role", "operator")], &["Changed role of user bob"]),
    ("/users/{user}/disable", "/users/2/disable", NOTHING, &["Disabled user bob"]),
    ("/users/{user}/enable", "/users/2/enable", NOTHING, &["Enabled user bob"]),
    ("/users/{user}/password-link", "/users/2/password-link", NOTHING,
        &["Created password link for user bob"]),
    ("/users/{user}/remove-second-factor", "/users/2/remove-second-factor", NOTHING,
        &["Removed second factor of user bob"]),
    ("/users/{user}/end-sessions", "/users/2/end-sessions", NOTHING, &["Ended 1 session of user bob"]),
    ("/users/{user}/delete", "/users/2/delete", NOTHING, &["Deleted user bob"]),
    ("/new-token", "/new-token", &[("name", "new"), ("role", "viewer"), ("days", "30")],
        &["Created API token new"]),
    ("/tokens/{token}/delete", "/tokens/1/delete", NOTHING, &["Deleted API token ci"]),
    ("/sessions/end", "/sessions/end", NOTHING, &["Ended 2 sessions of all users"]),
    ("/sessions/{session}/end", "/sessions/of-bob/end", NOTHING, &["Ended 1 session of user bob"]),
    ("/settings/{setting}/edit", "/settings/publish.bytes_max/edit", &[("value", "8")],
        &["Changed value of setting publish.bytes_max"]),
    ("/settings/{setting}/reset", "/settings/probation.mode/reset", NOTHING,
        &["Changed value of setting probation.mode"]),
    ("/settings/try-url", "/settings/try-url", &[("url", "https://hooks.example.com/secret")],
        &["Checked URL https://hooks.example.com"]),
    ("/system/count", "/system/count", NOTHING, &["Recounted deliveries"]),
    ("/system/support-bundle", "/system/support-bundle", NOTHING, &["Created support bundle"]),
    ("/system/check", "/system/check", NOTHING, &["Checked integrity of the database"]),
    ("/system/back-up", "/system/back-up", NOTHING, &["Started backup to /var"]),
    ("/system/test-connection", "/system/test-connection", &[("url", "https://hooks.example.com/secret")],
        &["Tested connection to https://hooks.example.com"]),
    ("/account/password", "/account/password", &[("present", PASSWORD), ("password", "another horse")],
        &["Changed own password"]),
    ("/account/second-factor/remove", "/account/second-factor/remove", &[("own-password", PASSWORD)],
        &["Removed own second factor"]),
    ("/account/sessions/end", "/account/sessions/end", NOTHING, &["Ended 1 session of their own"]),
    ("/account/sessions/{session}/end", "/account/sessions/of-ann/end", NOTHING, &["Ended 1 session of their own"]),
    ("/logout", "/logout", NOTHING, &["Signed out"]),
];

const TOKEN: &str = "the management token";

impl Appliance {
    /// One with one of everything, and ann signed in.
    async fn furnished() -> (Self, Person) {
        let (appliance, ann) = Self::claimed().await;
        let (broker, store) = (&appliance.broker, &appliance.store);
        let state = ApiParts {
            broker: broker.clone(),
            views: store.views.clone(),
            people: appliance.people.clone(),
            token: ManagementToken::configured(Secret::new(TOKEN)),
            intake: BodyMemory::default(),
            denials: Denials::default(),
            guesses: Guesses::default(),
            diagnostics: Diagnostics::new(broker.clone(), RuntimeInfo::default()),
            options: ApiOptions {
                publish_bytes_max: PUBLISH_BYTES_MAX,
                metrics_public: false,
                dev: None,
                azure: AzureScope::ANY,
            },
        };
        let api = Doors::new(state.into(), Router::new());
        let more = [
            (
                "PUT",
                "/everpost/inspectors/orders-inspector".to_owned(),
                serde_json::json!({ "answers": "500" }),
            ),
            (
                "POST",
                "/topics/orders/eventSubscriptions/crm/pause".to_owned(),
                serde_json::json!(null),
            ),
        ];
        for (method, path, body) in furniture().into_iter().chain(more) {
            let request = Request::builder().method(method).uri(&path);
            let request = request
                .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
                .header(header::HOST, "127.0.0.1:8080")
                .header(header::CONTENT_TYPE, "application/json");
            let request = request
                .body(Body::from(body.to_string()))
                .expect("a request");
            let response = api.clone().answer(request).await;
            assert!(
                response.status().is_success(),
                "{method} {path}: {}",
                response.status()
            );
            if path.ends_with("/api/events") {
                broker.run_due().await;
            }
        }
        settle(&appliance, 1, DeliveryState::DeadLettered).await;
        let (accounts, now) = (&store.accounts, appliance.clock.now());
        for (id, user) in [("of-ann", UserId(1)), ("of-bob", UserId(2))] {
            let added = accounts.add_session(session(id, user, now)).await;
            added.expect("a session");
        }
        (appliance, ann)
    }

    /// The log, newest first.
    async fn logged(&self) -> Vec<String> {
        let query = AuditQuery {
            limit: 100,
            ..AuditQuery::default()
        };
        let page = self.store.views.audit(query).await.expect("a page");
        let entries = page.rows.into_iter().map(|row| row.entry);
        entries
            .map(|entry| {
                let actor = entry.caller.actor.to_string();
                let name = actor.strip_prefix("user ").unwrap_or(&actor);
                format!("{name}: {}", entry.describe())
            })
            .collect()
    }

    /// What is stored, but for what every request to the pages may touch.
    fn rows(&self) -> Vec<String> {
        let mut rows = self.database.rows();
        rows.retain(|row| !row.starts_with("session ") && !row.starts_with("login_failure "));
        rows
    }
}

impl Person {
    /// Sends the form at `path` as it is filled in, but for `fields`; where there is no such page, these alone.
    async fn submit(&mut self, path: &str, fields: Fields) -> StatusCode {
        let page = self.open(path).await;
        let shows_form = page.status == StatusCode::OK && page.path == path;
        if shows_form && page.body.contains(&format!("action=\"{path}\""))
            || page.body.contains(" method=\"post\">")
        {
            return self.send_filled(path, fields).await.status;
        }
        self.open("/admin/account").await;
        let csrf = ("csrf".to_owned(), self.hidden("csrf"));
        let fields = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let fields: Vec<_> = std::iter::once(csrf).chain(fields).collect();
        self.send_bare(path, &fields).await.status
    }
}

/// What is wrong with a form and its entries, if anything.
async fn fault((page, path, fields, sentences): &Form) -> Option<String> {
    let path = format!("/admin{path}");
    let (appliance, mut ann) = Appliance::furnished().await;
    let (rows, entries) = (appliance.rows(), appliance.logged().await.len());
    appliance.database.reject_audit(true);
    let status = ann.submit(&path, fields).await;
    if !status.is_server_error() || appliance.rows() != rows {
        return Some(format!("{page} without an entry: {status}"));
    }
    appliance.database.reject_audit(false);
    let status = ann.submit(&path, fields).await;
    let mut added = appliance.logged().await;
    added.truncate(added.len() - entries);
    added.reverse();
    let expected: Vec<String> = sentences
        .iter()
        .map(|each| format!("ann: {each}"))
        .collect();
    let is_good = status.is_success() && added == expected;
    (!is_good).then(|| format!("{page}: {status} {added:#?}"))
}

#[tokio::test(start_paused = true)]
async fn a_form_and_its_entries_are_one_transaction() {
    let mut faults = Vec::new();
    for form in FORMS {
        faults.extend(fault(form).await);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn every_form_is_audited_or_says_why_not() {
    let (_appliance, mut ann) = Appliance::claimed().await;
    let known = FORMS.iter().map(|(page, ..)| *page);
    let known: BTreeSet<&str> = known.chain(UNAUDITED.map(|(page, _)| page)).collect();
    for page in &SITE_MAP.pages {
        let parts = page
            .path
            .split('/')
            .map(|part| match part.starts_with('{') {
                true => "1",
                false => part,
            });
        let path = format!("/admin{}", parts.collect::<Vec<_>>().join("/"));
        if !known.contains(page.path) {
            let status = ann.submit(path.trim_end_matches('/'), NOTHING).await;
            assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{}", page.path);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn signing_in_and_credentials_are_audited() {
    let (appliance, mut ann) = Appliance::claimed().await;
    super::second_factor::set_up(&appliance, &mut ann).await;
    ann.open("/admin/account").await;
    ann.send("/admin/logout", &[]).await;
    let mut bob = appliance.somebody();
    let (_, token) = appliance
        .people
        .add(
            &Caller::command_line(appliance.clock.now()),
            "bob",
            Role::Viewer,
            None,
        )
        .await
        .expect("a user");
    let token = token.expect("a link");
    bob.open(&format!("/admin/password?token={}", token.reveal()))
        .await;
    bob.send("/admin/password", &[("password", PASSWORD)]).await;
    bob.sign_in("bob", PASSWORD).await;
    let mut eve = appliance.somebody();
    eve.sign_in("bob", "a wrong guess").await;
    let mut logged = appliance.logged().await;
    logged.reverse();
    let expected = [
        "ann: Set up Everpost with administrator ann",
        "ann: Signed in",
        "ann: Set up own second factor",
        "ann: Signed out",
        "command line: Created user bob",
        "bob: Changed own password",
        "bob: Signed in",
    ];
    assert_eq!(logged, expected);
}
