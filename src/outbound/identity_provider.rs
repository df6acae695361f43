//! The OpenID Connect provider that users sign in with: its discovery document and keys, and the exchange of an
//! authorization code for the claims about a user (OpenID Connect Core 1.0, section 3.1).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use url::{Url, form_urlencoded};

use crate::base::{Clock, Timestamp};
use crate::model::access::Secret;
use crate::model::identity::{Identity, UserSource};
use crate::model::limits::{RESPONSE_READ_MAX, TOKEN_DEADLINE, TOKEN_PAUSE};
use crate::outbound::Outbound;
use crate::outbound::transport::{HttpTransport, TransportRequest, TransportResponse};
use crate::wire::client_credentials as wire;
use crate::wire::id_token::{Claims, Expected, IdTokenError, KeySet, verify};

/// The time after which the discovery document and the keys are fetched again.
const FRESH_FOR: Duration = Duration::from_secs(3_600);

/// The maximum age of the discovery document and the keys while the provider cannot be reached.
const USABLE_FOR: Duration = Duration::from_secs(24 * 3_600);

/// The minimum time between two fetches of the keys for an unknown key id, so that made-up key ids cause no further
/// requests.
const KEYS_PAUSE: Duration = Duration::from_secs(60);

/// The settings of a client of an OpenID Connect provider.
#[derive(Clone, Debug)]
pub struct ProviderOptions {
    /// The display name of the provider.
    pub name: String,
    /// The issuer, exactly as in the provider's discovery document.
    pub issuer: String,
    pub client_id: String,
    pub client_secret: Option<Secret>,
    pub scopes: Vec<String>,
    /// The claim with the name of a user. `groups_claim` is the claim with the user's groups.
    pub user_claim: String,
    pub groups_claim: String,
}

/// A client of an OpenID Connect provider. Cloning is cheap.
#[derive(Clone)]
pub struct IdentityProvider {
    options: Arc<ProviderOptions>,
    transport: HttpTransport,
    clock: Clock,
    known: Arc<Mutex<KnownProvider>>,
}

/// The secrets of one sign-in.
#[derive(Clone, Copy, Debug)]
pub struct SignInSecrets<'a> {
    pub state: &'a str,
    pub nonce: &'a str,
    /// The PKCE code challenge (RFC 7636) in the authorization request, or the code verifier in the token request.
    pub pkce: &'a str,
    /// The start of the sign-in, if a user who is already signed in must authenticate again.
    pub again_since: Option<Timestamp>,
}

/// The reason that a sign-in failed. It contains no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    #[error("{0}")]
    Unreachable(String),
    #[error("{0}")]
    Answer(String),
    /// The provider rejected the authorization code.
    #[error("{0}")]
    WrongCode(String),
    #[error("its ID token is not valid: {0}")]
    Token(#[from] IdTokenError),
    #[error("it tells nothing by the name of {0}, which oidc.user_claim asks for")]
    NoName(String),
    #[error("it has not verified the e-mail address")]
    Unverified,
}

#[derive(Default)]
struct KnownProvider {
    provider: Option<Arc<Provider>>,
    read_at: Timestamp,
    failed: Option<(Timestamp, ProviderError)>,
}

struct Provider {
    metadata: Metadata,
    keys: KeySet,
}

/// The fields of a discovery document that are used here (OpenID Connect Discovery 1.0, section 3).
#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: Url,
    token_endpoint: Url,
    jwks_uri: Url,
    userinfo_endpoint: Option<Url>,
    end_session_endpoint: Option<Url>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

impl Metadata {
    /// Returns the URL of the keys and the URLs of the endpoints that receive secrets.
    fn called(&self) -> impl Iterator<Item = &Url> {
        let always = [
            &self.authorization_endpoint,
            &self.token_endpoint,
            &self.jwks_uri,
        ];
        always.into_iter().chain(&self.userinfo_endpoint)
    }
}

#[derive(Deserialize)]
struct ProviderTokens {
    id_token: String,
    access_token: Option<String>,
}

impl Outbound {
    /// Returns a client of a provider. Its requests use the same transport, and so the same egress policy, as all
    /// other requests.
    pub fn identity_provider(&self, options: ProviderOptions) -> IdentityProvider {
        IdentityProvider {
            options: Arc::new(options),
            transport: self.transport.clone(),
            clock: self.clock.clone(),
            known: Arc::default(),
        }
    }
}

impl IdentityProvider {
    /// Returns the display name of the provider.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// Returns the URL at which a user signs in. The provider then redirects the browser to `redirect_url`.
    pub async fn authorization_url(
        &self,
        secrets: SignInSecrets<'_>,
        redirect_url: &str,
    ) -> Result<Url, ProviderError> {
        let provider = self.provider(false).await?;
        let mut url = provider.metadata.authorization_endpoint.clone();
        let mut query = url.query_pairs_mut();
        query.extend_pairs([
            ("response_type", "code"),
            ("client_id", &self.options.client_id),
            ("redirect_uri", redirect_url),
            ("scope", &self.options.scopes.join(" ")),
            ("state", secrets.state),
            ("nonce", secrets.nonce),
            ("code_challenge", secrets.pkce),
            ("code_challenge_method", "S256"),
        ]);
        if secrets.again_since.is_some() {
            query.extend_pairs([("prompt", "login"), ("max_age", "0")]);
        }
        drop(query);
        Ok(url)
    }

