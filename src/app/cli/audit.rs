//! `everpost audit`: what anybody has changed.

use clap::Args;
use serde_json::Value;

use crate::app::cli::client::Client;
use crate::app::cli::events::{Page, more};
use crate::app::cli::moment::date;
use crate::app::cli::output::{Output, items, moment, text};
use crate::app::cli::server::ServerArgs;
use crate::app::cli::table::Table;

/// Show who has changed what, newest first
#[derive(Args, Debug)]
pub(super) struct AuditArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
    /// Changes by this user or token, or of this kind: User, ApiToken, ManagementToken, CommandLine
    #[arg(long)]
    actor: Option<String>,
    /// Changes whose path begins so, such as /topics/orders
    #[arg(long)]
    path: Option<String>,
    /// From this moment on, as in 2026-11-21T06:40:00Z
    #[arg(long, value_name = "MOMENT")]
    from: Option<String>,
    /// Before this moment
    #[arg(long, value_name = "MOMENT")]
    until: Option<String>,
    #[command(flatten)]
    page: Page,
}

impl AuditArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let client = Client::new(self.server.find()?)?;
        let filters = [
            ("actor", self.actor),
            ("path", self.path),
            ("from", self.from),
            ("until", self.until),
        ];
        let filters = filters
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let query: Vec<_> = filters.chain(self.page.query()).collect();
        let found = client.get(&["everpost", "audit"], &query).await?;
        Ok(self.output.show(&found, list)?)
    }
}

fn list(page: &Value) -> String {
    let entries = items(page, "/value");
    if entries.is_empty() {
        return "nothing has been changed\n".to_owned();
    }
    let mut table = Table::headed(["NUMBER", "WHEN (UTC)", "WHO", "ADDRESS", "WHAT", "CHANGES"]);
    for entry in entries {
        let changes = items(entry, "/changes").iter().map(change);
        table.row([
            text(entry, "/id"),
            date(moment(entry, "/at")),
            who(entry),
            text(entry, "/address"),
            what(entry),
            changes.collect::<Vec<_>>().join(", "),
        ]);
    }
    format!("{table}{}", more(page))
}

fn who(entry: &Value) -> String {
    match text(entry, "/actor").as_str() {
        "" => text(entry, "/actorKind"),
        name => name.to_owned(),
    }
}

fn what(entry: &Value) -> String {
    let asked = format!("{} {}", text(entry, "/method"), text(entry, "/path"));
    match text(entry, "/name").as_str() {
        "" => asked,
        name => format!("{asked} ({name})"),
    }
}

fn change(change: &Value) -> String {
    match text(change, "/property").as_str() {
        "" if change["before"].is_null() => "made".to_owned(),
        "" if change["after"].is_null() => "deleted".to_owned(),
        "" => "changed".to_owned(),
        property => format!(
            "{property}: {} -> {}",
            text(change, "/before"),
            text(change, "/after")
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_listed_in_columns() {
        let entry = |actor: &str, changes: Value| {
            json!({ "id": 7, "at": "2026-11-21T06:40:53.138Z", "actorKind": "ManagementToken",
                "actor": actor, "address": "127.0.0.1", "method": "PUT", "path": "/topics/orders",
                "changes": changes })
        };
        let page = json!({ "value": [
            entry("ann", json!([{ "property": "tags.a", "before": "1", "after": null }])),
            entry("", json!([{ "property": "", "before": null, "after": {} }])),
        ], "nextBefore": 7 });
        let expected = "\
NUMBER  WHEN (UTC)               WHO              ADDRESS    WHAT                CHANGES
7       2026-11-21 06:40:53.138  ann              127.0.0.1  PUT /topics/orders  tags.a: 1 ->
7       2026-11-21 06:40:53.138  ManagementToken  127.0.0.1  PUT /topics/orders  made
there is more: add --before 7
";
        assert_eq!(list(&page), expected);
        let entry = json!({ "method": "POST", "path": "/admin/users/2/role", "name": "bob" });
        assert_eq!(what(&entry), "POST /admin/users/2/role (bob)");
        assert_eq!(list(&json!({ "value": [] })), "nothing has been changed\n");
    }
}
