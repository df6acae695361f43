//! Submitted forms, with their fields as text.

use axum::extract::{FromRequest, RawForm, Request};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::admin::error::{PageError, PageResult};

pub(crate) use crate::admin::form_error::FormError;
/// Maximum number of fields of a form. The forms of the admin pages have far fewer.
const FIELDS_MAX: usize = 200;

/// Maximum number of elements of a list in a form. Each element has a few fields.
pub(crate) const ELEMENTS_MAX: usize = FIELDS_MAX;

/// The fields of a submitted form. They do not tell if the form came from an admin page; for that check, see
/// [`csrf`](crate::admin::security::csrf).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    pub(crate) fn of<'a>(fields: impl IntoIterator<Item = (&'a str, impl Into<String>)>) -> Self {
        let owned = fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into()));
        Self(owned.collect())
    }

    pub(crate) fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let name = name.into();
        self.remove(&name);
        self.0.push((name, value.into()));
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.0.iter();
        fields.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|(field, _)| field != name);
    }

    /// Returns a copy without the fields whose names `is_out` selects.
    pub(crate) fn without(&self, is_out: impl Fn(&str) -> bool) -> Self {
        let kept = self.0.iter().filter(|(name, _)| !is_out(name));
        Self(kept.cloned().collect())
    }

    /// Removes an element from a list, with all of its fields. The elements after it move up.
    pub(crate) fn remove_element(&mut self, list: &str, at: usize) {
        let place = |name: &str| {
            let element = name.strip_prefix(list)?.strip_prefix('[')?;
            let (index, rest) = element.split_once(']')?;
            Some((index.parse::<usize>().ok()?, rest.to_owned()))
        };
        self.0.retain_mut(|(name, _)| match place(name) {
            Some((index, rest)) if index > at => {
                *name = format!("{list}[{}]{rest}", index - 1);
                true
            }
            Some((index, _)) => index < at,
            None => true,
        });
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields().any(|(field, _)| field == name)
    }

    /// Returns the text of a field as it was typed, or an empty text if the form does not have the field.
    pub(crate) fn raw(&self, name: &str) -> &str {
        let mut fields = self.0.iter();
        let found = fields.find(|(field, _)| field == name);
        found.map_or("", |(_, value)| value)
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.raw(name).trim()
    }

    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.filled(name).is_some()
    }

    /// Returns the value of a field as a JSON number, or `null` if the field is empty. Text that is not a number is
    /// returned as text, so that the parser of the definition can reject it.
    pub(crate) fn number(&self, name: &str) -> Value {
        self.filled(name).map_or(Value::Null, number)
    }
}

pub(crate) fn number(text: &str) -> Value {
    match (text.parse::<i64>(), text.parse::<Number>()) {
        (Ok(whole), _) => whole.into(),
        (_, Ok(number)) => number.into(),
        _ => text.into(),
    }
}

/// Reads the form that a browser has sent, from the body, or from the query of a GET request.
impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &S) -> PageResult<Self> {
        let text = RawForm::from_request(request, state).await;
        let RawForm(text) = text.map_err(|error| PageError::of_body(error.body_text()))?;
        let fields = url::form_urlencoded::parse(&text).into_owned();
        Ok(Self(fields.take(FIELDS_MAX).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Form {
        pub(crate) fn of_pairs<'a>(pairs: impl Iterator<Item = &'a (&'a str, &'a str)>) -> Self {
            let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            Self(pairs.map(own).collect())
        }
    }

    #[test]
    fn a_rejection_finds_its_field() {
        let form_error = FormError::of("filter.advancedFilters[2].values[0]", "no number");
        for (path, fits) in [
            ("filter.advancedFilters[2].values[0]", true),
            ("filter.advancedFilters[2].values", true),
            ("filter.advancedFilters", true),
            ("filter.advancedFilters[1].values", false),
            ("filter.advancedFilters[2].values[0].more", true),
            ("advancedFilters", false),
        ] {
            assert_eq!(form_error.fits(path), fits, "{path}");
        }
        assert!(!FormError::whole("no").fits("name"));
    }

    #[test]
    fn a_field_that_is_set_again_has_one_value() {
        let mut form = Form::of([("a", "1".to_owned()), ("b", "2".to_owned())]);
        form.set("a", "3");
        assert_eq!((form.text("a"), form.text("b")), ("3", "2"));
    }
}
