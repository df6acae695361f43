//! `everpost inspectors`: receivers inside the appliance.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::app::cli::confirm::Deletion;
use crate::app::cli::filter::{name_and_value, object};
use crate::app::cli::output::{Screen, View, number, printable, text};
use crate::app::cli::receive::ResponseArgs;
use crate::app::cli::request::{RemoteServer, Run};
use crate::app::cli::table::Cell::{Of, Text, Time, Word};
use crate::app::cli::table::{Details, ListFormat, NamedValues};
use crate::base::human::span;
use crate::wire::query::Paging;

pub(super) const EXAMPLES: &str = "\
Examples:
  everpost inspectors create bin                           accept everything
  everpost inspectors create bin --answer '503 503 200'    fail twice, then succeed
  everpost inspectors create bin --answer 400 --body 'no field total'
  everpost subscriptions create to-bin --topic orders --endpoint https://inspector.everpost.internal/bin
  everpost inspectors requests bin                         the requests, newest first";

#[derive(Subcommand, Debug)]
pub(super) enum InspectorsCommand {
    /// List all inspectors
    List,
    /// Create an inspector, or replace its answers
    Create(CreateInspector),
    /// Show one inspector
    Show { inspector: String },
    /// List the requests that an inspector keeps, newest first
    Requests {
        inspector: String,
        #[command(flatten)]
        page: Paging,
    },
    /// Show one request with its headers and its body
    Request {
        inspector: String,
        /// Number of the request, as `inspectors requests` shows it
        number: u64,
    },
    /// Remove the requests of an inspector and start its answers over
    Clear { inspector: String },
    /// Delete an inspector with its requests
    Delete {
        inspector: String,
        #[command(flatten)]
        deletion: Deletion,
    },
}

#[derive(Args, Debug)]
pub(super) struct CreateInspector {
    inspector: String,
    #[command(flatten)]
    response: ResponseArgs,
    /// Header to answer with, may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = name_and_value)]
    headers: Vec<(String, String)>,
    /// Text to answer with, where the status allows for one; at most 1,024 bytes
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    body: String,
}

impl Run for InspectorsCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let path = ["everpost", "inspectors"];
        match self {
            Self::List => server.get(path).show(INSPECTORS).await,
            Self::Create(create) => {
                let request = server.put(path).at(&create.inspector);
                let name = format!("inspector {}", create.inspector);
                request
                    .json(&create.document())
                    .save(&name, details)
                    .await?;
                Ok(())
            }
            Self::Show { inspector } => server.get(path).at(inspector).show(details).await,
            Self::Requests { inspector, page } => {
                let requests = server.get(path).at(inspector).at("requests");
                requests.query(page).show(REQUESTS).await
            }
            Self::Request { inspector, number } => {
                let requests = server.get(path).at(inspector).at("requests");
                requests.at(number).show(request).await
            }
            Self::Clear { inspector } => {
                let cleared = |cleared: &Value, _| {
                    format!("requests removed: {}\n", text(cleared, "/cleared"))
                };
                let request = server.post(path).at(inspector).at("clear");
                request.show(cleared).await
            }
            Self::Delete {
                inspector,
                deletion,
            } => {
                deletion.ask(&format!(
                    "This deletes inspector {inspector} with its requests."
                ))?;
                let request = server.delete(path);
                request.remove("inspector", &inspector).await
            }
        }
    }
}

impl CreateInspector {
    fn document(&self) -> Value {
        let response = &self.response;
        json!({
            "answers": response.answer.to_string(),
            "delayInMilliseconds": u64::try_from(response.delay.as_millis()).unwrap_or(u64::MAX),
            "retryAfterInSeconds": response.retry_after,
            "perEvent": response.per_event,
            "responseHeaders": object(&self.headers),
            "responseBody": self.body,
        })
    }
}

const INSPECTORS: ListFormat = ListFormat {
    none: "no inspectors yet: create one with `everpost inspectors create NAME`",
    columns: &[
        ("NAME", Text("/name")),
        ("ANSWERS", Text("/answers")),
        ("RECEIVED", Word("/requestsReceived")),
        ("KEPT", Word("/requestsKept")),
        ("URL", Text("/url")),
    ],
};

