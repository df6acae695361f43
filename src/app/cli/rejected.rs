//! `everpost rejected`: publish requests that were refused.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::app::cli::client::Client;
use crate::app::cli::events::{Page, more};
use crate::app::cli::moment::date;
use crate::app::cli::output::{Output, columns, items, moment, text};
use crate::app::cli::server::ServerArgs;
use crate::app::cli::table::{Table, printable};

const PATH: [&str; 2] = ["everpost", "rejectedEvents"];

/// Look at publish requests that were refused
#[derive(Args, Debug)]
pub(super) struct RejectedArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: RejectedCommand,
}

#[derive(Subcommand, Debug)]
enum RejectedCommand {
    /// List refused requests, newest first
    List {
        /// Those to this topic
        #[arg(long)]
        topic: Option<String>,
        /// Those with this in their reason, such as "not valid JSON", or with this code, such as BadRequest
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Show one refused request and how its body begins
    Show {
        /// Number of the request, as `rejected list` shows it
        id: i64,
    },
}

impl RejectedArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let client = Client::new(self.server.find()?)?;
        match self.command {
            RejectedCommand::List {
                topic,
                reason,
                page,
            } => {
                let filters = [("topic", topic), ("reason", reason)].into_iter();
                let given = filters.filter_map(|(name, value)| Some((name, value?)));
                let query: Vec<_> = given.chain(page.query()).collect();
                let found = client.get(&PATH, &query).await?;
                self.output.show(&found, list)?;
            }
            RejectedCommand::Show { id } => {
                let path = [PATH[0], PATH[1], &id.to_string()];
                let found = client.get(&path, &[]).await?;
                self.output.show(&found, sheet)?;
            }
        }
        Ok(())
    }
}

fn list(page: &Value) -> String {
    let rejected = items(page, "/value");
    if rejected.is_empty() {
        return "no refused requests\n".to_owned();
    }
    let table = columns(
        rejected,
        [
            ("NUMBER", "/id"),
            ("RECEIVED (UTC)", "/receivedAt"),
            ("TOPIC", "/topic"),
            ("STATUS", "/httpStatusCode"),
            ("BYTES", "/size"),
            ("REASON", "/reason"),
        ],
    );
    format!("{table}{}", more(page))
}

fn sheet(rejected: &Value) -> String {
    let mut table = Table::sheet();
    table.line("request", text(rejected, "/id"));
    table.line("topic", text(rejected, "/topic"));
    table.line("received", date(moment(rejected, "/receivedAt")));
    let (status, code) = (text(rejected, "/httpStatusCode"), text(rejected, "/code"));
    table.line("answered", format!("{status} {code}"));
    table.line("reason", text(rejected, "/reason"));
    table.line("content type", text(rejected, "/contentType"));
    table.line("bytes", text(rejected, "/size"));
    format!("{table}{}", body(rejected))
}

/// The beginning of the body line by line, as it came.
pub(super) fn body(rejected: &Value) -> String {
    let (name, body) = match rejected["body"].as_str() {
        Some(body) => ("body", body),
        None => (
            "body in base64",
            rejected["bodyBase64"].as_str().unwrap_or_default(),
        ),
    };
    if body.is_empty() {
        return String::new();
    }
    let lines = body.lines().map(|line| format!("  {}\n", printable(line)));
    let rest = match rejected["truncated"] == true {
        true => "  … the rest was not kept\n",
        false => "",
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
    fn refused_requests_are_listed_in_columns() {
        let page = json!({ "value": [rejected()], "nextBefore": 3 });
        let expected = "\
NUMBER  RECEIVED (UTC)           TOPIC   STATUS  BYTES  REASON
3       2026-11-21 06:40:53.138  orders  400     40000  event [0]: wrong
there is more: add --before 3
";
        assert_eq!(list(&page), expected);
        assert_eq!(list(&json!({ "value": [] })), "no refused requests\n");
    }

    #[test]
    fn a_refused_request_is_shown_with_its_body() {
        let facts = "\
request       3
topic         orders
received      2026-11-21 06:40:53.138
answered      400 BadRequest
reason        event [0]: wrong
content type  application/json
bytes         40000
";
        let mut shown = rejected();
        assert_eq!(sheet(&shown), facts);
        shown["body"] = json!("[{\n\"id\": \u{1b}[31m");
        shown["truncated"] = json!(true);
        let body = "body\n  [{\n  \"id\": \\u{1b}[31m\n  … the rest was not kept\n";
        assert_eq!(sheet(&shown), format!("{facts}{body}"));
    }
}
