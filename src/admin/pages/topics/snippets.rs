//! How one publishes to a topic from one's own code: texts to paste, one for each language.
//!
//! They hold the topic's URL and, while the keys are shown, the first key; otherwise they take it from the
//! environment. The tests of the clients run them as they stand on the page.

use serde_json::{Value, json};

use crate::admin::lists::recipe::quoted;
use crate::admin::page::*;
use crate::admin::pages::topics::namespace_snippets;
use crate::model::name::SubscriptionName;
use crate::model::topic::InputSchema;
use crate::wire;

/// The texts for one topic, or for one subscription.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/snippets.html")]
pub(crate) struct Snippets {
    title: &'static str,
    each: Vec<Snippet>,
    has_key: bool,
}

part!(Snippets);

#[derive(Clone, Debug)]
pub(crate) struct Snippet {
    language: &'static str,
    /// What has to be installed first; empty for nothing.
    needs: &'static str,
    code: String,
}

impl Snippet {
    pub(crate) fn new(language: &'static str, needs: &'static str, code: String) -> Self {
        Self {
            language,
            needs,
            code,
        }
    }

    #[cfg(test)]
    pub(crate) fn code(&self) -> &str {
        &self.code
    }
}

/// What all of them are made of.
struct Parts<'a> {
    schema: &'a InputSchema,
    url: String,
    /// `None` while it is hidden.
    key: Option<&'a str>,
    /// An event as a publisher would send it.
    example: Value,
}

impl Snippets {
    /// For `topic`, with its first key where that is shown.
    pub(crate) fn new(site: &Site, topic: &TopicEntry, key: Option<&str>) -> Self {
        let parts = Parts::new(site, topic, key);
        let mut each = vec![Snippet::new("curl", "", parts.curl())];
        match namespace_snippets::Parts::new(site, topic, key) {
            None => each.extend(parts.sdks()),
            Some(parts) => each.extend(parts.publish()),
        }
        Self {
            title: "Publish from your own code",
            each,
            has_key: key.is_some(),
        }
    }

    /// For whoever receives from a pulled subscription of `topic`; `None` for a custom topic.
    pub(crate) fn receive(
        site: &Site,
        topic: &TopicEntry,
        subscription: &SubscriptionName,
    ) -> Option<Self> {
        let parts = namespace_snippets::Parts::new(site, topic, None)?;
        Some(Self {
            title: "Receive with your own code",
            each: parts.receive(subscription),
            has_key: false,
        })
    }
}

/// The command that publishes an example with a shared access signature.
pub(crate) fn command_with_token(site: &Site, topic: &TopicEntry, token: &str) -> String {
    let header = quoted(&format!("aeg-sas-token: {token}"));
    Parts::new(site, topic, None).curl_with(&header)
}

/// What stands for the first key in JavaScript while it is hidden.
pub(crate) const JAVASCRIPT_KEY: &str = "process.env.KEY";

/// The header with the key, as one word of a shell.
pub(crate) fn key_header(key: Option<&str>) -> String {
    key.map_or("\"aeg-sas-key: $KEY\"".to_owned(), |key| {
        quoted(&format!("aeg-sas-key: {key}"))
    })
}

/// The key as an expression: a literal, or what reads it from the environment.
pub(crate) fn key_or(key: Option<&str>, from_environment: &str) -> String {
    key.map_or_else(|| from_environment.to_owned(), |key| json!(key).to_string())
}

/// The key in .NET.
pub(crate) fn dotnet_key(key: Option<&str>) -> String {
    key_or(key, "Environment.GetEnvironmentVariable(\"KEY\")!")
}

/// The command that publishes an example with the first key, or with `$KEY` while that is hidden.
pub(crate) fn command(site: &Site, topic: &TopicEntry, key: Option<&str>) -> String {
    Parts::new(site, topic, key).curl()
}

impl<'a> Parts<'a> {
    fn new(site: &Site, topic: &'a TopicEntry, key: Option<&'a str>) -> Self {
        let schema = &topic.topic.definition.input_schema;
        Self {
            schema,
            url: site.publish_url(topic),
            key,
            example: wire::example(schema, site.broker.entropy(), site.broker.clock().now()),
        }
    }

    fn curl(&self) -> String {
        self.curl_with(&key_header(self.key))
    }

    /// With a header that opens the topic, as one word of a shell.
    fn curl_with(&self, header: &str) -> String {
        format!(
            "curl -H {header} \\\n  -H 'Content-Type: {}' \\\n  -d {} \\\n  {}",
            wire::content_type(self.schema, self.example.is_array()),
            quoted(&self.example.to_string()),
            quoted(&self.url)
        )
    }

    fn sdks(&self) -> [Snippet; 3] {
        [
            Snippet::new("Python", "pip install azure-eventgrid", self.python()),
            Snippet::new(
                "JavaScript",
                "npm install @azure/eventgrid",
                self.javascript(),
            ),
            Snippet::new(
                ".NET",
                "dotnet add package Azure.Messaging.EventGrid",
                self.dotnet(),
            ),
        ]
    }

    fn url_literal(&self) -> String {
        json!(self.url).to_string()
    }

