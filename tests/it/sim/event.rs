//! Random events: what a publisher sends, and the bytes that must arrive.

use super::dice::Dice;

pub(super) const TYPES: [&str; 3] = ["Order.Paid", "Order.Sent", "Stock.Low"];
pub(super) const SUBJECTS: [&str; 3] = ["/orders/1", "/orders/2/lines", "/Stock/9"];
pub(super) const TENANTS: [&str; 3] = ["a", "b", "c"];

/// JSON that survives only where nobody reads and rewrites it.
const ODD: [&str; 12] = [
    "1.0e400",
    "12345678901234567890123",
    "-0.0",
    r#"{"b":1,"a":2,"b":3}"#,
    r#""\u0041\/\ud83d\ude00\u007f""#,
    "[ 1 ,\t2,\n3 ]",
    "null",
    r#""käse 🧀""#,
    r#"{ "deep" : [ { "x" : [ ] } ] }"#,
    "1E+2",
    r#""""#,
    "0.1000000000000000055511151231257827",
];

/// What publishers of a topic send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    EventGrid,
    CloudEvents,
    Custom,
    /// To a topic of a namespace, which takes CloudEvents.
    Namespace,
}

/// An event before it is published.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) id: String,
    pub(super) event_type: &'static str,
    pub(super) subject: &'static str,
    pub(super) number: i64,
    pub(super) tenant: &'static str,
    /// As it stands in the request.
    pub(super) text: String,
    /// What a receiver must find in `data`, byte for byte.
    pub(super) data: String,
}

impl Draft {
    pub(super) fn throw(dice: &Dice, id: String, input: Input) -> Self {
        let (event_type, subject) = (*dice.pick(&TYPES), *dice.pick(&SUBJECTS));
        let number = i64::try_from(dice.within(0, 20)).expect("a small number") - 5;
        let tenant = *dice.pick(&TENANTS);
        let (odd, space) = (dice.pick(&ODD), dice.pick(&["", " ", "\n\t"]));
        let pad = "x".repeat(usize::try_from(*dice.pick(&[0, 0, 0, 300, 900])).expect("a length"));
        let body = format!(
            r#""odd":{space}{odd},{space}"n":{number},"tenant"{space}:"{tenant}","pad":"{pad}""#
        );
        let (data, text) = match input {
            Input::EventGrid => {
                let data = format!("{{{space}{body}{space}}}");
                let text = format!(
                    r#"{{"id":"{id}","subject":"{subject}","eventType":"{event_type}","eventTime":"2026-11-21T06:40:53Z","data":{space}{data},"dataVersion":"1"}}"#
                );
                (data, text)
            }
            Input::CloudEvents | Input::Namespace => {
                let data = format!("{{{body}{space}}}");
                let text = format!(
                    r#"{{"specversion":"1.0","id":"{id}","source":"/s","subject":"{subject}","type":"{event_type}","data":{data}{space}}}"#
                );
                (data, text)
            }
            Input::Custom => {
                let data = format!(
                    r#"{{"no":"{id}",{space}"kind":"{event_type}","path":"{subject}",{body}}}"#
                );
                (data.clone(), data)
            }
        };
        Self {
            id,
            event_type,
            subject,
            number,
            tenant,
            text,
            data,
        }
    }
}

impl Input {
    pub(super) const ALL: [Input; 4] = [
        Self::EventGrid,
        Self::CloudEvents,
        Self::Custom,
        Self::Namespace,
    ];

    /// What it can be delivered as.
    pub(super) fn deliveries(self) -> &'static [&'static str] {
        match self {
            Self::EventGrid => &["EventGridSchema", "CloudEventSchemaV1_0"],
            Self::CloudEvents | Self::Namespace => &["CloudEventSchemaV1_0"],
            Self::Custom => &[
                "CustomInputSchema",
                "EventGridSchema",
                "CloudEventSchemaV1_0",
            ],
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::EventGrid | Self::Custom => "application/json",
            Self::CloudEvents | Self::Namespace => "application/cloudevents-batch+json",
        }
    }
}
