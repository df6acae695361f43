//! Azure Service Bus over HTTP: what its clients send to and receive from, and what manages that.

pub(in crate::api) mod administration;
mod error_response;
pub(in crate::api) mod runtime;

use http::Request;
use percent_encoding::percent_decode_str;

use self::error_response::ErrorResponse;
use crate::api::ApiState;
use crate::api::auth::{Credential, address_of, note_shown};
use crate::api::authority::{AccessDenied, Authority, Demand, ShownSignature};
use crate::api::error::ApiError;
use crate::api::publish::host_of;
use crate::model::audit::Caller;
use crate::model::shared_access::Right;

/// Why somebody may not do what a request asks for.
enum RequestDenied {
    Access(AccessDenied),
    Other(ErrorResponse),
}

impl RequestDenied {
    /// Returns whether who asks is known, and may do other things.
    fn is_of_rights(&self) -> bool {
        match self {
            Self::Access(denied) => denied.is_of_rights(),
            Self::Other(_) => false,
        }
    }
}

impl From<AccessDenied> for RequestDenied {
    fn from(denied: AccessDenied) -> Self {
        Self::Access(denied)
    }
}

impl From<ApiError> for RequestDenied {
    fn from(error: ApiError) -> Self {
        Self::Other(error.into())
    }
}

impl From<RequestDenied> for ErrorResponse {
    fn from(denied: RequestDenied) -> Self {
        match denied {
            RequestDenied::Access(denied) => denied.into(),
            RequestDenied::Other(error_response) => error_response,
        }
    }
}

/// Returns who sends the request, if what it shows allows what is demanded at a path as it came.
fn authorize<B>(
    state: &ApiState,
    request: &Request<B>,
    demand: Demand<'_>,
) -> Result<(Authority, Caller), RequestDenied> {
    let address = address_of(request.extensions());
    let at = state.broker.clock().now();
    let authority = match Credential::of(request.headers(), request.uri()) {
        Credential::Bearer(token) => {
            let right = demand.right.unwrap_or(Right::Manage);
            Authority::of_bearer(state, &token, address, right)?
        }
        Credential::Token { token, .. } => authority_of(state, request, token.reveal())?,
        Credential::Key { .. } | Credential::None => {
            return Err(RequestDenied::Other(ErrorResponse::unauthorized(
                "The request needs the header Authorization with a SharedAccessSignature, or with \
                 Bearer and the management token.",
            )));
        }
    };
    note_shown(request.extensions(), || authority.shown_key());
    let path = percent_decode_str(demand.path).decode_utf8_lossy();
    let demand = Demand {
        path: &path,
        ..demand
    };
    authority.check(demand, at)?;
    let actor = authority.actor().clone();
    Ok((authority, Caller { actor, address, at }))
}

/// Finds what a signature in the request opens.
fn authority_of<B>(
    state: &ApiState,
    request: &Request<B>,
    token: &str,
) -> Result<Authority, AccessDenied> {
    let host = host_of(request.headers(), request.uri()).unwrap_or_default();
    let options = state.broker.options();
    let shown = ShownSignature {
        token,
        hosts: &[host, options.public_host()],
    };
    let client = address_of(request.extensions());
    Authority::of_signature(state, shown, client)
}
