//! `everpost dead-letters resubmit`: a second chance, for one, for some, or for many as a replay job.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use reqwest::Method;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::app::cli::body;
use crate::app::cli::client::Client;
use crate::app::cli::dead_letter_filter::DeadLetterFilter;
use crate::app::cli::output::{Output, items, text};
use crate::app::cli::replay::{How, TargetArgs, begin};
use crate::model::limits::{PUBLISH_BYTES_MAX, REPLAY_BATCH_MAX, REPLAY_REQUESTS_MAX};

const PATH: [&str; 2] = ["everpost", "deadLetters"];

#[derive(Args, Debug)]
pub(super) struct Resubmit {
    /// Numbers of deliveries, as `dead-letters list` shows them
    #[arg(required_unless_present_any = DeadLetterFilter::NAMES.into_iter().chain(["all"]),
        conflicts_with_all = DeadLetterFilter::NAMES.into_iter().chain(["all"]))]
    deliveries: Vec<i64>,
    /// All dead letters
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: DeadLetterFilter,
    #[command(flatten)]
    target: TargetArgs,
    /// Send the event in this file in place of the original: JSON in the input schema of its topic;
    /// - is standard input
    #[arg(long, value_name = "FILE",
        conflicts_with_all = DeadLetterFilter::NAMES.into_iter().chain(["all", "data"]))]
    event: Option<PathBuf>,
    /// Send the JSON in this file in place of the event's data; - is standard input
    #[arg(long, value_name = "FILE", requires = "deliveries")]
    data: Option<PathBuf>,
    #[command(flatten)]
    how: How,
}

impl Resubmit {
    pub(super) async fn run(&self, client: &Client, output: Output) -> anyhow::Result<()> {
        let edit = [("event", &self.event), ("data", &self.data)];
        let edit = edit
            .into_iter()
            .find_map(|(name, file)| Some((name, file.as_ref()?)));
        match (self.deliveries.as_slice(), edit) {
            ([], _) => {
                let source = json!({ "kind": "DeadLetters", "filter": self.filter.to_json() });
                begin(client, output, &source, &self.target, &self.how).await
            }
            ([delivery], Some((name, file))) => {
                let edit = format!("\"{name}\":{}", read(file)?);
                let body = format!("{{\"target\":{},{edit}}}", self.target.to_json());
                let number = delivery.to_string();
                let path = [PATH[0], PATH[1], &number, "resubmit"];
                let done = client.send_text(Method::POST, &path, body).await?;
                let done = json!({ "value": [done] });
                Ok(output.show(&done, resubmissions)?)
            }
            (_, Some(_)) => bail!("an edited event goes in place of one; name one delivery"),
            (deliveries, None) => {
                let done = selection(client, deliveries, &self.target).await?;
                output.show(&done, resubmissions)?;
                let refused = items(&done, "/value").iter();
                match refused.filter(|each| each.get("error").is_some()).count() {
                    0 => Ok(()),
                    refused => bail!("{refused} of {} are not resubmitted", deliveries.len()),
                }
            }
        }
    }
}

/// JSON as the text that it is: parsing would round long numbers.
fn read(path: &Path) -> anyhow::Result<Box<RawValue>> {
    let shown = path.display();
    let mut text = String::new();
    body::open(path)?
        .take(PUBLISH_BYTES_MAX as u64 + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {shown}"))?;
    if text.len() > PUBLISH_BYTES_MAX {
        bail!("{shown} is longer than {PUBLISH_BYTES_MAX} bytes, more than an event may be");
    }
    RawValue::from_string(text.trim().to_owned()).with_context(|| format!("{shown} is no JSON"))
}

/// As many requests as it takes.
async fn selection(
    client: &Client,
    deliveries: &[i64],
    target: &TargetArgs,
) -> anyhow::Result<Value> {
    let at_once = match target.is_url() {
        true => REPLAY_REQUESTS_MAX,
        false => REPLAY_BATCH_MAX,
    };
    let mut rows: Vec<Value> = Vec::new();
    for some in deliveries.chunks(at_once) {
        let body = json!({ "deliveryIds": some, "target": target.to_json() });
        let path = [PATH[0], PATH[1], "resubmit"];
        let done = client.send(Method::POST, &path, Some(&body)).await?;
        rows.extend_from_slice(items(&done, "/value"));
    }
    Ok(json!({ "value": rows }))
}

fn resubmissions(done: &Value) -> String {
    let lines = items(done, "/value").iter().map(|each| {
        let old = text(each, "/resubmissionOf");
        let (new, event) = (text(each, "/deliveryId"), text(each, "/eventKey"));
        match (each.get("error"), new.as_str()) {
            (Some(error), _) => format!("{}\n", text(error, "/message")),
            (None, "") => format!("delivery {old} is resubmitted as event {event}\n"),
            (None, new) => format!("delivery {old} is resubmitted as delivery {new}\n"),
        }
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use axum::routing::post;
    use axum::{Json, Router};

    use super::*;
    use crate::app::cli::client::tests::serving;

    #[tokio::test]
    async fn a_long_selection_takes_several_requests() {
        let answer = async |Json(body): Json<Value>| {
            let ids = items(&body, "/deliveryIds").iter();
            let rows: Vec<_> = ids.map(|id| json!({ "resubmissionOf": id })).collect();
            assert!(rows.len() <= REPLAY_BATCH_MAX, "{body}");
            Json(json!({ "value": rows }))
        };
        let router = Router::new().route("/everpost/deadLetters/resubmit", post(answer));
        let client = serving(router).await;
        let ids: Vec<i64> = (1..=450).collect();
        let done = selection(&client, &ids, &TargetArgs::default())
            .await
            .expect("done");
        let rows = items(&done, "/value");
        assert_eq!(
            (rows.len(), &rows[449]["resubmissionOf"]),
            (450, &json!(450))
        );
    }

    #[test]
    fn resubmissions_name_what_came_of_them() {
        let done = json!({ "value": [
            { "resubmissionOf": 5, "deliveryId": 77, "eventKey": 3 },
            { "resubmissionOf": 6, "deliveryId": null, "eventKey": 4 },
            { "resubmissionOf": 7, "error": { "message": "there is no delivery 7" } },
        ] });
        assert_eq!(
            resubmissions(&done),
            "delivery 5 is resubmitted as delivery 77\ndelivery 6 is resubmitted as event 4\n\
             there is no delivery 7\n"
        );
    }
}
