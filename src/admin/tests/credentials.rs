//! Credentials, signing secrets and storage, set with the form: what is stored is never shown.

use serde_json::{Value, json};

use super::Appliance;
use super::deliver::{publish, settle, with_subscription};
use super::namespaces::{put_shop_orders, put_subscription};
use crate::base::TimeScale;
use crate::model::credentials::{Authentication, Credentials};
use crate::model::delivery::{DeliveryId, DeliveryState};
use crate::model::destination::{Destination, WebHook};
use crate::model::export::Outage;
use crate::store::{BlobEnd, BlobRequest};

const NEW: &str = "/admin/topics/orders/new-subscription";
const BILLING: &str = "/admin/topics/orders/subscriptions/billing";

fn webhook(appliance: &Appliance, name: &str) -> WebHook {
    let registry = appliance.broker.registry();
    let mut all = registry.subscriptions();
    let (_, found) = all
        .find(|(_, each)| each.name.as_str() == name)
        .expect("the subscription");
    match &found.definition.destination {
        Destination::WebHook(webhook) => webhook.clone(),
        Destination::ServiceBusQueue(_)
        | Destination::ServiceBusTopic(_)
        | Destination::Queue(_) => panic!("{name} has no webhook"),
    }
}

fn credentials(appliance: &Appliance, name: &str) -> Credentials {
    webhook(appliance, name).credentials
}

