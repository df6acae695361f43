//! People whom a provider or a reverse proxy vouches for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use url::Url;

use super::person::{Person, Shown};
use super::{Appliance, PASSWORD};
use crate::admin::lists::link;
use crate::base::{Clock, Timestamp};
use crate::broker::people::GroupRoles;
use crate::broker::people::{ByTrustedProxy, ProxyHeaders, SignInOptions};
use crate::model::audit::Caller;
use crate::model::identity::UserSource;
use crate::outbound::egress::EgressPolicy;
use crate::outbound::identity_provider::ProviderOptions;
use crate::outbound::transport::{
    HttpTransport, Responder, TransportError, TransportRequest, TransportResponse,
};
use crate::outbound::{Outbound, OutboundOptions};
use crate::store::accounts::{Role, User};
use crate::store::audit::AuditQuery;

const URL: &str = "http://127.0.0.1:8080";
const ISSUER: &str = "https://id.example/realms/main";

fn roles() -> GroupRoles {
    let group = |name: &str| vec![name.to_owned()];
    GroupRoles {
        admin: group("root"),
        operator: group("ops"),
        viewer: group("all"),
    }
}

/// A provider that says of everybody what `claims` has, and signs it.
struct Provider {
    key: EcdsaKeyPair,
    is_down: Mutex<bool>,
    claims: Mutex<Value>,
    /// The nonces that its codes are for.
    nonces: Mutex<HashMap<String, String>>,
    asked: Mutex<Vec<String>>,
}

impl Provider {
    fn new() -> Arc<Self> {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        Arc::new(Self {
            key,
            is_down: Mutex::default(),
            claims: Mutex::new(
                json!({ "sub": "7", "preferred_username": "eve", "groups": ["ops"] }),
            ),
            nonces: Mutex::default(),
            asked: Mutex::default(),
        })
    }

    fn says(&self, name: &str, value: Value) {
        self.claims.lock().unwrap()[name] = value;
    }

    fn id_token(&self, nonce: &str) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let mut claims = self.claims.lock().unwrap().clone();
        for (name, value) in [
            ("iss", json!(ISSUER)),
            ("aud", json!("everpost")),
            ("nonce", json!(nonce)),
            ("iat", json!(0)),
            ("exp", json!(4_000_000_000_u64)),
        ] {
            let claims = claims.as_object_mut().expect("an object");
            claims.entry(name).or_insert(value);
        }
        let signed = format!("{}.{}", encode(&json!({ "alg": "ES256" })), encode(&claims));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(signature.expect("signed").as_ref());
        format!("{signed}.{signature}")
    }

    fn answer(&self, request: &TransportRequest) -> Value {
        let point = self.key.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|part| URL_SAFE_NO_PAD.encode(part));
        match request.url.path() {
            "/realms/main/.well-known/openid-configuration" => json!({
                "issuer": ISSUER, "authorization_endpoint": "https://id.example/auth",
                "token_endpoint": "https://id.example/token", "jwks_uri": "https://id.example/keys",
                "end_session_endpoint": "https://id.example/bye",
            }),
            "/keys" => json!({ "keys": [{ "kty": "EC", "crv": "P-256", "x": x, "y": y }] }),
            "/token" => {
                let form: HashMap<String, String> = url::form_urlencoded::parse(&request.body)
                    .into_owned()
                    .collect();
                let nonce = self.nonces.lock().unwrap().remove(&form["code"]);
                nonce.map_or(
                    Value::Null,
                    |nonce| json!({ "id_token": self.id_token(&nonce) }),
                )
            }
            path => panic!("{path} is asked for"),
        }
    }

    /// The address at the provider that somebody is sent to is that of a sign-in which the provider now agrees to:
    /// where it sends back to.
    fn agrees(&self, to: &Url) -> String {
        let query: HashMap<_, _> = to.query_pairs().into_owned().collect();
        let code = format!("code-{}", query["state"]);
        let mut nonces = self.nonces.lock().unwrap();
        nonces.insert(code.clone(), query["nonce"].clone());
        format!("/admin/login/callback?code={code}&state={}", query["state"])
    }
}

