//! The admin pages: drawn on the server, complete without JavaScript, every one of them a URL.
//!
//! [`PAGES`] lists them. A page is a handler (extract, ask the broker or the views, draw), a struct of
//! texts ready to print, and a template of the same name. What changes something is a form that is
//! posted, carries the session's token and ends in a redirect.

mod account;
mod activity;
mod api_reference;
mod assets;
mod chart;
mod client;
mod confirm;
mod csrf;
mod dead_letters;
pub mod deeds;
mod deliveries;
mod error;
mod events;
mod facts;
mod faults;
mod field;
mod file;
mod filter_form;
mod first_event;
mod form;
mod form_page;
mod gate;
mod harden;
mod hint;
pub mod hosts;
mod identify;
mod inspectors;
mod json_fault;
mod json_text;
mod kept_body;
mod keys;
mod last_day;
mod lineage;
mod list_filter;
mod live;
mod login;
mod login_code;
mod message;
mod namespaces;
mod outbound_check;
mod overview;
mod page;
mod password_again;
mod password_link;
mod playground;
mod print;
mod qr;
mod queue_depths;
mod recipe;
mod rejected_events;
mod replays;
mod retry_preview;
mod second_factor;
mod session;
mod sessions;
mod settings;
pub mod setup;
mod subscriptions;
mod system;
#[cfg(test)]
mod tests;
mod theme;
mod throttle;
mod timeline;
mod tokens;
mod topics;
mod traffic;
mod url_trial;
mod users;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state, map_response};

pub use setup::SetupLink;

use serde_json::Value;
use tokio::sync::Semaphore;

use crate::admin::hosts::OwnHosts;
use crate::admin::throttle::Throttle;

use crate::broker::Broker;
use crate::broker::diagnostics::Diagnostics;
use crate::broker::people::People;
use crate::broker::trail::Trail;
use crate::outbound::egress::EgressPolicy;
use crate::store::StoreError;
use crate::store::views::Views;

/// Bytes of a form besides the events that it may publish.
const FORM_BYTES_MAX: usize = 1_048_576;

/// What the pages work with.
pub struct AdminState {
    pub broker: Broker,
    pub views: Views,
    pub people: People,
    pub trail: Trail,
    /// How the first person gets in; see [`SetupLink::new`].
    pub setup: SetupLink,
    /// Under which hosts browsers may reach the pages.
    pub hosts: OwnHosts,
    /// Which webhooks may be called.
    pub egress: EgressPolicy,
    /// What the appliance can tell about itself.
    pub diagnostics: Diagnostics,
    /// Bytes of one publish request.
    pub publish_bytes_max: usize,
    /// The OpenAPI document of what is served to programs.
    pub api_document: Arc<Value>,
}

/// The pages, to be nested at `/admin`. The address of the client is taken from
/// `axum::extract::ConnectInfo<SocketAddr>` where the request has one.
pub fn routes(state: AdminState) -> Router {
    let site = Arc::new(Site::new(state));
    let behind_login = page::router(&site)
        .layer(from_fn_with_state(site.clone(), activity::note))
        .layer(from_fn(message::in_frame))
        .layer(from_fn_with_state(site.clone(), gate::admit));
    let public = login::router()
        .merge(login_code::router())
        .merge(setup::router())
        .merge(password_link::router())
        .merge(theme::router())
        .method_not_allowed_fallback(error::no_such_action);
    // Every byte of an event may be percent-encoded.
    let form_bytes_max = 3 * site.publish_bytes_max + FORM_BYTES_MAX;
    behind_login
        .merge(public)
        .layer(session::layer(&site))
        .layer(from_fn_with_state(site.clone(), csrf::refuse_foreign))
        // The files below are no secret, and the page that refuses a host looks like the others by them.
        .layer(from_fn_with_state(site.clone(), hosts::refuse_unknown))
        .merge(assets::router())
        .layer(DefaultBodyLimit::max(form_bytes_max))
        .layer(from_fn(theme::remember))
        .layer(map_response(harden::harden))
        .with_state(site)
}

/// What every handler holds.
struct Site {
    broker: Broker,
    views: Views,
    people: People,
    trail: Trail,
    setup: SetupLink,
    hosts: OwnHosts,
    egress: EgressPolicy,
    diagnostics: Diagnostics,
    publish_bytes_max: usize,
    api_document: Arc<Value>,
    throttle: Throttle,
    /// Remembers a claim, which is never undone, so that not every request asks for it.
    claimed: AtomicBool,
    /// Room for live pages.
    streams: Arc<Semaphore>,
}

impl Site {
    fn new(state: AdminState) -> Self {
        Self {
            throttle: Throttle::new(state.people.accounts().clone()),
            broker: state.broker,
            views: state.views,
            people: state.people,
            trail: state.trail,
            setup: state.setup,
            hosts: state.hosts,
            egress: state.egress,
            diagnostics: state.diagnostics,
            publish_bytes_max: state.publish_bytes_max,
            api_document: state.api_document,
            claimed: AtomicBool::new(false),
            streams: Arc::new(Semaphore::new(live::STREAMS_MAX)),
        }
    }

    async fn is_claimed(&self) -> Result<bool, StoreError> {
        if self.claimed.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let claimed = self.people.accounts().is_claimed().await?;
        self.claimed.store(claimed, Ordering::Relaxed);
        Ok(claimed)
    }

    /// Whether browsers reach the pages over TLS, so that cookies can be tied to it.
    fn is_https(&self) -> bool {
        self.public_url().starts_with("https://")
    }

    fn public_url(&self) -> &str {
        &self.broker.options().public_url
    }
}
