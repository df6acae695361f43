//! The pages behind the login, the roles they require, and their place in the navigation. The frame, the access check
//! and every link use this without knowing the pages themselves.

use crate::store::accounts::Role;

/// The roles that a page requires: one to read it, and one to send its form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageRoles {
    pub(crate) reads: Role,
    pub(crate) changes: Role,
}

#[derive(Clone, Debug)]
pub(crate) struct PageInfo {
    pub(crate) path: &'static str,
    /// The list in the navigation; `None` for a page outside the navigation.
    pub(crate) nav: Option<SitemapList>,
    pub(crate) access: PageRoles,
    /// Is true if the form requires that the password was typed recently; see
    /// [`password_again`](crate::admin::security::password_again).
    pub(crate) asks_again: bool,
    pub(crate) button: Option<Button>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Button {
    pub(crate) label: &'static str,
    pub(crate) asks: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SitemapList {
    /// The heading above related pages in the navigation; empty where they need none.
    pub(crate) group: &'static str,
    pub(crate) title: &'static str,
    /// The name of an icon in `templates/sprite.html`.
    pub(crate) icon: &'static str,
    pub(crate) counts: Option<CountedRows>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedRows {
    NeedingAttention,
    Rejected,
    DeadLetters,
    AlertsFiring,
}

#[derive(Clone)]
pub(crate) struct NavLink {
    pub(crate) href: String,
    pub(crate) listing: SitemapList,
    pub(crate) current: bool,
}

/// All pages behind the login; pages of one navigation group are adjacent.
#[derive(Debug)]
pub(crate) struct SiteMap {
    pub(crate) pages: Vec<PageInfo>,
}

impl SiteMap {
    pub(crate) fn opens(&self, path: &str, role: Role) -> bool {
        self.page(path)
            .is_some_and(|page| role >= page.access.reads)
    }

    pub(crate) fn sends(&self, path: &str, role: Role) -> bool {
        self.page(path)
            .is_some_and(|page| role >= page.access.changes)
    }

    /// Returns the closest page above `path` that `role` may open, other than the overview.
    pub(crate) fn above(&self, path: &str, role: Role) -> Option<String> {
        let mut ends = path.rmatch_indices('/').map(|(end, _)| &path[..end]);
        let found = ends.find(|above| *above != "/admin" && self.opens(above, role));
        found.map(str::to_owned)
    }

    /// Returns the navigation for `role` in groups, for the page at `path`, which includes `/admin`.
    pub(crate) fn nav(&self, path: &str, role: Role) -> Vec<Vec<NavLink>> {
        let current = self.listed_at(path);
        let link = |page: &PageInfo| {
            Some(NavLink {
                href: format!("/admin{}", page.path.trim_end_matches('/')),
                listing: page.nav?,
                current: current == Some(page.path),
            })
        };
        let readable = self.pages.iter().filter(|page| page.access.reads <= role);
        let links: Vec<_> = readable.filter_map(link).collect();
        let groups = links.chunk_by(|one, other| one.listing.group == other.listing.group);
        groups.map(<[_]>::to_vec).collect()
    }

    /// Returns the page at `path`, which includes `/admin` and the query.
    pub(crate) fn page(&self, path: &str) -> Option<&PageInfo> {
        let path = path
            .split_once('?')
            .map_or(path, |(path, _)| path)
            .strip_prefix("/admin")?;
        let fitting = self.pages.iter().filter(|page| fits(page.path, path));
        // A literal path takes precedence over a path with a parameter, as in the router.
        fitting.min_by_key(|page| page.path.matches('{').count())
    }

    /// Returns the navigation page that the page at `path` belongs to. Collections and names alternate in a path, such
    /// as `/topics/orders/subscriptions/billing`. `new-topic` belongs to topics, and `alert-rules` to alerts.
    fn listed_at(&self, path: &str) -> Option<&'static str> {
        let inner_path = path.strip_prefix("/admin")?;
        let parts: Vec<&str> = inner_path.trim_matches('/').split('/').step_by(2).collect();
        let depth = match parts.first() {
            // Service Bus subscriptions are not event subscriptions, so they are in no other list.
            Some(&"service-bus-topics") => 1,
            _ => parts.len(),
        };
        let listed = |part: &str| {
            let (part, noun) = (
                format!("/{part}"),
                part.strip_prefix("new-").unwrap_or(part),
            );
            let mut pages = self.pages.iter().filter(|page| page.nav.is_some());
            pages.find(|page| {
                let own = page.path.strip_suffix('s').unwrap_or(page.path);
                let rest = noun.strip_prefix(&own[1..]);
                page.path == part || rest.is_some_and(|it| it.is_empty() || it.starts_with('-'))
            })
        };
        let mut nearest = parts[..depth].iter().rev();
        nearest.find_map(|part| listed(part)).map(|page| page.path)
    }
}

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
            ("/admin/new-topic", Some("Topics")),
            (
                "/admin/topics/orders/new-subscription",
                Some("Subscriptions"),
            ),
            ("/admin/alert-rules/disk-space/edit", Some("Alerts")),
            ("/admin/new-alert-channel", Some("Alerts")),
            (
                "/admin/service-bus-topics/sales/subscriptions/large",
                Some("Service Bus topics"),
            ),
            ("/admin/new-service-bus-topic", Some("Service Bus topics")),
            ("/admin/topicsandmore", None),
            ("/admin/login", None),
        ] {
            let groups = SITE_MAP.nav(path, Role::Viewer);
            let links = groups.iter().flatten();
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
                let links: Vec<_> = group.iter().map(|link| link.listing.title).collect();
                format!("{}: {}", group[0].listing.group, links.join(", "))
            });
            groups.collect::<Vec<_>>()
        };
        assert_eq!(
            shown(Role::Admin),
            [
                ": Overview",
                "Set up: Topics, Namespaces, Subscriptions, Queues, Service Bus topics, Access rules, Inspectors",
                "Watch: Events, Rejected events, Dead letters, Replay jobs, Alerts",
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
