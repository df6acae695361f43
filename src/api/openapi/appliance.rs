//! What is told of the appliance itself: health, metrics, the validation link, and the document.

use axum::http::Method;

use super::operation::{Area, Operation, header, needed, on, query};
use super::schema::{flag, integer, list, named, object, schemas, text};

const PLAIN: &str = "text/plain";

pub(super) fn area() -> Area {
    Area {
        name: "Appliance",
        says: "Health, metrics, the links that webhooks agree by, and this document.",
        operations: operations(),
        schemas: schemas([(
            "Readiness",
            object([
                ("ready", flag()),
                ("reasons", list(text()).says("Why not; empty if it is.")),
            ]),
        )]),
    }
}

fn operations() -> Vec<Operation> {
    let validated = |method, id| {
        on(method, "/validate", id, "Agree to a webhook's subscription")
            .says(
                "The link of a validation event, for receivers that agree by hand, and the callback of \
                 a CloudEvents handshake. Whoever knows the code may agree.",
            )
            .with([
                needed(query("code", text(), "The code of the handshake.")),
                header(
                    "WebHook-Allowed-Rate",
                    integer(),
                    "Requests a minute that the receiver allows; without one, none is kept.",
                ),
            ])
            .gives_as(200, "The webhook has agreed.", PLAIN, text())
            .refuses(404, "No handshake is open with this code.")
            .refuses(503, "It cannot be stored right now.")
    };
    vec![
        on(Method::GET, "/", "getFrontPage", "Go to the admin pages")
            .says("People who open the appliance in a browser are led to the admin pages.")
            .gives_nothing(303, "The admin pages are at `Location`.")
            .tells(303, [("Location", text(), "The path of the admin pages.")]),
        on(Method::GET, "/healthz", "getHealth", "Ask whether the process answers")
            .says("For supervisors that restart what does not answer.")
            .gives_as(200, "It does.", PLAIN, text().such_as("ok\n")),
        on(Method::GET, "/readyz", "getReadiness", "Ask whether events can be taken")
            .says("For load balancers: tries to write, and tells why not.")
            .gives(200, "Events can be taken.", named("Readiness"))
            .gives(503, "They cannot, for these reasons.", named("Readiness")),
        validated(Method::GET, "confirmValidation"),
        validated(Method::POST, "confirmValidationByPost"),
        on(Method::GET, "/metrics", "getMetrics", "Scrape metrics")
            .says(
                "For Prometheus. With the setting `metrics.public` they are open to everybody; else \
                 they take a token.",
            )
            .gives_as(
                200,
                "Metrics in the text format of OpenMetrics.",
                "application/openmetrics-text",
                text(),
            ),
        on(Method::GET, "/openapi.json", "getOpenApi", "Get this document")
            .says("An OpenAPI 3.1 document of everything that is served to programs.")
            .gives(200, "The document.", object([]).open()),
    ]
}
