//! `everpost service-bus`: topics that clients of Azure Service Bus send to, with subscriptions and rules.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::app::cli::confirm::Deletion;
use crate::app::cli::filter::name_and_value;
use crate::app::cli::output::{number, plural, text};
use crate::app::cli::queues::{
    COLUMNS, COUNT, ENTITY, ReceivingOptions, SUBSCRIPTIONS, SendingOptions, UpkeepArgs,
    time_to_live,
};
use crate::app::cli::request::{RemoteServer, Run};
use crate::app::cli::table::Cell::{Of, Text, Word};
use crate::app::cli::table::{Details, ListFormat};
use crate::wire::resource::filter_text;

#[derive(Subcommand, Debug)]
pub(super) enum ServiceBusCommand {
    /// Manage topics
    #[command(subcommand)]
    Topics(ServiceBusTopicsCommand),
    /// Manage the subscriptions of a topic
    #[command(subcommand)]
    Subscriptions(TopicSubscriptionsCommand),
    /// Manage the rules of a subscription
    #[command(subcommand)]
    Rules(RulesCommand),
}

#[derive(Subcommand, Debug)]
pub(super) enum ServiceBusTopicsCommand {
    /// List topics
    List,
    /// Create a topic, or replace its definition
    Create {
        topic: String,
        #[command(flatten)]
        upkeep: UpkeepArgs,
        #[command(flatten)]
        intake: SendingOptions,
    },
    /// Show one topic
    Show { topic: String },
    /// Delete a topic with its subscriptions and their messages
    Delete {
        topic: String,
        #[command(flatten)]
        deletion: Deletion,
    },
}

#[derive(Subcommand, Debug)]
pub(super) enum TopicSubscriptionsCommand {
    /// List the subscriptions of a topic, and how many messages lie in them
    List(TopicArguments),
    /// Create a subscription, which gets all messages until its rules say otherwise, or replace its definition
    Create {
        subscription: String,
        #[command(flatten)]
        of: TopicArguments,
        #[command(flatten)]
        settings: ReceivingOptions,
        /// Have rules that cannot be evaluated not match, instead of dead-lettering the message
        #[arg(long)]
        ignore_filter_errors: bool,
    },
    /// Show one subscription
    Show {
        subscription: String,
        #[command(flatten)]
        of: TopicArguments,
    },
    /// Delete a subscription with its messages
    Delete {
        subscription: String,
        #[command(flatten)]
        of: TopicArguments,
        #[command(flatten)]
        deletion: Deletion,
    },
}

#[derive(Args, Debug)]
pub(super) struct TopicArguments {
    /// The topic
    #[arg(long)]
    topic: String,
}

#[derive(Subcommand, Debug)]
pub(super) enum RulesCommand {
    /// List the rules of a subscription
    List(SubscriptionArguments),
    /// Create a rule, or replace it: for all messages unless a filter is given
    Create(CreateRule),
    /// Show one rule
    Show {
        rule: String,
        #[command(flatten)]
        of: SubscriptionArguments,
    },
    /// Delete a rule
    Delete {
        rule: String,
        #[command(flatten)]
        of: SubscriptionArguments,
        #[command(flatten)]
        deletion: Deletion,
    },
}

#[derive(Args, Debug)]
pub(super) struct SubscriptionArguments {
    /// The topic
    #[arg(long)]
    topic: String,
    /// The subscription
    #[arg(long)]
    subscription: String,
}

#[derive(Args, Debug)]
pub(super) struct CreateRule {
    rule: String,
    #[command(flatten)]
    of: SubscriptionArguments,
    /// Messages for which this is true, such as "total > 100 AND sys.Label = 'paid'"
    #[arg(long, value_name = "CONDITION", conflicts_with_all = ["label", "equal"])]
    sql: Option<String>,
    /// Messages with this subject
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Messages with this application property, may be repeated
    #[arg(long = "equal", value_name = "NAME=VALUE", value_parser = name_and_value)]
    equal: Vec<(String, String)>,
    /// Changes to the copy, such as "SET size = 'large'; REMOVE note"
    #[arg(long, value_name = "STATEMENTS")]
    action: Option<String>,
}

const TOPICS: [&str; 1] = ["serviceBusTopics"];

impl Run for ServiceBusCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        match self {
            Self::Topics(command) => command.run(server).await,
            Self::Subscriptions(command) => command.run(server).await,
            Self::Rules(command) => command.run(server).await,
        }
    }
}

impl Run for ServiceBusTopicsCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        match self {
            Self::List => server.get(TOPICS).show(TOPIC_LIST).await,
            Self::Create {
                topic,
                upkeep,
                intake,
            } => {
                let mut properties = json!({});
                upkeep.add_to(&mut properties);
                intake.add_to(&mut properties);
                let body = json!({ "properties": properties });
                let request = server.put(TOPICS).at(&topic).json(&body);
                request.save(&format!("topic {topic}"), ENTITY).await?;
                Ok(())
            }
            Self::Show { topic } => server.get(TOPICS).at(topic).show(ENTITY).await,
            Self::Delete { topic, deletion } => {
                if !deletion.yes {
                    let found = server.get(TOPICS).at(&topic).send().await?;
                    let subscriptions = number(&found, SUBSCRIPTIONS);
                    let subscriptions = plural(subscriptions, "subscription", "subscriptions");
                    let question = format!("This deletes topic {topic} with {subscriptions}.");
                    deletion.ask(&question)?;
                }
                server.delete(TOPICS).remove("topic", &topic).await
            }
        }
    }
}

