//! `everpost audit`: who has changed what.

use clap::Args;
use serde_json::Value;

use crate::admin::deeds;
use crate::app::cli::filters::{AuditFilter, Page};
use crate::app::cli::output::{items, moment, text};
use crate::app::cli::request::{Run, Server};
use crate::app::cli::table::Cell::{Of, Text, Time, Word};
use crate::app::cli::table::List;
use crate::model::audit::{Actor, AuditEntry, Change};

#[derive(Args, Debug)]
pub(super) struct AuditArgs {
    #[command(flatten)]
    filter: AuditFilter,
    #[command(flatten)]
    page: Page,
}

impl Run for AuditArgs {
    async fn run(self, server: &Server) -> anyhow::Result<()> {
        let request = server.get(["everpost", "audit"]);
        request
            .query(self.filter)
            .query(self.page)
            .show(AUDIT)
            .await
    }
}

const AUDIT: List = List {
    none: "nothing has been changed",
    columns: &[
        ("NUMBER", Word("/id")),
        ("AT (UTC)", Time("/at")),
        ("BY", Of(actor)),
        ("ADDRESS", Text("/address")),
        ("ACTION", Of(action)),
        ("CHANGES", Of(changes)),
    ],
};

fn actor(entry: &Value) -> String {
    Actor::of(&text(entry, "/actorKind"), text(entry, "/actor")).words()
}

/// A sentence; the request itself where there is none.
fn action(entry: &Value) -> String {
    let changes = items(entry, "/changes").iter().map(|change| Change {
        property: text(change, "/property"),
        before: change["before"].to_string(),
        after: change["after"].to_string(),
    });
    let known = AuditEntry {
        at: moment(entry, "/at").unwrap_or_default(),
        actor: Actor::ManagementToken,
        address: None,
        method: text(entry, "/method"),
        path: text(entry, "/path"),
        name: entry["name"].as_str().map(str::to_owned),
        changes: changes.collect(),
    };
    match deeds::told(&known).as_str() {
        "" => format!("{} {}", known.method, known.path),
        sentence => sentence.to_owned(),
    }
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
        let entry = |actor: &str, path: &str, changes: Value| {
            json!({ "id": 7, "at": "2026-11-21T06:40:53.138Z", "actorKind": "ManagementToken",
                "actor": actor, "address": "127.0.0.1", "method": "PUT", "path": path,
                "changes": changes })
        };
        let changed = json!([{ "property": "tags.a", "before": "1", "after": null }]);
        let made = json!([{ "property": "", "before": null, "after": {} }]);
        let page = json!({ "value": [
            entry("", "/topics/orders", changed),
            entry("", "/topics/orders", made),
            entry("", "/something/new", json!([])),
        ], "nextBefore": null });
        let expected = "\
NUMBER  AT (UTC)             BY                ADDRESS    ACTION                         CHANGES
7       2026-11-21 06:40:53  management token  127.0.0.1  The topic orders was changed.  tags.a: 1 ->
7       2026-11-21 06:40:53  management token  127.0.0.1  The topic orders was created.
7       2026-11-21 06:40:53  management token  127.0.0.1  PUT /something/new
";
        assert_eq!(AUDIT.text(&page, Screen::default()), expected);
    }
}
