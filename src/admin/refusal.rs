//! What is wrong with a form.

use crate::admin::outside::*;
use crate::admin::widgets::print::sentence;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The name of the field at fault, or the path of a property that the field is a part of; empty
    /// for the form as a whole.
    pub(crate) target: String,
    pub(crate) problem: String,
}

impl Refusal {
    pub(crate) fn of(target: &str, problem: impl Into<String>) -> Self {
        let (target, problem) = (target.to_owned(), problem.into());
        Self { target, problem }
    }

    pub(crate) fn whole(problem: impl Into<String>) -> Self {
        Self::of("", problem)
    }

    /// Whether it is told at the field of the property at `path`: the one at fault, one that the fault lies in, or one
    /// that is a part of what is at fault.
    pub(crate) fn fits(&self, path: &str) -> bool {
        let target = self.target.as_str();
        !target.is_empty() && (lies_in(target, path) || lies_in(path, target))
    }
}

fn lies_in(inner: &str, outer: &str) -> bool {
    let rest = inner.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// What was parsed, or what could not be read with all that is wrong with the rest.
pub(crate) fn all_of<T>(
    unread: Vec<Refusal>,
    parsed: Result<T, Vec<Refusal>>,
) -> Result<T, Vec<Refusal>> {
    match parsed {
        Ok(parsed) if unread.is_empty() => Ok(parsed),
        Ok(_) => Err(unread),
        Err(refusals) => Err([unread, refusals].concat()),
    }
}

/// All that the management API has against a document.
pub(crate) fn refusals(invalid: &InvalidResource) -> Vec<Refusal> {
    let faults = invalid.faults.iter();
    let refusal = |Fault { path, problem }: &Fault| Refusal::of(path, said(problem));
    faults.map(refusal).collect()
}

/// Who sees the field need not be told that it is missing.
pub(crate) fn said(problem: &str) -> String {
    match problem.strip_prefix("it is missing; it must be ") {
        Some(wanted) => format!("Enter {wanted}."),
        None => sentence(problem),
    }
}

/// The same where fields are called by the last of the names of properties.
pub(crate) fn of_fields(invalid: &InvalidResource) -> Vec<Refusal> {
    let mut refusals = refusals(invalid);
    for Refusal { target, .. } in &mut refusals {
        let field = target.strip_prefix("properties.");
        if let Some(field) = field.or_else(|| target.strip_prefix("sku.")) {
            *target = field.to_owned();
        }
    }
    refusals
}
