//! What an event says of itself, as flags of every search.

use clap::Args;

/// Filters on the event itself.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct AboutEvent {
    /// The event type, or its beginning and a `*`
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) event_type: Option<String>,
    /// The subject, or its beginning and a `*`
    #[arg(long)]
    pub(super) subject: Option<String>,
    /// Part of the event's id, type, subject or data
    #[arg(long)]
    pub(super) text: Option<String>,
}

impl AboutEvent {
    /// The same as parameters of a query.
    pub(super) fn parameters(&self) -> [(&'static str, Option<String>); 3] {
        [
            ("type", self.event_type.clone()),
            ("subject", self.subject.clone()),
            ("text", self.text.clone()),
        ]
    }
}
