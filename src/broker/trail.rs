//! The trail of what people and programs change: who, from where, and what is another now.
//!
//! The doors note every request that changes something in one place each, so that no verb can be
//! forgotten. What a path stands for is looked at before and after; what somebody else changes in between
//! shows as well. The figures of deliveries are not changes, nor are secrets shown.

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::broker::Broker;
use crate::broker::people::People;
use crate::model::audit::{Actor, AuditEntry};
use crate::model::name::{InspectorName, NamespaceName, SubscriptionName, TopicName};
use crate::model::probation::Health;
use crate::store::Audit;
use crate::store::accounts::{ApiToken, User, UserId};
use crate::wire::changes::changes;
use crate::wire::resource;

/// Characters of a path that are kept; ours are shorter.
const PATH_CHARACTERS_MAX: usize = 512;

/// Where every change is noted. Cheap to clone.
#[derive(Clone)]
pub struct Trail {
    broker: Broker,
    people: People,
    book: Audit,
}

/// Something that somebody does.
#[derive(Clone, Debug)]
pub struct Deed {
    pub actor: Actor,
    /// The address of the client.
    pub address: Option<String>,
    pub method: String,
    /// The path of the request, without the query.
    pub path: String,
}

/// In the extensions of an answer: the path of what the request has made.
#[derive(Clone, Debug)]
pub struct Made(pub String);

impl Trail {
    /// The trail of an appliance.
    pub fn new(broker: Broker, people: People) -> Self {
        Self {
            book: broker.store().audit.clone(),
            broker,
            people,
        }
    }

    /// What stands behind a path right now, without secrets; `None` for what is nothing to look at.
    pub async fn look(&self, path: &str) -> Option<Value> {
        let names: Vec<String> = path
            .split('/')
            .filter(|name| !name.is_empty() && *name != "admin" && *name != "everpost")
            .map(|name| percent_decode_str(name).decode_utf8_lossy().into_owned())
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        match names.as_slice() {
            ["topics", topic, rest @ ..] => self.topic(&TopicName::parse(topic).ok()?, rest),
            ["namespaces", namespace, "topics", topic, rest @ ..] => {
                let namespace = NamespaceName::parse(namespace).ok()?;
                self.topic(&TopicName::in_namespace(&namespace, topic).ok()?, rest)
            }
            ["namespaces", namespace, ..] => {
                let namespace = NamespaceName::parse(namespace).ok()?;
                let entry = self.broker.namespace(&namespace).ok()?;
                Some(resource::render_namespace(&entry, ""))
            }
            ["inspectors", name, ..] => {
                let name = InspectorName::parse(name).ok()?;
                let found = self.broker.inspector(&name).await.ok()?;
                Some(resource::render_inspector_definition(&found))
            }
            ["users", user, ..] => self.user(user).await.map(|user| render_user(&user)),
            ["tokens", token, ..] => self.token(token).map(|token| render_token(&token)),
            _ => None,
        }
    }

    fn topic(&self, name: &TopicName, rest: &[&str]) -> Option<Value> {
        let entry = self.broker.topic(name).ok()?;
        let ["eventSubscriptions" | "subscriptions", subscription, ..] = rest else {
            return Some(resource::render_topic(&entry, ""));
        };
        let subscription = match name.namespace() {
            None => SubscriptionName::parse(subscription),
            Some(_) => SubscriptionName::of_namespace_topic(subscription),
        };
        let found = self.broker.subscription(name, &subscription.ok()?);
        let (entry, subscription) = found.ok()?;
        let now = self.broker.clock().now();
        Some(resource::render_subscription(
            &entry,
            &subscription,
            &Health::default(),
            now,
        ))
    }

    /// By number in the paths of pages, by name in those of the API.
    async fn user(&self, text: &str) -> Option<User> {
        let accounts = self.people.accounts();
        if let Ok(Some(user)) = accounts.find(text.to_owned()).await {
            return Some(user);
        }
        let id = text.parse().map(UserId).ok()?;
        accounts.user(id).await.ok()?
    }

    fn token(&self, text: &str) -> Option<ApiToken> {
        let number: Option<i64> = text.parse().ok();
        let mut tokens = self.people.tokens().list().into_iter();
        tokens.find(|token| token.name.eq_ignore_ascii_case(text) || number == Some(token.id.0))
    }

    /// Notes what has been done, and what that has changed since `before` was looked at. It has been done
    /// in any case, so a failure to note it is only logged.
    pub async fn note(&self, deed: Deed, before: Option<Value>, after: Option<Value>) {
        let entry = AuditEntry {
            at: self.broker.clock().now(),
            name: name_of(&deed.path, before.as_ref().or(after.as_ref())),
            actor: deed.actor,
            address: deed.address,
            method: deed.method,
            path: deed.path.chars().take(PATH_CHARACTERS_MAX).collect(),
            changes: changes(before.as_ref(), after.as_ref()),
        };
        if let Err(error) = self.book.add(entry).await {
            tracing::error!(%error, "what has been changed could not be noted");
        }
    }
}

/// The name of the user or the API token at `path`, which looks like `seen`. All else is named by its path.
fn name_of(path: &str, seen: Option<&Value>) -> Option<String> {
    let below = path
        .strip_prefix("/admin")
        .or_else(|| path.strip_prefix("/everpost"));
    let kind = below?.split('/').nth(1)?;
    let name = seen?["name"].as_str()?;
    matches!(kind, "users" | "tokens").then(|| name.to_owned())
}

fn render_user(user: &User) -> Value {
    json!({
        "name": user.name,
        "role": user.role.name(),
        "disabled": user.disabled_at.is_some(),
        "hasPassword": !user.password_hash.is_empty(),
        "hasSecondFactor": user.has_second_factor,
        "passwordLink": user.link_expires_at.map(|at| at.to_string()),
    })
}

fn render_token(token: &ApiToken) -> Value {
    json!({
        "name": token.name,
        "role": token.role.name(),
        "expiresAt": token.expires_at.map(|at| at.to_string()),
    })
}
