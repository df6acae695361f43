//! The audit log: every route that changes something leaves one entry, in the transaction of the change.

use std::collections::BTreeSet;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Door, OPTIONS, TOKEN, of_nothing};
use crate::api::routes;
use crate::base::Timestamp;
use crate::model::audit::{Caller, TargetKind};
use crate::model::inspector::INSPECTOR_HOST;
use crate::model::limits::LOCK_DURATION;
use crate::model::provisioned::Mark;
use crate::store::accounts::{SessionRecord, UserId};

/// One request, and the sentence of the entry that it leaves.
struct Act {
    /// As in the table of routes.
    route: &'static str,
    path: &'static str,
    body: Value,
    sentence: &'static str,
}

fn act(route: &'static str, path: &'static str, body: Value, sentence: &'static str) -> Act {
    Act {
        route,
        path,
        body,
        sentence,
    }
}

/// What leaves no entry, and why.
const UNAUDITED: [(&str, &str); 19] = [
    (
        "POST /everpost/configuration/plan",
        "it says what would change, and changes nothing",
    ),
    (
        "POST /validate",
        "a receiver's consent, shown with its event subscription",
    ),
    ("POST /topics/{topic}/api/events", "publishing is counted"),
    ("POST /{topic}/api/events", "publishing is counted"),
    ("POST /eventGrid/api/events", "publishing is counted"),
    ("POST /api/events", "publishing is counted"),
    ("POST /topics/{topic}:publish", "publishing is counted"),
    (
        "POST /namespaces/{namespace}/topics/{topic}:publish",
        "publishing is counted",
    ),
    (
        "POST /everpost/deadLetters/receive",
        "the work of a receiver",
    ),
    (
        "POST /queues/{queue}/receive",
        "the work of a receiver, but for dead letters",
    ),
    (
        "POST /serviceBusTopics/{topic}/subscriptions/{name}/receive",
        "the work of a receiver, but for dead letters",
    ),
    (
        "POST /everpost/locks/{verb}",
        "the work of a receiver, but for completing, which is tried below",
    ),
    ("POST /everpost/replays/preview", "only counts"),
    ("POST /topics/{topic}/explain", "only asks"),
    ("POST /topics/{topic}/tryFilter", "only asks"),
    (
        "POST /topics/{topic}/eventSubscriptions/{name}/explain",
        "only asks",
    ),
    (
        "POST /namespaces/{namespace}/topics/{topic}/explain",
        "only asks",
    ),
    (
        "POST /namespaces/{namespace}/topics/{topic}/tryFilter",
        "only asks",
    ),
    (
        "POST /namespaces/{namespace}/topics/{topic}/eventSubscriptions/{name}/explain",
        "only asks",
    ),
];

