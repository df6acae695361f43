//! Authentication to a webhook: TLS settings and the header `Authorization`.
//!
//! Access tokens are requested from authorization servers through the same transport as all other requests, at most one
//! at a time per subscription. A token is cached until shortly before it expires, or until the webhook rejects it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};

use crate::base::Timestamp;
use crate::model::access::Secret;
use crate::model::credentials::{Authentication, ClientCredentials, Credentials, TlsMaterial};
use crate::model::destination::WebHook;
use crate::model::limits::{
    RESPONSE_READ_MAX, TOKEN_DEADLINE, TOKEN_LIFE, TOKEN_MARGIN, TOKEN_PAUSE,
};
use crate::model::subscription::SubscriptionId;
use crate::outbound::Outbound;
use crate::outbound::mask::Mask;
use crate::outbound::transport::{TransportError, TransportRequest, TransportResponse};
use crate::wire::client_credentials::{self as wire, AccessToken};

/// The status by which a webhook rejects a token.
const UNAUTHORIZED: u16 = 401;

/// Number of cached tokens, one per subscription, at which those that no request uses are dropped.
const SLOTS_MAX: usize = 4_096;

/// The fetched tokens. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub(super) struct TokenBook(Arc<Mutex<HashMap<SubscriptionId, Slot>>>);

/// The token of one subscription; locked while it is fetched.
type Slot = Arc<tokio::sync::Mutex<Option<KnownTokens>>>;

struct KnownTokens {
    /// The credentials it was fetched with: after a change of them it is not used.
    client: ClientCredentials,
    /// A failure is kept for a moment too, so that not every waiting request fetches again.
    fetched: Result<Secret, String>,
    until: Timestamp,
}

/// A token for a request.
struct RequestToken {
    value: Secret,
    /// Is true if it was fetched just now, so that a rejection does not mean that it is too old.
    is_fresh: bool,
}

impl TokenBook {
    fn slot(&self, id: SubscriptionId) -> Slot {
        let mut slots = self.0.lock().unwrap();
        if slots.len() >= SLOTS_MAX {
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        Arc::clone(slots.entry(id).or_default())
    }

    /// Drops a token that was rejected, unless it has been replaced.
    async fn forget(&self, id: SubscriptionId, rejected: &Secret) {
        let slot = self.slot(id);
        let mut known = slot.lock().await;
        if known.as_ref().and_then(|known| known.fetched.as_ref().ok()) == Some(rejected) {
            *known = None;
        }
    }
}

impl Outbound {
    /// Sends a request with the credentials of the subscription's webhook. Also returns the mask that hides the secrets
    /// of the request in its response or error.
    pub(super) async fn send(
        &self,
        id: SubscriptionId,
        webhook: &WebHook,
        request: TransportRequest,
    ) -> (Result<TransportResponse, TransportError>, Mask) {
        let mut mask = Mask::of(webhook);
        let credentials = &webhook.credentials;
        let sent = self.send_with(id, credentials, request, &mut mask).await;
        (sent, mask)
    }

    async fn send_with(
        &self,
        id: SubscriptionId,
        credentials: &Credentials,
        mut request: TransportRequest,
        mask: &mut Mask,
    ) -> Result<TransportResponse, TransportError> {
        request.tls.clone_from(&credentials.tls);
        match &credentials.authentication {
            None => {}
            Some(Authentication::Basic { username, password }) => {
                authorize(&mut request, &wire::basic(username, password.reveal()));
            }
            Some(Authentication::Bearer { token }) => {
                authorize(&mut request, &wire::bearer(token));
            }
            Some(Authentication::ClientCredentials(client)) => {
                return self.send_with_token(id, client, request, mask).await;
            }
        }
        self.transport.send(request).await
    }

