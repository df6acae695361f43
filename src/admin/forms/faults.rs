//! What is wrong with a form, told at its fields and above them.

use std::sync::OnceLock;

use askama::Template;
use http::StatusCode;

use crate::admin::forms::form::Refusal;
use crate::admin::widgets::part;

/// What is wrong, and at which field each of it is told. That is found while the fields are drawn: the first that it
/// fits has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Vec<(Refusal, OnceLock<Place>)>);

/// The name of a field, and what it is called.
type Place = (String, String);

impl Faults {
    pub(crate) fn new(refusals: impl IntoIterator<Item = Refusal>) -> Self {
        let refusals = refusals.into_iter();
        Self(refusals.map(|each| (each, OnceLock::new())).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the page with the form is answered with.
    pub(crate) fn status(&self) -> StatusCode {
        match self.is_empty() {
            true => StatusCode::OK,
            false => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }

    pub(crate) fn problems(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(refusal, _)| refusal.problem.as_str())
    }

    /// What is wrong with the property at `path`, which the field `name` fills in; empty for nothing.
    pub(crate) fn at(&self, path: &str, name: &str, label: &str) -> String {
        let fits = self.0.iter().filter(|(each, _)| each.closeness(path) > 0);
        let here = fits.filter(|(_, place)| {
            place.get_or_init(|| (name.to_owned(), label.to_owned())).0 == name
        });
        let here = here.map(|(refusal, _)| refusal.problem.as_str());
        here.collect::<Vec<_>>().join(" ")
    }

    /// All of it, to stand above the fields, which are drawn by then; `None` if nothing is wrong.
    pub(crate) fn told(&self) -> Option<Problem> {
        let faults = self.0.iter();
        Problem::new(faults.map(|(refusal, place)| (refusal.clone(), place.get().cloned())))
    }
}

/// What is wrong with a form, above it.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/problem.html")]
pub(crate) struct Problem {
    faults: Vec<Fault>,
}

/// One thing that is wrong.
#[derive(Clone, Debug)]
struct Fault {
    text: String,
    /// Field and label to go to.
    field: Option<Place>,
}

part!(Problem);

impl Problem {
    /// What is wrong, and the field at which each of it is told; `None` if nothing is wrong.
    pub(crate) fn new(refusals: impl Iterator<Item = (Refusal, Option<Place>)>) -> Option<Self> {
        let fault = |(Refusal { target, problem }, field): (_, Option<_>)| {
            let text = match target.as_str() {
                target if field.is_none() && !target.is_empty() => format!("{target}: {problem}"),
                _ => problem,
            };
            Fault { text, field }
        };
        let faults: Vec<Fault> = refusals.map(fault).collect();
        (!faults.is_empty()).then_some(Self { faults })
    }
}
