//! Authentication: access keys and SAS tokens for publishers, the management token and API tokens for all other
//! clients.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::base::budget::PresentedKey;
use crate::base::request_memory::RequestMemory;
use crate::base::{Stopwatch, Timestamp};
use crate::broker::people::TokenHolder;
use crate::model::access::{AccessKeys, KeyOwner, KeyRef, Secret};
use crate::model::audit::{Actor, Caller};
use crate::model::event_filter::TextSearch;
use crate::model::registry::{NamespaceEntry, TopicEntry};
use crate::store::accounts::Role;
use crate::wire::sas::{self, SasError};

/// The credential that a publisher presents (rule 1.2).
#[derive(Debug)]
pub(super) enum Credential {
    None,
    Key { key: Secret, from: &'static str },
    Token { token: Secret, from: &'static str },
    Bearer(Secret),
}

impl Credential {
    /// Finds the credential in the headers, else in the query.
    pub(super) fn of(headers: &HeaderMap, uri: &Uri) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(key) = text("aeg-sas-key") {
            return Self::Key {
                key: Secret::new(key),
                from: "the header aeg-sas-key",
            };
        }
        if let Some(token) = text("aeg-sas-token") {
            return Self::Token {
                token: Secret::new(token),
                from: "the header aeg-sas-token",
            };
        }
        if let Some((scheme, rest)) = text("authorization").and_then(|value| value.split_once(' '))
        {
            let (secret, from) = (Secret::new(rest.trim()), "the header Authorization");
            if scheme.eq_ignore_ascii_case("SharedAccessSignature") {
                return Self::Token {
                    token: secret,
                    from,
                };
            }
            if scheme.eq_ignore_ascii_case("SharedAccessKey") {
                return Self::Key { key: secret, from };
            }
            if scheme.eq_ignore_ascii_case("Bearer") {
                return Self::Bearer(secret);
            }
        }
        // The administration client of Service Bus for Java omits the word `Bearer`.
        if let Some(token) = text("authorization").filter(|value| !value.contains(' ')) {
            return Self::Bearer(Secret::new(token));
        }
        match query_value(uri, "aeg-sas-key") {
            Some(key) => Self::Key {
                key: Secret::new(key),
                from: "the query aeg-sas-key",
            },
            None => Self::None,
        }
    }

    /// Reports whether the credential is valid for `topic`, regardless of the operation, so that a key alone can select
    /// the topic.
    pub(super) fn opens(&self, topic: &TopicEntry, now: Timestamp) -> bool {
        matches!(
            self.shown_key(RequestedPlace::Topic(topic), now),
            Ok(Some(_))
        )
    }

    /// Reports whether the credential is valid for `namespace`.
    pub(super) fn opens_namespace(&self, namespace: &NamespaceEntry, now: Timestamp) -> bool {
        matches!(
            self.shown_key(RequestedPlace::Namespace(namespace), now),
            Ok(Some(_))
        )
    }

    /// Returns the key of `place` that matches the credential, if any. Always compares with all keys.
    fn shown_key<'a>(
        &self,
        place: RequestedPlace<'a>,
        now: Timestamp,
    ) -> Result<Option<ShownKey<'a>>, SasError> {
        if let Self::Token { token, .. } = self {
            sas::check_form(token.reveal())?;
        }
        let mut found = None;
        for (owner, keys) in place.access_keys() {
            let (key, resource) = match self {
                Self::Key { key, .. } => (keys.find(key.reveal()), None),
                Self::Token { token, .. } => {
                    let claims = sas::verify(token.reveal(), keys, now)?;
                    claims.map_or((None, None), |claims| {
                        (Some(claims.key), Some(claims.resource))
                    })
                }
                Self::None | Self::Bearer(_) => (None, None),
            };
            found = found.or(key.map(|key| ShownKey {
                key: KeyRef { owner, key },
                secret: keys.get(key),
                resource,
            }));
        }
        Ok(found)
    }
}

/// Returns the value of a query parameter.
pub(super) fn query_value(uri: &Uri, name: &str) -> Option<String> {
    url::form_urlencoded::parse(uri.query()?.as_bytes())
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}

/// The topic that a request names, or why there is none.
pub(super) type SoughtTopic = Result<Arc<TopicEntry>, NoTopic>;

