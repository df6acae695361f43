//! `everpost rejected`: publish requests that were rejected.

use clap::Subcommand;
use serde_json::Value;

use crate::app::cli::output::{Screen, View, printable, text};
use crate::app::cli::request::{RemoteServer, Run};
use crate::app::cli::table::Cell::{Of, Text, Time, Word};
use crate::app::cli::table::{Details, ListFormat};
use crate::wire::query::{Paging, RejectionParameters};

#[derive(Subcommand, Debug)]
pub(super) enum RejectedCommand {
    /// List rejected requests, newest first
    List {
        #[command(flatten)]
        filter: RejectionParameters,
        #[command(flatten)]
        page: Paging,
    },
    /// Show one rejected request and the beginning of its body
    Show {
        /// Number of the request, as `rejected list` shows it
        id: i64,
    },
}

impl Run for RejectedCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let request = server.get(["everpost", "rejectedEvents"]);
        match self {
            Self::List { filter, page } => request.query(filter).query(page).show(REJECTED).await,
            Self::Show { id } => request.at(id).show(details).await,
        }
    }
}

const REJECTED: ListFormat = ListFormat {
    none: "no rejected requests",
    columns: &[
        ("NUMBER", Word("/id")),
        ("RECEIVED (UTC)", Time("/receivedAt")),
        ("TOPIC", Text("/topic")),
        ("STATUS", Word("/httpStatusCode")),
        ("BYTES", Word("/size")),
        ("REASON", Text("/reason")),
    ],
};

const REQUEST: Details = Details(&[
    ("request", Text("/id")),
    ("topic", Text("/topic")),
    ("received", Time("/receivedAt")),
    ("answer", Of(answer)),
    ("reason", Text("/reason")),
    ("content type", Text("/contentType")),
    ("bytes", Text("/size")),
]);

fn answer(rejected: &Value) -> String {
    format!(
        "{} {}",
        text(rejected, "/httpStatusCode"),
        text(rejected, "/code")
    )
}

fn details(rejected: &Value, screen: Screen) -> String {
    format!("{}{}", REQUEST.text(rejected, screen), body(rejected))
}

/// The beginning of the body line by line, as it came.
pub(super) fn body(request: &Value) -> String {
    let of = |name: &str| request[name].as_str().filter(|body| !body.is_empty());
    let (name, body) = match (of("body"), of("bodyBase64")) {
        (Some(body), _) => ("body", body),
        (None, Some(body)) => ("body in base64", body),
        (None, None) => return String::new(),
    };
    let lines = body.lines().map(|line| format!("  {}\n", printable(line)));
    let rest = if request["truncated"] == true {
        "  … the rest was not kept\n"
    } else {
        ""
    };
    format!("{name}\n{}{rest}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rejected() -> Value {
        json!({ "id": 3, "topic": "orders", "receivedAt": "2026-11-21T06:40:53.138Z", "httpStatusCode": 400, "code": "BadRequest", "reason": "event [0]: wrong", "contentType": "application/json", "size": 40_000 })
    }

    #[test]
    fn rejected_requests_are_listed_in_columns() {
        let page = json!({ "value": [rejected()], "nextBefore": 3 });
        let expected = "\
NUMBER  RECEIVED (UTC)       TOPIC   STATUS  BYTES  REASON
3       2026-11-21 06:40:53  orders  400     40000  event [0]: wrong
there is more: add --before 3
";
        assert_eq!(REJECTED.text(&page, Screen::default()), expected);
    }

    #[test]
    fn a_rejected_request_is_shown_with_its_body() {
        let lines = "\
request       3
topic         orders
received      2026-11-21 06:40:53.138
answer        400 BadRequest
reason        event [0]: wrong
content type  application/json
bytes         40000
";
        let mut shown = rejected();
        assert_eq!(details(&shown, Screen::default()), lines);
        shown["body"] = json!("[{\n\"id\": \u{1b}[31m");
        shown["truncated"] = json!(true);
        let body = "body\n  [{\n  \"id\": \\u{1b}[31m\n  … the rest was not kept\n";
        assert_eq!(details(&shown, Screen::default()), format!("{lines}{body}"));
    }
}
