//! Forms that were sent: their fields as texts, and what is wrong with them.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::Value;

use crate::admin::error::PageError;
use crate::admin::widgets::print::sentence;
use crate::wire::resource::{Fault, InvalidResource};

/// Fields of one form; ours have far fewer.
const FIELDS_MAX: usize = 200;

/// Elements of a list in a form, each of which has a few fields.
pub(crate) const ELEMENTS_MAX: usize = FIELDS_MAX;

/// The fields of a form. Whether it came from one of our pages is not said; see
/// [`Submitted`](crate::admin::security::csrf::Submitted).
#[derive(Clone, Debug, Default)]
pub(crate) struct Form {
    fields: Vec<(String, String)>,
}

impl Form {
    /// A form that nobody has sent, with these values in it.
    pub(crate) fn of<const N: usize>(fields: [(&str, String); N]) -> Self {
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        Self {
            fields: fields.into(),
        }
    }

    /// Fills the field in, whatever stood there.
    pub(crate) fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let name = name.into();
        self.remove(&name);
        self.fields.push((name, value.into()));
    }

    #[cfg(test)]
    pub(crate) fn of_pairs<'a>(pairs: impl Iterator<Item = &'a (&'a str, &'a str)>) -> Self {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self {
            fields: pairs.map(own).collect(),
        }
    }

    /// The fields that a browser has sent.
    pub(crate) fn read(headers: &HeaderMap, body: &Bytes) -> Result<Self, PageError> {
        let kind = headers.get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or("");
        if !kind.starts_with("application/x-www-form-urlencoded") {
            let problem = "This address takes forms as browsers send them, and nothing else.";
            return Err(PageError::Unreadable(problem.to_owned()));
        }
        let fields = url::form_urlencoded::parse(body).into_owned();
        Ok(Self {
            fields: fields.take(FIELDS_MAX).collect(),
        })
    }

    /// All fields in their order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.fields.iter();
        fields.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Takes the field out of the form.
    pub(crate) fn remove(&mut self, name: &str) {
        self.fields.retain(|(field, _)| field != name);
    }

    /// Takes an element out of a list, with all of its fields; later ones move up.
    pub(crate) fn remove_element(&mut self, list: &str, at: usize) {
        let place = |name: &str| {
            let (index, rest) = name
                .strip_prefix(list)?
                .strip_prefix('[')?
                .split_once(']')?;
            Some((index.parse::<usize>().ok()?, rest.to_owned()))
        };
        self.fields.retain_mut(|(name, _)| match place(name) {
            Some((index, rest)) if index > at => {
                *name = format!("{list}[{}]{rest}", index - 1);
                true
            }
            Some((index, _)) => index < at,
            None => true,
        });
    }

    /// Whether the form has the field, filled in or not.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields().any(|(field, _)| field == name)
    }

    /// The field's text as it was typed; empty where there is none.
    pub(crate) fn raw(&self, name: &str) -> &str {
        let mut fields = self.fields.iter();
        let found = fields.find(|(field, _)| field == name);
        found.map_or("", |(_, value)| value)
    }

    /// The field's text without white space around it.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.raw(name).trim()
    }

    /// The field's text; `None` where it was left empty.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// Whether a box was ticked.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.filled(name).is_some()
    }
}

impl Form {
    /// The field's text as a number where it is one; `null` where it was left empty. Anything else
    /// stays a text, for whoever knows what would be right to refuse.
    pub(crate) fn number(&self, name: &str) -> Value {
        number(self.text(name))
    }
}

impl Form {
    /// The same for a number with decimals.
    pub(crate) fn decimal(&self, name: &str) -> Value {
        match self.filled(name) {
            None => Value::Null,
            Some(text) => text
                .parse::<f64>()
                .map_or_else(|_| text.into(), Value::from),
        }
    }
}

/// The number that is typed; see [`Form::number`].
pub(crate) fn number(text: &str) -> Value {
    match text.trim() {
        "" => Value::Null,
        text => text
            .parse::<i64>()
            .map_or_else(|_| text.into(), Value::from),
    }
}

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        let headers = request.headers().clone();
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|error| PageError::Unreadable(error.body_text()))?;
        Self::read(&headers, &body)
    }
}

/// What is wrong with a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The name of the field at fault, or the path of a property that the field is a part of; empty
    /// for the form as a whole.
    pub(crate) target: String,
    pub(crate) problem: String,
}

impl Refusal {
    /// Something wrong with one field.
    pub(crate) fn of(target: &str, problem: impl Into<String>) -> Self {
        Self {
            target: target.to_owned(),
            problem: problem.into(),
        }
    }

    /// Something wrong that is no field's fault.
    pub(crate) fn whole(problem: impl Into<String>) -> Self {
        Self::of("", problem)
    }

    /// How well the field of the property at `path` fits: most of all the one at fault, then the closest that the
    /// fault lies in, then one that is a part of what is at fault.
    pub(crate) fn closeness(&self, path: &str) -> usize {
        match self.target.as_str() {
            "" => 0,
            target if lies_in(target, path) => 1 + path.len(),
            target => usize::from(lies_in(path, target)),
        }
    }
}

fn lies_in(inner: &str, outer: &str) -> bool {
    let rest = inner.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// What was parsed, or what could not be read with all that is wrong with the rest.
pub(crate) fn all_of<T>(
    mut unread: Vec<Refusal>,
    parsed: Result<T, Vec<Refusal>>,
) -> Result<T, Vec<Refusal>> {
    match parsed {
        Ok(parsed) if unread.is_empty() => return Ok(parsed),
        Ok(_) => {}
        Err(refusals) => unread.extend(refusals),
    }
    Err(unread)
}

/// Both, or all that is wrong with either.
pub(crate) fn both<A, B>(
    name: Result<A, Refusal>,
    second: Result<B, Vec<Refusal>>,
) -> Result<(A, B), Vec<Refusal>> {
    let (name, refused) = match name {
        Ok(name) => (Some(name), Vec::new()),
        Err(refusal) => (None, vec![refusal]),
    };
    let second = all_of(refused, second)?;
    name.map(|name| (name, second)).ok_or_else(Vec::new)
}

/// All that the management API has against a document.
pub(crate) fn refusals(invalid: &InvalidResource) -> Vec<Refusal> {
    let faults = invalid.faults.iter();
    let refusal = |Fault { path, problem }: &Fault| Refusal::of(path, sentence(problem));
    faults.map(refusal).collect()
}

impl From<InvalidResource> for Refusal {
    /// What the management API has against a document; the first of its faults.
    fn from(invalid: InvalidResource) -> Self {
        let Fault { path, problem } = invalid.first();
        Self::of(path, sentence(problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_finds_its_field() {
        let refusal = Refusal::of("filter.advancedFilters[2].values[0]", "no number");
        for (path, closeness) in [
            ("filter.advancedFilters[2].values[0]", 36),
            ("filter.advancedFilters[2].values", 33),
            ("filter.advancedFilters", 23),
            ("filter.advancedFilters[1].values", 0),
            ("filter.advancedFilters[2].values[0].more", 1),
            ("advancedFilters", 0),
        ] {
            assert_eq!(refusal.closeness(path), closeness, "{path}");
        }
        assert_eq!(Refusal::whole("no").closeness("name"), 0);
    }

    #[test]
    fn a_field_that_is_set_again_has_one_value() {
        let mut form = Form::of([("a", "1".to_owned()), ("b", "2".to_owned())]);
        form.set("a", "3");
        assert_eq!((form.text("a"), form.text("b")), ("3", "2"));
    }
}
