//! The registry of pages. The router and the navigation are made from it.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, post};

use crate::admin::gate::Access;
use crate::admin::view::{NavGroup, NavLink};
use crate::admin::{
    Site, account, activity, api_reference, dead_letters, deliveries, error, events, first_event,
    gate, inspectors, live, login, namespaces, overview, password_again, playground,
    rejected_events, replays, second_factor, sessions, settings, subscriptions, system, tokens,
    topics, users,
};
use crate::store::accounts::Role;
use Group::{Appliance, Home, People, SetUp, Try, Watch};

/// A page behind the login.
pub(super) struct Page {
    /// Below `/admin`.
    pub(super) path: &'static str,
    /// Where the navigation has it and what it is called there; `None` keeps it out.
    pub(super) nav: Option<(Group, &'static str)>,
    pub(super) access: Access,
    /// Whether its form takes a password that was typed lately; see [`password_again`].
    pub(super) asks_again: bool,
    pub(super) handler: fn() -> MethodRouter<Arc<Site>>,
}

/// All pages; those of a group of the navigation in its order. An address that answers a form with a page is
/// opened, too: whoever goes back to that page, or reads it again, gets the one with the form.
#[rustfmt::skip] // a table
pub(super) static PAGES: &[Page] = &[
    page("/", || get(overview::show)).listed(Home, "Overview"),
    page("/topics", || get(topics::list)).listed(SetUp, "Topics"),
    kept("/new-topic", || get(topics::draft).post(topics::create)),
    page("/topics/{topic}", || get(topics::show)),
    page("/topics/{topic}/keys", || get(topics::show).post(topics::reveal_keys)).guarded(),
    kept("/topics/{topic}/keys/{key}/regenerate",
        || get(topics::ask_to_regenerate).post(topics::regenerate)).guarded(),
    kept("/topics/{topic}/keys/token",
        || get(topics::draft_token).post(topics::make_token)).guarded(),
    kept("/topics/{topic}/delete", || get(topics::ask_to_delete).post(topics::delete)),
    kept("/topics/{topic}/retention",
        || get(namespaces::edit_retention).post(namespaces::change_retention)),
    operated("/topics/{topic}/publish", || get(topics::compose).post(topics::publish)),
    page("/namespaces", || get(namespaces::list)).listed(SetUp, "Namespaces"),
    kept("/new-namespace", || get(namespaces::draft).post(namespaces::create)),
    page("/namespaces/{namespace}", || get(namespaces::show)),
    kept("/namespaces/{namespace}/edit", || get(namespaces::edit).post(namespaces::change)),
    page("/namespaces/{namespace}/keys",
        || get(namespaces::show).post(namespaces::reveal_keys)).guarded(),
    kept("/namespaces/{namespace}/keys/{key}/regenerate",
        || get(namespaces::ask_to_regenerate).post(namespaces::regenerate)).guarded(),
    kept("/namespaces/{namespace}/new-topic",
        || get(namespaces::draft_topic).post(namespaces::create_topic)),
    kept("/namespaces/{namespace}/delete",
        || get(namespaces::ask_to_delete).post(namespaces::delete)),
    page("/subscriptions", || get(subscriptions::list)).listed(SetUp, "Subscriptions"),
    operated("/subscriptions/pause",
        || get(subscriptions::ask_to_pause).post(subscriptions::pause_all)),
    operated("/subscriptions/resume",
        || get(subscriptions::ask_to_resume).post(subscriptions::resume_all)),
    kept("/new-subscription", || get(subscriptions::choose_topic)),
    kept("/topics/{topic}/new-subscription",
        || get(subscriptions::draft).post(subscriptions::create)),
    kept("/topics/{topic}/new-subscription/draft",
        || get(subscriptions::draft).post(subscriptions::redraft)),
    page("/topics/{topic}/subscriptions/{name}", || get(subscriptions::show)),
    kept("/topics/{topic}/subscriptions/{name}/edit",
        || get(subscriptions::edit).post(subscriptions::change)),
    kept("/topics/{topic}/subscriptions/{name}/edit/draft",
        || get(subscriptions::edit).post(subscriptions::re_edit)),
    operated("/topics/{topic}/subscriptions/{name}/try-filter",
        || get(subscriptions::try_filter)),
    kept("/topics/{topic}/subscriptions/{name}/signing",
        || get(subscriptions::draft_secret).post(subscriptions::rotate_secret)),
    kept("/topics/{topic}/subscriptions/{name}/signing/stop",
        || get(subscriptions::ask_to_stop_signing).post(subscriptions::stop_signing)),
    page("/topics/{topic}/subscriptions/{name}/url",
        || get(subscriptions::show).post(subscriptions::reveal_url)).guarded(),
    operated("/topics/{topic}/subscriptions/{name}/validate", || post(subscriptions::validate)),
    operated("/topics/{topic}/subscriptions/{name}/pause", || post(subscriptions::pause)),
    operated("/topics/{topic}/subscriptions/{name}/resume", || post(subscriptions::resume)),
    kept("/topics/{topic}/subscriptions/{name}/delete",
        || get(subscriptions::ask_to_delete).post(subscriptions::delete)),
    page("/events", || get(events::list)).listed(Watch, "Events"),
    operated("/events/export", || get(events::export)),
    page("/events/{key}", || get(events::show)),
    operated("/events/{key}/data", || get(events::download)),
    operated("/events/{key}/send/{subscription}",
        || get(events::ask_to_send).post(events::send)),
    page("/rejected-events", || get(rejected_events::list)).listed(Watch, "Rejected events"),
    page("/rejected-events/{id}", || get(rejected_events::show)),
    page("/dead-letters", || get(dead_letters::list)).listed(Watch, "Dead letters"),
    operated("/dead-letters/resubmit",
        || get(dead_letters::ask_to_replay).post(dead_letters::replay)),
    operated("/dead-letters/export", || get(dead_letters::download)),
    kept("/dead-letters/purge", || get(dead_letters::ask_to_purge).post(dead_letters::purge)),
    page("/dead-letters/{id}", || get(dead_letters::show)),
    operated("/dead-letters/{id}/edit",
        || get(dead_letters::edit).post(dead_letters::resubmit_edited)),
    operated("/dead-letters/{id}/resubmit",
        || get(dead_letters::ask_to_resubmit).post(dead_letters::resubmit)),
    page("/replays", || get(replays::list)).listed(Watch, "Replay jobs"),
    page("/replays/{id}", || get(replays::show)),
    operated("/replays/{id}/pause", || post(replays::pause)),
    operated("/replays/{id}/resume", || post(replays::resume)),
    operated("/replays/{id}/cancel", || get(replays::ask_to_cancel).post(replays::cancel)),
    page("/inspectors", || get(inspectors::list)).listed(SetUp, "Inspectors"),
    kept("/new-inspector", || get(inspectors::draft).post(inspectors::create)),
    operated("/inspectors/{name}", || get(inspectors::show)),
    kept("/inspectors/{name}/edit", || get(inspectors::edit).post(inspectors::change)),
    kept("/inspectors/{name}/subscribe", || post(inspectors::subscribe)),
    operated("/inspectors/{name}/clear", || get(inspectors::ask_to_clear).post(inspectors::clear)),
    kept("/inspectors/{name}/delete", || get(inspectors::ask_to_delete).post(inspectors::delete)),
    operated("/inspectors/{name}/requests/{number}", || get(inspectors::show_request)),
    operated("/deliveries/{id}/try-now", || post(deliveries::try_now)),
    page("/playground", || get(playground::show)).listed(Try, "Playground"),
    anybodys("/playground/filter",
        || get(playground::draft_filter).post(playground::try_on_event)),
    anybodys("/playground/convert",
        || get(playground::draft_conversion).post(playground::convert)),
    anybodys("/playground/signature",
        || get(playground::draft_signature).post(playground::check_signature)),
    kept("/playground/token", || get(playground::choose_topic)),
    page("/api", || get(api_reference::list)).listed(Try, "API"),
    page("/api/openapi.json", || get(api_reference::download)),
    page("/api/{operation}", || get(api_reference::show)),
    kept("/first-event", || get(first_event::show).post(first_event::prepare)),
    kept("/first-event/publish", || get(first_event::show).post(first_event::publish)),
    kept("/first-event/fail", || get(first_event::show).post(first_event::fail)),
    kept("/first-event/refuse", || get(first_event::show).post(first_event::refuse)),
    kept("/first-event/repair", || get(first_event::show).post(first_event::repair)),
    page("/live", || get(live::stream)),
    kept("/users", || get(users::list)).listed(People, "Users"),
    kept("/new-user", || get(users::draft).post(users::create)).guarded(),
    kept("/users/{user}", || get(users::show)),
    kept("/users/{user}/role", || get(users::show).post(users::change_role)).guarded(),
    kept("/users/{user}/disable", || get(users::show).post(users::disable)).guarded(),
    kept("/users/{user}/enable", || get(users::show).post(users::enable)).guarded(),
    kept("/users/{user}/password-link", || get(users::show).post(users::put_link)).guarded(),
    kept("/users/{user}/remove-second-factor",
        || get(users::show).post(users::remove_second_factor)).guarded(),
    kept("/users/{user}/end-sessions", || post(users::end_sessions)),
    kept("/users/{user}/delete", || get(users::ask_to_delete).post(users::delete)).guarded(),
    kept("/tokens", || get(tokens::list)).listed(People, "API tokens"),
    kept("/new-token", || get(tokens::draft).post(tokens::create)).guarded(),
    kept("/tokens/{token}/delete", || get(tokens::ask_to_delete).post(tokens::delete)).guarded(),
    kept("/activity", || get(activity::list)).listed(People, "Activity"),
    kept("/sessions", || get(sessions::list)),
    kept("/sessions/end", || post(sessions::end_all)),
    kept("/sessions/{session}/end", || post(sessions::end_one)),
    page("/settings", || get(settings::show)).listed(Appliance, "Settings"),
    operated("/settings/try-url", || get(settings::show).post(settings::try_url)),
    operated("/system", || get(system::show)).listed(Appliance, "System"),
    operated("/system/count", || get(system::show).post(system::count)),
    kept("/system/support-bundle", || post(system::support_bundle)),
    operated("/system/check", || get(system::show).post(system::check)),
    kept("/system/try-way-out", || get(system::show).post(system::try_way_out)),
    anybodys("/account", || get(account::show)),
    anybodys("/account/password", || get(account::show).post(account::change_password)),
    anybodys("/account/second-factor",
        || get(second_factor::offer).post(second_factor::set_up)),
    anybodys("/account/second-factor/remove",
        || get(account::show).post(second_factor::remove)),
    anybodys("/account/sessions/end", || post(sessions::end_others)),
    anybodys("/account/sessions/{session}/end", || post(sessions::end_own)),
    anybodys("/logout", || post(login::log_out)),
];

/// A part of the navigation: pages that people need for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Home,
    SetUp,
    Watch,
    Try,
    People,
    Appliance,
}