/// The destination of a webhook that is shown everything there is, besides `authentication`.
fn destination(authentication: &Value) -> Value {
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = rcgen::CertificateParams::new(["client.test".to_owned()]);
    let certificate = certificate.expect("parameters").self_signed(&key);
    let certificate = certificate.expect("a certificate").pem();
    json!({"endpointType": "WebHook", "properties": {
        "endpointUrl": "https://shop.example/in?code=hush-query",
        "skipValidation": true,
        "deliveryAttributeMappings": [
            {"name": "X-Key", "type": "Static", "properties": {"value": "hush-header", "isSecret": true}},
            {"name": "X-Id", "type": "Dynamic", "properties": {"sourceField": "id"}},
        ],
        "authentication": authentication,
        "clientCertificate": {"certificate": certificate, "key": key.serialize_pem()},
        "certificateAuthorities": certificate,
        "signingSecrets": [{"secret": "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}],
    }})
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_stays_when_the_form_is_sent_as_it_was_filled_in() {
    let (appliance, mut person) = with_subscription().await;
    put_shop_orders(&appliance).await;
    let ways = [
        (
            "basic",
            json!({"type": "Basic", "username": "ann", "password": "hush-password"}),
        ),
        ("bearer", json!({"type": "Bearer", "token": "hush-token"})),
        (
            "client",
            json!({"type": "ClientCredentials", "tokenUrl": "https://login.test/token",
            "clientId": "shop", "clientSecret": "hush-client", "scope": "events", "sentIn": "Body"}),
        ),
    ];
    for (way, authentication) in ways {
        let destination = destination(&authentication);
        let custom = json!({"properties": {"destination": destination}});
        let push = json!({"push": {"destination": destination}});
        let in_namespace = json!({"properties": {"deliveryConfiguration": push}});
        for (topic, name, body) in [
            ("orders", format!("{way}-custom"), custom),
            ("shop/orders", format!("{way}-namespace"), in_namespace),
        ] {
            put_subscription(&appliance, (topic, &name), &body).await;
            let before = webhook(&appliance, &name);
            assert!(before.credentials.authentication.is_some());
            let topic = topic.replace('/', "%2F");
            let edit = format!("/admin/topics/{topic}/subscriptions/{name}/edit");
            let form = person.open(&edit).await;
            assert!(!form.body.contains("hush"), "{}", form.body);
            let changes = [("labels", "kept"), ("maxEventsPerBatch", "7")];
            let page = person.send_filled(&edit, &changes).await;
            page.expect(&["has been changed", "kept"]);
            let mut after = webhook(&appliance, &name);
            assert_eq!(after.batch.max_events, Some(7), "{name}");
            after.batch = before.batch;
            assert_eq!(after, before, "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_kept_and_not_shown_again() {
    let (appliance, mut person) = with_subscription().await;
    let edit = format!("{BILLING}/edit");
    person.open(&edit).await;
    let bearer = ("authentication.type", "Bearer");
    let typed = [bearer, ("authentication.token", "hush-hush")];
    let page = person.send(&edit, &typed).await;
    page.expect(&["has been changed", "Bearer token"]);
    assert!(!page.body.contains("hush-hush"));
    let page = person.open(&edit).await;
    page.expect(&[
        "value=\"Bearer\" selected",
        "Leave it empty to keep the stored one.",
        "type=\"password\" id=\"authentication.token\"",
    ]);
    assert!(!page.body.contains("hush-hush"));
    let page = person.send(&edit, &[bearer, ("labels", "kept")]).await;
    page.expect(&["has been changed", "kept"]);
    let Some(Authentication::Bearer { token }) = credentials(&appliance, "billing").authentication
    else {
        panic!("no token");
    };
    assert_eq!(token.reveal(), "hush-hush");
    let activity = person.open("/admin/activity").await;
    assert!(!activity.body.contains("hush-hush"));
}

#[tokio::test(start_paused = true)]
async fn a_first_signing_secret_is_shown_once() {
    let (appliance, mut person) = with_subscription().await;
    person.open(NEW).await;
    let typed = [
        ("name", "audit"),
        ("endpointUrl", "https://shop.example/audit"),
        ("sign", "on"),
    ];
    let page = person.send(NEW, &typed).await;
    page.expect(&["Signing secret of audit", "it is not shown again"]);
    let signing = credentials(&appliance, "audit").signing;
    let secret = &signing.0[0].secret;
    page.expect(&[secret.reveal(), &secret.fingerprint()]);
    for path in ["", "/edit", "/signing"] {
        let page = person
            .open(&format!("/admin/topics/orders/subscriptions/audit{path}"))
            .await;
        assert_eq!(page.status, 200);
        assert!(!page.body.contains(secret.reveal()), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_form_does_not_show_a_secret_that_was_made() {
    let (_appliance, mut person) = with_subscription().await;
    person.open(NEW).await;
    let page = person.send(NEW, &[("name", "audit"), ("sign", "on")]).await;
    assert_eq!(page.status, 422);
    assert!(!page.body.contains("value=\"whsec_"));
}

#[tokio::test(start_paused = true)]
async fn signing_secrets_take_turns_and_end() {
    let (appliance, mut person) = with_subscription().await;
    let page = person.open(BILLING).await;
    page.expect(&["Signing Off"]);
    let signing = format!("{BILLING}/signing");
    person.open(&signing).await;
    let page = person.send(&signing, &[("gracePeriod", "P1D")]).await;
    page.expect(&["Signing secret of billing", "whsec_"]);
    person.open(&signing).await;
    let own = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let typed = [("secret", own), ("gracePeriod", "PT1H")];
    let page = person.send(&signing, &typed).await;
    assert_eq!(page.path, BILLING);
    assert!(!page.body.contains(own));
    let keys = credentials(&appliance, "billing").signing.0;
    assert_eq!(keys.len(), 2);
    page.expect(&[
        &keys[0].secret.fingerprint(),
        &keys[1].secret.fingerprint(),
        "until 09:00",
    ]);
    person.open(&signing).await;
    let page = person.send(&signing, &[("secret", "mine")]).await;
    assert_eq!(page.status, 422);
    page.expect(&["href=\"#secret\"", "It must be &#34;whsec_&#34;"]);

    person.open(&format!("{signing}/stop")).await;
    let page = person.send(&format!("{signing}/stop"), &[]).await;
    page.expect(&["billing signs no more.", "Signing Off"]);
    assert!(credentials(&appliance, "billing").signing.0.is_empty());
}

#[tokio::test(start_paused = true)]
async fn storage_for_dead_letters_is_named_without_its_secret() {
    let (_appliance, mut person) = with_subscription().await;
    let edit = format!("{BILLING}/edit");
    person.open(&edit).await;
    let typed = [
        ("deadLetterDestination", "S3"),
        ("blobContainerName", "dead"),
        ("storage.endpointUrl", "http://minio.test:9000"),
        ("storage.accessKeyId", "shop"),
        ("storage.secretAccessKey", "hush-hush"),
    ];
    let page = person.send(&edit, &typed).await;
    page.expect(&[
        "On final failure Export to S3",
        "Container dead Storage endpoint http://minio.test:9000 Region us-east-1 Access key ID shop",
    ]);
    let page = person.open(&edit).await;
    page.expect(&["value=\"S3\" selected", "value=\"shop\"", "value=\"dead\""]);
    assert!(!page.body.contains("hush-hush"));
    let page = person.send(&edit, &typed[..4]).await;
    page.expect(&["has been changed"]);
    person.open(&edit).await;
    let page = person
        .send(
            &edit,
            &[&typed[..3], &[("storage.accessKeyId", "other")]].concat(),
        )
        .await;
    assert_eq!(page.status, 422);
    page.expect(&["href=\"#storage.secretAccessKey\""]);
}

#[tokio::test(start_paused = true)]
async fn storage_tells_its_last_blob_and_that_it_is_away() {
    let (appliance, mut person) = with_subscription().await;
    appliance.webhooks.will_answer(401, "no", "who are you?");
    publish(&mut person).await;
    settle(&appliance, 1, DeliveryState::DeadLettered).await;
    let edit = format!("{BILLING}/edit");
    person.open(&edit).await;
    let typed = [
        ("deadLetterDestination", "directory"),
        ("blobContainerName", "dead"),
    ];
    person.send(&edit, &typed).await;

    let registry = appliance.broker.registry();
    let (topic, billing) = registry.subscriptions().next().expect("billing");
    let (ledger, now) = (&appliance.store.ledger, appliance.clock.now());
    let request = BlobRequest {
        subscription: billing.id,
        name: billing.name.clone(),
        topic: topic.topic.name.clone(),
        topic_resource_id: topic.resource_id.clone(),
        now,
    };
    let blob = ledger.begin_blob(request).await;
    let blob = blob.expect("an answer").expect("a blob");
    let outage = Outage::after(None, "no such folder".to_owned(), now, TimeScale::REAL);
    let failed = ledger.end_blob(blob.id, BlobEnd::Failed(outage), now).await;
    failed.expect("an outage");
    let page = person.open(BILLING).await;
    page.expect(&[
        "id=\"storage-outage\"",
        "the next try is in 10 s",
        "no such folder",
    ]);

    let stored = BlobEnd::Stored(vec![DeliveryId(1)]);
    let stored = ledger.end_blob(blob.id, stored, now).await;
    stored.expect("a stored blob");
    let page = person.open(BILLING).await;
    page.expect(&["Last export", &blob.name]);
    assert!(!page.body.contains("id=\"storage-outage\""));
    let page = person.open("/admin/dead-letters/1").await;
    page.expect(&["Exported as", &blob.name]);
}