    /// Returns the URL at which a user signs out of the provider; `None` if the provider has no end session endpoint.
    pub async fn end_session_url(&self) -> Result<Option<Url>, ProviderError> {
        let provider = self.provider(false).await?;
        let mut url = provider.metadata.end_session_endpoint.clone();
        if let Some(url) = &mut url {
            let client = ("client_id", &self.options.client_id);
            url.query_pairs_mut().append_pair(client.0, client.1);
        }
        Ok(url)
    }

    /// Returns whether `issuer`, the issuer that an authorization response names (RFC 9207), is this provider.
    pub fn is_issuer(&self, issuer: &str) -> bool {
        self.options.issuer == issuer
    }

    /// Exchanges an authorization code for the identity of the user. The provider has sent the code to `redirect_url`.
    pub async fn identify(
        &self,
        code: &str,
        secrets: SignInSecrets<'_>,
        redirect_url: &str,
    ) -> Result<Identity, ProviderError> {
        let provider = self.provider(false).await?;
        let tokens = self
            .exchange(&provider.metadata, code, secrets.pkce, redirect_url)
            .await?;
        let expected = Expected {
            issuer: &self.options.issuer,
            client_id: &self.options.client_id,
            nonce: secrets.nonce,
            authenticated_since: secrets.again_since,
        };
        let verify = |keys| verify(&tokens.id_token, keys, expected, self.clock.now());
        let claims = match verify(&provider.keys) {
            Err(IdTokenError::UnknownKey) => verify(&self.provider(true).await?.keys),
            verified => verified,
        }?;
        let claims = self.with_user_info(&provider.metadata, &tokens, claims);
        self.identity(&claims.await?)
    }

    fn identity(&self, claims: &Claims) -> Result<Identity, ProviderError> {
        let ProviderOptions {
            issuer,
            user_claim,
            groups_claim,
            ..
        } = &*self.options;
        let name = claims
            .text(user_claim)
            .ok_or_else(|| ProviderError::NoName(user_claim.clone()))?;
        if user_claim == "email" && claims.denies("email_verified") {
            return Err(ProviderError::Unverified);
        }
        let subject = claims.text("sub").ok_or(IdTokenError::Subject)?;
        Ok(Identity {
            source: UserSource::Oidc,
            subject: format!("{issuer} {subject}"),
            name: name.to_owned(),
            groups: claims.texts(groups_claim),
            authenticated_at: claims.authenticated_at(),
        })
    }

    /// Adds the claims of the UserInfo endpoint if the ID token lacks the name or the groups. Many providers return the
    /// name or the groups only from that endpoint.
    async fn with_user_info(
        &self,
        metadata: &Metadata,
        tokens: &ProviderTokens,
        claims: Claims,
    ) -> Result<Claims, ProviderError> {
        let wanted = [&self.options.user_claim, &self.options.groups_claim];
        let is_complete = wanted.iter().all(|name| claims.has(name));
        let (Some(url), Some(token), false) = (
            &metadata.userinfo_endpoint,
            &tokens.access_token,
            is_complete,
        ) else {
            return Ok(claims);
        };
        let bearer = wire::bearer(&Secret::new(token));
        let answer = self
            .call(Method::GET, url, Some(&bearer), Bytes::new())
            .await?;
        let more = Claims::read(&answer.body)
            .filter(|_| answer.status == 200)
            // UserInfo claims must have the `sub` of the ID token, to prevent substitution (OpenID Connect Core 1.0,
            // section 5.3.2).
            .filter(|more| more.text("sub") == claims.text("sub"));
        let wrong = || ProviderError::Answer(format!("{url} answered {}", answer.status));
        Ok(claims.with(more.ok_or_else(wrong)?))
    }

    async fn exchange(
        &self,
        metadata: &Metadata,
        code: &str,
        verifier: &str,
        redirect_url: &str,
    ) -> Result<ProviderTokens, ProviderError> {
        let methods = metadata.token_endpoint_auth_methods_supported.as_ref();
        let basic = "client_secret_basic";
        let takes_basic = methods.is_none_or(|all| all.iter().any(|method| method == basic));
        let (authorization, form) = self.token_request(code, verifier, redirect_url, takes_basic);
        let url = &metadata.token_endpoint;
        let answer = self
            .call(Method::POST, url, authorization.as_ref(), form)
            .await?;
        if answer.status != 200 {
            let problem = wire::read(answer.status, &answer.body).err();
            // Providers reject an authorization code with status 400 (RFC 6749, section 5.2), some with 403.
            let reason = match answer.status {
                400 | 403 => ProviderError::WrongCode,
                _ => ProviderError::Answer,
            };
            return Err(reason(problem.unwrap_or_default()));
        }
        read(url, &answer)
    }