impl Group {
    /// All of them in their order.
    const ALL: [Group; 6] = [Home, SetUp, Watch, Try, People, Appliance];

    /// What stands above it; empty for nothing.
    fn title(self) -> &'static str {
        match self {
            Home => "",
            SetUp => "Set up",
            Watch => "Watch",
            Try => "Try",
            People => "People",
            Appliance => "Appliance",
        }
    }
}

impl Page {
    /// The same for secrets and rights: its form takes a password that was typed lately.
    const fn guarded(self) -> Self {
        Self {
            asks_again: true,
            ..self
        }
    }

    /// The same in the navigation.
    const fn listed(self, group: Group, title: &'static str) -> Self {
        Self {
            nav: Some((group, title)),
            ..self
        }
    }
}

type Handler = fn() -> MethodRouter<Arc<Site>>;

/// A page that everybody may look at, and whose form only administrators may send.
const fn page(path: &'static str, handler: Handler) -> Page {
    for_roles(path, Role::Viewer, Role::Admin, handler)
}

/// A page for administrators alone.
const fn kept(path: &'static str, handler: Handler) -> Page {
    for_roles(path, Role::Admin, Role::Admin, handler)
}

/// A page for operators, too.
const fn operated(path: &'static str, handler: Handler) -> Page {
    for_roles(path, Role::Operator, Role::Operator, handler)
}