#[async_trait::async_trait]
impl Responder for Provider {
    async fn respond(
        &self,
        request: &TransportRequest,
    ) -> Result<TransportResponse, TransportError> {
        self.asked
            .lock()
            .unwrap()
            .push(request.url.path().to_owned());
        if *self.is_down.lock().unwrap() {
            return Err(TransportError::Socket("connection refused".to_owned()));
        }
        let answer = self.answer(request);
        Ok(TransportResponse {
            status: if answer.is_null() { 400 } else { 200 },
            headers: HeaderMap::new(),
            body: answer.to_string().into_bytes(),
            remote_address: None,
        })
    }
}

/// An appliance whose people sign in with the provider, and its administrator.
async fn with_provider(hides_password: bool) -> (Appliance, Arc<Provider>) {
    with_names("preferred_username", hides_password).await
}

/// One whose people have the names that such a claim of the provider says.
async fn with_names(user_claim: &str, hides_password: bool) -> (Appliance, Arc<Provider>) {
    let user_claim = user_claim.to_owned();
    let provider = Provider::new();
    let transport = HttpTransport::Scripted(provider.clone());
    let sign_in = |_: &Outbound| SignInOptions {
        provider: Some(
            Outbound::new(OutboundOptions {
                transport,
                clock: Clock::simulated(Timestamp::from_ms(1_800_000_000_000)),
                origin: String::new(),
                export_dir: None,
            })
            .identity_provider(ProviderOptions {
                name: "Keycloak".to_owned(),
                issuer: ISSUER.to_owned(),
                client_id: "everpost".to_owned(),
                client_secret: None,
                scopes: vec!["openid".to_owned()],
                user_claim,
                groups_claim: "groups".to_owned(),
            }),
        ),
        roles: roles(),
        hides_password,
        ..SignInOptions::default()
    };
    let appliance = Appliance::with(URL, EgressPolicy::default(), sign_in).await;
    let (appliance, _) = appliance.claim().await;
    (appliance, provider)
}

async fn begin(person: &mut Person, path: &str) -> Url {
    let answer = person.get_keeping(path).await;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{path}");
    let to = answer.headers()["location"].to_str().expect("a text");
    to.parse().expect("a URL")
}

async fn sign_in(person: &mut Person, provider: &Provider) -> Shown {
    let to = begin(person, "/admin/login/provider?next=/admin/topics").await;
    person.open(&provider.agrees(&to)).await
}

async fn found(appliance: &Appliance, name: &str) -> User {
    let found = appliance.people.accounts().find(name.to_owned()).await;
    found.expect("an answer").expect("a user")
}

async fn last_activity(appliance: &Appliance) -> String {
    let query = AuditQuery {
        limit: 1,
        ..AuditQuery::default()
    };
    let page = appliance.store.views.audit(query).await.expect("a page");
    page.rows[0].entry.describe()
}

#[tokio::test(start_paused = true)]
async fn who_signs_in_there_is_a_user_here_in_the_role_of_the_groups() {
    let (appliance, provider) = with_provider(false).await;
    let mut eve = appliance.somebody();
    eve.open("/admin/topics")
        .await
        .expect(&["Sign in with Keycloak", "Or with a password"]);
    let to = begin(&mut eve, "/admin/login/provider?next=/admin/topics").await;
    let asked: HashMap<_, _> = to.query_pairs().into_owned().collect();
    assert_eq!(asked["code_challenge_method"], "S256");
    assert_eq!(asked["redirect_uri"], format!("{URL}/admin/login/callback"));
    let shown = eve.open(&provider.agrees(&to)).await;
    assert_eq!(shown.path, "/admin/topics", "{}", shown.body);
    assert_eq!(found(&appliance, "eve").await.role, Role::Operator);

    // The groups, and the name, change; the account stays the same.
    let before = found(&appliance, "eve").await.id;
    provider.says("groups", json!(["all", "others"]));
    provider.says("preferred_username", json!("eva"));
    let mut eva = appliance.somebody();
    sign_in(&mut eva, &provider).await;
    let user = found(&appliance, "eva").await;
    assert_eq!(
        (user.id, user.role, user.source),
        (before, Role::Viewer, UserSource::Oidc)
    );
    let account = eva.open("/admin/account").await;
    account.expect(&["You sign in with Keycloak"]);
    assert!(!account.body.contains("Current password"));
    assert_eq!(eva.open("/admin/users").await.status, StatusCode::FORBIDDEN);

    eva.send("/admin/logout", &[])
        .await
        .expect(&["You are signed out here"]);
    let bye = begin(&mut eva, "/admin/login/provider/sign-out").await;
    assert_eq!(bye.as_str(), "https://id.example/bye?client_id=everpost");
}