    fn python(&self) -> String {
        let os = if self.key.is_none() {
            "import os\n\n"
        } else {
            ""
        };
        let (imports, client, event) = match self.schema {
            InputSchema::EventGridSchema => (
                "",
                "EventGridEvent, EventGridPublisherClient",
                "EventGridEvent(\n    subject=\"/examples/1\", event_type=\"Example.Created\", \
                 data={\"number\": 1}, data_version=\"1.0\")"
                    .to_owned(),
            ),
            InputSchema::CloudEventSchemaV1_0 => (
                "from azure.core.messaging import CloudEvent\n",
                "EventGridPublisherClient",
                "CloudEvent(\n    source=\"/examples\", type=\"Example.Created\", \
                 data={\"number\": 1})"
                    .to_owned(),
            ),
            // Texts, numbers and objects of these are written alike in JSON and Python.
            InputSchema::CustomEventSchema(_) => {
                ("", "EventGridPublisherClient", self.example.to_string())
            }
        };
        let (url, key) = (self.url_literal(), key_or(self.key, "os.environ[\"KEY\"]"));
        format!(
            "{os}from azure.core.credentials import AzureKeyCredential\n{imports}\
             from azure.eventgrid import {client}\n\n\
             client = EventGridPublisherClient(\n    {url},\n    AzureKeyCredential({key}))\n\
             client.send({event})"
        )
    }

    fn javascript(&self) -> String {
        let (schema, events) = match self.schema {
            InputSchema::EventGridSchema => (
                "EventGrid",
                "[\n  { subject: \"/examples/1\", eventType: \"Example.Created\", \
                 data: { number: 1 }, dataVersion: \"1.0\" },\n]"
                    .to_owned(),
            ),
            InputSchema::CloudEventSchemaV1_0 => (
                "CloudEvent",
                "[\n  { source: \"/examples\", type: \"Example.Created\", data: { number: 1 } },\n]"
                    .to_owned(),
            ),
            InputSchema::CustomEventSchema(_) => ("Custom", self.example.to_string()),
        };
        let insecure = match self.url.starts_with("http://") {
            true => ",\n  { allowInsecureConnection: true }",
            false => "",
        };
        let (url, key) = (self.url_literal(), key_or(self.key, JAVASCRIPT_KEY));
        format!(
            "import {{ AzureKeyCredential, EventGridPublisherClient }} from \"@azure/eventgrid\";\n\n\
             const client = new EventGridPublisherClient(\n  {url},\n  \"{schema}\",\n  \
             new AzureKeyCredential({key}){insecure});\nawait client.send({events});"
        )
    }

    fn dotnet(&self) -> String {
        let (using, send) = match self.schema {
            InputSchema::EventGridSchema => (
                "",
                "SendEventAsync(new EventGridEvent(\n    \"/examples/1\", \"Example.Created\", \
                 \"1.0\", new { number = 1 }))"
                    .to_owned(),
            ),
            InputSchema::CloudEventSchemaV1_0 => (
                "using Azure.Messaging;\n",
                "SendEventAsync(new CloudEvent(\n    \"/examples\", \"Example.Created\", \
                 new { number = 1 }))"
                    .to_owned(),
            ),
            InputSchema::CustomEventSchema(_) => {
                let event = self.example.get(0).unwrap_or(&self.example);
                let send = format!(
                    "SendEventsAsync(new[]\n{{\n    BinaryData.FromString(\"\"\"{event}\"\"\"),\n}})"
                );
                ("", send)
            }
        };
        let url = self.url_literal();
        let key = dotnet_key(self.key);
        format!(
            "using Azure;\n{using}using Azure.Messaging.EventGrid;\n\n\
             var client = new EventGridPublisherClient(\n    new Uri({url}),\n    \
             new AzureKeyCredential({key}));\nawait client.{send};"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts<'a>(schema: &'a InputSchema, key: Option<&'a str>) -> Parts<'a> {
        Parts {
            schema,
            url: "http://127.0.0.1:8080/topics/orders/api/events".to_owned(),
            key,
            example: json!([{ "number": 1 }]),
        }
    }

    #[test]
    fn a_hidden_key_comes_from_the_environment_and_a_shown_one_stands_in_the_text() {
        for (key, expected) in [
            (
                None,
                [
                    "$KEY",
                    "os.environ[\"KEY\"]",
                    "process.env.KEY",
                    "(\"KEY\")!",
                ],
            ),
            (
                Some("k=="),
                ["aeg-sas-key: k==", "\"k==\"", "\"k==\"", "\"k==\""],
            ),
        ] {
            let schema = InputSchema::EventGridSchema;
            let parts = parts(&schema, key);
            let texts = [
                parts.curl(),
                parts.python(),
                parts.javascript(),
                parts.dotnet(),
            ];
            for (text, expected) in texts.iter().zip(expected) {
                assert!(text.contains(expected), "{expected} is missing:\n{text}");
                assert!(text.contains("http://127.0.0.1:8080/topics/orders/api/events"));
            }
        }
    }

    #[test]
    fn cloud_events_are_sent_as_such() {
        let schema = InputSchema::CloudEventSchemaV1_0;
        let parts = parts(&schema, None);
        assert!(parts.curl().contains("application/cloudevents"));
        for text in [parts.python(), parts.javascript(), parts.dotnet()] {
            assert!(text.contains("CloudEvent"), "{text}");
            assert!(!text.contains("EventGridEvent"), "{text}");
        }
    }
}
