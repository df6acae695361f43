//! The pages about the API: the document that the API itself serves, for people.

mod operation;
mod schema;

use axum::Json;
use axum::extract::Query;
use axum::response::{IntoResponse, Response};
use operation::{DocumentedOperation, SECOND_PATH, curl};
use schema::{PropertyRows, ValueKind, elements, entries, said, shown};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::admin::action::{Call, name_of};
use crate::admin::error::PageResult;
use crate::admin::forms::filled::FilledForm;
use crate::admin::lists::list::ListPage;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::answer;
use crate::admin::site::existing;
use crate::admin::widgets::{Empty, filters, print};

const PATH: &str = "/admin/api";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReferenceQuery {
    /// Words that must all be found in an operation.
    q: String,
}

/// Everything that programs can ask, where every word of the search is found.
pub(crate) async fn list(Query(asked): Query<ReferenceQuery>, call: Call) -> PageResult {
    let document: &Value = &call.api_document;
    let words: Vec<String> = asked.q.split_whitespace().map(str::to_lowercase).collect();
    let is_found = |each: &DocumentedOperation<'_>| {
        let text = each.searched();
        !each.id().ends_with(SECOND_PATH) && words.iter().all(|word| text.contains(word))
    };
    let found: Vec<_> = operation::all(document).filter(is_found).collect();
    let areas = elements(&document["tags"]).map(|tag| {
        let own = found.iter().filter(|each| tag["name"] == each.area());
        (tag, own.copied().collect::<Vec<_>>())
    });
    let form = FilledForm::with(asked);
    let mut list = ListPage::new(PATH, &form);
    list.shown = print::plural(found.len(), "operation", "operations");
    list.of_rows(found.len());
    list.recipe = Recipe::get(&call.management_url("/openapi.json"));
    answer!("pages/api.html"<'a>, &call.visitor, "API", {
        list: ListPage = list,
        form: FilledForm<ReferenceQuery> = form,
        server: String = call.public_url(),
        // The tags of the document, each with its operations.
        areas: Vec<(&'a Value, Vec<DocumentedOperation<'a>>)> = areas.filter(|(_, own)| !own.is_empty()).collect(),
    })
}

/// One thing that programs can ask, with all that is to be known of it.
pub(crate) async fn show(call: Call) -> PageResult {
    let document: &Value = &call.api_document;
    let id = name_of(&call.names, "operation");
    let find = |id: &str| operation::all(document).find(|each| each.id() == id);
    let operation = find(id).filter(|_| !id.ends_with(SECOND_PATH));
    let operation = existing(operation, "operation", format!("{id} in the API"))?;
    answer!("pages/api_operation.html"<'a>, &call.visitor, said(&operation.json["summary"]), {
        document: &'a Value = document,
        // The same in Azure Resource Manager.
        second: Option<DocumentedOperation<'a>> = find(&format!("{id}{SECOND_PATH}")),
        example: String = curl(&call.public_url(), &operation),
        // All schemas that it speaks of, and those that they speak of in turn.
        schemas: Vec<(&'a str, &'a Value)> = schema::named(document, &operation),
        operation: DocumentedOperation<'a> = operation,
    })
}

pub(crate) async fn download(call: Call) -> Response {
    let mut document = Value::clone(&**call.api_document);
    document["servers"][0]["url"] = call.public_url().into();
    Json(document).into_response()
}
