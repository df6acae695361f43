//! Which dead letters, as flags.

use clap::Args;

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
    /// The event type, or its beginning and a `*`
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) event_type: Option<String>,
    /// The subject, or its beginning and a `*`
    #[arg(long)]
    pub(super) subject: Option<String>,
    /// Part of the event's id, type or subject
    #[arg(long)]
    pub(super) text: Option<String>,
}

impl DeadLetterFilter {
    /// The same as parameters of a query.
    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        let filters = [
            ("topic", &self.topic),
            ("subscription", &self.subscription),
            ("reason", &self.reason),
            ("outcome", &self.outcome),
            ("from", &self.from),
            ("to", &self.to),
            ("type", &self.event_type),
            ("subject", &self.subject),
            ("text", &self.text),
        ];
        let texts = filters
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.clone()?)));
        let status = self.status.map(|status| ("status", status.to_string()));
        texts.chain(status).collect()
    }
}
