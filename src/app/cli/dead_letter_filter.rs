//! Which dead letters, as flags.

use clap::Args;
use serde_json::Value;

use crate::app::cli::about_event::AboutEvent;

/// Filters; a dead letter has to pass all of them.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct DeadLetterFilter {
    /// Those of this topic
    #[arg(long)]
    pub(super) topic: Option<String>,
    /// Those of this event subscription
    #[arg(long, requires = "topic")]
    pub(super) subscription: Option<String>,
    /// Given up for this reason, Azure's or the receiver's own
    #[arg(long)]
    pub(super) reason: Option<String>,
    /// The outcome of the last attempt, such as TimedOut
    #[arg(long)]
    pub(super) outcome: Option<String>,
    /// The HTTP status of the last attempt
    #[arg(long)]
    pub(super) status: Option<u16>,
    /// Given up at this moment or later (2026-11-21T06:40:53Z)
    #[arg(long, value_name = "MOMENT")]
    pub(super) from: Option<String>,
    /// Given up before this moment
    #[arg(long, value_name = "MOMENT")]
    pub(super) to: Option<String>,
    #[command(flatten)]
    pub(super) about: AboutEvent,
}

impl DeadLetterFilter {
    /// The names of the arguments, for those that exclude them.
    pub(super) const NAMES: [&str; 10] = [
        "topic",
        "subscription",
        "reason",
        "outcome",
        "status",
        "from",
        "to",
        "event_type",
        "subject",
        "text",
    ];

    /// The same as the document of a replay job has them.
    pub(super) fn to_json(&self) -> Value {
        let status = self.status.map(|status| ("status", status.into()));
        let texts = self
            .query()
            .into_iter()
            .filter(|(name, _)| *name != "status");
        let texts = texts.map(|(name, text)| (name, Value::from(text)));
        texts
            .chain(status)
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// The same as parameters of a query.
    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        let filters = [
            ("topic", self.topic.clone()),
            ("subscription", self.subscription.clone()),
            ("reason", self.reason.clone()),
            ("outcome", self.outcome.clone()),
            ("status", self.status.map(|status| status.to_string())),
            ("from", self.from.clone()),
            ("to", self.to.clone()),
        ];
        let given = filters.into_iter().chain(self.about.parameters());
        given
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn filters_become_what_a_replay_job_takes() {
        let filter = DeadLetterFilter {
            topic: Some("orders".to_owned()),
            status: Some(503),
            ..DeadLetterFilter::default()
        };
        assert_eq!(
            filter.to_json(),
            json!({ "topic": "orders", "status": 503 })
        );
        assert_eq!(DeadLetterFilter::default().to_json(), json!({}));
    }
}
