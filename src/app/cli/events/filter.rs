//! Which events, as flags.

use clap::Args;

use crate::app::cli::about_event::AboutEvent;

/// Filters; an event has to pass all of them.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct EventFilter {
    /// Events of this topic
    #[arg(long)]
    pub(super) topic: Option<String>,
    /// Events that this event subscription wanted
    #[arg(long, requires = "topic")]
    pub(super) subscription: Option<String>,
    /// Events with a delivery that is pending, retrying (pending after a failure), delivered, deadlettered,
    /// dropped, resubmitted or removed
    #[arg(long)]
    pub(super) state: Option<String>,
    /// Events with this id
    #[arg(long)]
    pub(super) id: Option<String>,
    #[command(flatten)]
    pub(super) about: AboutEvent,
    /// Received at this moment or later (2026-11-21T06:40:53Z)
    #[arg(long, value_name = "MOMENT")]
    pub(super) from: Option<String>,
    /// Received before this moment
    #[arg(long, value_name = "MOMENT")]
    pub(super) to: Option<String>,
    /// Events that no event subscription wanted
    #[arg(long)]
    pub(super) unmatched: bool,
}

impl EventFilter {
    /// The same as parameters of a query.
    pub(super) fn query(&self) -> impl Iterator<Item = (&'static str, String)> {
        let filters = [
            ("topic", self.topic.clone()),
            ("subscription", self.subscription.clone()),
            ("state", self.state.clone()),
            ("id", self.id.clone()),
            ("from", self.from.clone()),
            ("to", self.to.clone()),
            ("unmatched", self.unmatched.then(|| true.to_string())),
        ];
        let given = filters.into_iter().chain(self.about.parameters());
        given.filter_map(|(name, value)| Some((name, value?)))
    }
}
