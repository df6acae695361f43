//! `everpost audit`: who did what.

use clap::Args;
use serde_json::Value;

use crate::app::cli::output::{items, text};
use crate::app::cli::request::{RemoteServer, Run};
use crate::app::cli::table::Cell::{Of, Text, Time, Word};
use crate::app::cli::table::ListFormat;
use crate::model::audit::Actor;
use crate::wire::query::{AuditParameters, Paging};

#[derive(Args, Debug)]
pub(super) struct AuditArgs {
    #[command(flatten)]
    filter: AuditParameters,
    #[command(flatten)]
    page: Paging,
}

impl Run for AuditArgs {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let request = server.get(["everpost", "audit"]);
        request
            .query(self.filter)
            .query(self.page)
            .show(AUDIT)
            .await
    }
}

const AUDIT: ListFormat = ListFormat {
    none: "no entries",
    columns: &[
        ("NUMBER", Word("/id")),
        ("AT (UTC)", Time("/at")),
        ("BY", Of(actor)),
        ("ADDRESS", Text("/address")),
        ("ACTION", Text("/sentence")),
        ("CHANGES", Of(changes)),
    ],
};

fn actor(entry: &Value) -> String {
    Actor::of(&text(entry, "/actorKind"), text(entry, "/actor")).to_string()
}

fn changes(entry: &Value) -> String {
    let properties = items(entry, "/changes")
        .iter()
        .filter(|change| change["property"] != "");
    let changes = properties.map(|change| {
        let of = |pointer| text(change, pointer);
        format!("{}: {} -> {}", of("/property"), of("/before"), of("/after"))
    });
    changes.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::app::cli::output::{Screen, View};

    #[test]
    fn changes_are_listed_as_sentences() {
        let entry = |sentence: &str, changes: Value| {
            json!({ "id": 7, "at": "2026-11-21T06:40:53.138Z", "actorKind": "ManagementToken",
                "actor": "", "address": "127.0.0.1", "sentence": sentence, "changes": changes })
        };
        let changed = json!([{ "property": "tags.a", "before": "1", "after": null }]);
        let created = json!([{ "property": "", "before": null, "after": {} }]);
        let page = json!({ "value": [
            entry("Changed a of topic orders", changed),
            entry("Created topic orders", created),
        ], "nextBefore": null });
        let expected = "\
NUMBER  AT (UTC)             BY                ADDRESS    ACTION                     CHANGES
7       2026-11-21 06:40:53  management token  127.0.0.1  Changed a of topic orders  tags.a: 1 ->
7       2026-11-21 06:40:53  management token  127.0.0.1  Created topic orders
";
        assert_eq!(AUDIT.text(&page, Screen::default()), expected);
    }
}
