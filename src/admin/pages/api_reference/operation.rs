//! What one method at one path is for.

use serde_json::Value;

use crate::admin::pages::api_reference::schema::{elements, entries, said};

/// The methods of a path, in the order in which people think of them.
const METHODS: [&str; 6] = ["get", "put", "patch", "post", "delete", "options"];

/// What the ids of operations end with that stand at a second path, that of Azure Resource Manager.
pub(super) const SECOND_PATH: &str = "ByResourceId";

/// An operation where it stands in the document.
#[derive(Clone, Copy)]
pub(super) struct Operation<'a> {
    pub(super) path: &'a str,
    item: &'a Value,
    method: &'static str,
    pub(super) json: &'a Value,
}

/// All of the document.
pub(super) fn all(document: &Value) -> impl Iterator<Item = Operation<'_>> {
    entries(&document["paths"]).flat_map(|(path, item)| {
        let of = move |method| {
            let json = item.get(method)?;
            Some(Operation {
                path,
                item,
                method,
                json,
            })
        };
        METHODS.into_iter().filter_map(of)
    })
}

impl<'a> Operation<'a> {
    pub(super) fn id(&self) -> &'a str {
        self.json["operationId"].as_str().unwrap_or_default()
    }

    pub(super) fn area(&self) -> &'a str {
        self.json["tags"][0].as_str().unwrap_or_default()
    }

    pub(super) fn method(&self) -> String {
        self.method.to_uppercase()
    }

    pub(super) fn parameters(&self) -> impl Iterator<Item = &'a Value> {
        elements(&self.item["parameters"]).chain(elements(&self.json["parameters"]))
    }

    /// Who may ask, in words.
    pub(super) fn takes(&self) -> &'a str {
        let is_open = || elements(&self.json["security"]).next().is_none();
        let role = self.json["x-everpost-role"].as_str();
        role.unwrap_or_else(|| {
            if is_open() {
                "nothing"
            } else {
                "key or operator"
            }
        })
    }

    /// What a search looks into.
    pub(super) fn searched(&self) -> String {
        let words = [&self.json["summary"], &self.json["description"]]
            .map(said)
            .join(" ");
        let names = [self.method, self.path, self.id(), self.area(), self.takes()].join(" ");
        format!("{names} {words}").to_lowercase()
    }
}
