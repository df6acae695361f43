//! Alerts.

use serde_json::json;

use crate::api::lists::{List, Page};
use crate::api::manage::alerts;
use crate::api::routes::route::{ADMIN, Area, Route, VIEWER, delete, get, post, put};
use crate::model::alert::{AlertChannel, AlertRule};
use crate::model::limits::{ALERT_CHANNELS_MAX, ALERT_MESSAGES_KEPT, ALERT_RULES_MAX};
use crate::wire::query::Paging;
use crate::wire::resource::{ShownAlert, ShownAlertChannel, ShownAlertMessage, ShownAlertRule};

pub(crate) fn area() -> Area {
    let list = get("/everpost/alerts", VIEWER, alerts::list)
        .doc("listAlerts", "List alerts")
        .says("What the rules fire for right now.")
        .answers::<List<ShownAlert>>(200, "The alerts.");
    let messages = get("/everpost/alerts/messages", VIEWER, alerts::messages)
        .doc("listAlertMessages", "List alert messages")
        .says(format!(
            "What was sent to the channels, or is to be, the newest first; {ALERT_MESSAGES_KEPT} are kept."
        ))
        .query::<Paging>()
        .answers::<Page<ShownAlertMessage>>(200, "A page of messages.");
    Area {
        name: "Alerts",
        description: "Rules that watch the appliance, and the channels that are notified.",
        routes: [list, messages]
            .into_iter()
            .chain(rules())
            .chain(channels())
            .collect(),
    }
}

fn rules() -> [Route; 4] {
    let (all, one) = ("/everpost/alerts/rules", "/everpost/alerts/rules/{name}");
    [
        get(all, VIEWER, alerts::list_rules)
            .doc("listAlertRules", "List alert rules")
            .says("All rules, also those that are off.")
            .answers::<List<ShownAlertRule>>(200, "The rules."),
        get(one, VIEWER, alerts::get_rule)
            .doc("getAlertRule", "Get an alert rule")
            .says("By name, in any letter case.")
            .answers::<ShownAlertRule>(200, "The rule."),
        put(one, ADMIN, alerts::put_rule)
            .doc("putAlertRule", "Create or change an alert rule")
            .says(format!(
                "One that is not enabled fires for nothing. There may be {ALERT_RULES_MAX}."
            ))
            .takes::<AlertRule>(json!({ "type": "EndpointFailing", "minutes": 10 }))
            .answers::<ShownAlertRule>(200, "It was there before.")
            .answers::<ShownAlertRule>(201, "It is new.")
            .rejects(409, "There are as many rules as there may be."),
        delete(one, ADMIN, alerts::delete_rule)
            .doc("deleteAlertRule", "Delete an alert rule")
            .says("No message says that what it fired for is over.")
            .answers_nothing(204, "It is gone."),
    ]
}

fn channels() -> [Route; 5] {
    let (all, one) = (
        "/everpost/alerts/channels",
        "/everpost/alerts/channels/{name}",
    );
    let test = "/everpost/alerts/channels/{name}/test";
    let example = json!({
        "type": "WebHook",
        "format": "Slack",
        "endpointUrl": "https://hooks.slack.com/services/T0/B0/x",
    });
    [
        get(all, VIEWER, alerts::list_channels)
            .doc("listAlertChannels", "List alert channels")
            .says("With the last message of each, without secrets.")
            .answers::<List<ShownAlertChannel>>(200, "The channels."),
        get(one, VIEWER, alerts::get_channel)
            .doc("getAlertChannel", "Get an alert channel")
            .says("Without secrets.")
            .answers::<ShownAlertChannel>(200, "The channel."),
        put(one, ADMIN, alerts::put_channel)
            .doc("putAlertChannel", "Create or change an alert channel")
            .says(format!(
                "Every channel gets the messages of all rules. Secrets that are left out stay. There may be \
                 {ALERT_CHANNELS_MAX}."
            ))
            .takes::<AlertChannel>(example)
            .answers::<ShownAlertChannel>(200, "It was there before.")
            .answers::<ShownAlertChannel>(201, "It is new.")
            .rejects(409, "There are as many channels as there may be."),
        delete(one, ADMIN, alerts::delete_channel)
            .doc("deleteAlertChannel", "Delete an alert channel")
            .says("With its messages.")
            .answers_nothing(204, "It is gone."),
        post(test, ADMIN, alerts::test_channel)
            .doc("testAlertChannel", "Test an alert channel")
            .says("Sends a test message at once.")
            .answers::<alerts::Tested>(200, "What the other side answered, or what went wrong."),
    ]
}