    /// Returns the `Authorization` header, if any, and the form of the token request (RFC 6749, sections 2.3.1 and
    /// 4.1.3).
    fn token_request(
        &self,
        code: &str,
        verifier: &str,
        redirect_url: &str,
        takes_basic: bool,
    ) -> (Option<Secret>, Bytes) {
        let (id, secret) = (&self.options.client_id, &self.options.client_secret);
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs([
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_url),
            ("code_verifier", verifier),
            ("client_id", id),
        ]);
        let in_form = secret.as_ref().filter(|_| !takes_basic);
        form.extend_pairs(in_form.map(|secret| ("client_secret", secret.reveal())));
        let encoded =
            |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
        let in_header = secret.as_ref().filter(|_| takes_basic);
        let header = in_header.map(|secret| wire::basic(&encoded(id), &encoded(secret.reveal())));
        (header, form.finish().into())
    }

    /// Returns the metadata and the keys of the provider. Fetches both again if their age has reached [`FRESH_FOR`], or
    /// [`KEYS_PAUSE`] with `looks_again`.
    async fn provider(&self, looks_again: bool) -> Result<Arc<Provider>, ProviderError> {
        let mut known = self.known.lock().await;
        let now = self.clock.now();
        let age = now.since(known.read_at);
        let lasts = if looks_again { KEYS_PAUSE } else { FRESH_FOR };
        if let Some(provider) = known.provider.as_ref().filter(|_| age < lasts) {
            return Ok(Arc::clone(provider));
        }
        let usable = known.provider.clone().filter(|_| age < USABLE_FOR);
        if let Some((at, error)) = &known.failed
            && now.since(*at) < TOKEN_PAUSE
        {
            return usable.ok_or_else(|| error.clone());
        }
        match self.discover().await {
            Ok(provider) => {
                *known = KnownProvider {
                    provider: Some(Arc::clone(&provider)),
                    read_at: self.clock.now(),
                    failed: None,
                };
                Ok(provider)
            }
            Err(error) => {
                tracing::warn!(%error, "the sign-in provider cannot be asked");
                known.failed = Some((self.clock.now(), error.clone()));
                usable.ok_or(error)
            }
        }
    }

    async fn discover(&self) -> Result<Arc<Provider>, ProviderError> {
        let issuer = &self.options.issuer;
        let wrong = |problem: String| ProviderError::Answer(problem);
        let url = format!(
            "{}/.well-known/openid-configuration",
            issuer.trim_end_matches('/')
        );
        let url = Url::parse(&url).map_err(|error| wrong(format!("{url}: {error}")))?;
        let metadata: Metadata = read(&url, &self.get(&url).await?)?;
        if metadata.issuer != *issuer {
            let named = metadata.issuer;
            return Err(wrong(format!(
                "{url} calls the issuer {named:?}; set oidc.issuer to exactly that"
            )));
        }
        if url.scheme() == "https"
            && let Some(plain) = metadata.called().find(|it| it.scheme() != "https")
        {
            return Err(wrong(format!("{url} leads to {plain}, which is not https")));
        }
        let found = self.get(&metadata.jwks_uri).await?;
        let keys = KeySet::read(&found.body)
            .map_err(|problem| wrong(format!("{}: {problem}", metadata.jwks_uri)))?;
        Ok(Arc::new(Provider { metadata, keys }))
    }

    async fn get(&self, url: &Url) -> Result<TransportResponse, ProviderError> {
        self.call(Method::GET, url, None, Bytes::new()).await
    }

    async fn call(
        &self,
        method: Method,
        url: &Url,
        authorization: Option<&Secret>,
        body: Bytes,
    ) -> Result<TransportResponse, ProviderError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if method == Method::POST {
            let form = HeaderValue::from_static("application/x-www-form-urlencoded");
            headers.insert(CONTENT_TYPE, form);
        }
        if let Some(value) = authorization
            && let Ok(mut value) = HeaderValue::from_str(value.reveal())
        {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let request = TransportRequest {
            method,
            url: url.clone(),
            headers,
            body,
            deadline: TOKEN_DEADLINE,
            body_max: RESPONSE_READ_MAX,
            late: None,
            tls: None,
        };
        let sent = self.transport.send(request).await;
        sent.map_err(|error| ProviderError::Unreachable(format!("{url}: {error}")))
    }
}

fn read<T: DeserializeOwned>(url: &Url, answer: &TransportResponse) -> Result<T, ProviderError> {
    let problem = match answer.status {
        200 => match serde_json::from_slice(&answer.body) {
            Ok(read) => return Ok(read),
            // The error omits the body of the response, which may be a token.
            Err(_) => "answered something else than what is expected there".to_owned(),
        },
        status => format!("answered {status}"),
    };
    Err(ProviderError::Answer(format!("{url} {problem}")))
}
