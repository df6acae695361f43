//! Stored events, their deliveries, counters and storage.

use serde_json::json;

use crate::api::lists::{List, Page};
use crate::api::operate::counts::{self, CountsFilter, Traffic, TrafficFilter};
use crate::api::operate::deliveries::{self, SendBody, Sent, Tried};
use crate::api::operate::events::{self, FoundEvents};
use crate::api::operate::records::{self, EventBody};
use crate::api::operate::rejections::{self, RejectionDetail, ShownRejection};
use crate::api::operate::storage::{self, Storage};
use crate::api::routes::route::{Area, OPERATOR, Route, VIEWER, get, post};
use crate::broker::SubscriptionCounts;
use crate::model::limits::{REJECTED_BYTES_KEPT_MAX, REJECTION_LIFE, REJECTIONS_MAX};
use crate::wire::query::{EventParameters, Paging, RejectionParameters, StorageParameters};

pub(crate) fn area() -> Area {
    Area {
        name: "Events and deliveries",
        description: "What was published and what became of it: rows, counters and storage.",
        routes: routes(),
    }
}

fn routes() -> Vec<Route> {
    vec![
        get("/everpost/events", VIEWER, events::list).doc("listEvents", "List stored events")
            .says(
                "The newest first, without their data. A search looks at a bounded number of events, and says \
                 how far it came where it ended before the page was full.",
            )
            .query::<EventParameters>()
            .query::<Paging>()
            .answers::<FoundEvents>(200, "A page of events.")
            .rejects(404, "There is no such topic or event subscription."),
        get("/everpost/events/{key}", OPERATOR, records::get_event).doc("getEvent", "Get an event")
            .says("With its data, its deliveries and all of their attempts.")
            .answers::<EventBody>(200, "The event."),
        post("/everpost/events/{key}/send", OPERATOR, deliveries::send).doc("sendEvent", "Send an event to an event subscription")
        .says(
            "To one of its topic that has not got it. Its filter is asked as it is now; no other event \
             subscription gets the event again.",
        )
        .takes::<SendBody>(json!({ "subscription": "billing" }))
        .answers::<Sent>(200, "It is due.")
        .rejects(409, "The event subscription has got it already, or does not want it."),
        post("/everpost/deliveries/{id}/tryNow", OPERATOR, deliveries::try_now).doc("tryDeliveryNow", "Retry a delivery now")
        .says("Makes a pending delivery due at once, whatever its schedule says.")
        .answers::<Tried>(200, "It is due, or held back.")
        .rejects(409, "It is not pending, or a receiver holds it."),
        get("/everpost/rejectedEvents", VIEWER, rejections::list).doc("listRejectedEvents", "List rejected requests")
            .says(format!(
                "Publish requests that were rejected, the newest first; {REJECTIONS_MAX} are kept, for {} \
                 days.",
                REJECTION_LIFE.as_secs() / 86_400
            ))
            .query::<RejectionParameters>()
            .query::<Paging>()
            .answers::<Page<ShownRejection>>(200, "A page of requests.")
            .rejects(404, "There is no such topic."),
        get("/everpost/rejectedEvents/{id}", OPERATOR, rejections::get).doc("getRejectedEvent", "Get a rejected request")
        .says(format!("With the first {REJECTED_BYTES_KEPT_MAX} bytes of its body."))
        .answers::<RejectionDetail>(200, "The request."),
        get("/everpost/counts", VIEWER, counts::list_counts).doc("listCounts", "Count deliveries")
            .says("How the deliveries of each event subscription stand.")
            .query::<CountsFilter>()
            .answers::<List<SubscriptionCounts>>(200, "The counts."),
        get("/everpost/traffic", VIEWER, counts::list_traffic).doc("listTraffic", "Get traffic over time")
            .says("A series of slots of equal length, up to now.")
            .query::<TrafficFilter>()
            .answers::<Traffic>(200, "The slots, the oldest first.")
            .rejects(404, "There is no such topic or event subscription."),
        get("/everpost/storage", VIEWER, storage::show).doc("getStorage", "Get storage and retention")
            .says("Database size, retention, and what would be deleted now. Deletes nothing.")
            .query::<StorageParameters>()
            .answers::<Storage>(200, "The sizes."),
    ]
}
