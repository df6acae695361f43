//! Errors in the input of forms.

use crate::admin::widgets::print::sentence;
use crate::wire::resource::{Fault, InvalidResource};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FormError {
    /// The name of the field with the error, or the path of a property that contains the field. Empty if the error
    /// concerns the whole form.
    pub(crate) target: String,
    pub(crate) problem: String,
}

impl FormError {
    pub(crate) fn of(target: &str, problem: impl Into<String>) -> Self {
        let (target, problem) = (target.to_owned(), problem.into());
        Self { target, problem }
    }

    pub(crate) fn whole(problem: impl Into<String>) -> Self {
        Self::of("", problem)
    }

    /// Reports whether the error is shown at the field of the property at `path`. The property is the target of the
    /// error, lies in the target, or contains the target.
    pub(crate) fn fits(&self, path: &str) -> bool {
        let target = self.target.as_str();
        !target.is_empty() && (lies_in(target, path) || lies_in(path, target))
    }
}

fn lies_in(inner: &str, outer: &str) -> bool {
    let rest = inner.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Returns the parsed value, or all errors: first the errors of `unread` fields, then the errors of the parser.
pub(crate) fn all_of<T>(
    unread: Vec<FormError>,
    parsed: Result<T, Vec<FormError>>,
) -> Result<T, Vec<FormError>> {
    match parsed {
        Ok(parsed) if unread.is_empty() => Ok(parsed),
        Ok(_) => Err(unread),
        Err(form_errors) => Err([unread, form_errors].concat()),
    }
}

/// Converts the faults that the management API finds in a document to form errors.
pub(crate) fn form_errors(invalid: &InvalidResource) -> Vec<FormError> {
    let faults = invalid.faults.iter();
    let form_error = |Fault { path, problem }: &Fault| FormError::of(path, said(problem));
    faults.map(form_error).collect()
}

/// Returns the problem as a sentence. If a value is missing, the sentence asks the user to enter the value.
pub(crate) fn said(problem: &str) -> String {
    match problem.strip_prefix("it is missing; it must be ") {
        Some(wanted) => format!("Enter {wanted}."),
        None => sentence(problem),
    }
}

/// Returns the errors of [`form_errors`] without the prefix `properties.` or `sku.` in their targets. Suits forms whose
/// fields have the names of properties without these prefixes.
pub(crate) fn of_fields(invalid: &InvalidResource) -> Vec<FormError> {
    let mut form_errors = form_errors(invalid);
    for FormError { target, .. } in &mut form_errors {
        let field = target.strip_prefix("properties.");
        if let Some(field) = field.or_else(|| target.strip_prefix("sku.")) {
            *target = field.to_owned();
        }
    }
    form_errors
}