/// The reason why a request names no existing topic, and the namespace whose keys authorize the client to learn this.
pub(super) struct NoTopic {
    pub(super) error: Box<ApiError>,
    pub(super) namespace: Option<Arc<NamespaceEntry>>,
}

/// The topic or namespace that a request is for, as far as it exists.
#[derive(Clone, Copy)]
pub(super) enum RequestedPlace<'a> {
    Topic(&'a TopicEntry),
    /// A namespace that does not have the requested topic.
    Namespace(&'a NamespaceEntry),
    Nothing,
}

impl<'a> RequestedPlace<'a> {
    /// Returns the access keys that are valid here: those of the topic and of its namespace, or those of the namespace.
    fn access_keys(self) -> impl Iterator<Item = (KeyOwner, &'a AccessKeys)> {
        let pairs = match self {
            Self::Topic(topic) => {
                let mut keys = topic.access_keys();
                [keys.next(), keys.next()]
            }
            Self::Namespace(entry) => {
                let owner = KeyOwner::Namespace(entry.namespace.id);
                [Some((owner, &entry.namespace.keys)), None]
            }
            Self::Nothing => [None, None],
        };
        pairs.into_iter().flatten()
    }

    /// Returns the credential as an owner in the sharing of memory. All keys of a namespace and its topics have one
    /// holder, as do all keys of a topic without a namespace.
    pub(super) fn shown(self, opener: &Opener) -> PresentedKey {
        PresentedKey {
            holder: self.holder(),
            key: Some(match opener {
                Opener::Key(key) => format!("{key:?}"),
                Opener::Bearer(actor) => format!("{actor:?}"),
            }),
        }
    }

    fn holder(self) -> String {
        let resource_id = match self {
            Self::Topic(topic) => {
                let namespace = topic.namespace.as_ref();
                namespace.map_or(&topic.resource_id, |entry| &entry.resource_id)
            }
            Self::Namespace(entry) => &entry.resource_id,
            Self::Nothing => return String::new(),
        };
        resource_id.to_string()
    }
}

/// A request to publish to a topic or to receive from it.
pub(super) struct TopicRequest<'a> {
    pub(super) credential: &'a Credential,
    /// The host names that the signed resource may contain.
    pub(super) hosts: [&'a str; 2],
    pub(super) uri: &'a Uri,
    /// The address of the client.
    pub(super) address: Option<IpAddr>,
}

/// The credential that authorized a request for a topic or a namespace.
#[derive(Debug)]
pub(super) enum Opener {
    Key(KeyRef),
    Bearer(Actor),
}

/// Checks that a request may use `place`, or may learn that it does not exist, and returns the credential that
/// authorized it. A client without a valid key does not learn which topics exist.
pub(super) fn authorize_for_topic(
    state: &ApiState,
    place: RequestedPlace<'_>,
    request: &TopicRequest<'_>,
) -> Result<Opener, ApiError> {
    let (presented, from) = match request.credential {
        Credential::Key { key, from } => (key, from),
        Credential::Token { token, from } => (token, from),
        Credential::Bearer(token) => {
            let caller = check_role(state, token, request.address, Role::Operator)?;
            return Ok(Opener::Bearer(caller.actor));
        }
        Credential::None => {
            return Err(ApiError::unauthorized(
                "Request must contain one of the following authorization signature: aeg-sas-token, \
                 aeg-sas-key.",
            ));
        }
    };
    let now = state.broker.clock().now();
    let too_many = |wait| {
        ApiError::too_many_guesses(
            "Too many wrong keys came from this address; try again in a moment.",
            wait,
        )
    };
    let shown = match request.credential.shown_key(place, now) {
        Ok(shown) => shown,
        Err(error) => {
            // The error for an expired token reveals that its key is right, so guessing is limited here, too.
            let held_back = state.guesses.hold_back(request.address, now);
            held_back.map_err(too_many)?;
            return Err(explain(error, from));
        }
    };
    let secret = shown.as_ref().map_or(presented, |shown| shown.secret);
    let is_right = || shown.is_some().then_some(());
    let looked = state
        .guesses
        .examine(secret, request.address, now, is_right);
    looked.map_err(too_many)?;
    let Some(shown) = shown else {
        return Err(ApiError::unauthorized(format!(
            "The request authorization key is not authorized for this topic, or there is no such topic. It was read \
             from {from}."
        )));
    };
    if !shown.covers(request) {
        return Err(explain(SasError::WrongResource, from));
    }
    if let RequestedPlace::Topic(topic) = place
        && topic.topic.kind.disables_local_auth()
    {
        return Err(ApiError::unauthorized(format!(
            "The topic {} has disableLocalAuth set: it takes bearer tokens alone.",
            topic.topic.name
        )));
    }
    state.broker.note_key_use(shown.key);
    Ok(Opener::Key(shown.key))
}

/// A key of a topic or of its namespace that a request has presented, either as plain text or by a signature.
struct ShownKey<'a> {
    key: KeyRef,
    secret: &'a Secret,
    /// The resource that a SAS token was signed for; `None` for a plain key.
    resource: Option<String>,
}

