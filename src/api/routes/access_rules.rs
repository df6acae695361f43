//! Shared access rules of queues and Service Bus topics.

use serde_json::json;

use crate::api::arm::listing::ListParameters;
use crate::api::manage::access_rules;
use crate::api::routes::route::{ADMIN, Area, VIEWER, delete, get, put};
use crate::api::routes::topics::{list_keys, regenerate_key};
use crate::model::limits::ACCESS_RULES_MAX;
use crate::model::shared_access::AccessRuleDefinition;
use crate::wire::resource::ShownAccessRule;
use crate::wire::resource::bodies::ResourceList;

pub(crate) fn area() -> Area {
    let (all, one) = ("/everpost/accessRules", "/everpost/accessRules/{name}");
    Area {
        name: "Access rules",
        description: "Keys of queues and Service Bus topics, and what each allows: Azure calls them shared access \
            policies. Written as `orders/app`, the rule `app` is for the queue or topic `orders` alone; written as \
            `app`, it is for all of them.",
        routes: vec![
            get(all, VIEWER, access_rules::list)
                .doc("listAccessRules", "List access rules")
                .says("All rules, without their keys.")
                .query::<ListParameters>()
                .answers::<ResourceList<ShownAccessRule>>(200, "The rules."),
            get(one, VIEWER, access_rules::get)
                .doc("getAccessRule", "Get an access rule")
                .says("By name, in any letter case, without its keys.")
                .answers::<ShownAccessRule>(200, "The rule."),
            put(one, ADMIN, access_rules::put)
                .doc("putAccessRule", "Create or change an access rule")
                .says(format!(
                    "Each queue and topic can have up to {ACCESS_RULES_MAX}, and up to {ACCESS_RULES_MAX} can be for all of them."
                ))
                .takes::<AccessRuleDefinition>(json!({ "rights": ["Send", "Listen"] }))
                .answers::<ShownAccessRule>(200, "It was there before.")
                .answers::<ShownAccessRule>(201, "It is new.")
                .rejects(404, "There is no such queue or topic.")
                .rejects(409, "There are as many rules as there may be."),
            delete(one, ADMIN, access_rules::delete)
                .doc("deleteAccessRule", "Delete an access rule")
                .says("New connections and requests with its keys, or with tokens made with them, are rejected at once.")
                .answers_nothing(204, "It is gone."),
            list_keys(one, access_rules::list_keys, "listAccessRuleKeys"),
            regenerate_key(one, access_rules::regenerate_key, "regenerateAccessRuleKey"),
        ],
    }
}
