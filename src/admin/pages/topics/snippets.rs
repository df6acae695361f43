//! How one publishes to a topic, or receives from one of a namespace, with one's own code: texts to paste, one for
//! each language.
//!
//! They hold the address and, while the keys are shown, the first key; otherwise they take it from the environment.
//! The tests of the clients run them as they stand on the page.

use super::*;

/// The version of the API that the newest clients for namespaces send.
const API_VERSION: &str = "2024-06-01";

/// The texts for one topic, or for one subscription. Those that code holds are literals of JSON, which all of the
/// languages read.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/snippets.html")]
pub(crate) struct Snippets {
    schema: InputSchema,
    /// That of the namespace, of which clients are told the topic apart.
    url: Value,
    /// `None` for a custom topic.
    topic: Option<Value>,
    /// `None` while it is hidden.
    key: Option<Value>,
    /// An event as a publisher would send it.
    example: Value,
    curl: String,
    /// The subscription to receive from, and its URL; `None` to publish.
    from: Option<Value>,
    received_at: String,
}

part!(Snippets);

impl Snippets {
    /// For publishers to `topic`, with its first key where that is shown.
    pub(crate) fn new(site: &Site, topic: &TopicEntry, key: Option<&str>) -> Self {
        let of = topic.namespace.as_ref().map(|entry| &entry.namespace.name);
        let namespace = |name| site.management_url(&format!("/namespaces/{name}"));
        Self {
            schema: topic.topic.definition.input_schema.clone(),
            url: json!(of.map_or_else(|| site.publish_url(topic), namespace)),
            topic: of.map(|_| json!(topic.topic.name.own())),
            key: key.map(|key| json!(key)),
            example: example(site, topic),
            curl: curl(site, topic, &key_header(key)),
            from: None,
            received_at: String::new(),
        }
    }

    /// For whoever receives from a pulled subscription of `topic`; `None` for a custom topic.
    pub(crate) fn receive(
        site: &Site,
        topic: &TopicEntry,
        subscription: &SubscriptionName,
    ) -> Option<Self> {
        let publish = Self::new(site, topic, None);
        let (namespace, name) = (publish.url.as_str()?, topic.topic.name.own());
        topic.namespace.as_ref()?;
        Some(Self {
            from: Some(json!(subscription.as_str())),
            received_at: format!("{namespace}/topics/{name}/eventsubscriptions/{subscription}"),
            ..publish
        })
    }

    fn header(&self) -> String {
        key_header(self.key.as_ref().and_then(Value::as_str))
    }

    /// What receivers ask at `operation` of the subscription, as one word of a shell.
    fn operation(&self, operation: &str, query: &str) -> String {
        let at = &self.received_at;
        let url = format!("{at}:{operation}?api-version={API_VERSION}{query}");
        quoted(&url)
    }

    /// Without TLS, which the clients for JavaScript want to hear before they speak.
    fn is_open(&self) -> bool {
        let url = self.url.as_str();
        url.is_some_and(|url| url.starts_with("http://"))
    }
}

/// An event as publishers of `topic` send it.
pub(crate) fn example(site: &Site, topic: &TopicEntry) -> Value {
    let schema = &topic.topic.definition.input_schema;
    wire::example(schema, site.broker.entropy(), site.broker.clock().now())
}

/// The header with the key, or with `$KEY` while that is hidden, as one word of a shell.
pub(super) fn key_header(key: Option<&str>) -> String {
    let shown = key.map(|key| quoted(&format!("aeg-sas-key: {key}")));
    shown.unwrap_or_else(|| "\"aeg-sas-key: $KEY\"".to_owned())
}

/// The command that publishes an example with a header that opens the topic, as one word of a shell.
pub(super) fn curl(site: &Site, topic: &TopicEntry, header: &str) -> String {
    let example = example(site, topic);
    let kind = wire::content_type(&topic.topic.definition.input_schema, example.is_array());
    format!(
        "curl -H {header} \\\n  -H 'Content-Type: {kind}' \\\n  -d {} \\\n  {}",
        quoted(&example.to_string()),
        quoted(&site.publish_url(topic))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts by their order, as they are read from the page.
    fn texts(snippets: &Snippets) -> Vec<String> {
        let html = snippets.to_string();
        let texts = html.split("example\">").skip(1);
        let text = |rest: &str| rest.split("</code>").next().unwrap_or_default().to_owned();
        texts
            .map(|rest| text(rest).replace("&#34;", "\"").replace("&#38;", "&"))
            .collect()
    }

    fn snippets(schema: InputSchema, topic: Option<&str>, key: Option<&str>) -> Snippets {
        Snippets {
            schema,
            url: json!("http://127.0.0.1:8080/somewhere"),
            topic: topic.map(|topic| json!(topic)),
            key: key.map(|key| json!(key)),
            example: json!([{ "number": 1 }]),
            curl: format!("curl {} http://127.0.0.1:8080/somewhere", key_header(key)),
            from: None,
            received_at: String::new(),
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
        let from = Some(json!("audit"));
        let parts = ["http://127.0.0.1:8080/somewhere", "orders", "audit"];
        let keys = [&["$KEY"][..], &HIDDEN].concat();
        let received_at = format!("{}/{}/{}", parts[0], parts[1], parts[2]);
        let receive = Snippets {
            from,
            received_at,
            ..publish
        };
        check(&receive, &parts, &keys);
    }
}
