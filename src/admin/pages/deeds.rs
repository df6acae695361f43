//! What somebody has done, in a sentence: an entry of the trail holds a method, a path and what differs.
//!
//! Paths are those of these pages and of the API; a path that is not known says nothing here, and is shown
//! beside the sentence in any case.

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::model::audit::{AuditEntry, Change};

/// What was done to what; empty where the path is not known.
pub fn told(entry: &AuditEntry) -> String {
    let names: Vec<String> = entry
        .path
        .split('/')
        .filter(|name| !name.is_empty() && *name != "admin" && *name != "everpost")
        .map(|name| percent_decode_str(name).decode_utf8_lossy().into_owned())
        .collect();
    let mut names = in_namespace(names);
    if let (Some(name), Some(number)) = (&entry.name, names.get_mut(1)) {
        number.clone_from(name);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if let Some(told) = of_nothing(&names) {
        return told.to_owned();
    }
    if let Some(told) = made(&names, entry) {
        return told;
    }
    let Some((thing, rest)) = thing(&names) else {
        return String::new();
    };
    let what = match (entry.method.as_str(), rest.last()) {
        (_, Some(verb)) => done(verb),
        ("DELETE", None) => Some("was deleted"),
        ("PUT" | "PATCH", None) => Some("was changed"),
        (_, None) => None,
    };
    what.map_or_else(String::new, |what| format!("The {thing} {what}."))
}

/// A topic of a namespace goes by one name: pages write it as one part of their paths, the API does not.
fn in_namespace(names: Vec<String>) -> Vec<String> {
    match names.as_slice() {
        [first, namespace, second, topic, rest @ ..]
            if first == "namespaces" && second == "topics" =>
        {
            let topic = ["topics".to_owned(), format!("{namespace}/{topic}")];
            topic.into_iter().chain(rest.iter().cloned()).collect()
        }
        _ => names,
    }
}

/// What is not done to a single thing.
fn of_nothing(names: &[&str]) -> Option<&'static str> {
    Some(match names {
        ["login", ..] => "Signed in.",
        ["logout"] => "Signed out.",
        ["setup", ..] => "The appliance was claimed.",
        ["dead-letters", "resubmit"] | ["replays"] => "A replay job was started.",
        ["deadLetters", "resubmit"] => "Dead letters were resubmitted.",
        ["dead-letters" | "deadLetters", "purge"] => "Dead letters were purged.",
        ["deadLetters", "import"] => "Dead letters were imported.",
        ["first-event"] => "The guide made a topic, an inspector and an event subscription.",
        ["first-event", "publish" | "fail" | "refuse"] => "The guide published an example.",
        ["first-event", "repair"] => "The guide let its inspector answer 200 again.",
        // Of everybody, or of the user whom the query names, which is not kept.
        ["sessions", "end"] => "Sessions were ended.",
        ["account", "sessions", ..] => "Sessions of one’s own were ended.",
        ["account", "password"] => "The password of one’s own was changed.",
        ["account", "second-factor", "remove"] => "The second factor of one’s own was removed.",
        ["account", "second-factor"] => "A second factor was set up.",
        ["settings", "try-url"] => "A URL was tried.",
        ["system", "support-bundle"] | ["supportBundle"] => "A support bundle was made.",
        ["system", "try-way-out"] => "The way out was tried.",
        ["system", "count" | "check"] => "What is stored was looked through.",
        _ => return None,
    })
}

/// What was made, with the name that it was given.
fn made(names: &[&str], entry: &AuditEntry) -> Option<String> {
    let name = made_name(&entry.changes);
    let is_new = entry.changes.first().is_some_and(is_of_new);
    let (kind, of) = match names {
        ["new-topic"] => ("topic", None),
        ["namespaces", namespace, "new-topic"] => ("topic", Some(format!("namespace {namespace}"))),
        ["new-namespace"] => ("namespace", None),
        ["new-inspector"] => ("inspector", None),
        ["new-user"] | ["users"] => ("user", None),
        ["new-token"] | ["tokens"] => ("API token", None),
        ["topics", topic, "new-subscription"] => {
            ("event subscription", Some(format!("topic {topic}")))
        }
        _ if is_new => {
            let (thing, rest) = thing(names)?;
            return rest.is_empty().then(|| format!("The {thing} was created."));
        }
        _ => return None,
    };
    let name = name.map_or_else(String::new, |name| format!(" {name}"));
    let of = of.map_or_else(String::new, |of| format!(" of the {of}"));
    let article = if name.is_empty() { "A new" } else { "The" };
    Some(format!("{article} {kind}{name}{of} was created."))
}

fn is_of_new(change: &Change) -> bool {
    change.property.is_empty() && change.before == "null"
}

fn made_name(changes: &[Change]) -> Option<String> {
    let made = changes.first().filter(|change| is_of_new(change))?;
    let made: Value = serde_json::from_str(&made.after).ok()?;
    Some(made["name"].as_str()?.to_owned())
}

