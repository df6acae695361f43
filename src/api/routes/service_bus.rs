//! Routes for Service Bus topics, for their subscriptions, and for the rules of the subscriptions.

use serde_json::json;

use crate::api::arm::listing::ListParameters;
use crate::api::manage::messaging;
use crate::api::routes::message_queues::{peek, receive};
use crate::api::routes::route::{ADMIN, Area, Route, VIEWER, delete, get, put};
use crate::model::limits::{RULES_PER_TOPIC_MAX, SUBSCRIPTIONS_PER_TOPIC_MAX};
use crate::wire::resource::bodies::{
    ResourceList, RuleRequest, ServiceBusSubscriptionRequest, ServiceBusTopicRequest, ShownRule,
    ShownServiceBusSubscription, ShownServiceBusTopic,
};

pub(crate) fn area() -> Area {
    Area {
        name: "Service Bus topics",
        description: "Topics of Service Bus, whose subscriptions have rules that choose messages. The topics of Event Grid are others, under `/topics`.",
        routes: topics()
            .into_iter()
            .chain(subscriptions())
            .chain(rules())
            .collect(),
    }
}

fn topics() -> [Route; 4] {
    let path = "/serviceBusTopics/{topic}";
    [
        get("/serviceBusTopics", VIEWER, messaging::list_topics)
            .doc("listServiceBusTopics", "List Service Bus topics")
            .says("All topics of Service Bus.")
            .query::<ListParameters>()
            .answers::<ResourceList<ShownServiceBusTopic>>(200, "The topics."),
        get(path, VIEWER, messaging::get)
            .doc("getServiceBusTopic", "Get a Service Bus topic")
            .says("The topic, and how many subscriptions it has.")
            .answers::<ShownServiceBusTopic>(200, "The topic."),
        put(path, ADMIN, messaging::put)
            .doc(
                "putServiceBusTopic",
                "Create or replace a Service Bus topic",
            )
            .says("Its subscriptions and their messages stay.")
            .takes::<ServiceBusTopicRequest>(
                json!({ "properties": { "defaultMessageTimeToLive": "P14D" } }),
            )
            .answers::<ShownServiceBusTopic>(201, "The topic, whether it was there before or not.")
            .rejects(409, "There is a queue or a topic of events of that name."),
        delete(path, ADMIN, messaging::delete)
            .doc("deleteServiceBusTopic", "Delete a Service Bus topic")
            .says("With its subscriptions and their messages. Nothing happens if it is not there.")
            .answers_nothing(204, "It is deleted."),
    ]
}

fn subscriptions() -> [Route; 6] {
    let all = "/serviceBusTopics/{topic}/subscriptions";
    let path = &*format!("{all}/{{name}}");
    [
        get(all, VIEWER, messaging::list_subscriptions)
            .doc("listServiceBusSubscriptions", "List the subscriptions of a Service Bus topic")
            .says("All subscriptions of the topic.")
            .query::<ListParameters>()
            .answers::<ResourceList<ShownServiceBusSubscription>>(200, "The subscriptions."),
        get(path, VIEWER, messaging::get)
            .doc("getServiceBusSubscription", "Get a subscription of a Service Bus topic")
            .says("The subscription, and how many messages lie in it.")
            .answers::<ShownServiceBusSubscription>(200, "The subscription."),
        put(path, ADMIN, messaging::put)
            .doc(
                "putServiceBusSubscription",
                "Create or replace a subscription of a Service Bus topic",
            )
            .says(format!(
                "A new one has the rule `$Default`, which matches all messages. Rules and messages of one that is \
                 there stay. A topic has at most {SUBSCRIPTIONS_PER_TOPIC_MAX}."
            ))
            .takes::<ServiceBusSubscriptionRequest>(
                json!({ "properties": { "maxDeliveryCount": 5 } }),
            )
            .answers::<ShownServiceBusSubscription>(
                201,
                "The subscription, whether it was there before or not.",
            )
            .rejects(409, "There are as many as there may be, or an event subscription of that name."),
        delete(path, ADMIN, messaging::delete)
            .doc("deleteServiceBusSubscription", "Delete a subscription of a Service Bus topic")
            .says("With its messages. Nothing happens if it is not there.")
            .answers_nothing(204, "It is deleted."),
        peek(path, "peekServiceBusSubscription"),
        receive(path, "receiveFromServiceBusSubscription"),
    ]
}

fn rules() -> [Route; 4] {
    let all = "/serviceBusTopics/{topic}/subscriptions/{name}/rules";
    let path = &*format!("{all}/{{rule}}");
    let example = json!({ "properties": {
        "filterType": "SqlFilter",
        "sqlFilter": { "sqlExpression": "total > 100" },
        "action": { "sqlExpression": "SET size = 'large'" },
    } });
    [
        get(all, VIEWER, messaging::list_rules)
            .doc("listServiceBusRules", "List the rules of a subscription")
            .says("All rules of the subscription.")
            .query::<ListParameters>()
            .answers::<ResourceList<ShownRule>>(200, "The rules."),
        get(path, VIEWER, messaging::get)
            .doc("getServiceBusRule", "Get a rule")
            .says("The rule.")
            .answers::<ShownRule>(200, "The rule."),
        put(path, ADMIN, messaging::put)
            .doc("putServiceBusRule", "Create or replace a rule")
            .says(format!(
                "It counts for the messages that are sent from now on. The subscriptions of a topic have at most \
                 {RULES_PER_TOPIC_MAX} rules together."
            ))
            .takes::<RuleRequest>(example)
            .answers::<ShownRule>(201, "The rule, whether it was there before or not.")
            .rejects(409, "There are as many rules as there may be."),
        delete(path, ADMIN, messaging::delete)
            .doc("deleteServiceBusRule", "Delete a rule")
            .says("Nothing happens if it is not there.")
            .answers_nothing(204, "It is deleted."),
    ]
}
