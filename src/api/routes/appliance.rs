//! the appliance itself: health, metrics, backups, the validation link, and the document.

use serde_json::{Map, Value, json};

use crate::api::operate::backups::{self, NewBackup};
use crate::api::operate::health::{self, EmulatorHealth, Readiness};
use crate::api::receive::validate;
use crate::api::routes::administration::ATOM;
use crate::api::routes::bodies::{AtomDocument, HandshakeCode};
use crate::api::routes::route::{ADMIN, Area, OPERATOR, Route, RouteAccess, VIEWER, get, post};
use crate::api::{ApiOptions, error, front_page, openapi};
use crate::model::backup::BackupStatus;

const PLAIN: &str = "text/plain";

pub(crate) fn area(options: &ApiOptions) -> Area {
    Area {
        name: "Appliance",
        description: "Health, metrics, backups, validation links, and this document.",
        routes: routes(options),
    }
}

fn routes(options: &ApiOptions) -> Vec<Route> {
    let metrics = if options.metrics_public {
        RouteAccess::Public
    } else {
        VIEWER
    };
    let validated = |route: Route, id| {
        route
            .doc(id, "Confirm a webhook validation")
            .says(
                "The link in a validation event, for receivers that confirm it manually, and the callback of \
                 a CloudEvents handshake. The code is the only credential.",
            )
            .query::<HandshakeCode>()
            .header(
                "WebHook-Allowed-Rate",
                "integer",
                "Requests per minute that the receiver allows; optional.",
            )
            .answers_as::<String>(200, "The webhook is validated.", PLAIN)
            .rejects(404, "No handshake is open with this code.")
            .rejects(503, "It cannot be stored right now.")
    };
    vec![
        get("/", RouteAccess::Public, front_page)
            .otherwise(error::no_such_path)
            .doc("getFrontPage", "Redirect to the admin pages")
            .says(
                "Sends browsers to the admin pages, and gives clients of Service Bus, whose requests ask for no HTML, \
                 what they look for.",
            )
            .answers_as::<AtomDocument>(200, "A feed for clients of Service Bus.", ATOM)
            .answers_nothing(303, "The admin pages are at `Location`.")
            .with_headers(&[("Location", "The path of the admin pages.")]),
        get("/healthz", RouteAccess::Public, health::healthz).doc("getHealth", "Check liveness")
            .says("For supervisors that restart a process that does not respond.")
            .answers_as::<String>(200, "It does.", PLAIN),
        get("/readyz", RouteAccess::Public, health::readyz).doc("getReadiness", "Check readiness")
            .says("For load balancers: tries to write, and gives the reasons if it cannot.")
            .answers::<Readiness>(200, "Events are accepted.")
            .answers::<Readiness>(503, "Events are not accepted, for these reasons."),
        get("/health", RouteAccess::Public, health::emulator_health)
            .doc("getEmulatorHealth", "Check readiness as with Microsoft's emulator")
            .says("For programs that wait for the emulator of Service Bus.")
            .answers::<EmulatorHealth>(200, "Messages and events are accepted.")
            .answers::<EmulatorHealth>(503, "They are not accepted, for the reasons in `message`."),
        validated(get("/validate", RouteAccess::Public, validate::confirm), "confirmValidation"),
        validated(post("/validate", RouteAccess::Public, validate::confirm), "confirmValidationByPost"),
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
        get("/everpost/backups", OPERATOR, backups::show).doc("listBackups", "List backups")
            .says(
                "How far the one that runs is, how the last one ended, when the next one is due, and those in the \
                 directory of the setting `backup.dir`.",
            )
            .answers::<BackupStatus>(200, "How they stand."),
        post("/everpost/backups", ADMIN, backups::start).doc("startBackup", "Back up the appliance")
            .says(
                "Makes a new directory with a copy of the database as of this moment, and with the master key, the \
                 management token and the configuration file if they are in the data directory; verifies it, and \
                 then gives it its name. Everything goes on meanwhile. One backup runs at a time.",
            )
            .may_take::<NewBackup>(json!({ "directory": "/srv/backups" }))
            .answers::<BackupStatus>(202, "It runs; ask how far it is.")
            .rejects(409, "A backup is running."),
        get("/openapi.json", VIEWER, openapi::show).doc("getOpenApi", "Get this document")
            .says("An OpenAPI 3.1 document of everything that is served to programs.")
            .answers::<Map<String, Value>>(200, "The document."),
    ]
}
