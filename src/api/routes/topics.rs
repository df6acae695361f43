//! Topics.

use axum::handler::Handler;
use serde_json::json;

use crate::api::ApiState;
use crate::api::arm::listing::ListParameters;
use crate::api::manage::azure::{self, EventType, ManagementOperation, TopicType};
use crate::api::manage::{self, DeletionOptions};
use crate::api::routes::route::{ADMIN, Area, Route, VIEWER, delete, get, patch, post, put};
use crate::wire::resource::bodies::{
    RegenerateKey, ResourceList, ShownKeys, ShownTopic, TopicRequest,
};

/// The description of every PATCH.
pub(crate) const UPDATES: &str = "A property that is given replaces its whole old value, `null` restores its \
    default, the others stay.";

pub(crate) fn area() -> Area {
    let path = "/topics/{topic}";
    Area {
        name: "Topics",
        description: "What publishers send to. Two topics are built in: `dead-letter-storage` and \
            `everpost-system`; they can be read and subscribed to, and nothing else.",
        routes: vec![
            get("/topics", VIEWER, manage::list_topics)
                .doc("listTopics", "List topics")
                .says("All topics that belong to no namespace.")
                .query::<ListParameters>()
            .answers::<ResourceList<ShownTopic>>(200, "The topics."),
            get(path, VIEWER, manage::get_topic)
                .doc("getTopic", "Get a topic")
                .says("The topic with the URL to publish to.")
                .answers::<ShownTopic>(200, "The topic."),
            put(path, ADMIN, manage::put_topic)
                .doc("putTopic", "Create or replace a topic")
                .says("Its keys stay, and so does its input schema, which cannot be changed.")
                .takes::<TopicRequest>(
                    json!({ "location": "local", "properties": { "inputSchema": "EventGridSchema" } }),
                )
                .answers::<ShownTopic>(201, "The topic, whether it was there before or not."),
            patch(path, ADMIN, manage::patch_topic)
                .doc("patchTopic", "Change a topic")
                .says(UPDATES)
                .updates::<TopicRequest>(json!({ "tags": { "team": "shop" } }))
                .answers::<ShownTopic>(200, "The topic."),
            get(format!("{path}/eventTypes"), VIEWER, azure::list_event_types_of_topic)
                .doc("listEventTypesOfTopic", "List the event types of a topic")
                .says("Those that its `eventTypeInfo` describes.")
                .answers::<ResourceList<EventType>>(200, "The event types."),
            get("/topicTypes", VIEWER, azure::list_topic_types)
                .doc("listTopicTypes", "List the types of topics")
                .says("There is one: topics that applications publish to.")
                .answers::<ResourceList<TopicType>>(200, "The types."),
            get("/topicTypes/{topic_type}", VIEWER, azure::get_topic_type)
                .doc("getTopicType", "Get a type of topics")
                .says("Its name is `Microsoft.EventGrid.Topics`.")
                .answers::<TopicType>(200, "The type."),
            get("/topicTypes/{topic_type}/eventTypes", VIEWER, azure::list_event_types)
                .doc("listEventTypesOfTopicType", "List the event types of a type of topics")
                .says("None: applications choose the types of their events.")
                .answers::<ResourceList<EventType>>(200, "The event types."),
            get("/operations", VIEWER, azure::list_operations)
                .doc("listOperations", "List the operations")
                .says("Those of the management API that Azure has too.")
                .answers::<ResourceList<ManagementOperation>>(200, "The operations."),
            deletion(path, manage::delete_topic)
                .doc("deleteTopic", "Delete a topic")
                .says("With its event subscriptions. Nothing happens if it is not there."),
            list_keys(path, manage::list_keys, "listTopicKeys"),
            regenerate_key(path, manage::regenerate_key, "regenerateTopicKey"),
        ],
    }
}

/// Deletes something whose deliveries may be pending.
pub(crate) fn deletion<T: 'static>(path: &str, handler: impl Handler<T, ApiState>) -> Route {
    delete(path, ADMIN, handler)
        .query::<DeletionOptions>()
        .answers_nothing(204, "It is deleted.")
}

pub(crate) fn list_keys<T: 'static>(
    of: &str,
    handler: impl Handler<T, ApiState>,
    id: &str,
) -> Route {
    post(format!("{of}/listKeys"), ADMIN, handler)
        .doc(id, "List the access keys")
        .says("Two keys, so that one can be regenerated while the other is in use.")
        .answers::<ShownKeys>(200, "The keys.")
}

pub(crate) fn regenerate_key<T: 'static>(
    of: &str,
    handler: impl Handler<T, ApiState>,
    id: &str,
) -> Route {
    post(format!("{of}/regenerateKey"), ADMIN, handler)
        .doc(id, "Regenerate an access key")
        .says("The old key, and SAS tokens made with it, stop working at once.")
        .takes::<RegenerateKey>(json!({ "keyName": "key2" }))
        .answers::<ShownKeys>(200, "Both keys.")
}