#[rustfmt::skip] // a table
fn acts() -> Vec<Act> {
    let none = || json!(null);
    let webhook = || json!({ "properties": { "destination": destination(), "labels": ["new"] } });
    let queue = || json!({ "properties": { "deliveryConfiguration": { "deliveryMode": "Queue",
        "queue": { "receiveLockDurationInSeconds": 100 } } } });
    let key = || json!({ "keyName": "key1" });
    let entry = |kind| json!(format!("<entry><content><{kind}Description/></content></entry>"));
    vec![
        act("PUT /queues/{queue}", "/queues/new", json!({}), "Created queue new"),
        act("PUT /queues/{queue}", "/queues/JOBS", json!({ "properties": { "maxDeliveryCount": 3 } }),
            "Changed maxDeliveryCount of queue jobs"),
        act("DELETE /queues/{queue}", "/queues/jobs", none(), "Deleted queue jobs"),
        act("PUT /everpost/accessRules/{name}", "/everpost/accessRules/new", json!({ "rights": ["Manage"] }),
            "Created access rule new"),
        act("PUT /everpost/accessRules/{name}", "/everpost/accessRules/JOBS%2Fapp", json!({ "rights": ["Listen"] }),
            "Changed rights of access rule app of jobs"),
        act("DELETE /everpost/accessRules/{name}", "/everpost/accessRules/jobs%2Fapp", none(),
            "Deleted access rule app of jobs"),
        act("POST /everpost/accessRules/{name}/listKeys", "/everpost/accessRules/jobs%2Fapp/listKeys", none(),
            "Viewed keys of access rule app of jobs"),
        act("POST /everpost/accessRules/{name}/regenerateKey", "/everpost/accessRules/jobs%2Fapp/regenerateKey", key(),
            "Regenerated key1 of access rule app of jobs"),
        act("PUT /serviceBusTopics/{topic}", "/serviceBusTopics/new", json!({}), "Created Service Bus topic new"),
        act("DELETE /serviceBusTopics/{topic}", "/serviceBusTopics/prices", none(),
            "Deleted Service Bus topic prices"),
        act("PUT /serviceBusTopics/{topic}/subscriptions/{name}", "/serviceBusTopics/prices/subscriptions/new",
            json!({}), "Created subscription new of Service Bus topic prices"),
        act("DELETE /serviceBusTopics/{topic}/subscriptions/{name}", "/serviceBusTopics/prices/subscriptions/all",
            none(), "Deleted subscription all of Service Bus topic prices"),
        act("PUT /serviceBusTopics/{topic}/subscriptions/{name}/rules/{rule}",
            "/serviceBusTopics/prices/subscriptions/all/rules/new",
            json!({ "properties": { "filterType": "SqlFilter", "sqlFilter": { "sqlExpression": "1 = 1" } } }),
            "Created rule new of subscription prices/all"),
        act("DELETE /serviceBusTopics/{topic}/subscriptions/{name}/rules/{rule}",
            "/serviceBusTopics/prices/subscriptions/all/rules/$Default", none(), "Deleted rule $Default of subscription prices/all"),
        act("PUT /{entity}", "/new?api-version=2021-05", entry("Queue"), "Created queue new"),
        act("DELETE /{entity}", "/prices?api-version=2021-05", none(), "Deleted Service Bus topic prices"),
        act("PUT /{serviceBusTopic}/Subscriptions/{subscription}", "/prices/Subscriptions/new?api-version=2021-05",
            entry("Subscription"), "Created subscription new of Service Bus topic prices"),
        act("DELETE /{serviceBusTopic}/Subscriptions/{subscription}", "/prices/Subscriptions/all?api-version=2021-05",
            none(), "Deleted subscription all of Service Bus topic prices"),
        act("PUT /{serviceBusTopic}/Subscriptions/{subscription}/Rules/{rule}",
            "/prices/Subscriptions/all/Rules/new?api-version=2021-05", entry("Rule"),
            "Created rule new of subscription prices/all"),
        act("DELETE /{serviceBusTopic}/Subscriptions/{subscription}/Rules/{rule}",
            "/prices/Subscriptions/all/Rules/$Default?api-version=2021-05", none(),
            "Deleted rule $Default of subscription prices/all"),
        act("PUT /namespaces/{namespace}", "/namespaces/new", located(), "Created namespace new"),
        act("PATCH /namespaces/{namespace}", "/namespaces/SHOP", json!({ "tags": { "a": "1" } }),
            "Changed a of namespace shop"),
        act("DELETE /namespaces/{namespace}", "/namespaces/shop", none(), "Deleted namespace shop"),
        act("POST /namespaces/{namespace}/listKeys", "/namespaces/shop/listKeys", none(),
            "Viewed keys of namespace shop"),
        act("POST /namespaces/{namespace}/regenerateKey", "/namespaces/shop/regenerateKey", key(),
            "Regenerated key1 of namespace shop"),
        act("PUT /topics/{topic}", "/topics/orders", located(), "Saved topic orders without changes"),
        act("PATCH /topics/{topic}", "/topics/ORDERS", json!({ "tags": { "a": "1" } }),
            "Changed a of topic orders"),
        act("DELETE /topics/{topic}", "/topics/orders", none(), "Deleted topic orders"),
        act("POST /topics/{topic}/listKeys", "/topics/orders/listKeys", none(),
            "Viewed keys of topic orders"),
        act("POST /topics/{topic}/regenerateKey", "/topics/orders/regenerateKey", key(),
            "Regenerated key1 of topic orders"),
        act("PUT /topics/{topic}/eventSubscriptions/{name}", "/topics/orders/eventSubscriptions/new",
            webhook(), "Created event subscription new of topic orders"),
        act("PATCH /topics/{topic}/eventSubscriptions/{name}",
            "/topics/orders/eventSubscriptions/billing", json!({ "labels": ["new"] }),
            "Changed labels of event subscription billing of topic orders"),
        act("DELETE /topics/{topic}/eventSubscriptions/{name}",
            "/topics/orders/eventSubscriptions/billing", none(),
            "Deleted event subscription billing of topic orders"),
        act("POST /topics/{topic}/eventSubscriptions/{name}/getFullUrl",
            "/topics/orders/eventSubscriptions/billing/getFullUrl", none(),
            "Viewed full URL of event subscription billing of topic orders"),
        act("POST /topics/{topic}/eventSubscriptions/{name}/getDeliveryAttributes",
            "/topics/orders/eventSubscriptions/billing/getDeliveryAttributes", none(),
            "Viewed delivery attributes of event subscription billing of topic orders"),
        act("POST /topics/{topic}/eventSubscriptions/{name}/listSigningSecrets",
            "/topics/orders/eventSubscriptions/billing/listSigningSecrets", none(),
            "Viewed signing secrets of event subscription billing of topic orders"),
        act("POST /topics/{topic}/eventSubscriptions/{name}/rotateSigningSecret",
            "/topics/orders/eventSubscriptions/billing/rotateSigningSecret", json!({}),
            "Rotated signing secret of event subscription billing of topic orders"),
        act("POST /topics/{topic}/eventSubscriptions/{name}/validate",
            "/topics/orders/eventSubscriptions/billing/validate", none(),
            "Requested validation of event subscription billing of topic orders"),
        act("POST /topics/{topic}/eventSubscriptions/{name}/pause",
            "/topics/orders/eventSubscriptions/billing/pause", none(),
            "Paused event subscription billing of topic orders"),
        act("POST /topics/{topic}/eventSubscriptions/{name}/resume",
            "/topics/orders/eventSubscriptions/billing/resume", none(),
            "Resumed event subscription billing of topic orders"),
        act("PUT /namespaces/{namespace}/topics/{topic}", "/namespaces/shop/topics/new", json!({}),
            "Created topic shop/new"),
        act("PATCH /namespaces/{namespace}/topics/{topic}", "/namespaces/shop/topics/orders",
            json!({ "properties": { "eventRetentionInDays": 3 } }),
            "Changed eventRetentionInDays of topic shop/orders"),
        act("DELETE /namespaces/{namespace}/topics/{topic}", "/namespaces/shop/topics/orders", none(),
            "Deleted topic shop/orders"),
        act("POST /namespaces/{namespace}/topics/{topic}/listKeys",
            "/namespaces/shop/topics/orders/listKeys", none(), "Viewed keys of topic shop/orders"),
        act("POST /namespaces/{namespace}/topics/{topic}/regenerateKey",
            "/namespaces/shop/topics/orders/regenerateKey", key(),
            "Regenerated key1 of topic shop/orders"),
        act("PUT /namespaces/{namespace}/topics/{topic}/eventSubscriptions/{name}",
            "/namespaces/shop/topics/orders/eventSubscriptions/new", queue(),
            "Created event subscription new of topic shop/orders"),
        act("PATCH /namespaces/{namespace}/topics/{topic}/eventSubscriptions/{name}",
            "/namespaces/shop/topics/orders/eventSubscriptions/billing", queue(),
            "Changed receiveLockDurationInSeconds of event subscription billing of topic shop/orders"),
        act("DELETE /namespaces/{namespace}/topics/{topic}/eventSubscriptions/{name}",
            "/namespaces/shop/topics/orders/eventSubscriptions/billing", none(),
            "Deleted event subscription billing of topic shop/orders"),
        act("POST /namespaces/{namespace}/topics/{topic}/eventSubscriptions/{name}/getFullUrl",
            "/namespaces/shop/topics/orders/eventSubscriptions/pushed/getFullUrl", none(),
            "Viewed full URL of event subscription pushed of topic shop/orders"),
        act("POST /namespaces/{namespace}/topics/{topic}/eventSubscriptions/{name}/getDeliveryAttributes",
            "/namespaces/shop/topics/orders/eventSubscriptions/pushed/getDeliveryAttributes", none(),
            "Viewed delivery attributes of event subscription pushed of topic shop/orders"),
        act("POST /namespaces/{namespace}/topics/{topic}/eventSubscriptions/{name}/listSigningSecrets",
            "/namespaces/shop/topics/orders/eventSubscriptions/pushed/listSigningSecrets", none(),
            "Viewed signing secrets of event subscription pushed of topic shop/orders"),
        act("POST /namespaces/{namespace}/topics/{topic}/eventSubscriptions/{name}/rotateSigningSecret",
            "/namespaces/shop/topics/orders/eventSubscriptions/pushed/rotateSigningSecret", json!({}),
            "Rotated signing secret of event subscription pushed of topic shop/orders"),
        act("POST /namespaces/{namespace}/topics/{topic}/eventSubscriptions/{name}/validate",
            "/namespaces/shop/topics/orders/eventSubscriptions/billing/validate", none(),
            "Requested validation of event subscription billing of topic shop/orders"),
        act("POST /namespaces/{namespace}/topics/{topic}/eventSubscriptions/{name}/pause",
            "/namespaces/shop/topics/orders/eventSubscriptions/billing/pause", none(),
            "Paused event subscription billing of topic shop/orders"),
        act("POST /namespaces/{namespace}/topics/{topic}/eventSubscriptions/{name}/resume",
            "/namespaces/shop/topics/orders/eventSubscriptions/billing/resume", none(),
            "Resumed event subscription billing of topic shop/orders"),
        act("PUT /everpost/settings/{name}", "/everpost/settings/publish.bytes_max", json!({ "value": "8" }),
            "Changed value of setting publish.bytes_max"),
        act("DELETE /everpost/settings/{name}", "/everpost/settings/probation.mode", none(),
            "Changed value of setting probation.mode"),
        act("POST /everpost/events/{key}/send", "/everpost/events/1/send",
            json!({ "subscription": "crm" }),
            "Sent event 1 to event subscription crm of topic orders"),
        act("POST /everpost/deliveries/{id}/tryNow", "/everpost/deliveries/2/tryNow", none(),
            "Retried delivery 2"),
        act("POST /everpost/deadLetters/purge", "/everpost/deadLetters/purge?topic=orders", none(),
            "Purged 1 dead letter of topic orders"),
        act("POST /everpost/deadLetters/resubmit", "/everpost/deadLetters/resubmit",
            json!({ "deliveryIds": [1, 2] }), "Resubmitted 1 dead letter"),
        act("POST /everpost/deadLetters/{id}/resubmit", "/everpost/deadLetters/1/resubmit",
            json!({ "data": {} }), "Edited and resubmitted dead letter 1"),
        act("POST /everpost/deadLetters/import",
            "/everpost/deadLetters/import?topic=orders&subscription=crm", json!([event("blob")]),
            "Imported 1 dead letter to event subscription crm of topic orders"),
        act("PUT /everpost/inspectors/{name}", "/everpost/inspectors/bin", json!({ "answers": "200" }),
            "Changed answers of inspector bin"),
        act("DELETE /everpost/inspectors/{name}", "/everpost/inspectors/bin", none(),
            "Deleted inspector bin"),
        act("POST /everpost/inspectors/{name}/clear", "/everpost/inspectors/bin/clear", none(),
            "Cleared 5 requests of inspector bin"),
        act("PUT /everpost/alerts/rules/{name}", "/everpost/alerts/rules/disk-space",
            json!({ "type": "DiskSpace", "megabytes": 7 }), "Changed megabytes of alert rule disk-space"),
        act("DELETE /everpost/alerts/rules/{name}", "/everpost/alerts/rules/disk-space", none(),
            "Deleted alert rule disk-space"),
        act("PUT /everpost/alerts/channels/{name}", "/everpost/alerts/channels/bin",
            json!({ "type": "WebHook", "format": "Slack", "endpointUrl": inspector() }),
            "Changed format of alert channel bin"),
        act("POST /everpost/alerts/channels/{name}/test", "/everpost/alerts/channels/bin/test", none(),
            "Sent test message to alert channel bin"),
        act("DELETE /everpost/alerts/channels/{name}", "/everpost/alerts/channels/bin", none(),
            "Deleted alert channel bin"),
        act("POST /everpost/replays", "/everpost/replays", json!({}),
            "Started replay job 3 over 1 event"),
        act("POST /everpost/replays/{id}/pause", "/everpost/replays/1/pause", none(),
            "Paused replay job 1"),
        act("POST /everpost/replays/{id}/resume", "/everpost/replays/2/resume", none(),
            "Resumed replay job 2"),
        act("POST /everpost/replays/{id}/cancel", "/everpost/replays/1/cancel", none(),
            "Cancelled replay job 1"),
        act("POST /everpost/users", "/everpost/users", json!({ "name": "new", "role": "viewer" }),
            "Created user new"),
        act("PATCH /everpost/users/{name}", "/everpost/users/bob",
            json!({ "role": "operator", "password": "correct horse" }),
            "Changed role, password of user bob"),
        act("PUT /everpost/users/{name}", "/everpost/users/bob", json!({ "role": "operator" }),
            "Changed role of user bob"),
        act("DELETE /everpost/users/{name}", "/everpost/users/bob", none(), "Deleted user bob"),
        act("POST /everpost/users/{name}/passwordLink", "/everpost/users/bob/passwordLink", none(),
            "Created password link for user bob"),
        act("POST /everpost/sessions/end", "/everpost/sessions/end", none(),
            "Ended 1 session of all users"),
        act("DELETE /everpost/sessions/{id}", "/everpost/sessions/open", none(),
            "Ended 1 session of user root"),
        act("POST /everpost/tokens", "/everpost/tokens", json!({ "name": "new", "role": "viewer" }),
            "Created API token new"),
        act("DELETE /everpost/tokens/{name}", "/everpost/tokens/ci", none(), "Deleted API token ci"),
        act("POST /everpost/supportBundle", "/everpost/supportBundle", none(),
            "Created support bundle"),
        act("POST /everpost/integrityCheck", "/everpost/integrityCheck", none(),
            "Checked integrity of the database"),
        act("POST /everpost/backups", "/everpost/backups", json!({ "directory": "/" }),
            "Started backup to /"),
    ]
}

