//! Pages that are typed forms over something: opened, sent, and shown again with what is wrong in them.

use std::fmt::Display;
use std::sync::Arc;

use askama::Template;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::admin::action::{Call, Subject};
use crate::admin::bare::draw_with;
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::filled::Filled;
use crate::admin::forms::form::{Refusal, refusals};
use crate::admin::site::Site;
use crate::admin::widgets::print::sentence;
use crate::broker::ManageError;
use crate::wire::resource::InvalidResource;

/// Why a form is not done what it asks for.
#[derive(Debug)]
pub(crate) enum Refused {
    /// What is typed is at fault.
    Form(Vec<Refusal>),
    Page(PageError),
}

/// A typed form that is filled in for `S`: its page, and what it does.
pub(crate) trait Sheet<S: Subject>:
    Serialize + DeserializeOwned + Default + Send + Sync
{
    /// What it is filled in with at first.
    fn begin(call: &Call<S>) -> PageResult<Self>;

    fn page(call: &Call<S>, form: Filled<Self>) -> impl Template;

    /// Does what it asks for, and tells what comes of it.
    fn save(&self, call: &Call<S>) -> impl Future<Output = Result<Response, Refused>> + Send;
}

/// What serves the page of a form.
pub(crate) fn sheet<F: Sheet<S> + 'static, S: Subject>() -> MethodRouter<Arc<Site>> {
    let open = |call: Call<S>| async move {
        let form = Filled::with(F::begin(&call)?);
        PageResult::Ok(draw_sheet(&call, form))
    };
    get(open).post(send::<F, S>)
}

/// Takes a form: it is done, or shown again with what is wrong in it.
pub(crate) async fn send<F: Sheet<S>, S: Subject>(call: Call<S>) -> PageResult {
    let form = Filled::<F>::sent(&call.form);
    match form.values.save(&call).await {
        Ok(answer) => Ok(answer),
        Err(Refused::Page(error)) => Err(error),
        Err(Refused::Form(refusals)) => Ok(draw_sheet(&call, form.with_faults(refusals))),
    }
}

pub(crate) fn draw_sheet<F: Sheet<S>, S: Subject>(call: &Call<S>, form: Filled<F>) -> Response {
    draw_with(form.status(), &F::page(call, form))
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::Form(vec![refusal])
    }
}

impl From<Vec<Refusal>> for Refused {
    fn from(refusals: Vec<Refusal>) -> Self {
        Self::Form(refusals)
    }
}

/// What stands in the way may change, so the form stays.
impl From<PageError> for Refused {
    fn from(error: PageError) -> Self {
        if let PageError::Conflict(problem) = error {
            return Refusal::whole(problem).into();
        }
        Self::Page(error)
    }
}

impl From<ManageError> for Refused {
    fn from(error: ManageError) -> Self {
        PageError::from(error).into()
    }
}

/// All that the management API has against a document whose fields are called by the last of their names.
pub(crate) fn of_fields(invalid: &InvalidResource) -> Vec<Refusal> {
    let field = |refusal: Refusal| {
        let path = refusal.target.split_once('.');
        let path = path.filter(|(whole, _)| ["properties", "sku"].contains(whole));
        match path {
            None => refusal,
            Some((_, field)) => Refusal::of(field, refusal.problem.clone()),
        }
    };
    refusals(invalid).into_iter().map(field).collect()
}

/// The name that is typed for something new.
pub(crate) fn named<N: Display, E: Display>(
    text: &str,
    noun: &str,
    parse: impl FnOnce(&str) -> Result<N, E>,
    is_taken: impl FnOnce(&N) -> bool,
) -> Result<N, Refusal> {
    let name = parse(text.trim());
    let name = name.map_err(|error| Refusal::of("name", sentence(&error.to_string())))?;
    match is_taken(&name) {
        false => Ok(name),
        true => Err(Refusal::of(
            "name",
            format!("There is {noun} {name} already."),
        )),
    }
}
