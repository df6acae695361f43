//! Where something is sent again, as flags.

use std::fmt;

use clap::Args;
use serde_json::{Value, json};

/// Where to, if not to their own subscription alone.
#[derive(Args, Clone, Debug, Default)]
pub(in crate::app::cli) struct TargetArgs {
    /// To this topic, matched anew, as a new event
    #[arg(long, value_name = "TOPIC", conflicts_with_all = ["to_own_topic", "to_url"])]
    to_topic: Option<String>,
    /// Each to its own topic, matched anew: all of its event subscriptions may get it
    #[arg(long, conflicts_with = "to_url")]
    to_own_topic: bool,
    /// In one request to this URL; what it does not take stays where it is
    #[arg(long, value_name = "URL")]
    to_url: Option<String>,
}

impl TargetArgs {
    /// The target as the API takes it.
    pub(in crate::app::cli) fn to_json(&self) -> Value {
        match (&self.to_topic, self.to_own_topic, &self.to_url) {
            (Some(topic), _, _) => json!({ "kind": "Topic", "topic": topic }),
            (None, true, _) => json!({ "kind": "Topic" }),
            (None, false, Some(url)) => json!({ "kind": "Url", "url": url }),
            (None, false, None) => json!({ "kind": "Subscription" }),
        }
    }

    /// Whether each is a request of its own.
    pub(in crate::app::cli) fn is_url(&self) -> bool {
        self.to_url.is_some()
    }
}

/// The end of a sentence about what is sent. A URL may hold a secret.
impl fmt::Display for TargetArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.to_topic, self.to_own_topic, &self.to_url) {
            (Some(topic), _, _) => write!(f, "to the topic {topic}"),
            (None, true, _) => f.write_str("each to its own topic"),
            (None, false, Some(_)) => f.write_str("to the URL"),
            (None, false, None) => f.write_str("each to its own event subscription"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_what_the_server_takes() {
        let target = TargetArgs::default();
        assert_eq!(target.to_json(), json!({ "kind": "Subscription" }));
        let target = TargetArgs {
            to_own_topic: true,
            ..target
        };
        assert_eq!(target.to_json(), json!({ "kind": "Topic" }));
    }
}
