//! The routes that `everpost dev` offers to tests.

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
                .answers::<Advanced>(200, "The time afterwards."),
            post(
                "/everpost/test/wait-until-idle",
                OPERATOR,
                development::wait_until_idle,
            )
            .doc("waitUntilIdle", "Wait until nothing is being delivered")
            .says("Retries whose time has not come do not count.")
            .takes::<Wait>(json!({ "timeoutSeconds": 10 }))
            .answers_nothing(204, "Nothing is due or being delivered.")
            .rejects(409, "Deliveries are still under way after this time."),
            post("/everpost/test/reset", OPERATOR, development::reset)
                .doc("reset", "Reset everything")
                .says("To how it was at the start. New connections wait until that is done.")
                .answers_nothing(204, "It is done for every new connection."),
        ],
    }
}
