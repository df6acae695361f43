//! `everpost receive`: a webhook to play with, which prints what comes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::app::cli::credentials::secret_line;
use crate::app::cli::output::{json_for_stdout, note, print, print_exactly, printable};
use crate::app::cli::pull::PullArgs;
use crate::app::interrupt::interrupted;
use crate::app::receive::{ReceivedRequest, ReceiverOptions, WebhookReceiver};
use crate::base::Clock;
use crate::base::human::{self, date_time_ms};
use crate::model::response_script::ResponseScript;
use crate::model::signing::SigningSecret;
use crate::wire::received::{ReceivedProperties, RequestKind, verdict, without_credentials};
use crate::wire::signature::NotSigned;

/// Headers that say nothing about events.
const DULL_HEADERS: [&str; 7] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "host",
    "transfer-encoding",
    "user-agent",
];

pub(super) const EXAMPLES: &str = "\
Examples:
  everpost receive                                    accept everything
  everpost receive --answer '503x3 200' --per-event   fail three times for each event
  everpost receive --answer 429 --retry-after 30      always ask for time
  everpost receive --answer 'timeout close 200'       do not answer, close the connection, then succeed
  everpost receive --pull billing --topic shop/orders pull events of a namespace topic";

#[derive(Args, Debug)]
pub(super) struct ReceiveArgs {
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9000")]
    listen: SocketAddr,
    #[command(flatten)]
    response: ResponseArgs,
    /// Check signatures with this secret (whsec_…), may be repeated
    #[arg(long = "secret", value_name = "SECRET", value_parser = SigningSecret::parse)]
    secrets: Vec<SigningSecret>,
    /// Check signatures with the secret in this file; - for standard input
    #[arg(long = "secret-file", value_name = "FILE", value_parser = signing_secret)]
    secret_files: Vec<SigningSecret>,
    /// Print one line of JSON for each request, or for each event that is pulled
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pull: PullArgs,
}

/// The answers of a webhook.
#[derive(Args, Debug)]
pub(super) struct ResponseArgs {
    /// Answers in their order, the last one repeats: statuses, "timeout" or "close", with "x3" to repeat
    #[arg(long, value_name = "ANSWERS", default_value = "200")]
    pub(super) answer: ResponseScript,
    /// Wait before each answer, such as 500ms, 2s or 1m
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_delay)]
    pub(super) delay: Duration,
    /// Seconds to send as Retry-After with every 429 and 503
    #[arg(long, value_name = "SECONDS")]
    pub(super) retry_after: Option<u32>,
    /// Start with the first answer for each event
    #[arg(long)]
    pub(super) per_event: bool,
}

impl ReceiveArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        if self.pull.is_meant() {
            return self.pull.run(self.json).await;
        }
        let receiver = WebhookReceiver::bind(ReceiverOptions {
            listen: self.listen,
            answers: self.response.answer,
            delay: self.response.delay,
            retry_after_s: self.response.retry_after,
            per_event: self.response.per_event,
            signing_secrets: [self.secrets, self.secret_files].concat(),
            clock: Clock::system(),
        })
        .await
        .with_context(|| format!("cannot listen on {}", self.listen))?;
        let form = if self.json {
            PrintForm {
                of: |request| json_for_stdout(json_line(request)),
                print: print_exactly,
            }
        } else {
            PrintForm {
                of: paragraph,
                print,
            }
        };
        if self.json {
            note(&format!("listening on {}", receiver.url()));
        } else {
            print(&format!("listening on {}\n", receiver.url()))?;
        }
        tokio::select! {
            printed = print_all(&receiver, form) => printed?,
            () = interrupted() => {}
        }
        receiver.stop().await;
        Ok(())
    }
}

/// How requests are printed.
#[derive(Clone, Copy)]
struct PrintForm {
    of: fn(&ReceivedRequest) -> String,
    print: fn(&str) -> io::Result<()>,
}

