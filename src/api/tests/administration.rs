//! Service Bus' administration API, as clients of all languages ask it.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{Door, TOKEN};
use crate::model::access::Secret;
use crate::model::queue::ServiceBusTier;
use crate::model::shared_access::ROOT_RULE;
use crate::wire::amqp::message::{Message, MessageProperties};
use crate::wire::service_bus::entity::EntityAddress;
use crate::wire::service_bus::sas::sign;
use crate::wire::service_bus::xml::Element;

/// The host that clients use here.
const HOST: &str = "bus.lan:9443";

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn element(&self) -> Element {
        Element::parse(&self.body).expect("a document")
    }

    /// The text at a path of elements.
    fn text(&self, path: &str) -> Option<String> {
        let mut found = self.element();
        for name in path.split('/') {
            found = found.child(name)?.clone();
        }
        Some(found.text)
    }
}

impl Door {
    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned()));
        let response = self.doors.clone().answer(request.expect("a request")).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }

    /// Asks as the root rule.
    async fn administer(&self, method: Method, path: &str, description: &str) -> Answer {
        let token = self.signature("https://bus.lan/", ROOT_RULE, TOKEN);
        let headers = [("host", HOST), ("authorization", token.as_str())];
        let entry = format!("<entry><content>{description}</content></entry>");
        self.send(method, path, &headers, &entry).await
    }

    fn signature(&self, resource: &str, rule: &str, key: &str) -> String {
        let until = self.clock.now() + Duration::from_secs(60);
        sign(resource, rule, until, &Secret::new(key))
    }

    async fn create(&self, path: &str, kind: &str) {
        let description = format!("<{kind}Description/>");
        let created = self.administer(Method::PUT, path, &description).await;
        assert_eq!(created.status, StatusCode::CREATED, "{}", created.body);
    }

    /// Makes an access rule with this right. Returns its first key.
    async fn key_of_rule(&self, rule: &str, right: &str) -> String {
        let path = format!("/everpost/accessRules/{rule}");
        let rights = json!({ "rights": [right] });
        let (status, answer) = self.ask(TOKEN, Method::PUT, &path, rights).await;
        assert!(status.is_success(), "{answer}");
        let path = format!("{path}/listKeys");
        let (_, keys) = self.ask(TOKEN, Method::POST, &path, json!({})).await;
        keys["key1"].as_str().expect("a key").to_owned()
    }
}