    /// Sends a request with an access token. A cached token may have been revoked: if the webhook answers 401 to it,
    /// the request is repeated once with a new token, since a 401 would dead-letter the delivery.
    async fn send_with_token(
        &self,
        id: SubscriptionId,
        client: &ClientCredentials,
        request: TransportRequest,
        mask: &mut Mask,
    ) -> Result<TransportResponse, TransportError> {
        let token = self.token(id, client, request.tls.as_ref()).await?;
        mask.add(token.value.reveal());
        let response = self.transport.send(with(&request, &token)).await?;
        if response.status != UNAUTHORIZED {
            return Ok(response);
        }
        self.tokens.forget(id, &token.value).await;
        if token.is_fresh {
            return Ok(response);
        }
        let token = self.token(id, client, request.tls.as_ref()).await?;
        mask.add(token.value.reveal());
        self.transport.send(with(&request, &token)).await
    }

    async fn token(
        &self,
        id: SubscriptionId,
        client: &ClientCredentials,
        tls: Option<&Arc<TlsMaterial>>,
    ) -> Result<RequestToken, TransportError> {
        let slot = self.tokens.slot(id);
        let mut known = slot.lock().await;
        let now = self.clock.now();
        if let Some(known) = known.as_ref()
            && known.client == *client
            && now < known.until
        {
            let value = known.fetched.clone().map_err(TransportError::Token)?;
            return Ok(RequestToken {
                value,
                is_fresh: false,
            });
        }
        let granted = self.fetch(client, tls).await?;
        let lasts = match &granted {
            Ok(grant) => lasts(grant.life),
            Err(_) => TOKEN_PAUSE,
        };
        let fetched = granted.map(|grant| grant.token);
        *known = Some(KnownTokens {
            client: client.clone(),
            fetched: fetched.clone(),
            until: self.clock.now() + lasts,
        });
        Ok(RequestToken {
            value: fetched.map_err(TransportError::Token)?,
            is_fresh: true,
        })
    }

    /// Requests a token from the authorization server. The outer error is [`TransportError::NoPlace`]: the request was
    /// not sent, because too many other host names were being looked up. The inner error says why there is no token.
    async fn fetch(
        &self,
        client: &ClientCredentials,
        tls: Option<&Arc<TlsMaterial>>,
    ) -> Result<Result<AccessToken, String>, TransportError> {
        let mut headers = HeaderMap::new();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, form);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let mut request = TransportRequest {
            method: Method::POST,
            url: client.token_url.reveal().clone(),
            headers,
            body: Bytes::copy_from_slice(wire::form(client).as_bytes()),
            deadline: TOKEN_DEADLINE,
            body_max: RESPONSE_READ_MAX,
            late: None,
            tls: tls.cloned(),
        };
        if let Some(authorization) = wire::authorization(client) {
            authorize(&mut request, &authorization);
        }
        match self.transport.send(request).await {
            Ok(response) => Ok(wire::read(response.status, &response.body)),
            Err(TransportError::NoPlace) => Err(TransportError::NoPlace),
            Err(error) => {
                let problem = format!("the authorization server was not reached: {error}");
                Ok(Err(problem))
            }
        }
    }
}

/// Returns how long a token is used: for its lifetime less a margin.
fn lasts(life: Option<Duration>) -> Duration {
    let lifetime = life.unwrap_or(TOKEN_LIFE);
    lifetime.saturating_sub(TOKEN_MARGIN.min(lifetime / 10))
}

fn with(request: &TransportRequest, token: &RequestToken) -> TransportRequest {
    let mut request = request.clone();
    authorize(&mut request, &wire::bearer(&token.value));
    request
}

/// Sets the header `Authorization` to `value`. A value that a header cannot hold would be left out, but was rejected
/// when it was configured.
fn authorize(request: &mut TransportRequest, value: &Secret) {
    if let Ok(mut value) = HeaderValue::from_str(value.reveal()) {
        value.set_sensitive(true);
        request.headers.insert(AUTHORIZATION, value);
    }
}