impl ShownKey<'_> {
    fn covers(&self, request: &TopicRequest<'_>) -> bool {
        let Some(resource) = &self.resource else {
            return true;
        };
        let path = request.uri.path();
        let mut hosts = request.hosts.iter();
        hosts.any(|host| sas::resource_covers(resource, host, path))
    }
}

fn explain(error: SasError, from: &str) -> ApiError {
    let explanation = format!("The SAS token in {from} is not valid: {error}.");
    match error {
        SasError::Malformed(_) => ApiError::bad_request(explanation),
        SasError::WrongResource | SasError::Expired { .. } => ApiError::unauthorized(explanation),
    }
}

/// The time for which a token read from its file is trusted. After a rotation, the old token is rejected within this
/// time.
const TOKEN_TRUSTED: Duration = Duration::from_secs(1);

/// The management token. Its file is read again when a presented token does not match, so that a rotated token is
/// accepted without a restart, and after `TOKEN_TRUSTED`, so that the old token is rejected.
#[derive(Clone)]
pub struct ManagementToken {
    source: Arc<TokenSource>,
}

enum TokenSource {
    Configured(Secret),
    File {
        path: PathBuf,
        last_read: RwLock<(Secret, Stopwatch)>,
    },
}

impl ManagementToken {
    /// Returns a token from the configuration, which does not change.
    pub fn configured(token: Secret) -> Self {
        Self {
            source: Arc::new(TokenSource::Configured(token)),
        }
    }

    /// Returns a token that is read from a file, whose last known value is `token`.
    pub fn in_file(path: PathBuf, token: Secret) -> Self {
        let last_read = RwLock::new((token, Stopwatch::begin()));
        Self {
            source: Arc::new(TokenSource::File { path, last_read }),
        }
    }

    /// Reports whether `presented` is the management token.
    pub fn admits(&self, presented: &Secret) -> bool {
        if let TokenSource::File { last_read, .. } = self.source.as_ref() {
            let (token, read_at) = &*last_read.read().unwrap();
            if read_at.took() < TOKEN_TRUSTED && token.admits(presented.reveal()) {
                return true;
            }
        }
        self.secret().admits(presented.reveal())
    }

    /// Returns the current token, which is also the key of SAS signatures.
    pub(super) fn secret(&self) -> Secret {
        match self.source.as_ref() {
            TokenSource::Configured(token) => token.clone(),
            TokenSource::File { path, last_read } => {
                // If the file is missing or empty, the last token stays valid.
                let text = std::fs::read_to_string(path).unwrap_or_default();
                let mut guarded = last_read.write().unwrap();
                if !text.trim().is_empty() {
                    *guarded = (Secret::new(text.trim()), Stopwatch::begin());
                }
                guarded.0.clone()
            }
        }
    }
}

/// The authenticated sender of a request, with its role.
#[derive(Clone, Debug)]
pub(super) struct Principal {
    caller: Caller,
    pub(super) role: Role,
}