fn located() -> Value {
    json!({ "location": "local", "properties": {} })
}

fn inspector() -> String {
    format!("https://{INSPECTOR_HOST}/bin")
}

fn destination() -> Value {
    json!({ "endpointType": "WebHook", "properties": { "endpointUrl": inspector() } })
}

fn event(id: &str) -> Value {
    json!({ "id": id, "eventType": "T", "subject": "s", "dataVersion": "1",
        "eventTime": "2026-11-21T06:40:53Z", "data": {} })
}

/// The requests that make one of everything: delivery 1 is dead-lettered, and delivery 2 is pending, once what
/// is due has been delivered after each.
pub(crate) fn furniture() -> Vec<(&'static str, String, Value)> {
    let push = json!({ "deliveryMode": "Push", "push": { "destination": destination() } });
    let queue = json!({ "deliveryMode": "Queue" });
    let in_mode = |mode| json!({ "properties": { "deliveryConfiguration": mode } });
    let billing = json!({ "properties": { "destination": destination() } });
    let in_namespace = "/namespaces/shop/topics/orders/eventSubscriptions";
    let in_topic = "/topics/orders/eventSubscriptions";
    let replays = || "/everpost/replays".to_owned();
    let publish = |id| {
        let path = "/topics/orders/api/events".to_owned();
        ("POST", path, json!([event(id)]))
    };
    vec![
        (
            "PUT",
            "/everpost/alerts/channels/bin".to_owned(),
            json!({ "type": "WebHook", "endpointUrl": inspector() }),
        ),
        (
            "PUT",
            "/everpost/inspectors/bin".to_owned(),
            json!({ "answers": "400 503" }),
        ),
        ("PUT", "/queues/jobs".to_owned(), json!({})),
        ("PUT", "/serviceBusTopics/prices".to_owned(), json!({})),
        (
            "PUT",
            "/everpost/accessRules/jobs%2Fapp".to_owned(),
            json!({ "rights": ["Send"] }),
        ),
        (
            "PUT",
            "/serviceBusTopics/prices/subscriptions/all".to_owned(),
            json!({}),
        ),
        ("PUT", "/namespaces/shop".to_owned(), located()),
        (
            "PUT",
            "/namespaces/shop/topics/orders".to_owned(),
            json!({}),
        ),
        ("PUT", format!("{in_namespace}/billing"), in_mode(queue)),
        ("PUT", format!("{in_namespace}/pushed"), in_mode(push)),
        ("PUT", "/topics/orders".to_owned(), located()),
        ("PUT", format!("{in_topic}/billing"), billing.clone()),
        publish("1"),
        publish("2"),
        ("PUT", format!("{in_topic}/crm"), billing),
        (
            "POST",
            "/everpost/users".to_owned(),
            json!({ "name": "bob", "role": "viewer" }),
        ),
        (
            "POST",
            "/everpost/tokens".to_owned(),
            json!({ "name": "ci", "role": "viewer" }),
        ),
        ("POST", replays(), json!({})),
        ("POST", replays(), json!({})),
        ("POST", "/everpost/replays/2/pause".to_owned(), json!(null)),
    ]
}

