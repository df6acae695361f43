//! Code snippets for publishing to a topic, or for receiving from a namespace topic, one for each language. Snippets
//! contain the address and, while the keys are shown, the first key; otherwise they read the key from the environment.
//! The client tests run the snippets exactly as shown on the page.

use std::sync::Arc;

use askama::Template;
use serde_json::{Value, json};

use crate::admin::action::Call;
use crate::admin::lists::recipe::quoted;
use crate::admin::pages::subscriptions::Subscription;
use crate::admin::site::Site;
use crate::admin::widgets::part;
use crate::model::name::SubscriptionName;
use crate::model::registry::TopicEntry;
use crate::model::topic::InputSchema;
use crate::wire;

/// The API version that the newest clients for namespaces send.
const API_VERSION: &str = "2024-06-01";

/// The snippets for one topic, or for one of its subscriptions. The URL and the key are JSON literals, which all of the
/// languages accept.
#[derive(Template)]
#[template(path = "widgets/snippets.html")]
pub(crate) struct Snippets {
    topic: Arc<TopicEntry>,
    /// The URL to publish to. For a namespace topic, it is the URL of the namespace, since clients take the topic name
    /// separately.
    url: Value,
    /// The first key; `None` while it is hidden.
    key: Option<Value>,
    /// An event in the format of a publisher.
    example: Value,
    curl: String,
    /// The subscription to receive from; `None` to publish.
    from: Option<SubscriptionName>,
}

part!(Snippets);

impl Snippets {
    /// Returns the snippets for publishers to `topic`, with its first key if the key is shown.
    pub(crate) fn new(site: &Site, topic: &Arc<TopicEntry>, key: Option<&str>) -> Self {
        let of = topic.namespace.as_ref().map(|entry| &entry.namespace.name);
        let namespace = |name| site.management_url(&format!("/namespaces/{name}"));
        Self {
            topic: Arc::clone(topic),
            url: json!(of.map_or_else(|| site.publish_url(topic), namespace)),
            key: key.map(|key| json!(key)),
            example: example(site, topic),
            curl: curl(site, topic, &key_header(key)),
            from: None,
        }
    }

    /// Returns the snippets for receivers of a pull subscription; `None` for a custom topic.
    pub(crate) fn receive(call: &Call<Subscription>) -> Option<Self> {
        call.of.topic.namespace.as_ref()?;
        let from = Some(call.of.subscription.name.clone());
        let publish = Self::new(call, &call.of.topic, None);
        Some(Self { from, ..publish })
    }

    fn header(&self) -> String {
        key_header(self.key.as_ref().and_then(Value::as_str))
    }

    /// Returns the URL of a receive operation on the subscription, quoted as one word of a shell.
    fn operation(&self, operation: &str, query: &str) -> String {
        let (url, topic) = (self.url.as_str().unwrap_or(""), &self.topic.topic.name);
        let from = self.from.as_ref().map_or("", SubscriptionName::as_str);
        let at = format!("{url}/topics/{}/eventsubscriptions/{from}", topic.own());
        let url = format!("{at}:{operation}?api-version={API_VERSION}{query}");
        quoted(&url)
    }

    /// Reports whether the URL has no TLS. The JavaScript clients need an option for this.
    fn is_open(&self) -> bool {
        let url = self.url.as_str();
        url.is_some_and(|url| url.starts_with("http://"))
    }
}

/// Returns an example event in the format of publishers to `topic`.
pub(crate) fn example(site: &Site, topic: &TopicEntry) -> Value {
    let schema = topic.topic.kind.input_schema();
    wire::example(schema, site.broker.entropy(), site.broker.clock().now())
}

/// Returns the header with the key, or with `$KEY` while the key is hidden, as one word of a shell.
pub(super) fn key_header(key: Option<&str>) -> String {
    let shown = key.map(|key| quoted(&format!("aeg-sas-key: {key}")));
    shown.unwrap_or_else(|| "\"aeg-sas-key: $KEY\"".to_owned())
}