#[tokio::test]
async fn scheme_and_port_of_a_signature_do_not_count_and_its_host_does() {
    let door = Door::new().await;
    for (resource, expected) in [
        ("https://bus.lan/", StatusCode::OK),
        ("sb://bus.lan:9443/", StatusCode::OK),
        ("http://bus.lan", StatusCode::OK),
        ("https://other.lan/", StatusCode::UNAUTHORIZED),
        ("https://bus.lan/jobs", StatusCode::UNAUTHORIZED),
    ] {
        let token = door.signature(resource, ROOT_RULE, TOKEN);
        let headers = [("host", HOST), ("authorization", token.as_str())];
        let path = "/$Resources/queues";
        let answer = door.send(Method::GET, path, &headers, "").await;
        assert_eq!(answer.status, expected, "{resource}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_bearer_token_may_lack_its_word() {
    let door = Door::new().await;
    let token = door.token(crate::store::accounts::Role::Admin).await;
    for (token, expected) in [
        (token.as_str(), StatusCode::OK),
        ("another-token", StatusCode::UNAUTHORIZED),
    ] {
        let headers = [("host", HOST), ("authorization", token)];
        let path = "/$Resources/queues?api-version=2021-05";
        let answer = door.send(Method::GET, path, &headers, "").await;
        assert_eq!(answer.status, expected, "{}", answer.body);
    }
}

#[tokio::test]
async fn programs_find_an_empty_feed_at_the_root_and_browsers_the_pages() {
    let door = Door::new().await;
    for (path, accept, expected) in [
        ("/", None, StatusCode::OK),
        ("/", Some("application/atom+xml"), StatusCode::OK),
        ("/?api-version=2021-05", Some("text/html"), StatusCode::OK),
        (
            "/",
            Some("text/html,application/xhtml+xml"),
            StatusCode::SEE_OTHER,
        ),
    ] {
        let mut headers = vec![("host", HOST)];
        headers.extend(accept.map(|accept| ("accept", accept)));
        let answer = door.send(Method::GET, path, &headers, "").await;
        assert_eq!(answer.status, expected, "{path} {accept:?}");
        if answer.status == StatusCode::OK {
            let title = answer.text("title");
            assert_eq!(title.as_deref(), Some("Publicly Listed Services"));
            assert_eq!(answer.element().child("entry"), None);
        }
    }
}

#[tokio::test]
async fn ids_have_the_letters_of_the_path_that_was_asked_for() {
    let door = Door::new().await;
    door.create("/Sales", "Topic").await;
    door.create("/Sales/subscriptions/New", "Subscription")
        .await;
    door.create("/jobs", "Queue").await;
    let base = "http://bus.lan:9443";
    for (path, feed, entry) in [
        (
            "/$resources/Queues?$skip=0&$top=1",
            "/$resources/Queues?$skip=0&amp;$top=1",
            "/jobs",
        ),
        (
            "/sales/subscriptions/",
            "/sales/subscriptions/",
            "/sales/subscriptions/New",
        ),
        (
            "/Sales/Subscriptions/New/rules",
            "/Sales/Subscriptions/New/rules",
            "/Sales/Subscriptions/New/rules/$Default",
        ),
    ] {
        let answer = door.administer(Method::GET, path, "").await;
        let id = format!("<id>{base}{feed}</id>");
        assert!(answer.body.contains(&id), "{path}: {}", answer.body);
        let found = answer.text("entry/id");
        assert_eq!(found, Some(format!("{base}{entry}")), "{path}");
    }
    let one = door.administer(Method::GET, "/JOBS?enrich=false", "").await;
    assert_eq!(one.text("id"), Some(format!("{base}/JOBS?enrich=false")));
    assert_eq!(one.text("title").as_deref(), Some("jobs"));
}

#[tokio::test]
async fn a_rule_keeps_the_time_of_its_creation() {
    let door = Door::new().await;
    door.create("/sales", "Topic").await;
    door.create("/sales/Subscriptions/new", "Subscription")
        .await;
    let path = "/sales/Subscriptions/new/Rules/large";
    let created_at = door.clock.now().to_azure();
    let rule = "<RuleDescription><Filter xmlns:i=\"i\" i:type=\"SqlFilter\">\
                <SqlExpression>total &gt; 1</SqlExpression></Filter></RuleDescription>";
    let told = "content/RuleDescription/CreatedAt";
    let created = door.administer(Method::PUT, path, rule).await;
    assert_eq!(created.text(told).as_deref(), Some(created_at.as_str()));
    door.clock.advance(Duration::from_secs(60));
    let token = door.signature("https://bus.lan/", ROOT_RULE, TOKEN);
    let headers = [
        ("host", HOST),
        ("authorization", token.as_str()),
        ("if-match", "*"),
    ];
    let entry = format!("<entry><content>{rule}</content></entry>");
    let changed = door.send(Method::PUT, path, &headers, &entry).await;
    assert_eq!(changed.status, StatusCode::OK, "{}", changed.body);
    assert_eq!(changed.text(told).as_deref(), Some(created_at.as_str()));
}

#[tokio::test]
async fn last_uses_are_told() {
    let door = Door::new().await;
    door.create("/jobs", "Queue").await;
    door.create("/sales", "Topic").await;
    let read = async |path: &str, kind: &str| {
        let found = door.administer(Method::GET, path, "").await;
        let told = found.text(&format!("content/{kind}Description/AccessedAt"));
        told.expect("a time")
    };
    assert_eq!(read("/jobs", "Queue").await, "0001-01-01T00:00:00Z");
    door.clock.advance(Duration::from_secs(60));
    for (path, kind) in [("/jobs", "Queue"), ("/sales", "Topic")] {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("host", HOST), ("authorization", bearer.as_str())];
        let to = format!("{path}/messages");
        let sent = door.send(Method::POST, &to, &headers, "x").await;
        assert_eq!(sent.status, StatusCode::CREATED, "{}", sent.body);
        assert_eq!(read(path, kind).await, door.clock.now().to_azure());
    }
}

#[tokio::test]
async fn what_azure_rejects_is_rejected_in_its_words() {
    let door = Door::new().await;
    door.create("/jobs", "Queue").await;
    let (queue, of) = ("QueueDescription", "an existing Queue cannot be changed");
    for (method, path, description, expected) in [
        (
            Method::GET,
            "/jobs/$DeadLetterQueue",
            String::new(),
            "it goes with 'jobs'",
        ),
        (
            Method::GET,
            "/t/Subscriptions/s/$deadletterqueue",
            String::new(),
            "it goes with 't/Subscriptions/s'",
        ),
        (
            Method::PUT,
            "/small",
            format!("<{queue}><MaxSizeInMegabytes>7</MaxSizeInMegabytes></{queue}>"),
            "The specified value 7 is invalid. The property 'MaxSizeInMegabytes' must be one of the following values",
        ),
    ] {
        let answer = door.administer(method, path, &description).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
        assert!(answer.body.contains(expected), "{path}: {}", answer.body);
    }
    let token = door.signature("https://bus.lan/", ROOT_RULE, TOKEN);
    let headers = [
        ("host", HOST),
        ("authorization", token.as_str()),
        ("if-match", "*"),
    ];
    for property in [
        "RequiresSession",
        "RequiresDuplicateDetection",
        "EnablePartitioning",
    ] {
        let entry = format!(
            "<entry><content><{queue}><{property}>true</{property}></{queue}></content></entry>"
        );
        let answer = door.send(Method::PUT, "/jobs", &headers, &entry).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{property}");
        let expected = format!("The value for the {property} property of {of}");
        assert!(answer.body.contains(&expected), "{}", answer.body);
    }
}

/// A size that only the management API gives stays when a client sends back all that it was told.
#[tokio::test]
async fn a_size_that_is_there_already_is_taken() {
    let door = Door::new().await;
    let small = json!({ "properties": { "maxSizeInMegabytes": 7 } });
    let (status, _) = door.ask(TOKEN, Method::PUT, "/queues/small", small).await;
    assert_eq!(status, StatusCode::CREATED);
    let token = door.signature("https://bus.lan/", ROOT_RULE, TOKEN);
    let headers = [
        ("host", HOST),
        ("authorization", token.as_str()),
        ("if-match", "*"),
    ];
    let entry = "<entry><content><QueueDescription><MaxSizeInMegabytes>7</MaxSizeInMegabytes></QueueDescription>\
                 </content></entry>";
    let answer = door.send(Method::PUT, "/small", &headers, entry).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
}

#[tokio::test]
async fn a_size_of_messages_needs_a_version_that_has_it() {
    let door = Door::new().await;
    let name = "MaxMessageSizeInKilobytes";
    let (given, nil) = (
        format!("<{name}>1024</{name}>"),
        format!("<{name} nil=\"true\"/>"),
    );
    for kind in ["Queue", "Topic"] {
        for (number, (query, size, is_taken)) in [
            ("?api-version=2017-04", given.as_str(), false),
            ("?api-version=2017-04", nil.as_str(), true),
            ("?api-version=2017-04", "", true),
            ("?api-version=2021-05", given.as_str(), true),
            ("", given.as_str(), true),
        ]
        .into_iter()
        .enumerate()
        {
            let path = format!("/{kind}-{number}{query}");
            let description = format!("<{kind}Description>{size}</{kind}Description>");
            let answer = door.administer(Method::PUT, &path, &description).await;
            if is_taken {
                assert_eq!(
                    answer.status,
                    StatusCode::CREATED,
                    "{path}: {}",
                    answer.body
                );
            } else {
                assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
                let detail = answer.text("Detail").expect("a detail");
                let expected = "SubCode=40000. The property 'MaxMessageSizeInKilobytes' needs the api-version 2021-05";
                assert!(detail.starts_with(expected), "{detail}");
            }
        }
    }
}

#[tokio::test]
async fn the_standard_tier_has_one_size_of_messages() {
    let door = Door::new().await;
    let size = "MaxMessageSizeInKilobytes";
    let large = json!({ "maxMessageSizeInKilobytes": 2_048 });
    let rejected = "'MaxMessageSizeInKilobytes' cannot be set: the Standard tier";
    let sku = async || {
        let namespace = door.administer(Method::GET, "/$namespaceinfo", "").await;
        namespace.text("content/NamespaceInfo/MessagingSKU")
    };
    assert_eq!(sku().await.as_deref(), Some("Premium"));
    for (kind, noun, name, below) in [
        ("Queue", "Queue", "jobs", "/queues"),
        ("Topic", "ServiceBusTopic", "sales", "/serviceBusTopics"),
    ] {
        let (path, resource) = (format!("/{name}"), format!("{below}/{name}"));
        let of_kind = format!("content/{kind}Description/{size}");
        let told = async || {
            let answer = door.administer(Method::GET, &path, "").await;
            let (_, shown) = door.ask(TOKEN, Method::GET, &resource, json!({})).await;
            let shown = shown["properties"]["maxMessageSizeInKilobytes"].as_u64();
            (answer.text(&of_kind).expect("a size"), shown)
        };
        door.set_tier(ServiceBusTier::Premium);
        door.define(&resource, large.clone()).await;
        assert_eq!(told().await, ("2048".to_owned(), Some(2_048)));
        door.set_tier(ServiceBusTier::Standard);
        assert_eq!(told().await, ("256".to_owned(), Some(256)));
        for (path, element, expected) in [
            ("new", String::new(), StatusCode::CREATED),
            ("same", format!("<{size}>256</{size}>"), StatusCode::CREATED),
            (
                "large",
                format!("<{size}>1024</{size}>"),
                StatusCode::BAD_REQUEST,
            ),
        ] {
            let path = format!("/{path}-{name}");
            let description = format!("<{kind}Description>{element}</{kind}Description>");
            let answer = door.administer(Method::PUT, &path, &description).await;
            assert_eq!(answer.status, expected, "{path}: {}", answer.body);
            match answer.text("Detail") {
                None => assert_eq!(answer.text(&of_kind).as_deref(), Some("256"), "{path}"),
                Some(detail) => assert!(detail.contains(rejected), "{detail}"),
            }
        }
        let body = json!({ "properties": large });
        let (status, answer) = door.ask(TOKEN, Method::PUT, &resource, body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
        assert!(answer.to_string().contains(rejected), "{answer}");
        let wanted = json!({ "objects": [{ "kind": noun, "name": name, "properties": large }] });
        let path = "/everpost/configuration/plan";
        let (_, plan) = door.ask(TOKEN, Method::POST, path, wanted).await;
        let fault = &plan["faults"][0];
        assert_eq!(
            fault["path"], "properties.maxMessageSizeInKilobytes",
            "{plan}"
        );
        door.set_tier(ServiceBusTier::Premium);
        assert_eq!(
            told().await,
            ("2048".to_owned(), Some(2_048)),
            "it was kept"
        );
        door.set_tier(ServiceBusTier::Standard);
    }
    assert_eq!(sku().await.as_deref(), Some("Standard"));
}

#[tokio::test]
async fn who_may_not_manage_does_not_learn_what_there_is() {
    let door = Door::new().await;
    door.create("/jobs", "Queue").await;
    let keys = door.ask(TOKEN, Method::POST, "/topics/jobs/listKeys", json!({}));
    let (_, keys) = keys.await;
    let key = keys["key1"].as_str().expect("a key");
    let ask = async |method: Method, path: &str, token: &str| {
        let headers = [("host", HOST), ("authorization", token)];
        let answer = door.send(method, path, &headers, "").await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{}", answer.body);
        answer.text("Detail").expect("a detail")
    };
    let guessed = |name: &str| door.signature(&format!("https://bus.lan/{name}"), "key1", "guess");
    let of_known = ask(Method::GET, "/jobs", &guessed("jobs")).await;
    let of_unknown = ask(Method::GET, "/none", &guessed("none")).await;
    assert_eq!(of_known, of_unknown);
    let expected = "SubCode=40103: InvalidSignature: The token has an invalid signature.";
    assert!(of_known.starts_with(expected), "{of_known}");
    let token = door.signature("https://bus.lan/jobs", "key1", key);
    let read = "Manage,EntityRead claims required for this operation. ";
    let unauthorized = "401 SubCode=40100: Unauthorized : Unauthorized access for ";
    for (method, path, before, expected) in [
        (Method::GET, "/jobs", "", read),
        (Method::GET, "/none", "", read),
        (Method::GET, "/$Resources/queues", "", read),
        (Method::GET, "/$Resources/topics", "", read),
        (
            Method::PUT,
            "/jobs",
            "",
            "Authorization failed for specified action: Manage,EntityWrite. ",
        ),
        (
            Method::DELETE,
            "/jobs",
            "",
            "Authorization failed for specified action: Manage,EntityDelete. ",
        ),
        (
            Method::GET,
            "/jobs/Subscriptions",
            unauthorized,
            "'EnumerateSubscriptions' operation",
        ),
        (
            Method::GET,
            "/jobs/Subscriptions/s",
            unauthorized,
            "'GetSubscription' operation",
        ),
        (
            Method::PUT,
            "/jobs/Subscriptions/s",
            unauthorized,
            "'CreateOrUpdateSubscription' operation",
        ),
        (
            Method::DELETE,
            "/jobs/Subscriptions/s",
            unauthorized,
            "'DeleteSubscription' operation",
        ),
        (
            Method::GET,
            "/jobs/Subscriptions/s/Rules",
            unauthorized,
            "'EnumerateRules' operation",
        ),
        (
            Method::GET,
            "/jobs/Subscriptions/s/Rules/r",
            unauthorized,
            "'GetRule' operation",
        ),
        (
            Method::PUT,
            "/jobs/Subscriptions/s/Rules/r",
            unauthorized,
            "'CreateOrUpdateRule' operation",
        ),
        (
            Method::DELETE,
            "/jobs/Subscriptions/s/Rules/r",
            unauthorized,
            "'DeleteRule' operation",
        ),
    ] {
        let detail = ask(method, path, &token).await;
        let told = detail.strip_prefix(before);
        let begins = told.is_some_and(|told| told.starts_with(expected));
        assert!(begins, "{path}: {detail}");
    }
    let key = door.key_of_rule("all", "Listen").await;
    let of_all = door.signature("https://bus.lan/", "all", &key);
    for (path, status) in [
        ("/none", StatusCode::NOT_FOUND),
        ("/jobs", StatusCode::UNAUTHORIZED),
        ("/none/Subscriptions/s", StatusCode::UNAUTHORIZED),
    ] {
        let headers = [("host", HOST), ("authorization", &*of_all)];
        let answer = door.send(Method::GET, path, &headers, "").await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
    }
    let expired = sign(
        "https://bus.lan/",
        ROOT_RULE,
        door.clock.now(),
        &Secret::new(TOKEN),
    );
    let expected = "ExpiredToken: The token is expired. Expiration time: '";
    for (method, path, number) in [
        (Method::GET, "/jobs", "SubCode=40103: "),
        (Method::POST, "/jobs/messages", ""),
    ] {
        let detail = ask(method, path, &expired).await;
        let text = detail.strip_prefix(number);
        let begins = text.is_some_and(|text| text.starts_with(expected));
        assert!(begins, "{path}: {detail}");
    }
}

/// Whatever a target looks like, it is the queue that messages would go on to for which a token has to allow sending.
#[tokio::test]
async fn forwarding_is_allowed_by_the_queue_that_is_meant() {
    let door = Door::new().await;
    for name in ["fb", "foo", "own", "team/queues/fb"] {
        door.create(&format!("/{name}"), "Queue").await;
    }
    let signed = async |resource: &str, rule: &str, right: &str, own: &str| {
        let key = door.key_of_rule(rule, right).await;
        door.signature(&format!("https://bus.lan/{resource}"), own, &key)
    };
    let of_own = signed("own", "own%2Fm", "Manage", "m").await;
    let of_team = signed("team/queues/fb", "team%2Fqueues%2Ffb%2Fm", "Manage", "m").await;
    let to_foo = signed("foo", "all", "Send", "all").await;
    let to_fb = signed("fb", "all", "Send", "all").await;
    for (queue, own, target, to, expected) in [
        (
            "own",
            &of_own,
            "/foo/queues/fb",
            &to_foo,
            StatusCode::UNAUTHORIZED,
        ),
        ("own", &of_own, "/foo/queues/fb", &to_fb, StatusCode::OK),
        (
            "own",
            &of_own,
            "sb://foo/fb",
            &to_foo,
            StatusCode::UNAUTHORIZED,
        ),
        ("own", &of_own, "fb", &to_fb, StatusCode::OK),
        (
            "own",
            &of_own,
            "team~queues~fb",
            &to_fb,
            StatusCode::UNAUTHORIZED,
        ),
        (
            "team/queues/fb",
            &of_team,
            "/team/queues/fb",
            &of_team,
            StatusCode::UNAUTHORIZED,
        ),
    ] {
        for (property, header) in [
            ("ForwardTo", "ServiceBusSupplementaryAuthorization"),
            (
                "ForwardDeadLetteredMessagesTo",
                "ServiceBusDlqSupplementaryAuthorization",
            ),
        ] {
            let headers = [
                ("host", HOST),
                ("authorization", own.as_str()),
                ("if-match", "*"),
                (header, to.as_str()),
            ];
            let entry = format!(
                "<entry><content><QueueDescription><{property}>{target}</{property}></QueueDescription></content></entry>"
            );
            let path = format!("/{queue}?api-version=2021-05");
            let answer = door.send(Method::PUT, &path, &headers, &entry).await;
            assert_eq!(answer.status, expected, "{target}: {}", answer.body);
        }
    }
}

#[tokio::test]
async fn links_lead_to_where_the_client_has_asked() {
    let door = Door::new().await;
    for name in ["graves", "jobs"] {
        door.create(&format!("/{name}"), "Queue").await;
    }
    // A URL that was given stays as it is.
    for (name, given, expected) in [
        ("one", "graves", "sb://bus.lan:9443/graves"),
        (
            "two",
            "https://elsewhere/graves",
            "https://elsewhere/graves",
        ),
    ] {
        let queue = "QueueDescription";
        let forwarding = format!("<{queue}><ForwardTo>{given}</ForwardTo></{queue}>");
        let path = format!("/{name}");
        let made = door.administer(Method::PUT, &path, &forwarding).await;
        let told = made.text("content/QueueDescription/ForwardTo");
        assert_eq!(told.as_deref(), Some(expected), "{}", made.body);
    }
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("host", HOST), ("authorization", bearer.as_str())];
    let path = "/jobs/messages";
    let sent = door.send(Method::POST, path, &headers, "x").await;
    assert_eq!(sent.status, StatusCode::CREATED);
    let path = "/jobs/messages/head";
    let locked = door.send(Method::POST, path, &headers, "").await;
    let location = locked.headers[header::LOCATION].to_str().expect("a URL");
    assert!(
        location.starts_with("http://bus.lan:9443/jobs/messages/1/"),
        "{location}"
    );
    let list = door.send(Method::GET, "/queues?$top=1", &headers, "").await;
    assert!(
        list.body.contains("\"http://bus.lan:9443/queues?"),
        "{}",
        list.body
    );
}

#[tokio::test]
async fn what_is_nowhere_is_told_as_it_was_asked_for() {
    let door = Door::new().await;
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("host", HOST), ("authorization", bearer.as_str())];
    let group = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid";
    for (path, expected) in [
        (
            format!("{group}/odd/t"),
            format!("There is nothing at GET {group}/odd/t. "),
        ),
        (
            format!("{group}/topics/t/listKeys"),
            format!("GET does not apply to {group}/topics/t/listKeys."),
        ),
        (
            "/queues/jobs/eventSubscriptions".to_owned(),
            "are under /topics/jobs/eventSubscriptions.".to_owned(),
        ),
    ] {
        let answer = door.send(Method::GET, &path, &headers, "").await;
        assert!(answer.status.is_client_error(), "{path}");
        assert!(answer.body.contains(&expected), "{}", answer.body);
        let id = answer.headers["x-ms-request-id"].to_str().expect("an id");
        assert!(answer.body.contains(id), "{}", answer.body);
    }
}

