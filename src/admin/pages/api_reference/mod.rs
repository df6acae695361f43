//! The pages about the API: the document that the API itself serves, for people.

mod document;
mod example;
mod schema;

use axum::Json;
use serde::{Deserialize, Serialize};

use crate::admin::forms::filled::Filled;
use crate::admin::page::*;
use document::{Area, Details, Document, Operation};

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
struct ApiPage {
    frame: Frame,
    list: List,
    form: Filled<Asked>,
    server: String,
    areas: Vec<Area>,
    empty: Empty,
}

/// Everything that programs can ask.
pub(crate) async fn list(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(asked): Query<Asked>,
) -> PageResult {
    let document = Document::new(&site.api_document);
    let areas = document.areas(&asked.q);
    let number: usize = areas.iter().map(|area| area.operations.len()).sum();
    let form = Filled::with(asked);
    let mut list = List::new(PATH, &form);
    list.shown = print::plural(number as u64, "request", "requests");
    list.recipe = Recipe::get(&site.management_url("/openapi.json"));
    Ok(draw(&ApiPage {
        frame: Frame::new(&visitor, "API"),
        list,
        form,
        server: site.public_url().to_owned(),
        areas,
        empty: Empty::no_match("Nothing has all of these words.", PATH),
    }))
}

#[derive(Template)]
#[template(path = "pages/api_operation.html")]
struct OperationPage {
    frame: Frame,
    operation: Operation,
    details: Details,
}

/// One thing that programs can ask, with all that is to be known of it.
pub(crate) async fn show(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(id): Path<String>,
) -> PageResult {
    let document = Document::new(&site.api_document);
    let found = document.find(&id);
    let missing = || PageError::NotFound(format!("operation {id} in the API"));
    let (operation, details) = found.ok_or_else(missing)?;
    Ok(draw(&OperationPage {
        frame: Frame::new(&visitor, operation.summary.clone()),
        operation,
        details,
    }))
}

/// The document itself.
pub(crate) async fn download(State(site): State<Arc<Site>>) -> Response {
    Json(&*site.api_document).into_response()
}
