//! Where a topic is: on its own, or in a namespace.

use clap::Args;
use serde_json::Value;

use crate::app::cli::client::Client;
use crate::app::cli::output::{items, text};

/// Which namespace is meant.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct NamespaceArgs {
    /// Namespace that the topic belongs to; a topic can also be named NAMESPACE/TOPIC
    #[arg(long)]
    namespace: Option<String>,
}

impl NamespaceArgs {
    /// The topics of the namespace; without one, those that belong to none.
    pub(super) fn topics(&self) -> Vec<&str> {
        match &self.namespace {
            None => vec!["topics"],
            Some(namespace) => vec!["namespaces", namespace, "topics"],
        }
    }

    /// The names of the topics of the namespace; without one, of all topics everywhere.
    pub(super) async fn topic_names(&self, client: &Client) -> anyhow::Result<Vec<String>> {
        match &self.namespace {
            Some(_) => Ok(names_in(&client.get(&self.topics(), &[]).await?)),
            None => all_topics(client).await,
        }
    }

    /// The place of a topic.
    pub(super) fn place<'a>(&'a self, topic: &'a str) -> Place<'a> {
        match (&self.namespace, topic.split_once('/')) {
            (Some(namespace), _) => Place {
                namespace: Some(namespace),
                topic,
            },
            (None, Some((namespace, topic))) => Place {
                namespace: Some(namespace),
                topic,
            },
            (None, None) => Place::custom(topic),
        }
    }
}

/// A topic by its name and that of its namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    namespace: Option<&'a str>,
    topic: &'a str,
}

impl<'a> Place<'a> {
    /// Of a topic that belongs to no namespace.
    pub(super) fn custom(topic: &'a str) -> Self {
        Self {
            namespace: None,
            topic,
        }
    }

    /// Whether it is a namespace topic.
    pub(super) fn is_in_namespace(self) -> bool {
        self.namespace.is_some()
    }

    /// The path of the topic in the management API, with `rest` behind it.
    pub(super) fn path(self, rest: &[&'a str]) -> Vec<&'a str> {
        let mut path = match self.namespace {
            None => vec!["topics", self.topic],
            Some(namespace) => vec!["namespaces", namespace, "topics", self.topic],
        };
        path.extend(rest);
        path
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

    /// The path to receive from a subscription, or to settle what was received.
    pub(super) fn pull_path(self, subscription: &str, operation: &str) -> Vec<String> {
        let last = format!("{subscription}:{operation}");
        let path = self.path(&["eventsubscriptions"]);
        let path = path.into_iter().map(str::to_owned);
        path.chain([last]).collect()
    }

    /// What the topic is called everywhere: `orders`, `shop/orders`.
    pub(super) fn name(self) -> String {
        match self.namespace {
            None => self.topic.to_owned(),
            Some(namespace) => format!("{namespace}/{}", self.topic),
        }
    }
}

/// The names of all topics, those of namespaces included.
async fn all_topics(client: &Client) -> anyhow::Result<Vec<String>> {
    let custom = client.get(&["topics"], &[]).await?;
    let mut names = names_in(&custom);
    for namespace in names_in(&client.get(&["namespaces"], &[]).await?) {
        let topics = client
            .get(&["namespaces", &namespace, "topics"], &[])
            .await?;
        let topics = names_in(&topics).into_iter();
        names.extend(topics.map(|topic| format!("{namespace}/{topic}")));
    }
    Ok(names)
}

fn names_in(page: &Value) -> Vec<String> {
    let all = items(page, "/value").iter();
    all.map(|each| text(each, "/name")).collect()
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
                "topics/orders/listKeys",
                "topics/orders/api/events",
                "orders",
            ),
            (
                Some("shop"),
                "orders",
                "namespaces/shop/topics/orders/listKeys",
                "namespaces/shop/topics/orders:publish",
                "shop/orders",
            ),
            (
                None,
                "shop/orders",
                "namespaces/shop/topics/orders/listKeys",
                "namespaces/shop/topics/orders:publish",
                "shop/orders",
            ),
        ] {
            let args = named(namespace);
            let place = args.place(topic);
            assert_eq!(place.path(&["listKeys"]).join("/"), path);
            assert_eq!(place.publish_path().join("/"), publish);
            assert_eq!(place.name(), name);
        }
        assert_eq!(
            named(Some("shop")).topics().join("/"),
            "namespaces/shop/topics"
        );
    }
}