/// A page whose form everybody who is signed in may send.
const fn anybodys(path: &'static str, handler: Handler) -> Page {
    for_roles(path, Role::Viewer, Role::Viewer, handler)
}

const fn for_roles(path: &'static str, reads: Role, changes: Role, handler: Handler) -> Page {
    Page {
        path,
        nav: None,
        access: Access { reads, changes },
        asks_again: false,
        handler,
    }
}

/// All pages by their paths.
pub(super) fn router(site: &Arc<Site>) -> Router<Arc<Site>> {
    let pages = PAGES.iter().map(|page| {
        let handler = match page.asks_again {
            true => (page.handler)().layer(from_fn_with_state(site.clone(), password_again::ask)),
            false => (page.handler)(),
        };
        let guard = from_fn_with_state(page.access, gate::authorize);
        (page.path, handler.layer(guard))
    });
    pages
        .fold(Router::new(), |router, (path, handler)| {
            router.route(path, handler)
        })
        .fallback(error::no_such_page)
        .method_not_allowed_fallback(error::no_such_action)
}

/// What the page at `path` takes, `/admin` and a query included; `None` where there is no page.
fn access(path: &str) -> Option<Access> {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let path = path.strip_prefix("/admin")?;
    let fitting = PAGES.iter().filter(|page| fits(page.path, path));
    // A path that is written out goes before one with a name in it, as it does in the router.
    let page = fitting.min_by_key(|page| page.path.matches('{').count());
    Some(page?.access)
}

