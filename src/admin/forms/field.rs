//! The fields of the forms that strangers fill in: names, passwords and codes.

use askama::Template;

use crate::admin::forms::faults::Problem;
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::widgets::part;

/// A line with its label, its explanation and what is wrong with it.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/field.html")]
pub(crate) struct Field {
    name: String,
    label: &'static str,
    hint: String,
    problem: Option<String>,
    required: bool,
    /// The type of the input element.
    kind: &'static str,
    value: String,
    /// Whether it holds code rather than prose.
    mono: bool,
    autocomplete: &'static str,
}

part!(Field);

impl Field {
    /// Prose or a name.
    pub(crate) fn line(name: &str, label: &'static str, form: &Form) -> Self {
        Self {
            name: name.to_owned(),
            label,
            hint: String::new(),
            problem: None,
            required: false,
            kind: "text",
            value: form.raw(name).to_owned(),
            mono: false,
            autocomplete: "off",
        }
    }

    /// A password, never filled in by us. `autocomplete` tells the browser whether it is a new one.
    pub(crate) fn password(name: &str, label: &'static str, autocomplete: &'static str) -> Self {
        Self {
            kind: "password",
            autocomplete,
            ..Self::line(name, label, &Form::default())
        }
    }

    /// The same with an explanation.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        Self { hint, ..self }
    }

    /// The same, to be filled in.
    pub(crate) fn required(self) -> Self {
        Self {
            required: true,
            ..self
        }
    }

    /// The same in the typeface of code.
    pub(crate) fn mono(self) -> Self {
        Self { mono: true, ..self }
    }

    /// The same with what the browser may fill in.
    pub(crate) fn autocomplete(self, autocomplete: &'static str) -> Self {
        Self {
            autocomplete,
            ..self
        }
    }

    fn has_notes(&self) -> bool {
        self.problem.is_some() || !self.hint.is_empty()
    }
}

/// Writes every one of `refusals` to the field at fault, and gives what to say above the form; `None` if nothing
/// is wrong.
pub(crate) fn mark<'a>(
    fields: impl Iterator<Item = &'a mut Field>,
    refusals: impl IntoIterator<Item = Refusal>,
) -> Option<Problem> {
    let mut fields: Vec<&mut Field> = fields.collect();
    let placed = refusals.into_iter().map(|refusal| {
        let field = fields.iter_mut().find(|field| field.name == refusal.target);
        let place = field.map(|field| {
            field.problem = Some(refusal.problem.clone());
            (field.name.clone(), field.label.to_owned())
        });
        (refusal, place)
    });
    Problem::new(placed)
}
