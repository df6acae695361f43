//! The API for programs: Azure's protocols in, Azure's protocols out.
//!
//! Every route stands in the table of `routes`. A handler reads its request, calls one verb of the broker and
//! renders the answer; it decides nothing about events. Publish requests are answered by [`Doors`] itself, since
//! there are more of them than of all others, and a router with its layers costs more than the rest.

pub mod amqp;
mod arm;
mod auth;
mod authority;
mod base_url;
mod denials;
mod error;
mod failures;
mod filters;
mod guesses;
mod intake;
mod lists;
mod manage;
mod memory;
mod openapi;
mod operate;
mod parameters;
mod provision;
mod publish;
mod receive;
mod routes;
mod run_to_completion;
mod service_bus;
#[cfg(test)]
pub(crate) mod tests;

use std::net::IpAddr;
use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware;
use axum::response::{IntoResponse, Redirect, Response};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tower_http::catch_panic::CatchPanicLayer;

pub use arm::AzureScope;
pub use auth::ManagementToken;
pub use denials::Denials;
pub use guesses::Guesses;
pub use intake::{BODY_RATE_MIN, BodyMemory, client_of};
pub use memory::Memory;
pub use openapi::document;
pub use operate::development::DevMode;

use crate::base::request_memory::RequestMemory;
use crate::broker::Broker;
use crate::broker::diagnostics::Diagnostics;
use crate::broker::people::People;
use crate::store::views::Views;

/// The state that the handlers share. It is cheap to clone.
#[derive(Clone)]
pub struct ApiState(Arc<ApiParts>);

/// The parts of an [`ApiState`].
pub struct ApiParts {
    pub broker: Broker,
    pub views: Views,
    pub people: People,
    pub token: ManagementToken,
    pub intake: BodyMemory,
    pub denials: Denials,
    pub guesses: Guesses,
    pub diagnostics: Diagnostics,
    pub options: ApiOptions,
}

impl From<ApiParts> for ApiState {
    fn from(parts: ApiParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl ApiState {
    fn note_if_denied(&self, status: StatusCode, client: Option<IpAddr>, what: &str) {
        if status == StatusCode::UNAUTHORIZED {
            self.denials.note(client, what, self.broker.clock().now());
        }
    }
}

impl Deref for ApiState {
    type Target = ApiParts;

    fn deref(&self) -> &ApiParts {
        &self.0
    }
}

/// How the API behaves.
#[derive(Clone, Debug)]
pub struct ApiOptions {
    /// Bytes of one publish request.
    pub publish_bytes_max: usize,
    /// Answers `/metrics` without a token.
    pub metrics_public: bool,
    /// The controls of `everpost dev` for programs under development; `None` in production.
    pub dev: Option<DevMode>,
    /// The names that paths of Azure Resource Manager may have.
    pub azure: AzureScope,
}

/// All that can be asked of the appliance. Cheap to clone.
#[derive(Clone)]
pub struct Doors {
    state: ApiState,
    router: Router,
}

impl Doors {
    /// Every route of ours, and those of `others` (the admin pages) beside them.
    pub fn new(state: ApiState, others: Router) -> Self {
        let router = router(state.clone(), others);
        Self { state, router }
    }

    /// Answers a request.
    ///
    /// A publish request ends with its client: what was handed to the store goes on by itself, and what was not
    /// is not stored. Others are carried out whoever waits.
    ///
    /// Each kind of request has a future of its own, so that none that waits has room for what others do.
    pub fn answer(self, mut request: Request) -> BoxFuture<'static, Response> {
        let checked = match self.state.options.dev {
            Some(_) => operate::development::check_is_local(&request),
            None => Ok(()),
        };
        if let Err(error) = checked.and_then(|()| arm::enter(&mut request)) {
            let response = error.into_response();
            return async move { error::render_error(&self.state, response).await }.boxed();
        }
        amqp::enter_websocket(request.uri_mut());
        publish::enter(&mut request);
        match publish::PublishAddress::of(&request) {
            Some(address) => self.published(address, request).boxed(),
            None => self.routed(request).boxed(),
        }
    }

    async fn routed(self, request: Request) -> Response {
        let client = auth::address_of(request.extensions());
        let path = request.uri().path().to_owned(); // a URI would keep all that was read with it
        let Self { state, router } = self;
        let memory = request.extensions().get::<RequestMemory>().cloned();
        let held = request.map(|body| state.intake.held(body, client, memory.as_ref()));
        let routed = router.oneshot(held).await;
        let answer = routed.unwrap_or_else(|never| match never {});
        state.note_if_denied(answer.status(), client, &path);
        answer
    }

    async fn published(self, address: publish::PublishAddress, request: Request) -> Response {
        let client = auth::address_of(request.extensions());
        let published = publish::publish(&self.state, address, request);
        match AssertUnwindSafe(published).catch_unwind().await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let (state, status) = (&self.state, error.status);
                state.note_if_denied(status, client, &error.explanation);
                error::render_error(state, error.into_response()).await
            }
            Err(panic) => error::catch_panic(panic),
        }
    }
}

/// Returns the server of AMQP connections, which serves them until `stop` is cancelled.
pub fn amqp_server(
    state: &ApiState,
    container_id: String,
    memory: Memory,
    stop: CancellationToken,
) -> amqp::SharedServer {
    let state = state.clone();
    let clock = state.broker.clock().clone();
    let access = authority::changes(&state, stop.clone());
    amqp::SharedServer {
        container: Box::new(move |client| {
            Arc::new(amqp::EntityContainer::new(state.clone(), client))
        }),
        clock,
        access,
        memory,
        container_id,
        stop,
        early_ends: Arc::default(),
    }
}

fn router(state: ApiState, others: Router) -> Router {
    routes::all(&state.options)
        .fold(Router::new(), |router, route| route.add_to(router, &state))
        .fallback(error::no_such_path)
        .method_not_allowed_fallback(error::no_such_method)
        .layer(middleware::from_fn_with_state(state.clone(), error::finish))
        .with_state(state.clone())
        .merge(others)
        .layer(middleware::from_fn_with_state(
            state.clone(),
            service_bus::administration::intercept,
        ))
        .layer(middleware::from_fn(run_to_completion::run_to_completion))
        .layer(middleware::from_fn_with_state(
            state.clone(),
            service_bus::runtime::intercept,
        ))
        .layer(middleware::from_fn_with_state(
            state,
            receive::pull::intercept,
        ))
        .layer(CatchPanicLayer::custom(error::catch_panic))
}

/// `GET /`: people want the admin pages.
async fn front_page() -> Redirect {
    Redirect::to("/admin")
}