async fn print_all(receiver: &WebhookReceiver, form: PrintForm) -> anyhow::Result<()> {
    let mut printed = 0;
    loop {
        let requests = receiver.requests_after(printed).await;
        (form.print)(&forms(&requests, printed, form.of))?;
        printed = requests.last().map_or(printed, |request| request.number);
    }
}

/// The requests after the one numbered `printed`. Under a flood the oldest are gone before their turn.
fn forms(
    requests: &[Arc<ReceivedRequest>],
    printed: u64,
    form: fn(&ReceivedRequest) -> String,
) -> String {
    let first = requests
        .first()
        .map_or(printed + 1, |request| request.number);
    let missed = match first - printed - 1 {
        0 => String::new(),
        // An object, so that it fits between lines of JSON too.
        missed => format!("{{\"requestsNotShown\":{missed}}}\n"),
    };
    let shown = requests.iter().map(|request| form(request));
    missed + &shown.collect::<String>()
}

/// A request for people.
fn paragraph(request: &ReceivedRequest) -> String {
    let time = date_time_ms(request.received_at);
    let mut lines = vec![format!(
        "{time}  {} {} -> {}",
        request.method,
        printable(&request.path),
        request.answer
    )];
    lines.push(match &request.kind {
        RequestKind::Validation { .. } => "handshake of Event Grid, agreed to".to_owned(),
        RequestKind::AbuseProtection { origin } => {
            format!(
                "handshake of CloudEvents by {}, agreed to",
                printable(origin)
            )
        }
        RequestKind::Delivery => format!(
            "events: {}, bytes: {}",
            request.events.len(),
            request.body.len()
        ),
    });
    lines.extend(request.signature.as_ref().map(signature_text));
    lines.extend(
        telling_headers(request).map(|(name, value)| format!("{name}: {}", printable(&value))),
    );
    lines.extend(request.events.iter().map(event_line));
    lines.join("\n  ") + "\n"
}

fn signature_text(signature: &Result<(), NotSigned>) -> String {
    match signature {
        Ok(()) => "signature: valid".to_owned(),
        Err(reason) => format!("signature: INVALID, {reason}"),
    }
}

fn signing_secret(path: &str) -> Result<SigningSecret, String> {
    SigningSecret::parse(secret_line(path)?.reveal()).map_err(|error| error.to_string())
}

fn event_line(event: &ReceivedProperties) -> String {
    let known = |text: &Option<String>| match text.as_deref() {
        None | Some("") => "-".to_owned(),
        Some(text) => printable(text),
    };
    let (id, event_type, subject) = (&event.id, &event.event_type, &event.subject);
    format!(
        "event {}  {}  {}",
        known(id),
        known(event_type),
        known(subject)
    )
}

/// Terminals are shared and recorded, hence no credentials.
fn telling_headers(request: &ReceivedRequest) -> impl Iterator<Item = (&str, String)> {
    let telling = |name: &str| !DULL_HEADERS.contains(&name);
    let headers = request
        .headers
        .iter()
        .filter(move |(name, _)| telling(name));
    headers.map(|(name, value)| (name.as_str(), without_credentials(name, value)))
}

/// A request for programs.
fn json_line(request: &ReceivedRequest) -> String {
    let headers =
        telling_headers(request).map(|(name, value)| (name.to_owned(), Value::from(value)));
    let line = json!({
        "number": request.number,
        "receivedAt": request.received_at.to_string(),
        "remoteAddress": request.remote_address.to_string(),
        "method": request.method,
        "path": request.path,
        "kind": request.kind.name(),
        "headers": headers.collect::<Map<_, _>>(),
        "events": request.events.iter().map(event_json).collect::<Vec<_>>(),
        "body": body_json(&request.body),
        "answer": request.answer.to_string(),
        "signature": request.signature.as_ref().map(verdict),
    });
    format!("{line}\n")
}

fn event_json(event: &ReceivedProperties) -> Value {
    json!({ "id": event.id, "type": event.event_type, "subject": event.subject })
}

