//! Namespaces and their topics.

use serde_json::json;

use crate::api::arm::listing::ListParameters;
use crate::api::manage::{self, namespaces};
use crate::api::routes::route::{ADMIN, Area, VIEWER, get, patch, put};
use crate::api::routes::topics::{UPDATES, deletion, list_keys, regenerate_key};
use crate::model::limits::{NAMESPACES_MAX, TOPICS_PER_UNIT_MAX};
use crate::wire::resource::bodies::{
    NamespaceRequest, NamespaceTopic, ResourceList, ShownNamespace, ShownNamespaceTopic,
};

pub(crate) fn area() -> Area {
    let (path, topics) = ("/namespaces/{namespace}", "/namespaces/{namespace}/topics");
    let topic = "/namespaces/{namespace}/topics/{topic}";
    Area {
        name: "Namespaces",
        description: "Topics of CloudEvents with shared keys and network rules, and pull delivery.",
        routes: vec![
            get("/namespaces", VIEWER, namespaces::list)
                .doc("listNamespaces", "List namespaces")
                .says("All namespaces.")
                .query::<ListParameters>()
            .answers::<ResourceList<ShownNamespace>>(200, "The namespaces."),
            get(path, VIEWER, namespaces::get)
                .doc("getNamespace", "Get a namespace")
                .says("The namespace with the host that publishers find it at.")
                .answers::<ShownNamespace>(200, "The namespace."),
            put(path, ADMIN, namespaces::put)
                .doc("putNamespace", "Create or replace a namespace")
                .says(format!("There may be {NAMESPACES_MAX}. Its keys and topics stay."))
                .takes::<NamespaceRequest>(
                    json!({ "location": "local", "sku": { "name": "Standard", "capacity": 1 } }),
                )
                .answers::<ShownNamespace>(201, "The namespace, whether it was there before or not.")
                .rejects(409, "There are as many namespaces as there may be."),
            patch(path, ADMIN, namespaces::patch)
                .doc("patchNamespace", "Change a namespace")
                .says(UPDATES)
                .updates::<NamespaceRequest>(json!({ "tags": { "team": "shop" } }))
                .answers::<ShownNamespace>(200, "The namespace."),
            deletion(path, namespaces::delete)
                .doc("deleteNamespace", "Delete a namespace")
                .says("With its topics and their event subscriptions. Nothing happens if it is not there."),
            list_keys(path, namespaces::list_keys, "listNamespaceKeys"),
            regenerate_key(path, namespaces::regenerate_key, "regenerateNamespaceKey"),
            get(topics, VIEWER, namespaces::list_topics)
                .doc("listNamespaceTopics", "List the topics of a namespace")
                .says("All topics of the namespace.")
                .query::<ListParameters>()
            .answers::<ResourceList<ShownNamespaceTopic>>(200, "The topics."),
            get(topic, VIEWER, manage::get_topic)
                .doc("getNamespaceTopic", "Get a topic of a namespace")
                .says("The topic with the URL to publish to.")
                .answers::<ShownNamespaceTopic>(200, "The topic."),
            put(topic, ADMIN, manage::put_topic)
                .doc("putNamespaceTopic", "Create or replace a topic of a namespace")
                .says(format!(
                    "There may be {TOPICS_PER_UNIT_MAX} for each throughput unit of the namespace."
                ))
                .takes::<NamespaceTopic>(json!({ "properties": { "eventRetentionInDays": 7 } }))
                .answers::<ShownNamespaceTopic>(201, "The topic, whether it was there before or not.")
                .rejects(409, "There are as many topics as there may be."),
            patch(topic, ADMIN, manage::patch_topic)
                .doc("patchNamespaceTopic", "Change a topic of a namespace")
                .says(UPDATES)
                .updates::<NamespaceTopic>(json!({ "properties": { "eventRetentionInDays": 1 } }))
                .answers::<ShownNamespaceTopic>(200, "The topic."),
            deletion(topic, manage::delete_topic)
                .doc("deleteNamespaceTopic", "Delete a topic of a namespace")
                .says("With its event subscriptions. Nothing happens if it is not there."),
            list_keys(topic, manage::list_keys, "listNamespaceTopicKeys"),
            regenerate_key(topic, manage::regenerate_key, "regenerateNamespaceTopicKey"),
        ],
    }
}
