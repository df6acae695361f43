//! The registry of pages. The router and the navigation are made from it.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, post};

use crate::admin::view::NavLink;
use crate::admin::{
    Site, dead_letters, error, events, gate, live, login, overview, subscriptions, topics,
};
use crate::store::accounts::Role;

/// A page behind the login.
pub(super) struct Page {
    /// Below `/admin`.
    pub(super) path: &'static str,
    /// What the navigation calls it; `None` keeps it out of there.
    pub(super) nav: Option<&'static str>,
    /// Who may send its form.
    pub(super) needs: Role,
    pub(super) handler: fn() -> MethodRouter<Arc<Site>>,
}

/// All pages; those of the navigation in its order.
#[rustfmt::skip] // a table
pub(super) static PAGES: &[Page] = &[
    listed("/", "Overview", || get(overview::show)),
    listed("/topics", "Topics", || get(topics::list)),
    page("/new-topic", || get(topics::draft).post(topics::create)),
    page("/topics/{topic}", || get(topics::show)),
    page("/topics/{topic}/keys", || post(topics::reveal_keys)),
    page("/topics/{topic}/keys/{key}/regenerate",
        || get(topics::ask_to_regenerate).post(topics::regenerate)),
    page("/topics/{topic}/delete", || get(topics::ask_to_delete).post(topics::delete)),
    operated("/topics/{topic}/publish", || get(topics::compose).post(topics::publish)),
    listed("/subscriptions", "Subscriptions", || get(subscriptions::list)),
    page("/new-subscription", || get(subscriptions::choose_topic)),
    page("/topics/{topic}/new-subscription",
        || get(subscriptions::draft).post(subscriptions::create)),
    page("/topics/{topic}/subscriptions/{name}", || get(subscriptions::show)),
    page("/topics/{topic}/subscriptions/{name}/edit",
        || get(subscriptions::edit).post(subscriptions::change)),
    page("/topics/{topic}/subscriptions/{name}/url", || post(subscriptions::reveal_url)),
    operated("/topics/{topic}/subscriptions/{name}/validate", || post(subscriptions::validate)),
    operated("/topics/{topic}/subscriptions/{name}/pause", || post(subscriptions::pause)),
    operated("/topics/{topic}/subscriptions/{name}/resume", || post(subscriptions::resume)),
    page("/topics/{topic}/subscriptions/{name}/delete",
        || get(subscriptions::ask_to_delete).post(subscriptions::delete)),
    listed("/events", "Events", || get(events::list)),
    page("/events/{key}", || get(events::show)),
    page("/events/{key}/data", || get(events::download)),
    listed("/dead-letters", "Dead letters", || get(dead_letters::list)),
    page("/dead-letters/{id}", || get(dead_letters::show)),
    operated("/dead-letters/{id}/resubmit",
        || get(dead_letters::ask_to_resubmit).post(dead_letters::resubmit)),
    page("/live", || get(live::stream)),
    anybodys("/logout", || post(login::log_out)),
];

type Handler = fn() -> MethodRouter<Arc<Site>>;

const fn listed(path: &'static str, title: &'static str, handler: Handler) -> Page {
    Page {
        nav: Some(title),
        ..page(path, handler)
    }
}

const fn page(path: &'static str, handler: Handler) -> Page {
    Page {
        path,
        nav: None,
        needs: Role::Admin,
        handler,
    }
}

/// A page whose form operators may send too.
const fn operated(path: &'static str, handler: Handler) -> Page {
    Page {
        needs: Role::Operator,
        ..page(path, handler)
    }
}

/// A page whose form everybody who is signed in may send.
const fn anybodys(path: &'static str, handler: Handler) -> Page {
    Page {
        needs: Role::Viewer,
        ..page(path, handler)
    }
}

/// All pages by their paths.
pub(super) fn router() -> Router<Arc<Site>> {
    let pages = PAGES.iter().map(|page| {
        let guard = from_fn_with_state(page.needs, gate::authorize);
        (page.path, (page.handler)().layer(guard))
    });
    pages
        .fold(Router::new(), |router, (path, handler)| {
            router.route(path, handler)
        })
        .fallback(error::no_such_page)
        .method_not_allowed_fallback(error::no_such_action)
}

/// The navigation as it is shown on the page at `path`, `/admin` included.
pub(super) fn nav(path: &str) -> Vec<NavLink> {
    let path = path.strip_prefix("/admin").unwrap_or(path);
    let listed = PAGES.iter().filter_map(|page| Some((page.path, page.nav?)));
    listed
        .map(|(page, title)| NavLink {
            href: format!("/admin{}", page.trim_end_matches('/')),
            title,
            current: belongs_to(path, page),
        })
        .collect()
}

/// Whether the page at `path` is part of what the navigation lists at `listed`.
fn belongs_to(path: &str, listed: &str) -> bool {
    let path = path.trim_end_matches('/');
    let listed = listed.trim_end_matches('/');
    let below = path.strip_prefix(listed);
    path == listed || (!listed.is_empty() && below.is_some_and(|rest| rest.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_navigation_marks_where_one_is() {
        for (path, expected) in [
            ("/admin", Some("Overview")),
            ("/admin/", Some("Overview")),
            ("/admin/topics", Some("Topics")),
            ("/admin/topics/orders/subscriptions/billing", Some("Topics")),
            ("/admin/subscriptions", Some("Subscriptions")),
            ("/admin/dead-letters/5", Some("Dead letters")),
            ("/admin/topicsandmore", None),
            ("/admin/login", None),
        ] {
            let links = nav(path);
            let mut current = links.iter().filter(|link| link.current);
            assert_eq!(current.next().map(|link| link.title), expected, "{path}");
            assert!(current.next().is_none(), "{path}");
        }
    }
}
