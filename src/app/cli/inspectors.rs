//! `everpost inspectors`: receivers inside the appliance.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::app::cli::client::Client;
use crate::app::cli::events::{Page, more};
use crate::app::cli::moment::date;
use crate::app::cli::output::{Output, columns, items, moment, text};
use crate::app::cli::receive::parse_delay;
use crate::app::cli::server::ServerArgs;
use crate::app::cli::table::{Table, printable};
use crate::model::response_script::ResponseScript;

const PATH: [&str; 2] = ["everpost", "inspectors"];

const EXAMPLES: &str = "\
Examples:
  everpost inspectors create bin                           take everything
  everpost inspectors create bin --answer '503 503 200'    fail twice, then behave
  everpost inspectors create bin --answer 400 --body 'no field total'
  everpost subscriptions create to-bin --topic orders --endpoint https://inspector.everpost.internal/bin
  everpost inspectors requests bin                         what came, newest first";

/// Look into deliveries: receivers inside the appliance that answer as they are told
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct InspectorsArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: InspectorsCommand,
}

#[derive(Subcommand, Debug)]
enum InspectorsCommand {
    /// List all inspectors
    List,
    /// Create an inspector, or give one new answers
    Create(Create),
    /// Show one inspector
    Show { inspector: String },
    /// List the requests that an inspector keeps, newest first
    Requests {
        inspector: String,
        #[command(flatten)]
        page: Page,
    },
    /// Show one request with its headers and its body
    Request {
        inspector: String,
        /// Number of the request, as `inspectors requests` shows it
        number: u64,
    },
    /// Forget the requests of an inspector and let its answers begin again
    Clear { inspector: String },
    /// Delete an inspector with its requests
    Delete { inspector: String },
}

#[derive(Args, Debug)]
struct Create {
    inspector: String,
    /// Answers in their order, the last one repeats: statuses, "timeout" or "close", with "x3" to repeat
    #[arg(long, value_name = "ANSWERS", default_value = "200")]
    answer: ResponseScript,
    /// Wait before each answer, such as 500ms, 2s or 1m; at most 3m
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_delay)]
    delay: std::time::Duration,
    /// Seconds to send as Retry-After with every 429 and 503
    #[arg(long, value_name = "SECONDS")]
    retry_after: Option<u32>,
    /// Let every event go through the answers on its own
    #[arg(long)]
    per_event: bool,
    /// Header to answer with, may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = parse_header)]
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

impl InspectorsArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let client = Client::new(self.server.find()?)?;
        let output = self.output;
        match self.command {
            InspectorsCommand::List => {
                let all = client.get(&PATH, &[]).await?;
                output.show(&all, list)?;
            }
            InspectorsCommand::Create(create) => {
                let path = [PATH[0], PATH[1], &create.inspector];
                let made = client
                    .send(Method::PUT, &path, Some(&create.body()))
                    .await?;
                output.show(&made, sheet)?;
            }
            InspectorsCommand::Show { inspector } => {
                let path = [PATH[0], PATH[1], &inspector];
                output.show(&client.get(&path, &[]).await?, sheet)?;
            }
            InspectorsCommand::Requests { inspector, page } => {
                let path = [PATH[0], PATH[1], &inspector, "requests"];
                let query: Vec<_> = page.query().collect();
                output.show(&client.get(&path, &query).await?, requests)?;
            }
            InspectorsCommand::Request { inspector, number } => {
                let number = number.to_string();
                let path = [PATH[0], PATH[1], &inspector, "requests", &number];
                output.show(&client.get(&path, &[]).await?, request)?;
            }
            InspectorsCommand::Clear { inspector } => {
                let path = [PATH[0], PATH[1], &inspector, "clear"];
                let cleared = client.send(Method::POST, &path, None).await?;
                output.show(&cleared, |cleared| {
                    format!("requests forgotten: {}\n", text(cleared, "/cleared"))
                })?;
            }
            InspectorsCommand::Delete { inspector } => {
                client.delete(&[PATH[0], PATH[1], &inspector], &[]).await?;
                let deleted = json!({ "deleted": inspector });
                output.show(&deleted, |_| format!("inspector {inspector} is deleted\n"))?;
            }
        }
        Ok(())
    }
}