/// A session of that user.
pub(crate) fn session(id: &str, user: UserId, now: Timestamp) -> SessionRecord {
    SessionRecord {
        id: id.to_owned(),
        record: "{}".to_owned(),
        user: Some(user),
        started_at: now,
        used_at: now,
        expires_at: Timestamp::from_ms(i64::MAX),
        address: None,
        browser: None,
    }
}

impl Door {
    /// An appliance with one of everything.
    async fn furnished() -> Self {
        let door = Self::new().await;
        let (accounts, now) = (&door.store.accounts, door.clock.now());
        let by = Caller::command_line(now);
        let root = accounts.claim("root".to_owned(), "hash".to_owned(), by);
        root.await.expect("the first user");
        let session = session("open", UserId(1), now);
        accounts.add_session(session).await.expect("a session");
        for (method, path, body) in furniture() {
            let method: Method = method.parse().expect("a method");
            let (status, answer) = door.ask(TOKEN, method.clone(), &path, body).await;
            assert!(status.is_success(), "{method} {path}: {status} {answer}");
            door.broker.run_due().await;
        }
        door
    }

    async fn act(&self, act: &Act) -> (StatusCode, Value) {
        let method = act
            .route
            .split(' ')
            .next()
            .and_then(|word| word.parse().ok());
        let method = method.expect("a method");
        self.ask(TOKEN, method, act.path, act.body.clone()).await
    }

