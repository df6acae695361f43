//! the appliance itself: health, metrics, the validation link, and the document.

use serde_json::{Map, Value};

use crate::api::operate::health::{self, Readiness};
use crate::api::receive::validate;
use crate::api::routes::bodies::HandshakeCode;
use crate::api::routes::route::{Access, Area, Route, VIEWER, get, post};
use crate::api::{ApiOptions, error, front_page, openapi};

const PLAIN: &str = "text/plain";

pub(crate) fn area(options: &ApiOptions) -> Area {
    Area {
        name: "Appliance",
        description: "Health, metrics, the links that webhooks agree by, and this document.",
        routes: routes(options),
    }
}

fn routes(options: &ApiOptions) -> Vec<Route> {
    let metrics = if options.metrics_public {
        Access::Public
    } else {
        VIEWER
    };
    let validated = |route: Route, id| {
        route
            .doc(id, "Agree to a webhook's subscription")
            .says(
                "The link of a validation event, for receivers that agree by hand, and the callback of \
                 a CloudEvents handshake. Whoever knows the code may agree.",
            )
            .query::<HandshakeCode>()
            .header(
                "WebHook-Allowed-Rate",
                "integer",
                "Requests a minute that the receiver allows; without one, none is kept.",
            )
            .answers_as::<String>(200, "The webhook has agreed.", PLAIN)
            .rejects(404, "No handshake is open with this code.")
            .rejects(503, "It cannot be stored right now.")
    };
    vec![
        get("/", Access::Public, front_page)
            .otherwise(error::no_such_path)
            .doc("getFrontPage", "Go to the admin pages")
            .says("People who open the appliance in a browser are led to the admin pages.")
            .answers_nothing(303, "The admin pages are at `Location`.")
            .with_headers(&[("Location", "The path of the admin pages.")]),
        get("/healthz", Access::Public, health::healthz).doc("getHealth", "Ask whether the process answers")
            .says("For supervisors that restart what does not answer.")
            .answers_as::<String>(200, "It does.", PLAIN),
        get("/readyz", Access::Public, health::readyz).doc("getReadiness", "Ask whether events can be taken")
            .says("For load balancers: tries to write, and gives the reasons if it cannot.")
            .answers::<Readiness>(200, "Events can be taken.")
            .answers::<Readiness>(503, "They cannot, for these reasons."),
        validated(get("/validate", Access::Public, validate::confirm), "confirmValidation"),
        validated(post("/validate", Access::Public, validate::confirm), "confirmValidationByPost"),
        get("/metrics", metrics, health::metrics).doc("getMetrics", "Scrape metrics")
            .says(
                "For Prometheus. With the setting `metrics.public` they are open to everybody; else \
                 they take a token.",
            )
            .answers_as::<String>(
                200,
                "Metrics in the text format of OpenMetrics.",
                "application/openmetrics-text",
            ),
        get("/openapi.json", VIEWER, openapi::show).doc("getOpenApi", "Get this document")
            .says("An OpenAPI 3.1 document of everything that is served to programs.")
            .answers::<Map<String, Value>>(200, "The document."),
    ]
}
