//! How one publishes to a topic of a namespace and receives from it with Azure's clients for namespaces,
//! which name topic and address apart.

use serde_json::json;

use crate::admin::lists::recipe::quoted;
use crate::admin::page::*;
use crate::admin::pages::topics::snippets::{
    JAVASCRIPT_KEY, Snippet, dotnet_key, key_header, key_or,
};
use crate::model::name::SubscriptionName;

const PIP: &str = "pip install azure-eventgrid";
const NPM: &str = "npm install @azure/eventgrid-namespaces";
const NUGET: &str = "dotnet add package Azure.Messaging.EventGrid.Namespaces";

/// The version that the newest clients send.
const API_VERSION: &str = "2024-06-01";

/// What all of them are made of.
pub(crate) struct Parts<'a> {
    /// The address of the namespace.
    endpoint: String,
    /// The topic's own name.
    topic: &'a str,
    /// `None` while it is hidden.
    key: Option<&'a str>,
}

impl<'a> Parts<'a> {
    /// `None` for a custom topic.
    pub(crate) fn new(site: &Site, topic: &'a TopicEntry, key: Option<&'a str>) -> Option<Self> {
        let namespace = &topic.namespace.as_ref()?.namespace.name;
        Some(Self {
            endpoint: site.management_url(&format!("/namespaces/{namespace}")),
            topic: topic.topic.name.own(),
            key,
        })
    }

    /// Sends one event, in each language that has a client.
    pub(crate) fn publish(&self) -> Vec<Snippet> {
        let python = format!(
            "{}from azure.core.credentials import AzureKeyCredential\n\
             from azure.core.messaging import CloudEvent\n\
             from azure.eventgrid import EventGridPublisherClient\n\n\
             client = EventGridPublisherClient(\n    {},\n    AzureKeyCredential({}),\n    \
             namespace_topic={})\nclient.send(CloudEvent(\n    source=\"/examples\", \
             type=\"Example.Created\", data={{\"number\": 1}}))",
            self.python_imports(),
            self.endpoint(),
            self.python_key(),
            self.topic(),
        );
        let javascript = format!(
            "import {{ AzureKeyCredential, EventGridSenderClient }} from \
             \"@azure/eventgrid-namespaces\";\n\n\
             const client = new EventGridSenderClient(\n  {},\n  new AzureKeyCredential({}),\n  \
             {}{});\nawait client.sendEvents(\n  {{ source: \"/examples\", type: \
             \"Example.Created\", data: {{ number: 1 }} }});",
            self.endpoint(),
            key_or(self.key, JAVASCRIPT_KEY),
            self.topic(),
            self.insecure(),
        );
        let dotnet = format!(
            "using Azure;\nusing Azure.Messaging;\nusing Azure.Messaging.EventGrid.Namespaces;\n\n\
             var client = new EventGridSenderClient(\n    new Uri({}), {},\n    \
             new AzureKeyCredential({}));\nawait client.SendAsync(new CloudEvent(\n    \
             \"/examples\", \"Example.Created\", new {{ number = 1 }}));",
            self.endpoint(),
            self.topic(),
            dotnet_key(self.key),
        );
        clients(python, javascript, dotnet)
    }