#[tokio::test(start_paused = true)]
async fn whoever_has_no_role_is_told_so_and_recorded() {
    let (appliance, provider) = with_provider(false).await;
    provider.says("groups", json!(["guests"]));
    let mut eve = appliance.somebody();
    let shown = sign_in(&mut eve, &provider).await;
    assert_eq!(shown.status, StatusCode::UNAUTHORIZED);
    shown.expect(&[
        "none of your groups has the role viewer, operator or admin",
        "guests",
    ]);
    let recorded = last_activity(&appliance).await;
    assert!(
        recorded.starts_with("Was rejected at sign-in: none of your groups"),
        "{recorded}"
    );
    eve.open("/admin").await.expect(&["Sign in with Keycloak"]);

    // A name of a local user, and one who is disabled.
    provider.says("groups", json!(["root"]));
    provider.says("preferred_username", json!("ANN"));
    let shown = sign_in(&mut eve, &provider).await;
    shown.expect(&["another user is called ANN here already"]);
    provider.says("preferred_username", json!("eve"));
    sign_in(&mut eve, &provider).await.expect(&["Topics"]);
    let user = found(&appliance, "eve").await;
    let by = &Caller::command_line(appliance.clock.now());
    let disabled = crate::broker::people::UserPatch {
        disabled: Some(true),
        ..Default::default()
    };
    appliance
        .people
        .change(by, &user, disabled)
        .await
        .expect("disabled");
    eve.open("/admin").await.expect(&["Sign in with Keycloak"]);
    sign_in(&mut eve, &provider)
        .await
        .expect(&["the user is disabled"]);
    // Neither a password nor a link makes a way around the provider.
    let link = appliance.people.put_link(by, user.id).await;
    assert!(link.is_err(), "{link:?}");
    let set = appliance
        .people
        .set_password(by, &user, PASSWORD, None)
        .await;
    assert!(set.is_err(), "{set:?}");
}

#[tokio::test(start_paused = true)]
async fn a_sign_in_comes_back_once_to_the_browser_that_began_it() {
    let (appliance, provider) = with_provider(false).await;
    let (mut eve, mut bob) = (appliance.somebody(), appliance.somebody());
    let to = begin(&mut eve, "/admin/login/provider").await;
    let back = provider.agrees(&to);
    bob.open(&back).await.expect(&["begun in another browser"]);
    begin(&mut bob, "/admin/login/provider").await;
    bob.open(&back).await.expect(&["begun in another browser"]);
    let cookies = eve.cookies().clone();
    assert_eq!(eve.open(&back).await.path, "/admin");
    bob.set_cookies(cookies);
    bob.open(&provider.agrees(&to))
        .await
        .expect(&["has ended already"]);

    // A token for another sign-in, one that is too old, and an answer of somebody else.
    let check = async |name: &str, value: Value, said: &str| {
        provider.says(name, value);
        let mut person = appliance.somebody();
        let shown = sign_in(&mut person, &provider).await;
        assert_eq!(shown.status, StatusCode::UNAUTHORIZED, "{name}");
        shown.expect(&[said]);
        let mut claims = provider.claims.lock().unwrap();
        claims.as_object_mut().expect("an object").remove(name);
    };
    check("nonce", json!("other"), "it belongs to another sign-in").await;
    check("exp", json!(1_000), "it has expired").await;
    check("aud", json!("other"), "it is for another client").await;
    let mut person = appliance.somebody();
    let to = begin(&mut person, "/admin/login/provider").await;
    let back = format!("{}&iss=https://evil.example", provider.agrees(&to));
    person.open(&back).await.expect(&["is not from Keycloak"]);
    let to = begin(&mut person, "/admin/login/provider").await;
    let (_, state) = to
        .query_pairs()
        .find(|(name, _)| name == "state")
        .expect("a state");
    let back = format!(
        "/admin/login/callback?error=access_denied&error_description=%3Cb%3E&state={state}"
    );
    person
        .open(&back)
        .await
        .expect(&["Keycloak did not sign you in: access_denied <b>"]);
}