/// The thing that a path names, and what stands below it.
fn thing<'a>(names: &'a [&'a str]) -> Option<(String, &'a [&'a str])> {
    Some(match names {
        [
            "topics",
            topic,
            "subscriptions" | "eventSubscriptions",
            name,
            rest @ ..,
        ] => (
            format!("event subscription {name} of the topic {topic}"),
            rest,
        ),
        ["topics", topic, rest @ ..] => (format!("topic {topic}"), rest),
        ["namespaces", name, rest @ ..] => (format!("namespace {name}"), rest),
        ["inspectors", name, rest @ ..] => (format!("inspector {name}"), rest),
        ["events", key, "send", ..] => (format!("event {key}"), &["send"][..]),
        ["dead-letters" | "deadLetters", id, rest @ ..] => match rest {
            ["edit"] => (format!("dead letter {id}"), &["edit-and-resubmit"][..]),
            _ => (format!("dead letter {id}"), rest),
        },
        ["deliveries", id, rest @ ..] => (format!("delivery {id}"), rest),
        ["replays", id, rest @ ..] => (format!("replay job {id}"), rest),
        ["users", user, rest @ ..] => (format!("user {user}"), rest),
        ["tokens", token, rest @ ..] => (format!("API token {token}"), rest),
        ["sessions", session, rest @ ..] => (format!("session {session}"), rest),
        _ => return None,
    })
}

/// What the last word of a path does to the thing before it.
fn done(verb: &str) -> Option<&'static str> {
    Some(match verb {
        "edit" | "retention" => "was changed",
        "edit-and-resubmit" => "was edited and resubmitted",
        "resubmit" => "was resubmitted",
        "delete" => "was deleted",
        "publish" => "got events by hand",
        "send" => "was sent to an event subscription that had not got it",
        "keys" | "listKeys" => "showed its keys",
        "regenerate" | "regenerateKey" => "got a new key in the place of an old one",
        "pause" => "was paused",
        "resume" => "was resumed",
        "cancel" => "was cancelled",
        "clear" => "was cleared",
        "subscribe" => "was subscribed to a topic",
        "validate" => "was validated again",
        "url" | "getFullUrl" => "showed its whole URL",
        "getDeliveryAttributes" => "showed its delivery attributes",
        "listSigningSecrets" => "showed its signing secrets",
        "signing" | "rotateSigningSecret" => "got a new signing secret",
        "stop" => "is not signed any more",
        "try-now" | "tryNow" => "was made due at once",
        "role" => "got another role",
        "disable" => "was disabled",
        "enable" => "was enabled",
        "password-link" | "passwordLink" => "got a link to choose a password with",
        "remove-second-factor" => "lost its second factor",
        "end" => "was ended",
        "end-sessions" => "was signed out everywhere",
        "token" => "gave a token that ends by itself",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Timestamp;
    use crate::model::audit::Actor;

    fn entry(method: &str, path: &str, made: Option<&str>) -> AuditEntry {
        let change = made.map(|after| Change {
            property: String::new(),
            before: "null".to_owned(),
            after: after.to_owned(),
        });
        AuditEntry {
            at: Timestamp::from_ms(0),
            actor: Actor::ManagementToken,
            address: None,
            method: method.to_owned(),
            path: path.to_owned(),
            name: None,
            changes: change.into_iter().collect(),
        }
    }

    #[test]
    fn what_is_made_is_named() {
        let named = Some("{\"name\":\"sub1\"}");
        for (method, path, made, expected) in [
            (
                "POST",
                "/admin/topics/payments/new-subscription",
                named,
                "The event subscription sub1 of the topic payments was created.",
            ),
            (
                "POST",
                "/admin/new-inspector",
                None,
                "A new inspector was created.",
            ),
            (
                "PUT",
                "/topics/orders/eventSubscriptions/sub1",
                named,
                "The event subscription sub1 of the topic orders was created.",
            ),
            (
                "PUT",
                "/namespaces/shop/topics/orders",
                named,
                "The topic shop/orders was created.",
            ),
            (
                "PUT",
                "/everpost/inspectors/bin",
                named,
                "The inspector bin was created.",
            ),
            (
                "PUT",
                "/everpost/inspectors/bin",
                None,
                "The inspector bin was changed.",
            ),
            (
                "PUT",
                "/topics/orders",
                None,
                "The topic orders was changed.",
            ),
        ] {
            assert_eq!(told(&entry(method, path, made)), expected, "{path}");
        }
    }

    #[test]
    fn people_and_tokens_go_by_their_names() {
        for (path, expected) in [
            ("/admin/users/2/role", "The user bob got another role."),
            ("/admin/tokens/7/delete", "The API token bob was deleted."),
            ("/everpost/users/bob/disable", "The user bob was disabled."),
        ] {
            let entry = AuditEntry {
                name: Some("bob".to_owned()),
                ..entry("POST", path, None)
            };
            assert_eq!(told(&entry), expected);
        }
    }

    #[test]
    fn deeds_are_told_in_sentences() {
        for (path, expected) in [
            (
                "/admin/topics/orders/publish",
                "The topic orders got events by hand.",
            ),
            (
                "/admin/topics/shop%2Forders/subscriptions/billing/pause",
                "The event subscription billing of the topic shop/orders was paused.",
            ),
            (
                "/admin/topics/shop%2Fkeys/publish",
                "The topic shop/keys got events by hand.",
            ),
            (
                "/admin/topics/orders/keys/key1/regenerate",
                "The topic orders got a new key in the place of an old one.",
            ),
            (
                "/admin/dead-letters/4/edit",
                "The dead letter 4 was edited and resubmitted.",
            ),
            (
                "/everpost/deadLetters/4/resubmit",
                "The dead letter 4 was resubmitted.",
            ),
            (
                "/admin/topics/orders/keys/token",
                "The topic orders gave a token that ends by itself.",
            ),
            (
                "/admin/users/2/end-sessions",
                "The user 2 was signed out everywhere.",
            ),
            (
                "/admin/inspectors/bin/edit",
                "The inspector bin was changed.",
            ),
            (
                "/admin/inspectors/bin/subscribe",
                "The inspector bin was subscribed to a topic.",
            ),
            (
                "/admin/events/7/send/billing",
                "The event 7 was sent to an event subscription that had not got it.",
            ),
            ("/admin/dead-letters/resubmit", "A replay job was started."),
            ("/admin/login", "Signed in."),
            ("/admin/something/new", ""),
        ] {
            assert_eq!(told(&entry("POST", path, None)), expected, "{path}");
        }
    }
}
