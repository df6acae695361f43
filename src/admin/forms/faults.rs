//! The errors of a form, shown at its fields and above them.

use std::sync::OnceLock;

use crate::admin::forms::form::FormError;
use crate::admin::outside::*;
use crate::admin::widgets::{filters, part};

/// The errors of a form, each with the field that shows it: the first one drawn that the error fits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Vec<(FormError, OnceLock<Place>)>);

/// The name of a field, its label, and its place among those that say something.
type Place = (String, String, usize);

impl Faults {
    pub(crate) fn new(form_errors: impl IntoIterator<Item = FormError>) -> Self {
        let form_errors = form_errors.into_iter();
        Self(form_errors.map(|each| (each, OnceLock::new())).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn status(&self) -> StatusCode {
        let rejected = (!self.is_empty()).then_some(StatusCode::UNPROCESSABLE_ENTITY);
        rejected.unwrap_or(StatusCode::OK)
    }

    pub(crate) fn problems(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .map(|(form_error, _)| form_error.problem.as_str())
    }

    /// Returns the errors of the property at `path`, which the field `name` fills in; empty if there are none.
    pub(crate) fn at(&self, path: &str, name: &str, label: &str) -> String {
        let fits = |each: &FormError| each.target == name || each.fits(path);
        let drawn = self.0.iter().filter(|(_, place)| place.get().is_some());
        let drawn = drawn.count();
        let fits = self.0.iter().filter(|(each, _)| fits(each));
        let here = fits.filter(|(_, place)| {
            place
                .get_or_init(|| (name.to_owned(), label.to_owned(), drawn))
                .0
                == name
        });
        let here = here.map(|(form_error, _)| form_error.problem.as_str());
        here.collect::<Vec<_>>().join(" ")
    }

    /// To stand above the fields, which are drawn by then: those that say themselves what is wrong with them, and what
    /// none of them says. `None` if nothing is wrong.
    pub(crate) fn told(&self) -> Option<Problem> {
        let mut told = Problem::default();
        for (FormError { target, problem }, place) in &self.0 {
            match place.get() {
                Some(place) if told.fields.contains(place) => {}
                Some(place) => told.fields.push(place.clone()),
                None if target.is_empty() => told.others.push(problem.clone()),
                None => told.others.push(format!("{target}: {problem}")),
            }
        }
        told.fields.sort_by_key(|(_, _, place)| *place);
        (!self.is_empty()).then_some(told)
    }
}

#[derive(Clone, Debug, Default, Template)]
#[template(path = "widgets/problem.html")]
pub(crate) struct Problem {
    fields: Vec<Place>,
    others: Vec<String>,
}

part!(Problem);
