//! What `everpost dev` offers to tests.

use serde_json::json;

use crate::api::operate::development::{self, Advance, Advanced, Wait};
use crate::api::routes::route::{Area, OPERATOR, post};

pub(crate) fn area() -> Area {
    Area {
        name: "Tests",
        description: "For integration tests: only `everpost dev` has them.",
        routes: vec![
            post("/everpost/test/advance", OPERATOR, development::advance)
                .doc("advanceClock", "Move the clock ahead")
                .says("What has become due is done at once: retries, expiry, the end of locks.")
                .takes::<Advance>(json!({ "seconds": 3_600 }))
                .answers::<Advanced>(200, "The time that it is now."),
            post(
                "/everpost/test/wait-until-idle",
                OPERATOR,
                development::wait_until_idle,
            )
            .doc("waitUntilIdle", "Wait until nothing is under way")
            .says("Retries whose time has not come do not count.")
            .takes::<Wait>(json!({ "timeoutSeconds": 10 }))
            .answers_nothing(204, "Nothing is due or on its way.")
            .rejects(409, "Deliveries are still under way after this time."),
            post("/everpost/test/reset", OPERATOR, development::reset)
                .doc("reset", "Start afresh")
                .says(
                    "Everything is as after the start. New connections wait for the new appliance.",
                )
                .answers_nothing(204, "The next connection finds it."),
        ],
    }
}