#[tokio::test(start_paused = true)]
async fn whom_the_provider_does_not_vouch_for_is_not_let_in() {
    for (claim, value) in [
        ("iat", Value::Null),
        ("email_verified", json!("false")),
        ("email_verified", json!(false)),
        ("email", json!("e\u{200b}ve@id.example")),
        ("email", json!("eve\u{feff}@id.example")),
    ] {
        let (appliance, provider) = with_names("email", false).await;
        provider.says("email", json!("eve@id.example"));
        provider.says("email_verified", json!(true));
        let mut eve = appliance.somebody();
        assert_eq!(sign_in(&mut eve, &provider).await.path, "/admin/topics");
        provider.says(claim, value.clone());
        let mut eve = appliance.somebody();
        let shown = sign_in(&mut eve, &provider).await;
        assert_ne!(shown.path, "/admin/topics", "{claim}: {value}");
        let shown = eve.open("/admin/topics").await;
        shown.expect(&["Sign in with Keycloak"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sign_in_leads_to_no_other_sign_in() {
    let (appliance, provider) = with_provider(false).await;
    for next in [
        "/admin/login/provider",
        "/admin/login/provider?next=/admin",
        "/admin/logout",
    ] {
        let mut eve = appliance.somebody();
        let next = link("/admin/login/provider", &[("next", next.to_owned())]);
        let to = begin(&mut eve, &next).await;
        let back = eve.get_keeping(&provider.agrees(&to)).await;
        assert_eq!(back.status(), StatusCode::SEE_OTHER, "{next}");
        assert_eq!(back.headers()["location"], "/admin", "{next}");
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_codes_are_guesses_of_their_network() {
    let (appliance, provider) = with_provider(false).await;
    let somebody = |address: &str| {
        let mut person = appliance.somebody();
        person.address = address.parse().ok();
        person
    };
    let guess = async |person: &mut Person| {
        let to = begin(person, "/admin/login/provider").await;
        let mut query = to.query_pairs();
        let (_, state) = query.find(|(name, _)| name == "state").expect("a state");
        let back = format!("/admin/login/callback?code=guessed&state={state}");
        person.open(&back).await.status
    };
    let mut guesser = somebody("192.0.2.1:443");
    let mut honest = somebody("192.0.2.100:443");
    let to = begin(&mut honest, "/admin/login/provider?next=/admin/topics").await;
    let back = provider.agrees(&to);
    // A code that is right costs nothing, nor does a provider that cannot be reached.
    for _ in 0..9 {
        let shown = sign_in(&mut guesser, &provider).await;
        assert_eq!(shown.path, "/admin/topics");
    }
    *provider.is_down.lock().unwrap() = true;
    for _ in 0..9 {
        assert_eq!(guess(&mut guesser).await, StatusCode::UNAUTHORIZED);
    }
    *provider.is_down.lock().unwrap() = false;
    for _ in 0..5 {
        assert_eq!(guess(&mut guesser).await, StatusCode::UNAUTHORIZED);
    }
    let asked = || provider.asked.lock().unwrap().len();
    let before = asked();
    for address in ["192.0.2.1:443", "192.0.2.200:443"] {
        let status = guess(&mut somebody(address)).await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{address}");
    }
    let shown = honest.open(&back).await;
    assert_eq!(shown.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(asked(), before, "the provider hears nothing of them");
    let mut eve = somebody("198.51.100.1:443");
    assert_eq!(sign_in(&mut eve, &provider).await.path, "/admin/topics");
    appliance.clock.advance(std::time::Duration::from_secs(1));
    let shown = honest.open(&back).await;
    assert_eq!(shown.path, "/admin/topics", "it goes on");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_away_leaves_the_passwords() {
    let (appliance, provider) = with_provider(false).await;
    *provider.is_down.lock().unwrap() = true;
    let mut ann = appliance.somebody();
    let shown = ann.open("/admin/login/provider").await;
    shown.expect(&["Keycloak cannot be reached", "or sign in with a password"]);
    ann.open("/admin/login/provider").await;
    assert_eq!(
        provider.asked.lock().unwrap().len(),
        1,
        "it is left alone for a moment"
    );
    assert_eq!(ann.sign_in(super::NAME, PASSWORD).await.path, "/admin");

    let (appliance, _) = with_provider(true).await;
    let mut ann = appliance.somebody();
    let shown = ann.open("/admin/login").await;
    assert!(!shown.body.contains("password"), "{}", shown.body);
    let token = ("csrf".to_owned(), ann.cookies()["everpost_login"].clone());
    let shown = ann.send_bare("/admin/login", &[token]).await;
    assert_eq!(shown.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test(start_paused = true)]
async fn who_has_no_password_here_signs_in_again_before_a_secret() {
    let (appliance, provider) = with_provider(false).await;
    provider.says("groups", json!(["root"]));
    let mut eve = appliance.somebody();
    sign_in(&mut eve, &provider).await;
    appliance
        .clock
        .advance(std::time::Duration::from_secs(15 * 60));
    eve.open("/admin/new-token").await;
    let fields = [("name", "ci"), ("role", "viewer")];
    let shown = eve.send("/admin/new-token", &fields).await;
    shown.expect(&["Confirm that it is you", "Sign in with Keycloak"]);
    let to = begin(
        &mut eve,
        "/admin/login/provider?next=/admin/new-token&again=1",
    )
    .await;
    assert!(
        to.query()
            .expect("a query")
            .contains("prompt=login&max_age=0")
    );
    let now_s = appliance.clock.now().as_ms() / 1_000;
    provider.says("auth_time", json!(now_s - 900));
    eve.open(&provider.agrees(&to))
        .await
        .expect(&["is not from a sign-in of just now"]);
    let to = begin(
        &mut eve,
        "/admin/login/provider?next=/admin/new-token&again=1",
    )
    .await;
    provider.says("auth_time", json!(now_s));
    assert_eq!(
        eve.open(&provider.agrees(&to)).await.path,
        "/admin/new-token"
    );
    let shown = eve.send("/admin/new-token", &fields).await;
    assert_eq!(shown.status, StatusCode::OK, "{}", shown.words());
}

async fn behind_proxy() -> Appliance {
    let sign_in = |_: &Outbound| SignInOptions {
        proxy: Some(ProxyHeaders {
            user: http::HeaderName::from_static("x-forwarded-user"),
            groups: http::HeaderName::from_static("x-forwarded-groups"),
        }),
        roles: roles(),
        ..SignInOptions::default()
    };
    let appliance = Appliance::with(URL, EgressPolicy::default(), sign_in).await;
    appliance.claim().await.0
}

#[tokio::test(start_paused = true)]
async fn a_trusted_proxy_says_who_it_is() {
    let appliance = behind_proxy().await;
    let mut eve = appliance.somebody();
    let named = |user, groups| {
        vec![
            ("host", "127.0.0.1:8080"),
            ("x-forwarded-user", user),
            ("x-forwarded-groups", groups),
        ]
    };
    eve.headers = named("eve", "others, ops");
    eve.open("/admin/topics").await.expect(&["Sign in"]);
    let found_eve = appliance.people.accounts().find("eve".to_owned()).await;
    assert_eq!(
        found_eve.expect("an answer"),
        None,
        "nobody else is believed"
    );

    eve.by_trusted_proxy = Some(ByTrustedProxy);
    assert_eq!(eve.open("/admin/topics").await.status, StatusCode::OK);
    let user = found(&appliance, "eve").await;
    assert_eq!(
        (user.role, user.source),
        (Role::Operator, UserSource::Proxy)
    );
    // Another role, from one request to the next, and then none.
    eve.headers = named("eve", "root");
    eve.open("/admin/users").await.expect(&["Reverse proxy"]);
    eve.headers = named("eve", "guests");
    let shown = eve.open("/admin/users").await;
    assert_eq!(shown.status, StatusCode::FORBIDDEN);
    shown.expect(&["You are signed in with the reverse proxy as eve, but not here"]);
    // Another person, and nobody any more: the session is not used by the next.
    eve.headers = named("root", "root");
    eve.open("/admin/account")
        .await
        .expect(&["root, Administrator"]);
    eve.headers = named("eve", "all");
    eve.open("/admin/account").await.expect(&["eve, Viewer"]);
    eve.headers.truncate(1);
    eve.open("/admin/account").await.expect(&["Sign in"]);
    // Two of a header are none: one of them is the client's, whichever it is.
    for (header, text) in [
        ("x-forwarded-user", "root"),
        ("x-forwarded-groups", "root"),
        ("x-forwarded-groups", ""),
        ("x-forwarded-groups", "all"),
    ] {
        let groups = if header == "x-forwarded-groups" {
            "guests"
        } else {
            "root"
        };
        for place in [0, 3] {
            eve.headers = named("eve", groups);
            eve.headers.insert(place, (header, text));
            let shown = eve.open("/admin/account").await;
            let is_in = shown.status == StatusCode::OK && !shown.body.contains("Sign in");
            assert!(!is_in, "{header}: {text}: {}", shown.words());
        }
    }
}