#[tokio::test]
async fn health_is_told_as_the_emulator_tells_it() {
    let door = Door::new().await;
    let answer = door
        .send(Method::GET, "/health", &[("host", HOST)], "")
        .await;
    assert_eq!(answer.status, StatusCode::OK);
    let expected = json!({ "status": "healthy", "message": "Service is healthy." });
    let told: Value = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!(told, expected);
}

#[tokio::test]
async fn names_of_resources_have_a_tilde_for_a_slash() {
    let door = Door::new().await;
    for (path, body) in [
        ("/queues/shop~graves", json!({})),
        (
            "/queues/shop~jobs",
            json!({ "properties": { "forwardTo": "shop~graves" } }),
        ),
        ("/serviceBusTopics/shop~news", json!({})),
        ("/serviceBusTopics/shop~news/subscriptions/all", json!({})),
    ] {
        let (status, answer) = door.ask(TOKEN, Method::PUT, path, body).await;
        assert_eq!(status, StatusCode::CREATED, "{path}: {answer}");
    }
    let found = door.administer(Method::GET, "/shop/jobs", "").await;
    assert!(
        found.body.contains("/shop/graves</ForwardTo>"),
        "{}",
        found.body
    );
    let (status, _) = door
        .ask(TOKEN, Method::GET, "/queues/shop%2Fjobs", json!({}))
        .await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn what_is_scheduled_counts_in_the_topic_alone() {
    let door = Door::new().await;
    door.create("/sales", "Topic").await;
    for name in ["one", "two"] {
        let path = format!("/sales/Subscriptions/{name}");
        door.create(&path, "Subscription").await;
    }
    let bearer = format!("Bearer {TOKEN}");
    let at = "{\"ScheduledEnqueueTimeUtc\": \"2030-01-01T00:00:00Z\"}";
    for properties in [at, at, "{}"] {
        let headers = [
            ("host", HOST),
            ("authorization", bearer.as_str()),
            ("brokerproperties", properties),
        ];
        let path = "/sales/messages";
        let sent = door.send(Method::POST, path, &headers, "x").await;
        assert_eq!(sent.status, StatusCode::CREATED, "{}", sent.body);
    }
    for (path, kind, active, scheduled) in [
        ("/sales", "Topic", "0", "2"),
        ("/sales/Subscriptions/one", "Subscription", "1", "0"),
    ] {
        let found = door.administer(Method::GET, path, "").await;
        let of = format!("content/{kind}Description/CountDetails");
        let count = |name: &str| found.text(&format!("{of}/{name}MessageCount"));
        assert_eq!(count("Active").as_deref(), Some(active), "{path}");
        assert_eq!(count("Scheduled").as_deref(), Some(scheduled), "{path}");
    }
}

#[tokio::test]
async fn transfers_are_counted_and_those_that_could_not_go_on_received() {
    let door = Door::new().await;
    for name in ["/jobs", "/done"] {
        door.create(name, "Queue").await;
    }
    let broker = &door.state().broker;
    let entity = |name: &str| EntityAddress::of_parts([name]).expect("an address");
    let [found, onward] =
        ["jobs", "done"].map(|name| broker.resolve(&entity(name)).expect("a queue"));
    let sender = found.sender_to(&onward).expect("a sender");
    let message = Message::of(&MessageProperties::default(), Vec::new(), "x".into());
    sender.send(vec![message]).await.expect("sent");
    let counts = async || {
        let shown = door.administer(Method::GET, "/jobs", "").await;
        let of = "content/QueueDescription/CountDetails";
        let names = ["Active", "DeadLetter", "Transfer", "TransferDeadLetter"];
        names.map(|name| shown.text(&format!("{of}/{name}MessageCount")))
    };
    let told = |counts: [&str; 4]| counts.map(|count| Some(count.to_owned()));
    assert_eq!(counts().await, told(["0", "0", "1", "0"]));
    door.delete("/queues/done").await;
    broker.forward_all().await.expect("looked at");
    assert_eq!(counts().await, told(["0", "0", "0", "1"]));
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("host", HOST), ("authorization", bearer.as_str())];
    let path = "/jobs/$Transfer/$DeadLetterQueue/messages/head?timeout=0";
    for expected in [StatusCode::OK, StatusCode::NO_CONTENT] {
        let answer = door.send(Method::DELETE, path, &headers, "").await;
        assert_eq!(answer.status, expected, "{}", answer.body);
    }
    assert_eq!(counts().await, told(["0"; 4]));
}