impl Principal {
    /// Returns the owner of the token `presented`, or `None` if the token is not valid.
    fn of(
        state: &ApiState,
        presented: &Secret,
        address: Option<IpAddr>,
    ) -> Result<Option<Self>, ApiError> {
        let at = state.broker.clock().now();
        let look = || match state.people.tokens().holder(presented) {
            Some(TokenHolder { name, role }) => Some((Actor::ApiToken(name), role)),
            None if state.token.admits(presented) => Some((Actor::ManagementToken, Role::Admin)),
            None => None,
        };
        let found = state.guesses.examine(presented, address, at, look);
        let found = found.map_err(|wait| {
            ApiError::too_many_guesses(
                "Too many wrong bearer tokens came from this address; try again in a moment.",
                wait,
            )
        })?;
        Ok(found.map(|(actor, role)| Self {
            caller: Caller { actor, address, at },
            role,
        }))
    }

    /// Returns the principal for a file of the provisioning directory.
    pub(super) fn provisioning(file: &str, at: Timestamp) -> Self {
        let (actor, address) = (Actor::Provisioning(file.to_owned()), None);
        Self {
            caller: Caller { actor, address, at },
            role: Role::Admin,
        }
    }

    /// Returns the text search of a request. Event data is searched only if the role may see it.
    pub(super) fn sought(&self, text: Option<String>) -> Option<TextSearch> {
        let in_data = self.role.sees_data();
        text.map(|text| TextSearch { text, in_data })
    }

    fn check(&self, needed: Role) -> Result<(), ApiError> {
        if self.role >= needed {
            return Ok(());
        }
        Err(ApiError::forbidden(format!(
            "This takes the role {}, and the {} has the role {}.",
            needed.name(),
            self.caller.actor,
            self.role.name()
        )))
    }
}

/// Extracts the principal that [`require_role`] has authenticated.
impl<S: Sync> FromRequestParts<S> for Principal {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let principal = parts.extensions.get::<Self>().cloned();
        principal.ok_or_else(|| ApiError::unauthorized("The request has no bearer token."))
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        Principal::from_request_parts(parts, state)
            .await
            .map(|principal| principal.caller)
            .map_err(IntoResponse::into_response)
    }
}

/// Returns the owner of a bearer token, who must have at least this role.
pub(super) fn check_role(
    state: &ApiState,
    token: &Secret,
    address: Option<IpAddr>,
    role: Role,
) -> Result<Caller, ApiError> {
    let principal = Principal::of(state, token, address)?.ok_or_else(|| {
        ApiError::unauthorized("The bearer token is neither the management token nor an API token.")
    })?;
    principal.check(role)?;
    Ok(principal.caller)
}

/// The address of the client.
pub(super) fn address_of(extensions: &Extensions) -> Option<IpAddr> {
    let address = extensions.get::<ConnectInfo<SocketAddr>>();
    address.map(|ConnectInfo(address)| address.ip().to_canonical())
}

/// Records the valid key or token of a request in the memory accounting of the request.
pub(super) fn note_shown(extensions: &Extensions, shown: impl FnOnce() -> PresentedKey) {
    if let Some(memory) = extensions.get::<RequestMemory>() {
        memory.note_key(shown);
    }
}

/// Middleware that rejects requests whose token does not have the role that the route requires.
pub(super) async fn require_role(
    State((state, role)): State<(ApiState, Role)>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let principal = principal(&state, request.headers(), request.extensions())?;
    note_shown(request.extensions(), || {
        PresentedKey::alone(format!("{:?}", principal.caller.actor)) // no user has the name of another kind
    });
    principal.check(role)?;
    state.options.azure.check(request.extensions())?;
    request.extensions_mut().insert(principal);
    Ok(next.run(request).await)
}

fn principal(
    state: &ApiState,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<Principal, ApiError> {
    // Clients cannot set this extension.
    if let Some(within) = extensions.get::<Principal>() {
        return Ok(within.clone());
    }
    let token = bearer(headers).ok_or_else(|| {
        ApiError::unauthorized(
            "Management needs the header `Authorization: Bearer TOKEN`; `everpost token` prints the \
             token.",
        )
    })?;
    Principal::of(state, &token, address_of(extensions))?.ok_or_else(|| {
        ApiError::unauthorized(
            "The bearer token is neither the management token nor an API token that is valid; \
             `everpost token` prints the right one.",
        )
    })
}

/// Returns the bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<Secret> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("Bearer")
        .then(|| Secret::new(token.trim()))
}
