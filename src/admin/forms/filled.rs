//! Typed forms: a struct that implements serde's traits names the fields, the macros of `templates/forms.html` draw
//! them, and each error is shown at its field, all errors at once.

use std::fmt::Display;

use http::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::admin::forms::faults::{Faults, FormProblem};
use crate::admin::forms::form::{Form, FormError};
use crate::admin::reader::PageReader;

#[derive(Clone, Debug)]
pub(crate) struct FilledForm<T> {
    pub(crate) values: T,
    pairs: Vec<(String, String)>,
    faults: Faults,
}

impl<T: Serialize + DeserializeOwned + Default> FilledForm<T> {
    /// Returns a form that is filled in with `values`. Its pairs of names and values leave out empty fields.
    pub(crate) fn with(values: T) -> Self {
        let text = serde_html_form::to_string(&values).unwrap_or_default();
        let pairs = url::form_urlencoded::parse(text.as_bytes()).into_owned();
        Self {
            values,
            pairs: pairs.filter(|(_, value)| !value.is_empty()).collect(),
            faults: Faults::default(),
        }
    }

    /// Reads the values from a form that a browser has sent. Fields that the struct does not have are left out.
    pub(crate) fn sent(form: &Form) -> Self {
        let text = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(form.fields())
            .finish();
        Self::with(serde_html_form::from_str(&text).unwrap_or_default())
    }
}

impl<T> FilledForm<T> {
    pub(crate) fn with_faults(self, faults: impl IntoIterator<Item = FormError>) -> Self {
        let faults = Faults::new(faults);
        Self { faults, ..self }
    }

    pub(crate) fn read<R>(
        self,
        read: impl FnOnce(&T) -> Result<R, Vec<FormError>>,
    ) -> (Option<R>, Self) {
        match read(&self.values) {
            Ok(read) => (Some(read), self),
            Err(faults) => (None, self.with_faults(faults)),
        }
    }

    /// Returns the part that templates draw, which does not depend on the type of the values.
    pub(crate) fn drawn(self) -> FilledForm<()> {
        FilledForm {
            values: (),
            pairs: self.pairs,
            faults: self.faults,
        }
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.faults.status()
    }

    /// Returns all errors, to be shown above the fields; `None` if there are none. Must be called after the fields are
    /// drawn, since drawing a field assigns its errors to it.
    pub(crate) fn problem(&self) -> Option<FormProblem> {
        self.faults.told()
    }

    pub(crate) fn value(&self, name: &str) -> &str {
        let mut pairs = self.pairs.iter();
        let found = pairs.find(|(field, _)| field == name);
        found.map_or("", |(_, value)| value)
    }

    /// Reports whether any of these fields is filled in, or the form has errors.
    pub(crate) fn fills(&self, names: &[&str]) -> bool {
        !self.faults.is_empty() || names.iter().any(|name| !self.value(name).is_empty())
    }

    /// Returns the moment in a field in the format of `<input type="datetime-local">`, in the reader's time zone; a
    /// text that is not a moment is returned unchanged.
    pub(crate) fn moment(&self, name: &str) -> String {
        let (zone, text) = (&PageReader::current().zone, self.value(name));
        let at = zone.moment(text);
        at.map_or_else(|| text.to_owned(), |at| zone.typed(at))
    }

    /// Returns the errors of a field that is about to be drawn, and assigns them to it; empty if there are none.
    pub(crate) fn field(&self, name: &str, label: impl Display, _: &str, _: &str) -> String {
        self.faults.at(name, name, &label.to_string())
    }

    /// Returns no further help for a field: the template has all of it. The macros call this method, and
    /// [`FilledForm::chose`] for a chosen option, since other types of forms return something.
    pub(crate) fn help(&self, _: &str) -> &'static str {
        ""
    }

    pub(crate) fn chose(&self, _: impl Display) -> &'static str {
        ""
    }

    pub(crate) fn is(&self, name: &str, value: impl AsRef<str>) -> bool {
        self.value(name) == value.as_ref()
    }

    pub(crate) fn pairs(&self) -> Vec<(&str, String)> {
        let pairs = self.pairs.iter();
        pairs
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Wish {
        name: String,
        #[serde(rename = "type")]
        kind: String,
        labels: Vec<String>,
    }

    #[test]
    fn a_form_is_read_and_written_by_its_struct() {
        let sent = [
            ("type", "a&b *"),
            ("labels", "x"),
            ("labels", "y"),
            ("other", "1"),
        ];
        let form = FilledForm::<Wish>::sent(&Form::of_pairs(sent.iter()));
        assert_eq!(form.values.labels, ["x", "y"]);
        assert_eq!((form.value("type"), form.value("name")), ("a&b *", ""));
        assert_eq!(form.pairs().len(), 3, "{form:?}");
        let form = form.with_faults([FormError::of("type", "no"), FormError::whole("never")]);
        assert_eq!(
            (
                form.field("type", "Type", "", ""),
                form.field("name", "Name", "", "")
            ),
            ("no".to_owned(), String::new())
        );
        let problem = form.problem().expect("something is wrong").to_string();
        assert!(
            problem.contains("Correct 1 field: <a href=\"#type\">Type</a>."),
            "{problem}"
        );
    }
}