/// The body as the JSON that it is, or as text.
fn body_json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| String::from_utf8_lossy(body).into())
}

fn parse_delay(text: &str) -> Result<Duration, String> {
    let delay = human::parse_span(text);
    delay
        .filter(|delay| *delay <= Duration::from_secs(3_600))
        .ok_or_else(|| "write a time up to an hour, such as 500ms, 2s or 1m".to_owned())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::model::response_script::ScriptedResponse;

    fn request(kind: RequestKind) -> ReceivedRequest {
        ReceivedRequest {
            number: 1,
            received_at: "2026-11-21T06:40:53.138Z".parse().expect("RFC 3339"),
            remote_address: SocketAddr::from(([127, 0, 0, 1], 5)),
            method: "POST".to_owned(),
            path: "/inbox?k=\u{1b}".to_owned(),
            headers: [
                ("host", "h"),
                ("aeg-delivery-count", "2"),
                ("authorization", "Bearer sesame"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
            body: Bytes::from_static(b"[{}]"),
            kind,
            signature: None,
            events: vec![ReceivedProperties {
                id: Some("a-1".to_owned()),
                event_type: Some("Order.Paid".to_owned()),
                subject: None,
            }],
            answer: ScriptedResponse::Status(503),
        }
    }

    #[test]
    fn requests_are_shown_in_a_few_lines() {
        assert_eq!(
            paragraph(&request(RequestKind::Delivery)),
            "\
2026-11-21 06:40:53.138  POST /inbox?k=\\u{1b} -> 503
  events: 1, bytes: 4
  aeg-delivery-count: 2
  authorization: Bearer ***
  event a-1  Order.Paid  -
"
        );
        let forms_of = |signature| {
            let mut signed = request(RequestKind::Delivery);
            signed.signature = Some(signature);
            (paragraph(&signed), json_line(&signed))
        };
        let (text, line) = forms_of(Ok(()));
        assert!(text.contains("\n  signature: valid\n"), "{text}");
        assert!(line.contains(r#""signature":"good""#), "{line}");
        let (text, line) = forms_of(Err(NotSigned::Mismatch));
        let reason = "no signature fits the secret";
        assert!(
            text.contains(&format!("\n  signature: INVALID, {reason}\n")),
            "{text}"
        );
        assert!(
            line.contains(&format!(r#""signature":"{reason}""#)),
            "{line}"
        );
        let handshake = paragraph(&request(RequestKind::Validation {
            code: "c".to_owned(),
        }));
        assert!(handshake.contains("\n  handshake of Event Grid, agreed to\n"));
    }

    #[test]
    fn requests_are_printed_as_one_line_of_json() {
        let line = json_line(&request(RequestKind::Delivery));
        assert_eq!(line.matches('\n').count(), 1);
        let line: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(line["body"], json!([{}]));
        assert_eq!(line["answer"], "503");
        assert_eq!(
            line["headers"],
            json!({ "aeg-delivery-count": "2", "authorization": "Bearer ***" })
        );
        assert_eq!(
            line["events"],
            json!([{ "id": "a-1", "type": "Order.Paid", "subject": null }])
        );
    }

    #[test]
    fn requests_that_were_forgotten_unprinted_are_counted() {
        let mut late = request(RequestKind::Delivery);
        late.number = 9;
        let shown = forms(&[Arc::new(late)], 3, |_| "late\n".to_owned());
        assert_eq!(shown, "{\"requestsNotShown\":5}\nlate\n");
    }

    #[test]
    fn delays_have_units_and_a_bound() {
        for (text, ms) in [
            ("500ms", Some(500)),
            ("2s", Some(2_000)),
            ("1m", Some(60_000)),
            ("0s", Some(0)),
            ("2", None),
            ("-1s", None),
            ("2h", None),
            ("1h", Some(3_600_000)),
            ("61m", None),
        ] {
            assert_eq!(
                parse_delay(text).ok(),
                ms.map(Duration::from_millis),
                "{text}"
            );
        }
    }
}
