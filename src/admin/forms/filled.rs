//! Typed forms: a struct with serde names the fields, the template's macros (`templates/forms.html`) draw them, and
//! what is wrong is said at each field, all of it at once.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::admin::forms::form::{Form, Refusal};
use crate::admin::reader::Reader;

/// A form with what is typed into it, and what is wrong with that.
#[derive(Clone, Debug)]
pub(crate) struct Filled<T> {
    pub(crate) values: T,
    /// The same, field by field.
    pairs: Vec<(String, String)>,
    faults: Vec<Refusal>,
}

impl<T: Serialize + DeserializeOwned + Default> Filled<T> {
    /// A form that is filled in with `values`. Fields that are left empty are none of it.
    pub(crate) fn with(values: T) -> Self {
        let text = serde_html_form::to_string(&values).unwrap_or_default();
        let pairs = url::form_urlencoded::parse(text.as_bytes()).into_owned();
        Self {
            values,
            pairs: pairs.filter(|(_, value)| !value.is_empty()).collect(),
            faults: Vec::new(),
        }
    }

    /// What a browser has sent. Fields that the struct does not have are left out.
    pub(crate) fn sent(form: &Form) -> Self {
        let mut text = url::form_urlencoded::Serializer::new(String::new());
        let text = text.extend_pairs(form.fields()).finish();
        Self::with(serde_html_form::from_str(&text).unwrap_or_default())
    }

    /// The same with what is wrong with it.
    pub(crate) fn with_faults(self, faults: impl IntoIterator<Item = Refusal>) -> Self {
        let faults = faults.into_iter().collect();
        Self { faults, ..self }
    }

    pub(crate) fn faults(&self) -> &[Refusal] {
        &self.faults
    }

    /// What is typed into a field.
    pub(crate) fn value(&self, name: &str) -> &str {
        let mut pairs = self.pairs.iter();
        let found = pairs.find(|(field, _)| field == name);
        found.map_or("", |(_, value)| value)
    }

    /// The moment that is typed into a field, as the browser's field for it has it.
    pub(crate) fn moment(&self, name: &str) -> String {
        let (zone, text) = (&Reader::current().zone, self.value(name));
        let at = zone.moment(text);
        at.map_or_else(|| text.to_owned(), |at| zone.typed(at))
    }

    /// What is wrong with a field.
    pub(crate) fn fault(&self, name: &str) -> Option<&str> {
        let mut faults = self.faults.iter();
        let found = faults.find(|fault| fault.closeness(name) > 0);
        found.map(|fault| fault.problem.as_str())
    }

    /// The fields that are filled in.
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
        let form = Filled::<Wish>::sent(&Form::of_pairs(sent.iter()));
        assert_eq!(form.values.labels, ["x", "y"]);
        assert_eq!((form.value("type"), form.value("name")), ("a&b *", ""));
        assert_eq!(form.pairs().len(), 3, "{form:?}");
        let form = form.with_faults([Refusal::of("type", "no"), Refusal::whole("never")]);
        assert_eq!((form.fault("type"), form.fault("name")), (Some("no"), None));
    }
}