impl Create {
    fn body(&self) -> Value {
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        json!({
            "answers": self.answer.to_string(),
            "delayInMilliseconds": u64::try_from(self.delay.as_millis()).unwrap_or(u64::MAX),
            "retryAfterInSeconds": self.retry_after,
            "perEvent": self.per_event,
            "responseHeaders": headers.collect::<Map<_, _>>(),
            "responseBody": self.body,
        })
    }
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| "write NAME=VALUE, such as x-answer=yes".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

fn list(all: &Value) -> String {
    let all = items(all, "/value");
    if all.is_empty() {
        return "no inspectors yet: make one with `everpost inspectors create NAME`\n".to_owned();
    }
    let mut table = Table::headed(["NAME", "ANSWERS", "RECEIVED", "KEPT", "URL"]);
    for each in all {
        table.row([
            text(each, "/name"),
            text(each, "/answers"),
            text(each, "/requestsReceived"),
            text(each, "/requestsKept"),
            text(each, "/url"),
        ]);
    }
    table.to_string()
}

fn sheet(inspector: &Value) -> String {
    let mut table = Table::sheet();
    table.line("name", text(inspector, "/name"));
    table.line("url", text(inspector, "/url"));
    let each = match inspector["perEvent"] == true {
        true => ", for every event on its own",
        false => "",
    };
    table.line("answers", format!("{}{each}", text(inspector, "/answers")));
    table.line("answered so far", text(inspector, "/deliveriesAnswered"));
    match inspector["delayInMilliseconds"].as_u64() {
        None | Some(0) => {}
        Some(ms) => table.line("delay", format!("{ms} ms")),
    }
    table.line("retry after", text(inspector, "/retryAfterInSeconds"));
    for (name, value) in inspector["responseHeaders"]
        .as_object()
        .into_iter()
        .flatten()
    {
        table.line(
            &printable(name),
            printable(value.as_str().unwrap_or_default()),
        );
    }
    match inspector["responseBody"].as_str() {
        None | Some("") => {}
        Some(body) => table.line("body", printable(body)),
    }
    table.line("received", text(inspector, "/requestsReceived"));
    table.line("kept", text(inspector, "/requestsKept"));
    table.to_string()
}

fn requests(page: &Value) -> String {
    let requests = items(page, "/value");
    if requests.is_empty() {
        return "no requests yet\n".to_owned();
    }
    let table = columns(
        requests,
        [
            ("NUMBER", "/number"),
            ("RECEIVED (UTC)", "/receivedAt"),
            ("KIND", "/kind"),
            ("EVENTS", "/events"),
            ("EVENT TYPE", "/eventType"),
            ("EVENT ID", "/eventId"),
            ("SIGNATURE", "/signature"),
            ("ANSWER", "/answer"),
        ],
    );
    format!("{table}{}", more(page))
}

fn request(request: &Value) -> String {
    let mut table = Table::sheet();
    table.line("request", text(request, "/number"));
    table.line("received", date(moment(request, "/receivedAt")));
    let (method, path) = (text(request, "/method"), text(request, "/path"));
    table.line("asked", format!("{method} {path}"));
    table.line("kind", text(request, "/kind"));
    table.line("answer", text(request, "/answer"));
    table.line("signature", text(request, "/signature"));
    table.line("bytes", text(request, "/size"));
    let headers = request["headers"].as_object().into_iter().flatten();
    let headers: String = headers
        .map(|(name, value)| {
            let value = value.as_str().unwrap_or_default();
            format!("  {}: {}\n", printable(name), printable(value))
        })
        .collect();
    format!(
        "{table}headers\n{headers}{}",
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
            list(&json!({ "value": [bin()] })),
            "\
NAME  ANSWERS    RECEIVED  KEPT  URL
bin   503x2 200  2         2     https://inspector.everpost.internal/bin
"
        );
        assert!(list(&json!({ "value": [] })).starts_with("no inspectors yet"));
    }

    #[test]
    fn an_inspector_is_shown_line_by_line() {
        assert_eq!(
            sheet(&bin()),
            "\
name             bin
url              https://inspector.everpost.internal/bin
answers          503x2 200, for every event on its own
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
    fn requests_are_told_with_their_bodies() {
        let each = json!({ "number": 2, "receivedAt": "2026-11-21T06:40:53.138Z", "method": "POST",
            "path": "/bin", "kind": "delivery", "events": 1, "eventId": "a-1", "eventType": "T",
            "size": 4, "signature": "good", "answer": "503", "headers": { "x-a": "\u{1b}" },
            "body": "[{}]", "truncated": false });
        assert_eq!(
            requests(&json!({ "value": [each], "nextBefore": 2 })),
            "\
NUMBER  RECEIVED (UTC)           KIND      EVENTS  EVENT TYPE  EVENT ID  SIGNATURE  ANSWER
2       2026-11-21 06:40:53.138  delivery  1       T           a-1       good       503
there is more: add --before 2
"
        );
        assert_eq!(
            request(&each),
            "\
request    2
received   2026-11-21 06:40:53.138
asked      POST /bin
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