/// Returns the command that publishes an example. `header` authorizes the request and is one word of a shell.
pub(super) fn curl(site: &Site, topic: &TopicEntry, header: &str) -> String {
    let example = example(site, topic);
    let kind = wire::content_type(topic.topic.kind.input_schema(), example.is_array());
    format!(
        "curl -H {header} \\\n  -H 'Content-Type: {kind}' \\\n  -d {} \\\n  {}",
        quoted(&example.to_string()),
        quoted(&site.publish_url(topic))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::standing::DAY;
    use crate::base::Entropy;
    use crate::base::Timestamp;
    use crate::model::access::AccessKeys;
    use crate::model::name::NamespaceName;
    use crate::model::name::TopicName;
    use crate::model::namespace::{Namespace, NamespaceId};
    use crate::model::registry::Registry;
    use crate::model::topic::CustomTopic;
    use crate::model::topic::ServiceBusNamespace;
    use crate::model::topic::Topic;
    use crate::model::topic::TopicId;
    use crate::model::topic::TopicKind;
    use crate::wire::resource;

    /// The texts by their order, as they are read from the page.
    fn texts(snippets: &Snippets) -> Vec<String> {
        let html = snippets.to_string();
        let texts = html.split("example\">").skip(1);
        let text = |rest: &str| rest.split("</code>").next().unwrap_or_default().to_owned();
        texts
            .map(|rest| text(rest).replace("&#34;", "\"").replace("&#38;", "&"))
            .collect()
    }

    /// Of a custom topic, or of the one of that name in a namespace.
    fn topic(schema: InputSchema, own: Option<&str>) -> Arc<TopicEntry> {
        let (keys, at) = (
            AccessKeys::generate(&Entropy::seeded(1)),
            Timestamp::default(),
        );
        let local = json!({ "location": "local" });
        let namespace = Namespace {
            id: NamespaceId(1),
            name: NamespaceName::parse("shop").expect("a name"),
            definition: resource::parse_namespace(&local).expect("a namespace"),
            keys: keys.clone(),
            created_at: at,
            updated_at: at,
        };
        let name = match own {
            Some(own) => TopicName::in_namespace(&namespace.name, own),
            None => TopicName::custom("events"),
        };
        let kind = match own {
            Some(_) => TopicKind::Namespace {
                event_retention: DAY,
            },
            None => TopicKind::Custom(CustomTopic {
                input_schema: schema,
                ..CustomTopic::default()
            }),
        };
        let name = name.expect("a name");
        let mut registry = Registry::default();
        registry.put_namespace(namespace);
        registry.put_topic(Topic {
            id: TopicId(100),
            service_bus_namespace: ServiceBusNamespace::DEFAULT,
            name: name.clone(),
            kind,
            keys: Some(keys),
            created_at: at,
            updated_at: at,
        });
        Arc::clone(registry.topic(&name).expect("it is there"))
    }

    fn snippets(schema: InputSchema, own: Option<&str>, key: Option<&str>) -> Snippets {
        Snippets {
            topic: topic(schema, own),
            url: json!("http://127.0.0.1:8080/somewhere"),
            key: key.map(|key| json!(key)),
            example: json!([{ "number": 1 }]),
            curl: format!("curl {} http://127.0.0.1:8080/somewhere", key_header(key)),
            from: None,
        }
    }

    fn check(snippets: &Snippets, expected: &[&str], keys: &[&str]) {
        let texts = texts(snippets);
        assert_eq!(texts.len(), keys.len());
        for (text, key) in texts.iter().zip(keys) {
            for part in expected.iter().chain([key]) {
                assert!(text.contains(part), "{part} is missing:\n{text}");
            }
        }
    }

    const HIDDEN: [&str; 4] = [
        "$KEY",
        "os.environ[\"KEY\"]",
        "process.env.KEY",
        "(\"KEY\")!",
    ];

    #[test]
    fn a_hidden_key_comes_from_the_environment_and_a_shown_one_stands_in_the_text() {
        let address = ["http://127.0.0.1:8080/somewhere"];
        let shown = ["aeg-sas-key: k==", "\"k==\"", "\"k==\"", "\"k==\""];
        let of = |key| snippets(InputSchema::EventGridSchema, None, key);
        check(&of(None), &address, &HIDDEN);
        check(&of(Some("k==")), &address, &shown);
    }

    #[test]
    fn cloud_events_are_sent_as_such() {
        for topic in [None, Some("orders")] {
            let texts = texts(&snippets(InputSchema::CloudEventSchemaV1_0, topic, None));
            for text in &texts[1..] {
                assert!(text.contains("CloudEvent") || topic.is_some(), "{text}");
                assert!(!text.contains("EventGridEvent"), "{text}");
                assert!(topic.is_none_or(|topic| text.contains(topic)), "{text}");
            }
        }
    }

    #[test]
    fn receivers_name_address_topic_subscription_and_key_apart() {
        let publish = snippets(InputSchema::CloudEventSchemaV1_0, Some("orders"), None);
        let from = Some(SubscriptionName::parse("audit").expect("a name"));
        let parts = ["http://127.0.0.1:8080/somewhere", "orders", "audit"];
        let keys = [&["$KEY"][..], &HIDDEN].concat();
        let receive = Snippets { from, ..publish };
        check(&receive, &parts, &keys);
    }
}
