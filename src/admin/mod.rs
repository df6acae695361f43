//! The admin pages: drawn on the server, complete without JavaScript, every one of them a URL.
//!
//! A page is a module in `pages`, a template in `templates/pages` and a row in `registry`. The template extends
//! `frame.html`, or `list.html` where it is a list: [`lists::list::ListPage`] then has its tabs, pages, export and
//! commands, and [`forms::filled::FilledForm`] the filter, a struct with serde. Templates print values of the model by
//! `widgets::filters` (`{{ at|relative }}`, `{{ bytes|size }}`, and `{{ text|visible }}` for whatever a stranger
//! wrote) and by the parts of `widgets`. What a button does is a function of an [`action::Call`], with a row in
//! `registry` that has its label, role and question; `subject.button("key")` draws it. Pages may take a `Call`, too.
//! The broker function that an action calls writes the audit log. The module `pages` has the subjects of pages, and
//! its `answer!` draws a page.

mod action;
mod assets;
mod bare;
mod error;
mod form_error;
mod forms;
mod frame;
mod lists;
mod pages;
mod paths;
mod reader;
mod registry;
mod security;
mod site;
mod sitemap;
mod standing;
#[cfg(test)]
mod tests;
mod widgets;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state, map_response};

use crate::admin::security::{csrf, gate, headers, hosts, session};
use crate::admin::site::Site;

pub use crate::admin::site::{AdminState, ApiDocument, api_document};

/// Bytes of a form besides the events that it may publish.
const FORM_BYTES_MAX: usize = 1_048_576;

/// The pages, to be nested at `/admin`. The address of the client is taken from
/// `axum::extract::ConnectInfo<SocketAddr>` where the request has one.
pub fn routes(state: AdminState) -> Router {
    let site = Arc::new(Site::new(state, &registry::SITE_MAP));
    let clock = site.broker.clock().clone();
    let own_hosts = (site.hosts.clone(), site.broker.clone());
    let behind_login = registry::router(&site)
        .layer(from_fn(frame::in_frame))
        .layer(from_fn_with_state(site.clone(), gate::admit));
    // Every byte of an event may be percent-encoded.
    let form_bytes_max = 3 * site.publish_bytes_max + FORM_BYTES_MAX;
    behind_login
        .merge(registry::open_forms())
        .layer(session::layer(&site))
        .layer(from_fn_with_state(site.clone(), csrf::reject_foreign))
        // The files below are no secret, and the page that rejects a host looks like the others by them.
        .layer(from_fn_with_state(own_hosts, hosts::reject_unknown))
        .merge(assets::router())
        .layer(DefaultBodyLimit::max(form_bytes_max))
        .layer(from_fn_with_state(clock, reader::know))
        .layer(map_response(headers::harden))
        .with_state(site)
}
