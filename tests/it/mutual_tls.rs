//! Real TLS, and a real authorization server: webhooks that want a client's certificate, authorities of
//! one's own, and how often a token is fetched.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::routing::post;
use axum::{Json, Router};
use everpost::base::{Clock, Timestamp};
use everpost::model::delivery::Outcome;
use everpost::model::event::{Event, EventData, EventKey, StoredEvent};
use everpost::model::name::SubscriptionName;
use everpost::model::subscription::{EventSubscription, SubscriptionId, Validation};
use everpost::model::topic::{InputSchema, TopicId};
use everpost::outbound::egress::EgressPolicy;
use everpost::outbound::transport::{HttpTransport, NetworkOptions, NetworkTransport};
use everpost::outbound::{
    DeliveryRequest, HandshakeRequest, HandshakeResult, Outbound, OutboundOptions,
};
use everpost::wire::resource::{self, SubscriptionContext};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;

/// An authority that signs certificates for both sides.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key in PEM.
struct Identity {
    certificate: String,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(parameters, key).expect("an authority"))
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn sign(&self, name: &str) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let parameters = CertificateParams::new([name.to_owned()]).expect("parameters");
        let signed = parameters.signed_by(&key, &self.0);
        Identity {
            certificate: signed.expect("a certificate").pem(),
            key,
        }
    }

    /// A webhook that lets in whoever has a certificate of this authority.
    async fn strict_webhook(&self) -> SocketAddr {
        let mut trusted = RootCertStore::empty();
        trusted.add(self.0.der().clone()).expect("an authority");
        let verifier = WebPkiClientVerifier::builder(Arc::new(trusted)).build();
        let server = self.sign("localhost");
        let chain = der(&server.certificate);
        let key = PrivateKeyDer::try_from(server.key.serialize_der()).expect("a key");
        let config = ServerConfig::builder()
            .with_client_cert_verifier(verifier.expect("a verifier"))
            .with_single_cert(vec![chain], key)
            .expect("a configuration");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(acceptor.clone(), stream));
            }
        });
        address
    }
}

fn der(pem: &str) -> CertificateDer<'static> {
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")
}

/// Answers one request with 200, and the validation event with its code.
async fn converse(acceptor: TlsAcceptor, stream: TcpStream) -> io::Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut request = Vec::new();
    while !is_whole(&request) {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let answer = r#"{"validationResponse":"the-code"}"#;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
        answer.len()
    );
    stream.write_all((head + answer).as_bytes()).await?;
    stream.shutdown().await
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    });
    length.is_none_or(|length| length.parse() == Ok(body.len()))
}

fn outbound() -> Outbound {
    let options = NetworkOptions {
        egress: EgressPolicy {
            allow: vec!["127.0.0.0/8".parse().expect("a network")],
            ..EgressPolicy::default()
        },
        clock: Clock::system(),
        extra_authorities: Vec::new(),
    };
    Outbound::new(OutboundOptions {
        transport: HttpTransport::Network(NetworkTransport::new(options).expect("a network")),
        clock: Clock::system(),
        origin: "eventgrid.azure.net".to_owned(),
        export_dir: None,
    })
}

/// An event subscription with these properties of its webhook.
fn subscription(id: i64, properties: &Value) -> EventSubscription {
    let body = json!({"properties": {"destination":
        {"endpointType": "WebHook", "properties": properties}}});
    let context = SubscriptionContext {
        event_retention: None,
        input_schema: &InputSchema::EventGridSchema,
        now: Timestamp::from_ms(0),
        replaces: None,
        require_https: false,
    };
    EventSubscription {
        id: SubscriptionId(id),
        topic_id: TopicId(1),
        name: SubscriptionName::parse("billing").expect("a name"),
        definition: resource::parse_subscription(&body, &context).expect("a subscription"),
        validation: Validation::succeeded(None),
        created_at: Timestamp::from_ms(0),
        updated_at: Timestamp::from_ms(0),
    }
}

async fn deliver(outbound: &Outbound, subscription: &EventSubscription) -> (Outcome, String) {
    let event = StoredEvent {
        key: EventKey(1),
        received_at: Timestamp::from_ms(0),
        event: Event {
            id: "1".to_owned(),
            source: None,
            event_type: "T".to_owned(),
            subject: Some("/s".to_owned()),
            time: Some("2026-11-21T06:40:53Z".to_owned()),
            data_version: Some("1".to_owned()),
            attributes: Vec::new(),
            data: EventData::Json("{}".to_owned()),
        },
    };
    let delivery_request = DeliveryRequest {
        subscription,
        topic_resource_id: "/t",
        events: &[&event],
        delivery_count: 0,
        deadline: Duration::from_secs(30),
    };
    let sent = outbound.deliver(delivery_request, None).await;
    let answer = sent.expect("a place to look the name up").result;
    (answer.outcome, answer.error.unwrap_or_default())
}

