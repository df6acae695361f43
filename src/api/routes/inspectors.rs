//! Inspectors.

use serde_json::json;

use crate::api::lists::{List, Page};
use crate::api::manage::inspectors;
use crate::api::routes::route::{Area, OPERATOR, Route, VIEWER, delete, get, post, put};
use crate::model::inspector::InspectorDefinition;
use crate::model::limits::{INSPECTED_BYTES_MAX, INSPECTED_REQUESTS_MAX, INSPECTORS_MAX};
use crate::wire::query::Paging;
use crate::wire::resource::{InspectedRow, ShownInspector, ShownRequest};

pub(crate) fn area() -> Area {
    Area {
        name: "Inspectors",
        description: "Test webhooks inside the appliance that answer as you choose and show their requests.",
        routes: routes(),
    }
}

fn routes() -> Vec<Route> {
    let (all, one) = ("/everpost/inspectors", "/everpost/inspectors/{name}");
    let requests = "/everpost/inspectors/{name}/requests";
    vec![
        get(all, VIEWER, inspectors::list)
            .doc("listInspectors", "List inspectors")
            .says("All inspectors.")
            .answers::<List<ShownInspector>>(200, "The inspectors."),
        get(one, VIEWER, inspectors::get)
            .doc("getInspector", "Get an inspector")
            .says("With the URL that event subscriptions deliver to.")
            .answers::<ShownInspector>(200, "The inspector."),
        put(one, OPERATOR, inspectors::put)
            .doc("putInspector", "Create or change an inspector")
            .says(format!(
                "Its answers begin anew; its requests stay. There may be {INSPECTORS_MAX}."
            ))
            .takes::<InspectorDefinition>(json!({ "answers": "503 503 200" }))
            .answers::<ShownInspector>(200, "It was there before.")
            .answers::<ShownInspector>(201, "It is new.")
            .rejects(409, "There are as many inspectors as there may be."),
        delete(one, OPERATOR, inspectors::delete)
            .doc("deleteInspector", "Delete an inspector")
            .says("With its requests.")
            .answers_nothing(204, "It is gone."),
        post(
            "/everpost/inspectors/{name}/clear",
            OPERATOR,
            inspectors::clear,
        )
        .doc("clearInspector", "Delete the requests of an inspector")
        .says("The inspector itself stays.")
        .answers::<inspectors::Cleared>(200, "How many there were."),
        get(requests, OPERATOR, inspectors::requests)
            .doc("listInspectedRequests", "List the requests of an inspector")
            .says(format!(
                "The newest first, without headers and bodies. {INSPECTED_REQUESTS_MAX} are kept."
            ))
            .query::<Paging>()
            .answers::<Page<InspectedRow>>(200, "A page of requests."),
        get(
            "/everpost/inspectors/{name}/requests/{number}",
            OPERATOR,
            inspectors::request,
        )
        .doc("getInspectedRequest", "Get a request of an inspector")
        .says(format!(
            "With its headers and up to {INSPECTED_BYTES_MAX} bytes of its body."
        ))
        .answers::<ShownRequest>(200, "The request."),
    ]
}