    /// The entries of the log, newest first.
    async fn entries(&self) -> Vec<Value> {
        let path = "/everpost/audit?limit=200";
        let (_, page) = self.ask(TOKEN, Method::GET, path, json!(null)).await;
        page["value"].as_array().expect("entries").clone()
    }
}

#[test]
fn every_route_that_changes_something_is_audited_or_says_why_not() {
    let options = OPTIONS;
    let all = routes::all(&options);
    let changing = all.filter(|route| !route.method.is_safe());
    // What receivers of dead letters do.
    let changing = changing.filter(|route| route.access != routes::RouteAccess::Queue);
    let routes: BTreeSet<String> = changing
        .map(|route| format!("{} {}", route.method, route.path))
        // What receivers of namespace topics do.
        .filter(|route| {
            !route.contains("/eventSubscriptions/{name}:") && !route.contains("eventsubscriptions/")
        })
        .collect();
    let acts = acts();
    let known = acts.iter().map(|act| act.route);
    let known = known.chain(UNAUDITED.map(|(route, _)| route));
    let known: BTreeSet<String> = known.map(str::to_owned).collect();
    assert_eq!(routes, known);
}

#[tokio::test(start_paused = true)]
async fn an_act_and_its_entry_are_one_transaction() {
    for act in acts() {
        let door = Door::furnished().await;
        let before = (door.database.rows(), door.entries().await.len());
        door.database.reject_audit(true);
        let (status, answer) = door.act(&act).await;
        assert!(status.is_server_error(), "{}: {status} {answer}", act.route);
        assert_eq!(door.database.rows(), before.0, "{}", act.route);

        door.database.reject_audit(false);
        let (status, answer) = door.act(&act).await;
        assert!(status.is_success(), "{}: {status} {answer}", act.route);
        let entries = door.entries().await;
        assert_eq!(entries.len(), before.1 + 1, "{}", act.route);
        assert_eq!(entries[0]["sentence"], act.sentence, "{}", act.route);
        assert_eq!(entries[0]["actorKind"], "ManagementToken");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_a_dead_letter_out_of_its_queue_is_recorded() {
    let queue = "/orders/Subscriptions/billing/$DeadLetterQueue/messages";
    let by_service_bus = "Completed 1 dead letter of event subscription billing of topic orders";
    let (post, delete) = (Method::POST, Method::DELETE);
    for (way, sentence) in [
        ("locks", "Completed 1 dead letter"),
        ("peek-lock", by_service_bus),
        ("receive and delete", by_service_bus),
    ] {
        let door = Door::furnished().await;
        let lock = json!({ "topic": "orders", "subscription": "billing" });
        let (method, path, body) = match way {
            "locks" => {
                let path = "/everpost/deadLetters/receive";
                let (_, locked) = door.ask(TOKEN, post.clone(), path, lock).await;
                let token = &locked["value"][0]["lockToken"];
                let body = json!({ "lockTokens": [token] });
                (post.clone(), "/everpost/locks/complete".to_owned(), body)
            }
            "peek-lock" => {
                let path = "/everpost/deadLetters/receive";
                let (_, locked) = door.ask(TOKEN, post.clone(), path, lock).await;
                let token = locked["value"][0]["lockToken"].as_str().expect("a token");
                (delete.clone(), format!("{queue}/1/{token}"), json!(null))
            }
            _ => (
                delete.clone(),
                format!("{queue}/head?timeout=0"),
                json!(null),
            ),
        };
        let before = (door.database.rows(), door.entries().await.len());
        door.database.reject_audit(true);
        let (status, answer) = door.ask(TOKEN, method.clone(), &path, body.clone()).await;
        assert!(status.is_server_error(), "{way}: {status} {answer}");
        door.database.reject_audit(false);
        if way != "receive and delete" {
            assert_eq!(door.database.rows(), before.0, "{way}");
        } else {
            door.clock.advance(LOCK_DURATION); // it was locked before it could not be completed
        }
        let (status, answer) = door.ask(TOKEN, method, &path, body).await;
        assert!(status.is_success(), "{way}: {status} {answer}");
        let entries = door.entries().await;
        assert_eq!(entries.len(), before.1 + 1, "{way}");
        assert_eq!(entries[0]["sentence"], sentence, "{way}");
        assert_eq!(entries[0]["actorKind"], "ManagementToken");
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_or_finds_nothing_leaves_no_entry() {
    let door = Door::new().await;
    for act in acts() {
        let path = of_nothing(act.route.split(' ').nth(1).expect("a path"));
        let method: Method = act
            .route
            .split(' ')
            .next()
            .and_then(|word| word.parse().ok())
            .expect("a method");
        let before = door.entries().await.len();
        let (status, answer) = door
            .ask(TOKEN, method.clone(), &path, json!({ "nonsense": 1 }))
            .await;
        let added = door.entries().await.len() - before;
        assert!(
            status.is_success() || added == 0,
            "{method} {path}: {status} {answer}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn entries_are_filtered_and_tell_who_did_what_to_what() {
    let door = Door::furnished().await;
    let token = door.token(crate::store::accounts::Role::Admin).await;
    let tags = json!({ "tags": { "a": "1" } });
    door.ask(&token, Method::PATCH, "/topics/orders", tags)
        .await;
    let entry = door.entries().await.remove(0);
    assert_eq!(entry["actor"], "admin");
    assert_eq!(entry["actorKind"], "ApiToken");
    assert_eq!(entry["action"], "Update");
    assert_eq!(entry["targetKind"], "Topic");
    assert_eq!(entry["target"], "orders");
    let change = json!([{ "property": "tags.a", "before": null, "after": "1" }]);
    assert_eq!(entry["changes"], change);
    for (query, expected) in [
        ("actor=admin", 1),
        ("actor=apitoken", 0),
        ("actor=ApiToken", 1),
        ("action=create&targetKind=topic", 2),
        ("target=ORDERS", 4),
        ("target=order", 0),
        ("target=orders/billing", 1),
        ("target=shop&action=Create", 4),
        ("target=orders&to=2026-01-01T00:00:00Z", 0),
    ] {
        let path = format!("/everpost/audit?{query}");
        let (_, page) = door.ask(TOKEN, Method::GET, &path, json!(null)).await;
        let found = page["value"].as_array().expect("entries");
        assert_eq!(found.len(), expected, "{query}: {found:#?}");
    }
    let everything = Value::from(door.entries().await).to_string();
    for secret in [token.as_str(), "hash", "whsec_"] {
        assert!(!everything.contains(secret), "{secret}");
    }
}

/// Marks everything that there is as if it came from one file.
async fn provision_all(door: &Door) {
    let (_, all) = door
        .ask(TOKEN, Method::GET, "/everpost/configuration", json!(null))
        .await;
    let marks = all["value"].as_array().into_iter().flatten().map(|object| {
        let kind: TargetKind = serde_json::from_value(object["kind"].clone()).expect("a kind");
        let target = kind.named(object["name"].as_str().expect("a name"));
        let file = "/etc/all.yaml".to_owned();
        Mark { target, file }
    });
    let claimed = door.broker.set_provisioned(marks.collect()).await;
    claimed.expect("stored");
}

#[tokio::test(start_paused = true)]
async fn what_a_file_provisions_nobody_else_defines() {
    let others = ["setting", "replay job", "API token"];
    for act in acts() {
        let door = Door::furnished().await;
        provision_all(&door).await;
        let before = door.database.rows();
        let (status, answer) = door.act(&act).await;
        let defines = ["Changed", "Saved", "Deleted", "Paused", "Resumed"];
        let is_rejected = defines.iter().any(|word| act.sentence.starts_with(word))
            && !others.iter().any(|other| act.sentence.contains(other));
        if !is_rejected {
            assert!(status.is_success(), "{}: {status} {answer}", act.route);
            continue;
        }
        assert_eq!(status, StatusCode::CONFLICT, "{}: {answer}", act.route);
        let problem = answer["error"]["message"].as_str().or(answer.as_str());
        let problem = problem.unwrap_or_default();
        let said = "is provisioned from /etc/all.yaml; change it there.";
        assert!(problem.contains(said), "{}: {problem}", act.route);
        assert_eq!(door.database.rows(), before, "{}", act.route);
    }
}

#[tokio::test(start_paused = true)]
async fn files_change_what_they_provision_and_delete_nothing_else() {
    let door = Door::furnished().await;
    provision_all(&door).await;
    let plan = |objects: Value, prune| {
        let wanted = json!({ "objects": objects, "prune": prune });
        door.ask(TOKEN, Method::POST, "/everpost/configuration/plan", wanted)
    };
    let changed =
        json!([{ "kind": "Queue", "name": "jobs", "properties": { "maxDeliveryCount": 3 } }]);
    let (_, rejected) = plan(changed.clone(), false).await;
    let fault = "it is provisioned from /etc/all.yaml; change it there";
    assert_eq!(rejected["faults"][0]["problem"], fault, "{rejected}");
    // Of all others, those go that the caller does not name.
    door.ask(TOKEN, Method::PUT, "/topics/other", located())
        .await;
    let (_, pruned) = plan(json!([]), true).await;
    let steps = pruned["steps"].as_array().expect("steps").clone();
    assert_eq!(steps.len(), 1, "{pruned}");
    assert_eq!(steps[0]["title"], "topic other");

    let marks = [("Queue", "jobs"), ("Topic", "orders")].map(|(kind, name)| {
        let kind: TargetKind = serde_json::from_value(json!(kind)).expect("a kind");
        let file = "/etc/all.yaml".to_owned();
        let target = kind.named(name);
        Mark { target, file }
    });
    let claimed = door.broker.set_provisioned(marks.to_vec()).await;
    claimed.expect("stored");
    let objects = changed.as_array().expect("objects").clone();
    let plan = door
        .doors
        .plan_provisioning(&objects)
        .await
        .expect("a plan");
    let steps = plan["steps"].as_array().expect("steps").clone();
    let titles: Vec<&str> = steps
        .iter()
        .filter_map(|step| step["title"].as_str())
        .collect();
    assert_eq!(titles, ["queue jobs", "topic orders"], "{plan}");
    for step in &steps {
        let path = step["path"].as_array().expect("a path").iter();
        let body = step["object"]
            .is_u64()
            .then(|| json!({ "properties": changed[0]["properties"] }));
        let path = path.filter_map(Value::as_str);
        let made = door
            .doors
            .provision("/etc/all.yaml", path, body.as_ref())
            .await;
        assert_eq!(made, Ok(()));
    }
    let entry = &door.entries().await[1];
    assert_eq!(entry["actorKind"], "Provisioning");
    assert_eq!(entry["actor"], "/etc/all.yaml");
    assert_eq!(entry["sentence"], "Changed maxDeliveryCount of queue jobs");

    // A part of what is to be deleted cannot stay.
    let claimed = door.broker.set_provisioned(vec![Mark {
        target: TargetKind::Namespace.named("shop"),
        file: String::new(),
    }]);
    claimed.await.expect("stored");
    let part = json!({ "kind": "Topic", "name": "shop/orders" });
    let plan = door.doors.plan_provisioning(&[part]).await.expect("a plan");
    let fault = "the namespace shop, which it belongs to, is to be deleted; name that, too";
    assert_eq!(plan["faults"][0]["problem"], fault, "{plan}");
}
