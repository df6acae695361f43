//! The addresses of pages. Numbers can be passed by value or by reference, as templates have them.

use std::fmt::Display;

use percent_encoding::percent_decode_str;

use crate::model::audit::{AuditTarget, TargetKind};
use crate::model::name::{InspectorName, segment};

macro_rules! pages {
    ($($name:ident($($part:ident),+) = $path:literal;)+) => { $(
        /// Returns the address with these names and numbers.
        pub(crate) fn $name($($part: impl Display),+) -> String {
            $(let $part = segment(&$part.to_string());)+
            format!($path)
        }
    )+ };
}

pages! {
    namespace_page(name) = "/admin/namespaces/{name}";
    topic_page(topic) = "/admin/topics/{topic}";
    subscription_page(topic, name) = "/admin/topics/{topic}/subscriptions/{name}";
    queue_page(name) = "/admin/queues/{name}";
    service_bus_topic_page(topic) = "/admin/service-bus-topics/{topic}";
    service_bus_subscription_page(topic, name) = "/admin/service-bus-topics/{topic}/subscriptions/{name}";
    access_rule_page(name) = "/admin/access-rules/{name}";
    event_page(key) = "/admin/events/{key}";
    dead_letter_page(id) = "/admin/dead-letters/{id}";
    replay_page(id) = "/admin/replays/{id}";
}

/// Returns the address of a message, below the page of its queue.
pub(crate) fn message_page(queue: impl Display, number: impl Display) -> String {
    format!("{queue}/messages/{number}")
}

pub(crate) fn inspector_page(name: &InspectorName) -> String {
    format!("/admin/inspectors/{}", name.key())
}

pub(crate) fn inspected_page(name: &InspectorName, number: u64) -> String {
    format!("{}/requests/{number}", inspector_page(name))
}

/// Returns the audit target of the page at `path`, or of its form. Pages of users have numbers for names, so their
/// `title` is taken.
#[rustfmt::skip] // a table
pub(crate) fn target_of(path: &str, title: &str) -> Option<AuditTarget> {
    let parts = path.strip_prefix("/admin/")?.split('/');
    let parts: Vec<_> = parts.map(|part| percent_decode_str(part).decode_utf8_lossy()).collect();
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    let parts = match parts.as_slice() {
        [rest @ .., "edit" | "delete"] if rest.len() > 1 => rest,
        all => all,
    };
    Some(match parts {
        ["namespaces", name] => TargetKind::Namespace.named(name),
        ["topics", name] => TargetKind::Topic.named(name),
        ["topics", topic, "subscriptions", name] => TargetKind::EventSubscription.named(format!("{topic}/{name}")),
        ["queues", name] => TargetKind::Queue.named(name),
        ["service-bus-topics", name] => TargetKind::ServiceBusTopic.named(name),
        ["service-bus-topics", topic, "subscriptions", name] =>
            TargetKind::ServiceBusSubscription.named(format!("{topic}/{name}")),
        ["service-bus-topics", topic, "subscriptions", name, "rules", rule] =>
            TargetKind::Rule.named(format!("{topic}/{name}/{rule}")),
        ["access-rules", name] => TargetKind::AccessRule.named(name),
        ["inspectors", name] => TargetKind::Inspector.named(name),
        ["alert-rules", name] => TargetKind::AlertRule.named(name),
        ["alert-channels", name] => TargetKind::AlertChannel.named(name),
        ["users", _] => TargetKind::User.named(title),
        _ => return None,
    })
}

/// Returns the last part of `path`, which is the name of the resource if the page is about one.
pub(crate) fn last_part(path: &str) -> String {
    let (_, part) = path.rsplit_once('/').unwrap_or_default();
    part.replace("%2F", "/")
}

/// Reports whether `path` is a page of the admin area that is safe to return to. Addresses that lead to another site,
/// the login and the logout are not.
pub(crate) fn is_page(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    let (page, _) = path.split_once('?').unwrap_or((path, ""));
    // Browsers remove these parts and would go to another address.
    let steps = |part: &str| {
        let decoded = part.to_ascii_lowercase().replace("%2e", ".");
        ["", ".", ".."].contains(&&*decoded)
    };
    let mut parts = page.split('/').skip(1);
    let is_ours = page.starts_with('/') && parts.next() == Some("admin");
    let first = parts.clone().next();
    let signs = ["login", "logout"].map(Some).contains(&first);
    is_ours && !signs && !parts.any(steps) && path.bytes().all(is_plain)
}

/// Returns `path`, or the overview if `path` is no page that may be returned to.
pub(crate) fn or_overview(path: &str) -> &str {
    if is_page(path) { path } else { "/admin" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_pages_are_returned_to() {
        for (path, ours) in [
            ("/admin", true),
            ("/admin/topics/orders?x=%0d%0a", true),
            ("/admin?x=1", true),
            ("/admin?next=//evil.example/../x", true),
            ("/admin/topics/a.b", true),
            ("/admin/log", true),
            ("/admin/login", false),
            ("/admin/login?next=/admin/login", false),
            ("/admin/login/provider?next=/admin/login/provider", false),
            ("/admin/logout", false),
            ("/admin/./login", false),
            ("/admin/x/../login", false),
            ("/admin/%2e/login", false),
            ("/admin/x/%2E./login", false),
            ("/admin/..//evil.example", false),
            ("/admin//evil.example", false),
            ("/admin/", false),
            ("\t/admin", false),
            ("/admin/\u{7f}", false),
            ("/admin/\u{202e}", false),
            ("/administrator", false),
            ("//evil.example/admin", false),
            ("https://evil.example", false),
            ("/admin/\\evil.example", false),
            ("/admin/\r\nSet-Cookie: a=b", false),
            ("", false),
        ] {
            assert_eq!(is_page(path), ours, "{path:?}");
        }
    }

    #[test]
    fn pages_are_about_what_files_define() {
        for (path, target) in [
            ("/admin/topics/shop%2Forders", Some("topic shop/orders")),
            (
                "/admin/topics/orders/subscriptions/billing/edit",
                Some("event subscription billing of topic orders"),
            ),
            ("/admin/topics/edit", Some("topic edit")),
            ("/admin/topics/orders/publish", None),
            ("/admin/topics", None),
            ("/admin/users/7", Some("user ann")),
            (
                "/admin/service-bus-topics/news/subscriptions/red/rules/only-red/edit",
                Some("rule only-red of subscription news/red"),
            ),
        ] {
            let found = target_of(path, "ann").map(|target| target.to_string());
            assert_eq!(found.as_deref(), target, "{path}");
        }
    }

    #[test]
    fn a_page_is_named_by_its_end() {
        let topic = topic_page("shop/orders");
        for (path, name) in [
            (topic.as_str(), "shop/orders"),
            ("/admin/new-topic", "new-topic"),
            ("", ""),
        ] {
            assert_eq!(last_part(path), name, "{path:?}");
        }
    }
}