/// Whether the page at `path` is open to `role`.
pub(super) fn opens(path: &str, role: Role) -> bool {
    access(path).is_some_and(|access| role >= access.reads)
}

/// Whether `role` may send the form at `path`.
pub(super) fn sends(path: &str, role: Role) -> bool {
    access(path).is_some_and(|access| role >= access.changes)
}

/// The closest page above `path` that `role` may look at, if there is one besides the overview.
pub(super) fn above(path: &str, role: Role) -> Option<String> {
    let mut ends = path.rmatch_indices('/').map(|(end, _)| &path[..end]);
    let found = ends.find(|above| *above != "/admin" && opens(above, role));
    found.map(str::to_owned)
}

/// Whether `path` is that of the page registered as `pattern`.
fn fits(pattern: &str, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    let pattern = pattern.trim_end_matches('/');
    let is_same = |(pattern, part): (&str, &str)| {
        pattern == part || (pattern.starts_with('{') && !part.is_empty())
    };
    pattern.split('/').count() == path.split('/').count()
        && pattern.split('/').zip(path.split('/')).all(is_same)
}

/// The navigation for `role` as it is shown on the page at `path`, `/admin` included. Groups with nothing for
/// the role are left out.
pub(super) fn nav(path: &str, role: Role) -> Vec<NavGroup> {
    let path = path.strip_prefix("/admin").unwrap_or(path);
    let groups = Group::ALL.map(|group| NavGroup {
        title: group.title(),
        links: links(group, path, role),
    });
    groups
        .into_iter()
        .filter(|group| !group.links.is_empty())
        .collect()
}

fn links(group: Group, path: &str, role: Role) -> Vec<NavLink> {
    let open = PAGES.iter().filter(|page| page.access.reads <= role);
    let listed = open.filter_map(|page| match page.nav {
        Some((its, title)) if its == group => Some((page.path, title)),
        Some(_) | None => None,
    });
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
    fn access_is_found_by_the_path() {
        for (path, reads, changes) in [
            ("/admin", Role::Viewer, Role::Admin),
            ("/admin/events?of=orders", Role::Viewer, Role::Admin),
            ("/admin/events/7", Role::Viewer, Role::Admin),
            (
                "/admin/events/export?of=a/b",
                Role::Operator,
                Role::Operator,
            ),
            (
                "/admin/topics/shop%2Forders/publish",
                Role::Operator,
                Role::Operator,
            ),
            ("/admin/account/password", Role::Viewer, Role::Viewer),
        ] {
            let access = access(path).expect(path);
            assert_eq!((access.reads, access.changes), (reads, changes), "{path}");
        }
        for path in [
            "/everpost/events",
            "/admin/events/7/8/9",
            "/admin/topics//publish",
        ] {
            assert!(access(path).is_none(), "{path}");
        }
    }

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
            let groups = nav(path, Role::Viewer);
            let links = groups.iter().flat_map(|group| &group.links);
            let mut current = links.filter(|link| link.current);
            assert_eq!(current.next().map(|link| link.title), expected, "{path}");
            assert!(current.next().is_none(), "{path}");
        }
    }

    #[test]
    fn the_navigation_has_what_the_role_may_open_in_groups() {
        let shown = |role| {
            let groups = nav("/admin", role);
            let groups = groups.iter().map(|group| {
                let links: Vec<_> = group.links.iter().map(|link| link.title).collect();
                format!("{}: {}", group.title, links.join(", "))
            });
            groups.collect::<Vec<_>>()
        };
        assert_eq!(
            shown(Role::Admin),
            [
                ": Overview",
                "Set up: Topics, Namespaces, Subscriptions, Inspectors",
                "Watch: Events, Rejected events, Dead letters, Replay jobs",
                "Try: Playground, API",
                "People: Users, API tokens, Activity",
                "Appliance: Settings, System",
            ]
        );
        let viewer = shown(Role::Viewer);
        assert_eq!(
            viewer.last().map(String::as_str),
            Some("Appliance: Settings")
        );
        assert!(!viewer.iter().any(|group| group.starts_with("People")));
    }
}
