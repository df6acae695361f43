//! Which pages there are behind the login, who may do what on them, and where the navigation has them: what
//! the frame, the gate and every link ask, without knowing the pages themselves.

use crate::store::accounts::Role;
use Group::{Appliance, Home, People, SetUp, Try, Watch};

/// What a page takes: who may look at it, and who may send its form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) reads: Role,
    pub(crate) changes: Role,
}

/// A page, as far as others need to know it.
#[derive(Clone, Debug)]
pub(crate) struct PageInfo {
    /// Below `/admin`.
    pub(crate) path: &'static str,
    /// `None` keeps it out of the navigation.
    pub(crate) nav: Option<Listing>,
    pub(crate) access: Access,
    /// Whether its form takes a password that was typed lately; see
    /// [`password_again`](crate::admin::security::password_again).
    pub(crate) asks_again: bool,
    /// `None` for what is no action.
    pub(crate) button: Option<Button>,
}

/// How pages offer an action.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Button {
    pub(crate) label: &'static str,
    /// Whether a question comes before it.
    pub(crate) asks: bool,
}

/// Where the navigation has a page, and what it is called there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listing {
    pub(crate) group: Group,
    pub(crate) title: &'static str,
    /// A drawing of `templates/sprite.html`.
    pub(crate) icon: &'static str,
    /// What is counted beside it.
    pub(crate) counts: Option<Counted>,
}

/// Something that the navigation counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Event subscriptions that need attention.
    NeedingAttention,
    /// Publish requests that were rejected in the last 24 hours.
    Rejected,
    DeadLetters,
}

/// A part of the navigation: pages that people need for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Home,
    SetUp,
    Watch,
    Try,
    People,
    Appliance,
}

/// All of them in their order, with what stands above each; empty for nothing.
const GROUPS: [(Group, &str); 6] = [
    (Home, ""),
    (SetUp, "Set up"),
    (Watch, "Watch"),
    (Try, "Try"),
    (People, "People"),
    (Appliance, "Appliance"),
];

/// Links of the navigation that belong together.
pub(crate) struct NavGroup {
    /// Empty where it goes without saying.
    pub(crate) title: &'static str,
    pub(crate) links: Vec<NavLink>,
}

/// A link in the navigation.
pub(crate) struct NavLink {
    pub(crate) href: String,
    pub(crate) listing: Listing,
    pub(crate) current: bool,
}

/// All pages behind the login; those of a group of the navigation in its order.
#[derive(Debug)]
pub(crate) struct SiteMap {
    pub(crate) pages: Vec<PageInfo>,
}

impl SiteMap {
    pub(crate) fn new(pages: impl IntoIterator<Item = PageInfo>) -> Self {
        let pages = pages.into_iter().collect();
        Self { pages }
    }

    /// Whether the page at `path` is open to `role`.
    pub(crate) fn opens(&self, path: &str, role: Role) -> bool {
        let page = self.page(path);
        page.is_some_and(|page| role >= page.access.reads)
    }

    /// Whether `role` may send the form at `path`.
    pub(crate) fn sends(&self, path: &str, role: Role) -> bool {
        let page = self.page(path);
        page.is_some_and(|page| role >= page.access.changes)
    }

    /// The closest page above `path` that `role` may look at, if there is one besides the overview.
    pub(crate) fn above(&self, path: &str, role: Role) -> Option<String> {
        let mut ends = path.rmatch_indices('/').map(|(end, _)| &path[..end]);
        let found = ends.find(|above| *above != "/admin" && self.opens(above, role));
        found.map(str::to_owned)
    }

    /// The navigation for `role` as it is shown on the page at `path`, `/admin` included. Groups with nothing
    /// for the role are left out.
    pub(crate) fn nav(&self, path: &str, role: Role) -> Vec<NavGroup> {
        let current = self.listed_at(path);
        let link = |page: &PageInfo, of: Group| {
            let listing = page.nav.filter(|listing| listing.group == of)?;
            Some(NavLink {
                href: format!("/admin{}", page.path.trim_end_matches('/')),
                listing,
                current: current == Some(page.path),
            })
        };
        let open = || self.pages.iter().filter(|page| page.access.reads <= role);
        let groups = GROUPS.into_iter().map(|(group, title)| NavGroup {
            title,
            links: open().filter_map(|page| link(page, group)).collect(),
        });
        groups.filter(|group| !group.links.is_empty()).collect()
    }

    /// The page at `path`, `/admin` and a query included.
    pub(crate) fn page(&self, path: &str) -> Option<&PageInfo> {
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let path = path.strip_prefix("/admin")?;
        let fitting = self.pages.iter().filter(|page| fits(page.path, path));
        // A path that is written out goes before one with a name in it, as it does in the router.
        fitting.min_by_key(|page| page.path.matches('{').count())
    }

    /// The page of the navigation that the page at `path` belongs to. Names stand behind what they are names
    /// of, so every other part of a path is one: `/topics/orders/subscriptions/billing`.
    fn listed_at(&self, path: &str) -> Option<&'static str> {
        let path = path.strip_prefix("/admin")?;
        let listed = |part: &&str| {
            let mut pages = self.pages.iter().filter(|page| page.nav.is_some());
            let found = pages.find(|page| page.path.strip_prefix('/') == Some(*part));
            found.map(|page| page.path)
        };
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        parts.iter().step_by(2).rev().find_map(listed)
    }
}

/// Whether `path` is that of the page registered as `pattern`.
fn fits(pattern: &str, path: &str) -> bool {
    let parts = path.trim_end_matches('/').split('/');
    let patterns = pattern.trim_end_matches('/').split('/');
    parts.clone().count() == patterns.clone().count()
        && patterns.zip(parts).all(|(pattern, part)| {
            pattern == part || (pattern.starts_with('{') && !part.is_empty())
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::registry::SITE_MAP;

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
            let access = SITE_MAP.page(path).expect(path).access;
            assert_eq!((access.reads, access.changes), (reads, changes), "{path}");
        }
        for path in [
            "/everpost/events",
            "/admin/events/7/8/9",
            "/admin/topics//publish",
        ] {
            assert!(SITE_MAP.page(path).is_none(), "{path}");
        }
    }

    #[test]
    fn the_navigation_marks_where_one_is() {
        for (path, expected) in [
            ("/admin", Some("Overview")),
            ("/admin/", Some("Overview")),
            ("/admin/topics", Some("Topics")),
            ("/admin/topics/orders/keys", Some("Topics")),
            (
                "/admin/topics/orders/subscriptions/billing",
                Some("Subscriptions"),
            ),
            ("/admin/subscriptions", Some("Subscriptions")),
            ("/admin/dead-letters/5", Some("Dead letters")),
            ("/admin/topics/events", Some("Topics")),
            ("/admin/topicsandmore", None),
            ("/admin/login", None),
        ] {
            let groups = SITE_MAP.nav(path, Role::Viewer);
            let links = groups.iter().flat_map(|group| &group.links);
            let mut current = links.filter(|link| link.current);
            assert_eq!(
                current.next().map(|link| link.listing.title),
                expected,
                "{path}"
            );
            assert!(current.next().is_none(), "{path}");
        }
    }

    #[test]
    fn the_navigation_has_what_the_role_may_open_in_groups() {
        let shown = |role| {
            let groups = SITE_MAP.nav("/admin", role);
            let groups = groups.iter().map(|group| {
                let links: Vec<_> = group.links.iter().map(|link| link.listing.title).collect();
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
