//! `everpost dead-letters resubmit`: a second chance, for one, for some, or for many as a replay job.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use crate::app::cli::body;
use crate::app::cli::confirm::Misuse;
use crate::app::cli::dead_letters::PATH;
use crate::app::cli::output::{Screen, items, text};
use crate::app::cli::replay::{ReplayOptions, TargetArgs, begin};
use crate::app::cli::request::{RemoteServer, given};
use crate::model::limits::{REPLAY_BATCH_MAX, REPLAY_REQUESTS_MAX};
use crate::wire::query::DeadLetterParameters;

#[derive(Args, Debug)]
pub(in crate::app::cli) struct Resubmit {
    /// Numbers of deliveries, as `dead-letters list` shows them
    deliveries: Vec<i64>,
    /// All dead letters
    #[arg(long, conflicts_with = "deliveries")]
    all: bool,
    #[command(flatten)]
    filter: DeadLetterParameters,
    #[command(flatten)]
    target: TargetArgs,
    /// Send the event in this file in place of the original: JSON in the input schema of its topic;
    /// - is standard input
    #[arg(
        long,
        value_name = "FILE",
        requires = "deliveries",
        conflicts_with = "data"
    )]
    event: Option<PathBuf>,
    /// Send the JSON in this file in place of the event's data; - is standard input
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    #[command(flatten)]
    how: ReplayOptions,
}

impl Resubmit {
    pub(super) async fn run(&self, server: &RemoteServer) -> anyhow::Result<()> {
        let (event, data) = (self.event.as_ref(), self.data.as_ref());
        let edit = event
            .map(|file| ("event", file))
            .or(data.map(|file| ("data", file)));
        let filter = given(&self.filter);
        let has_filter = self.all || !filter.is_empty();
        if has_filter != self.deliveries.is_empty() {
            let problem = "name deliveries, or a filter, or --all";
            bail!(Misuse(problem.to_owned()));
        }
        match (self.deliveries.as_slice(), edit) {
            ([delivery], Some((name, file))) => {
                let edit = body::read_event(file)?;
                let target = self.target.to_json();
                let body = format!("{{\"target\":{target},\"{name}\":{edit}}}");
                let request = server.post(PATH).at(delivery).at("resubmit");
                let done = request.body("application/json", body).send().await?;
                server.show(&json!({ "value": [done] }), resubmissions)
            }
            (_, Some(_)) => {
                let problem = "an edited event replaces a single one; name one delivery";
                bail!(Misuse(problem.to_owned()))
            }
            ([], None) => {
                let source = json!({ "kind": "DeadLetters", "filter": filter });
                begin(server, &source, &self.target, &self.how).await
            }
            (deliveries, None) => {
                let done = selection(server, deliveries, &self.target).await?;
                server.show(&done, resubmissions)?;
                let failed = items(&done, "/value").iter();
                match failed.filter(|each| each.get("error").is_some()).count() {
                    0 => Ok(()),
                    failed => bail!("{failed} of {} were not resubmitted", deliveries.len()),
                }
            }
        }
    }
}

/// Resubmits these deliveries, in as many requests as it takes.
async fn selection(
    server: &RemoteServer,
    deliveries: &[i64],
    target: &TargetArgs,
) -> anyhow::Result<Value> {
    let at_once = if target.is_url() {
        REPLAY_REQUESTS_MAX
    } else {
        REPLAY_BATCH_MAX
    };
    let mut rows: Vec<Value> = Vec::new();
    for some in deliveries.chunks(at_once) {
        let body = json!({ "deliveryIds": some, "target": target.to_json() });
        let done = server.post(PATH).at("resubmit").json(&body).send().await?;
        rows.extend_from_slice(items(&done, "/value"));
    }
    Ok(json!({ "value": rows }))
}

fn resubmissions(done: &Value, _: Screen) -> String {
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
    use crate::app::cli::request::tests::serving;

    #[tokio::test]
    async fn a_long_selection_takes_several_requests() {
        let answer = async |Json(body): Json<Value>| {
            let ids = items(&body, "/deliveryIds").iter();
            let rows: Vec<_> = ids.map(|id| json!({ "resubmissionOf": id })).collect();
            assert!(rows.len() <= REPLAY_BATCH_MAX, "{body}");
            Json(json!({ "value": rows }))
        };
        let router = Router::new().route("/everpost/deadLetters/resubmit", post(answer));
        let server = serving(router).await;
        let ids: Vec<i64> = (1..=450).collect();
        let done = selection(&server, &ids, &TargetArgs::default())
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
            resubmissions(&done, Screen::default()),
            "delivery 5 is resubmitted as delivery 77\ndelivery 6 is resubmitted as event 4\n\
             there is no delivery 7\n"
        );
    }
}
