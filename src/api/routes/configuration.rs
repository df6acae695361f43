//! The configuration as a whole.

use serde_json::{Value, json};

use crate::api::lists::List;
use crate::api::manage::configuration::{self, ConfigurationPlan, PlanRequest};
use crate::api::routes::route::{ADMIN, Area, get, post};
use crate::model::limits::CONFIGURATION_BYTES_MAX;

pub(crate) fn area() -> Area {
    let example = json!({ "kind": "Topic", "name": "orders", "location": "local" });
    Area {
        name: "Configuration",
        description: "All definitions at once, each with its `kind`, its `name` and what a PUT of it takes. \
            `everpost export`, `everpost diff` and `everpost apply` use it.",
        routes: vec![
            get("/everpost/configuration", ADMIN, configuration::export)
                .doc("exportConfiguration", "Export the configuration")
                .says("Each object behind those that it needs, without secrets, ids and times.")
                .answers::<List<Value>>(200, "The objects."),
            post("/everpost/configuration/plan", ADMIN, configuration::plan)
                .doc("planConfiguration", "Compare a configuration with what is there")
                .says(
                    "Tells which changes lead to it, in the order in which they can be made, and everything that is \
                     wrong with it. Nothing is changed.",
                )
                .bytes_max(CONFIGURATION_BYTES_MAX)
                .takes::<PlanRequest>(json!({ "objects": [example], "prune": false }))
                .answers::<ConfigurationPlan>(200, "The changes, or the faults."),
        ],
    }
}
