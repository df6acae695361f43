//! What becomes of pending deliveries when their subscription is deleted, as a flag.

use clap::{Args, ValueEnum};

/// The fate of what is still to be delivered.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct PendingArgs {
    /// What becomes of events that are still to be delivered
    #[arg(long, value_enum, default_value = "discard")]
    pending: Pending,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Pending {
    /// They are dropped, with a record
    Discard,
    /// They are kept as dead letters
    DeadLetter,
}

impl PendingArgs {
    /// The query that says so.
    pub(super) fn query(self) -> [(&'static str, &'static str); 1] {
        let fate = match self.pending {
            Pending::Discard => "discard",
            Pending::DeadLetter => "deadLetter",
        };
        [("pending", fate)]
    }
}