    /// Receives up to ten events from a subscription and acknowledges each, with curl and in each
    /// language that has a client.
    pub(crate) fn receive(&self, subscription: &SubscriptionName) -> Vec<Snippet> {
        let name = json!(subscription.as_str()).to_string();
        let python = format!(
            "{}from azure.core.credentials import AzureKeyCredential\n\
             from azure.eventgrid import EventGridConsumerClient\n\n\
             client = EventGridConsumerClient(\n    {},\n    AzureKeyCredential({}),\n    \
             namespace_topic={}, subscription={name})\n\
             for each in client.receive(max_events=10, max_wait_time=10):\n    \
             print(each.event)\n    \
             client.acknowledge(lock_tokens=[each.broker_properties.lock_token])",
            self.python_imports(),
            self.endpoint(),
            self.python_key(),
            self.topic(),
        );
        let javascript = format!(
            "import {{ AzureKeyCredential, EventGridReceiverClient }} from \
             \"@azure/eventgrid-namespaces\";\n\n\
             const client = new EventGridReceiverClient(\n  {},\n  new AzureKeyCredential({}),\n  \
             {},\n  {name}{});\n\
             const {{ details }} = await client.receiveEvents({{ maxEvents: 10, maxWaitTime: 10 }});\n\
             for (const {{ event, brokerProperties }} of details) {{\n  console.log(event);\n  \
             await client.acknowledgeEvents([brokerProperties.lockToken]);\n}}",
            self.endpoint(),
            key_or(self.key, JAVASCRIPT_KEY),
            self.topic(),
            self.insecure(),
        );
        let dotnet = format!(
            "using Azure;\nusing Azure.Messaging.EventGrid.Namespaces;\n\n\
             var client = new EventGridReceiverClient(\n    new Uri({}), {}, {name},\n    \
             new AzureKeyCredential({}));\n\
             var received = await client.ReceiveAsync(\n    maxEvents: 10, maxWaitTime: \
             TimeSpan.FromSeconds(10));\nforeach (var each in received.Value.Details)\n{{\n    \
             Console.WriteLine(each.Event.Type);\n    \
             await client.AcknowledgeAsync(new[] {{ each.BrokerProperties.LockToken }});\n}}",
            self.endpoint(),
            self.topic(),
            dotnet_key(self.key),
        );
        let mut all = self.receive_by_hand(subscription).to_vec();
        all.extend(clients(python, javascript, dotnet));
        all
    }

    fn receive_by_hand(&self, subscription: &SubscriptionName) -> [Snippet; 2] {
        let header = key_header(self.key);
        let url = |operation: &str, query: &str| {
            quoted(&format!(
                "{}/topics/{}/eventsubscriptions/{subscription}:{operation}?api-version=\
                 {API_VERSION}{query}",
                self.endpoint, self.topic
            ))
        };
        let receive = format!(
            "curl -X POST -H {header} \\\n  {}",
            url("receive", "&maxEvents=10&maxWaitTime=10")
        );
        let acknowledge = format!(
            "curl -H {header} -H 'Content-Type: application/json' \\\n  \
             -d '{{\"lockTokens\": [\"TOKEN\"]}}' \\\n  {}",
            url("acknowledge", "")
        );
        [
            Snippet::new("curl", "", receive),
            Snippet::new("curl to acknowledge", "", acknowledge),
        ]
    }

    fn endpoint(&self) -> String {
        json!(self.endpoint).to_string()
    }

    fn topic(&self) -> String {
        json!(self.topic).to_string()
    }

    fn python_imports(&self) -> &'static str {
        match self.key {
            None => "import os\n\n",
            Some(_) => "",
        }
    }

    fn python_key(&self) -> String {
        key_or(self.key, "os.environ[\"KEY\"]")
    }

    /// What the client for JavaScript wants to hear before it speaks without TLS.
    fn insecure(&self) -> &'static str {
        match self.endpoint.starts_with("http://") {
            true => ",\n  { allowInsecureConnection: true }",
            false => "",
        }
    }
}

fn clients(python: String, javascript: String, dotnet: String) -> Vec<Snippet> {
    vec![
        Snippet::new("Python", PIP, python),
        Snippet::new("JavaScript", NPM, javascript),
        Snippet::new(".NET", NUGET, dotnet),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(snippets: &[Snippet], key: &[&str]) {
        for (snippet, key) in snippets.iter().zip(key) {
            for part in ["http://127.0.0.1:8080/namespaces/shop", "orders", *key] {
                let code = snippet.code();
                assert!(code.contains(part), "{part} is missing:\n{code}");
            }
        }
    }

    #[test]
    fn address_topic_and_key_stand_apart() {
        let name = SubscriptionName::parse("audit").expect("a name");
        let parts = |key| Parts {
            endpoint: "http://127.0.0.1:8080/namespaces/shop".to_owned(),
            topic: "orders",
            key,
        };
        let hidden = ["os.environ[\"KEY\"]", "process.env.KEY", "(\"KEY\")!"];
        check(&parts(None).publish(), &hidden);
        check(&parts(Some("k==")).publish(), &["\"k==\""; 3]);
        let mut by_hand = vec!["$KEY", "$KEY"];
        by_hand.extend(hidden);
        let receive = parts(None).receive(&name);
        check(&receive, &by_hand);
        assert!(receive.iter().all(|it| it.code().contains("audit")));
    }
}