#[tokio::test]
async fn a_webhook_lets_in_who_has_the_right_certificate() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let address = authority.strict_webhook().await;
    let url = format!("https://localhost:{}/", address.port());
    let of = |id: i64, properties: Value| {
        let mut all = json!({ "endpointUrl": url });
        for (name, value) in properties.as_object().expect("an object") {
            all[name] = value.clone();
        }
        subscription(id, &all)
    };
    let certificate_of = |authority: &Authority| {
        let client = authority.sign("everpost");
        json!({"certificate": client.certificate, "key": client.key.serialize_pem()})
    };
    let outbound = outbound();
    let trusted = authority.pem();
    let right = of(
        1,
        json!({"certificateAuthorities": trusted, "clientCertificate": certificate_of(&authority)}),
    );
    assert_eq!(
        deliver(&outbound, &right).await,
        (Outcome::Delivered, String::new())
    );
    for (id, properties, expected) in [
        (2, json!({}), "unknown authority"),
        (
            3,
            json!({"clientCertificate": certificate_of(&authority)}),
            "unknown authority",
        ),
        (
            4,
            json!({"certificateAuthorities": stranger.pem()}),
            "invalid peer certificate",
        ),
        (
            5,
            json!({"certificateAuthorities": trusted}),
            "asks for a client certificate",
        ),
        (
            6,
            json!({"certificateAuthorities": trusted, "clientCertificate": certificate_of(&stranger)}),
            "fatal alert",
        ),
    ] {
        let (outcome, error) = deliver(&outbound, &of(id, properties)).await;
        assert_eq!(outcome, Outcome::SocketError, "{id}: {error}");
        assert!(
            error.starts_with("TLS failed: ") && error.contains(expected),
            "{id}: {error}"
        );
    }
    // Connections of one who was let in serve nobody else.
    assert_eq!(deliver(&outbound, &right).await.0, Outcome::Delivered);

    let request = HandshakeRequest {
        subscription: &right,
        topic_resource_id: "/t",
        code: "the-code",
        validation_url: "http://here.test/",
        event_id: uuid::Uuid::nil(),
        now: Timestamp::from_ms(0),
        deadline: Duration::from_secs(30),
    };
    let agreed = HandshakeResult::Agreed { allowed_rate: None };
    assert_eq!(outbound.shake(request).await, agreed);
}

/// An authorization server that takes its time, and a webhook; tells how many tokens were fetched.
async fn authorization_server() -> (SocketAddr, Arc<AtomicUsize>) {
    let fetched = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&fetched);
    let token = async move || {
        let number = count.fetch_add(1, Ordering::SeqCst);
        for _ in 0..100 {
            tokio::task::yield_now().await; // the others come to wait
        }
        Json(json!({"access_token": format!("t{number}"), "expires_in": 3_600}))
    };
    let routes = Router::new()
        .route("/token", post(token))
        .route("/webhook", post(async || "ok"));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (address, fetched)
}

#[tokio::test]
async fn those_who_wait_for_a_token_share_one_fetch() {
    let (address, fetched) = authorization_server().await;
    let properties = json!({
        "endpointUrl": format!("http://{address}/webhook"),
        "authentication": {"type": "ClientCredentials", "clientId": "c", "clientSecret": "s",
            "tokenUrl": format!("http://{address}/token")},
    });
    let (outbound, subscription) = (outbound(), subscription(1, &properties));
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (outbound, subscription) = (outbound.clone(), subscription.clone());
        all.spawn(async move { deliver(&outbound, &subscription).await });
    }
    while let Some(delivered) = all.join_next().await {
        assert_eq!(delivered.expect("an answer").0, Outcome::Delivered);
    }
    assert_eq!(fetched.load(Ordering::SeqCst), 1);
}

/// The policy of egress holds for authorization servers as well.
#[tokio::test]
async fn a_token_url_that_may_not_be_called_is_not() {
    let (address, fetched) = authorization_server().await;
    let properties = json!({
        "endpointUrl": format!("http://{address}/webhook"),
        "authentication": {"type": "ClientCredentials", "clientId": "c", "clientSecret": "s",
            "tokenUrl": format!("http://[::ffff:10.1.2.3]:{}/token", address.port())},
    });
    let (outcome, error) = deliver(&outbound(), &subscription(1, &properties)).await;
    assert_eq!(outcome, Outcome::TokenError);
    assert!(error.contains("not called: 10.1.2.3 is"), "{error}");
    assert_eq!(fetched.load(Ordering::SeqCst), 0);
}