impl Run for TopicSubscriptionsCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        match self {
            Self::List(of) => server.get(of.path()).show(SUBSCRIPTION_LIST).await,
            Self::Create {
                subscription,
                of,
                settings,
                ignore_filter_errors,
            } => {
                let mut properties = settings.properties();
                properties["deadLetteringOnFilterEvaluationExceptions"] =
                    (!ignore_filter_errors).into();
                let body = json!({ "properties": properties });
                let request = server.put(of.path()).at(&subscription).json(&body);
                let name = format!("subscription {subscription}");
                request.save(&name, ENTITY).await?;
                Ok(())
            }
            Self::Show { subscription, of } => {
                let request = server.get(of.path()).at(subscription);
                request.show(ENTITY).await
            }
            Self::Delete {
                subscription,
                of,
                deletion,
            } => {
                if !deletion.yes {
                    let found = server.get(of.path()).at(&subscription).send().await?;
                    let messages = plural(number(&found, COUNT), "message", "messages");
                    let question = format!("This deletes subscription {subscription}: {messages}.");
                    deletion.ask(&question)?;
                }
                let request = server.delete(of.path());
                request.remove("subscription", &subscription).await
            }
        }
    }
}

impl Run for RulesCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        match self {
            Self::List(of) => server.get(of.path()).show(RULES).await,
            Self::Create(create) => {
                let request = server
                    .put(create.of.path())
                    .at(&create.rule)
                    .json(&create.body());
                request.save(&format!("rule {}", create.rule), RULE).await?;
                Ok(())
            }
            Self::Show { rule, of } => server.get(of.path()).at(rule).show(RULE).await,
            Self::Delete { rule, of, deletion } => {
                deletion.ask(&format!("This deletes rule {rule}."))?;
                server.delete(of.path()).remove("rule", &rule).await
            }
        }
    }
}

impl TopicArguments {
    fn path(&self) -> [&str; 3] {
        let [topics] = TOPICS;
        [topics, &self.topic, "subscriptions"]
    }
}

impl SubscriptionArguments {
    fn path(&self) -> [&str; 5] {
        let [topics] = TOPICS;
        [
            topics,
            &self.topic,
            "subscriptions",
            &self.subscription,
            "rules",
        ]
    }
}

impl CreateRule {
    fn body(&self) -> Value {
        let mut properties = Map::new();
        if let Some(sql) = &self.sql {
            properties.insert("sqlFilter".to_owned(), json!({ "sqlExpression": sql }));
        }
        if self.label.is_some() || !self.equal.is_empty() {
            let equal = self
                .equal
                .iter()
                .map(|(name, value)| (name.clone(), Value::from(value.as_str())));
            let equal: Map<String, Value> = equal.collect();
            let mut filter = json!({ "properties": equal });
            if let Some(label) = &self.label {
                filter["label"] = label.as_str().into();
            }
            properties.insert("correlationFilter".to_owned(), filter);
        }
        if let Some(action) = &self.action {
            properties.insert("action".to_owned(), json!({ "sqlExpression": action }));
        }
        json!({ "properties": properties })
    }
}

const TOPIC_LIST: ListFormat = ListFormat {
    none: "no Service Bus topics yet: create one with `everpost service-bus topics create NAME`",
    columns: &[
        ("NAME", Text("/name")),
        ("SUBSCRIPTIONS", Word(SUBSCRIPTIONS)),
        ("TIME TO LIVE", Of(time_to_live)),
    ],
};

const SUBSCRIPTION_LIST: ListFormat = ListFormat {
    none: "no subscriptions yet: create one with `everpost service-bus subscriptions create NAME`",
    columns: COLUMNS,
};

const RULES: ListFormat = ListFormat {
    none: "no rules: the subscription gets no messages",
    columns: &[
        ("NAME", Text("/name")),
        ("FILTER", Of(filter)),
        ("ACTION", Of(action)),
    ],
};

const RULE: Details = Details(&[
    ("name", Text("/name")),
    ("filter", Of(filter)),
    ("action", Of(action)),
]);

fn filter(rule: &Value) -> String {
    filter_text(&rule["properties"])
}

fn action(rule: &Value) -> String {
    text(rule, "/properties/action/sqlExpression")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::cli::output::{Screen, View};

    #[test]
    fn rules_are_listed_with_their_filters() {
        let rules = json!({ "value": [
            { "name": "$Default", "properties": { "filterType": "TrueFilter" } },
            { "name": "large", "properties": {
                "filterType": "SqlFilter", "sqlFilter": { "sqlExpression": "total > 100" },
                "action": { "sqlExpression": "SET size = 'large'" } } },
            { "name": "paid", "properties": {
                "filterType": "CorrelationFilter",
                "correlationFilter": { "label": "paid", "properties": { "n": 7 } } } },
        ] });
        assert_eq!(
            RULES.text(&rules, Screen::default()),
            "\
NAME      FILTER                    ACTION
$Default  all messages
large     total > 100               SET size = 'large'
paid      label = \"paid\" AND n = 7
"
        );
    }
}
