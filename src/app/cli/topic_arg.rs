//! A topic as an argument: on its own, or in a namespace.

use clap::Args;
use serde_json::Value;

use crate::app::cli::output::{items, text};
use crate::app::cli::request::RemoteServer;

/// Which namespace is meant.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct NamespaceArgs {
    /// Namespace that the topic belongs to; a topic can also be named NAMESPACE/TOPIC
    #[arg(long)]
    namespace: Option<String>,
}

impl NamespaceArgs {
    /// The path of the topics of the namespace; without one, of those that belong to none.
    pub(super) fn topics(&self) -> Vec<&str> {
        match &self.namespace {
            None => vec!["topics"],
            Some(namespace) => vec!["namespaces", namespace, "topics"],
        }
    }

    /// The names of the topics of the namespace; without one, of all topics everywhere.
    pub(super) async fn topic_names(&self, server: &RemoteServer) -> anyhow::Result<Vec<String>> {
        let mut names = names(server, &self.topics()).await?;
        if self.namespace.is_none() {
            for namespace in self::names(server, &["namespaces"]).await? {
                let topics = self::names(server, &["namespaces", &namespace, "topics"]).await?;
                names.extend(topics.iter().map(|topic| format!("{namespace}/{topic}")));
            }
        }
        Ok(names)
    }

    /// The topic of that name.
    pub(super) fn topic<'a>(&'a self, name: &'a str) -> TopicArg<'a> {
        let (namespace, topic) = match (self.namespace.as_deref(), name.split_once('/')) {
            (None, Some((namespace, topic))) => (Some(namespace), topic),
            (namespace, _) => (namespace, name),
        };
        TopicArg { namespace, topic }
    }
}

async fn names(server: &RemoteServer, path: &[&str]) -> anyhow::Result<Vec<String>> {
    let found = server.get(path).send().await?;
    let all = items(&found, "/value").iter();
    Ok(all.map(|each: &Value| text(each, "/name")).collect())
}

/// A topic by its name and that of its namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct TopicArg<'a> {
    namespace: Option<&'a str>,
    topic: &'a str,
}

impl<'a> TopicArg<'a> {
    /// A topic that belongs to no namespace.
    pub(super) fn custom(topic: &'a str) -> Self {
        Self {
            namespace: None,
            topic,
        }
    }

    /// Returns whether it is a namespace topic.
    pub(super) fn is_in_namespace(self) -> bool {
        self.namespace.is_some()
    }

    /// The path of the topic in the management API.
    pub(super) fn path(self) -> Vec<&'a str> {
        match self.namespace {
            None => vec!["topics", self.topic],
            Some(namespace) => vec!["namespaces", namespace, "topics", self.topic],
        }
    }

    /// The path to publish to.
    pub(super) fn publish_path(self) -> Vec<String> {
        let in_namespace = format!("{}:publish", self.topic);
        let path = match self.namespace {
            None => ["topics", self.topic, "api", "events"],
            Some(namespace) => ["namespaces", namespace, "topics", &in_namespace],
        };
        path.map(str::to_owned).into()
    }

    /// Returns the full name of the topic, with its namespace if it is in one: `orders`, `shop/orders`.
    pub(super) fn name(self) -> String {
        match self.namespace {
            None => self.topic.to_owned(),
            Some(namespace) => format!("{namespace}/{}", self.topic),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_found_by_flag_and_by_name() {
        let named = |namespace: Option<&str>| NamespaceArgs {
            namespace: namespace.map(str::to_owned),
        };
        for (namespace, topic, path, publish, name) in [
            (
                None,
                "orders",
                "topics/orders",
                "topics/orders/api/events",
                "orders",
            ),
            (
                Some("shop"),
                "orders",
                "namespaces/shop/topics/orders",
                "namespaces/shop/topics/orders:publish",
                "shop/orders",
            ),
            (
                None,
                "shop/orders",
                "namespaces/shop/topics/orders",
                "namespaces/shop/topics/orders:publish",
                "shop/orders",
            ),
        ] {
            let args = named(namespace);
            let found = args.topic(topic);
            assert_eq!(found.path().join("/"), path);
            assert_eq!(found.publish_path().join("/"), publish);
            assert_eq!(found.name(), name);
        }
        let topics = named(Some("shop")).topics().join("/");
        assert_eq!(topics, "namespaces/shop/topics");
    }
}
