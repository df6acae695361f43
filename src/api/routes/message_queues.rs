//! Queues of messages, which clients of Azure Service Bus send to and receive from.

use serde_json::json;

use crate::api::arm::listing::ListParameters;
use crate::api::lists::List;
use crate::api::manage::messages::{self, PeekParameters, ReceiveMessages};
use crate::api::manage::messaging;
use crate::api::routes::route::{ADMIN, Area, OPERATOR, Route, VIEWER, delete, get, post, put};
use crate::wire::resource::bodies::{QueueRequest, ResourceList, ShownQueue};
use crate::wire::service_bus::shown::ShownMessage;

/// Returns the route that shows the messages of the entity at the path `of`.
pub(super) fn peek(of: &str, id: &'static str) -> Route {
    get(format!("{of}/messages"), OPERATOR, messages::peek)
        .doc(id, "Show messages, or dead letters, without taking any")
        .says("In the order of their sequence numbers, whoever has locked them.")
        .query::<PeekParameters>()
        .answers::<List<ShownMessage>>(200, "The messages.")
}

/// Returns the route that takes messages from the entity at the path `of`.
pub(super) fn receive(of: &str, id: &'static str) -> Route {
    post(format!("{of}/receive"), OPERATOR, messages::receive)
        .doc(id, "Take messages, or dead letters, for good")
        .says("What can be received now, oldest first. Nobody receives it again.")
        .takes::<ReceiveMessages>(json!({ "limit": 10 }))
        .answers::<List<ShownMessage>>(200, "The messages; none if there are none.")
}

pub(crate) fn area() -> Area {
    let path = "/queues/{queue}";
    Area {
        name: "Queues",
        description: "Queues for the clients of Azure Service Bus, over AMQP on this port. A queue \
            is a topic with one event subscription of the same name.",
        routes: vec![
            get("/queues", VIEWER, messaging::list_queues)
                .doc("listQueues", "List queues")
                .says("All queues.")
                .query::<ListParameters>()
                .answers::<ResourceList<ShownQueue>>(200, "The queues."),
            get(path, VIEWER, messaging::get)
                .doc("getQueue", "Get a queue")
                .says("The queue, and how many messages lie in it.")
                .answers::<ShownQueue>(200, "The queue."),
            put(path, ADMIN, messaging::put)
                .doc("putQueue", "Create or replace a queue")
                .says("Its messages stay.")
                .takes::<QueueRequest>(json!({ "properties": { "maxDeliveryCount": 5 } }))
                .answers::<ShownQueue>(201, "The queue, whether it was there before or not.")
                .rejects(409, "There is a topic of that name."),
            delete(path, ADMIN, messaging::delete)
                .doc("deleteQueue", "Delete a queue")
                .says("With its messages. Nothing happens if it is not there.")
                .answers_nothing(204, "It is deleted."),
            peek(path, "peekQueue"),
            receive(path, "receiveFromQueue"),
        ],
    }
}
