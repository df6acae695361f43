//! The pages about the API: the document that the API itself serves, for people.

mod example;
mod operation;
mod schema;

use axum::Json;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::admin::page::*;
use operation::{Operation, SECOND_PATH};
use schema::{Kind, Rows, elements, said};

const PATH: &str = "/admin/api";

/// What the URL asks for.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    /// Words that must all be found in an operation.
    q: String,
}

#[derive(Template)]
#[template(path = "pages/api.html")]
struct ApiPage<'a> {
    frame: Frame,
    list: List,
    form: Filled<Asked>,
    server: &'a str,
    /// The tags of the document, each with its operations.
    areas: Vec<(&'a Value, Vec<Operation<'a>>)>,
    empty: Empty,
}

/// Everything that programs can ask, where every word of the search is found.
pub(crate) async fn list(Query(asked): Query<Asked>, call: Call) -> PageResult {
    let document = &*call.api_document;
    let words: Vec<String> = asked.q.split_whitespace().map(str::to_lowercase).collect();
    let found: Vec<Operation<'_>> = operation::all(document)
        .filter(|each| !each.id().ends_with(SECOND_PATH))
        .filter(|each| {
            let text = each.searched();
            words.iter().all(|word| text.contains(word))
        })
        .collect();
    let areas = elements(&document["tags"]).map(|tag| {
        let own = found.iter().filter(|each| tag["name"] == each.area());
        (tag, own.copied().collect::<Vec<_>>())
    });
    let form = Filled::with(asked);
    let mut list = List::new(PATH, &form);
    list.shown = print::plural(found.len(), "request", "requests");
    list.recipe = Recipe::get(&call.management_url("/openapi.json"));
    Ok(draw(&ApiPage {
        frame: Frame::new(&call.visitor, "API"),
        list,
        form,
        server: call.public_url(),
        areas: areas.filter(|(_, own)| !own.is_empty()).collect(),
        empty: Empty::no_match("Nothing has all of these words.", PATH),
    }))
}

#[derive(Template)]
#[template(path = "pages/api_operation.html")]
struct OperationPage<'a> {
    frame: Frame,
    document: &'a Value,
    operation: Operation<'a>,
    /// The same in Azure Resource Manager.
    second: Option<Operation<'a>>,
    example: String,
    /// All schemas that it speaks of, and those that they speak of in turn.
    schemas: Vec<(&'a str, &'a Value)>,
}

/// One thing that programs can ask, with all that is to be known of it.
pub(crate) async fn show(call: Call) -> PageResult {
    let (document, id) = (&*call.api_document, name_of(&call.names, "operation"));
    let find = |id: &str| operation::all(document).find(|each| each.id() == id);
    let missing = || PageError::NotFound(format!("operation {id} in the API"));
    let operation = find(id)
        .filter(|_| !id.ends_with(SECOND_PATH))
        .ok_or_else(missing)?;
    Ok(draw(&OperationPage {
        frame: Frame::new(&call.visitor, said(&operation.json["summary"])),
        second: find(&format!("{id}{SECOND_PATH}")),
        document,
        example: example::curl(document, &operation),
        schemas: schema::named(document, &operation),
        operation,
    }))
}

/// The document itself.
pub(crate) async fn download(State(site): State<Arc<Site>>) -> Response {
    Json(&*site.api_document).into_response()
}