fn details(inspector: &Value, _: Screen) -> String {
    let mut lines = NamedValues::default();
    let of = |pointer| text(inspector, pointer);
    lines.add("name", of("/name"));
    lines.add("url", of("/url"));
    let each = if inspector["perEvent"] == true {
        ", counted for each event"
    } else {
        ""
    };
    lines.add("answers", format!("{}{each}", of("/answers")));
    lines.add("answered so far", of("/deliveriesAnswered"));
    match number(inspector, "/delayInMilliseconds") {
        0 => {}
        ms => lines.add("delay", span(Duration::from_millis(ms))),
    }
    lines.add("retry after", of("/retryAfterInSeconds"));
    let headers = inspector["responseHeaders"].as_object();
    for (name, value) in headers.into_iter().flatten() {
        lines.add(printable(name), text(value, ""));
    }
    lines.add("body", of("/responseBody"));
    lines.add("received", of("/requestsReceived"));
    lines.add("kept", of("/requestsKept"));
    lines.to_string()
}

const REQUESTS: ListFormat = ListFormat {
    none: "no requests yet",
    columns: &[
        ("NUMBER", Word("/number")),
        ("RECEIVED (UTC)", Time("/receivedAt")),
        ("KIND", Word("/kind")),
        ("EVENTS", Word("/events")),
        ("EVENT TYPE", Text("/eventType")),
        ("EVENT ID", Text("/eventId")),
        ("SIGNATURE", Text("/signature")),
        ("ANSWER", Text("/answer")),
    ],
};

const REQUEST: Details = Details(&[
    ("request", Text("/number")),
    ("received", Time("/receivedAt")),
    (
        "target",
        Of(|request| format!("{} {}", text(request, "/method"), text(request, "/path"))),
    ),
    ("kind", Text("/kind")),
    ("answer", Text("/answer")),
    ("signature", Text("/signature")),
    ("bytes", Text("/size")),
]);

fn request(request: &Value, screen: Screen) -> String {
    let headers = request["headers"].as_object().into_iter().flatten();
    let headers =
        headers.map(|(name, value)| format!("  {}: {}\n", printable(name), text(value, "")));
    format!(
        "{}headers\n{}{}",
        REQUEST.text(request, screen),
        headers.collect::<String>(),
        super::rejected::body(request)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bin() -> Value {
        json!({ "name": "bin", "url": "https://inspector.everpost.internal/bin",
            "answers": "503x2 200", "delayInMilliseconds": 500, "retryAfterInSeconds": null,
            "responseHeaders": { "x-a": "b" }, "responseBody": "not\nnow", "perEvent": true, "deliveriesAnswered": 1,
            "requestsReceived": 2, "requestsKept": 2 })
    }

    #[test]
    fn inspectors_are_listed_in_columns() {
        assert_eq!(
            INSPECTORS.text(&json!({ "value": [bin()] }), Screen::default()),
            "\
NAME  ANSWERS    RECEIVED  KEPT  URL
bin   503x2 200  2         2     https://inspector.everpost.internal/bin
"
        );
    }

    #[test]
    fn an_inspector_is_shown_line_by_line() {
        assert_eq!(
            details(&bin(), Screen::default()),
            "\
name             bin
url              https://inspector.everpost.internal/bin
answers          503x2 200, counted for each event
answered so far  1
delay            500 ms
x-a              b
body             not\\nnow
received         2
kept             2
"
        );
    }

    #[test]
    fn requests_are_shown_with_their_bodies() {
        let each = json!({ "number": 2, "receivedAt": "2026-11-21T06:40:53.138Z", "method": "POST",
            "path": "/bin", "kind": "delivery", "events": 1, "eventId": "a-1", "eventType": "T",
            "size": 4, "signature": "good", "answer": "503", "headers": { "x-a": "\u{1b}" },
            "body": "[{}]", "truncated": false });
        assert_eq!(
            REQUESTS.text(
                &json!({ "value": [each], "nextBefore": 2 }),
                Screen::default()
            ),
            "\
NUMBER  RECEIVED (UTC)       KIND      EVENTS  EVENT TYPE  EVENT ID  SIGNATURE  ANSWER
2       2026-11-21 06:40:53  delivery  1       T           a-1       good       503
there is more: add --before 2
"
        );
        assert_eq!(
            request(&each, Screen::default()),
            "\
request    2
received   2026-11-21 06:40:53.138
target     POST /bin
kind       delivery
answer     503
signature  good
bytes      4
headers
  x-a: \\u{1b}
body
  [{}]
"
        );
    }
}
