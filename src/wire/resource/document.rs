//! Documents: what PUT and PATCH make of a request, and the form in which the store keeps it.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::InvalidResource;
use super::as_written::{self, AnswerScope};
use super::envelope::Envelope;
use super::reader::{self, Before};
use super::rules::Context;
use super::secret::reveal;
use crate::model::as_written::AsWritten;

/// Reads the body of a request.
pub(super) fn read<T>(body: &Value, context: &Context<'_>) -> Result<T, InvalidResource>
where
    T: DeserializeOwned + JsonSchema + 'static,
{
    let read = reader::read::<T>(body, Before::Nothing, context);
    typed(read.map_err(|faults| InvalidResource { faults })?)
}

/// Reads the body of a request that depends on nothing else.
pub fn read_body<T>(body: &Value) -> Result<T, InvalidResource>
where
    T: DeserializeOwned + JsonSchema + 'static,
{
    read(body, &Context::NONE)
}

/// A document that was read, and as it was written.
pub(super) struct Authored<D> {
    pub(super) document: D,
    /// Without secrets.
    pub(super) own: Value,
}

impl<D> Authored<D> {
    /// Changes the document alone.
    pub(super) fn map<E>(self, change: impl FnOnce(D) -> E) -> Authored<E> {
        Authored {
            document: change(self.document),
            own: self.own,
        }
    }
}

impl<P> Authored<Envelope<P>> {
    /// The properties alone.
    pub(super) fn properties(mut self) -> Authored<P> {
        Authored {
            document: self.document.properties,
            own: self.own["properties"].take(),
        }
    }
}

/// Reads the body of a PUT; the secrets of what it replaces need not be given again.
pub(super) fn put<D>(
    body: &Value,
    replaced: Option<&D>,
    context: &Context<'_>,
) -> Result<Authored<D>, InvalidResource>
where
    D: Serialize + DeserializeOwned + JsonSchema + 'static,
{
    let former = replaced.map(written);
    authored(
        body,
        former.as_ref().map_or(Before::Nothing, Before::Replaced),
        context,
    )
}

/// Applies the body of a PATCH. It replaces single properties of the objects at the paths `merged`, and
/// the others as a whole; `null` restores the default.
pub(super) fn patch<D>(
    current: &Authored<D>,
    body: &Value,
    context: &Context<'_>,
    merged: &[&str],
) -> Result<Authored<D>, InvalidResource>
where
    D: Serialize + DeserializeOwned + JsonSchema + 'static,
{
    let whole = written(&current.document);
    let schema = reader::schema_of::<D>();
    let current = as_written::answer(whole, &current.own, schema, AnswerScope::Set);
    authored(body, Before::Updated(&current, merged), context)
}

fn authored<D>(
    body: &Value,
    before: Before<'_>,
    context: &Context<'_>,
) -> Result<Authored<D>, InvalidResource>
where
    D: Serialize + DeserializeOwned + JsonSchema + 'static,
{
    let read =
        reader::read::<D>(body, before, context).map_err(|faults| InvalidResource { faults })?;
    let document: D = typed(read.clone())?;
    let own = as_written::without_secrets(read, &json!(document), reader::schema_of::<D>());
    Ok(Authored {
        document,
        own: own.unwrap_or_default(),
    })
}

fn typed<T: DeserializeOwned>(read: Value) -> Result<T, InvalidResource> {
    // The schema must not permit what the type does not take; a test looks for that.
    serde_json::from_value(read).map_err(|_| InvalidResource::of("", "it cannot be read"))
}

/// The form in which the store keeps a document, secrets included.
pub(super) fn to_text(document: &impl Serialize) -> String {
    written(document).to_string()
}

/// The form in which the store keeps a document with the text of its author.
pub(super) fn to_authored_text(document: &impl Serialize, as_written: &AsWritten) -> String {
    let mut stored = written(document);
    if let Some(own) = &as_written.0 {
        stored[AS_WRITTEN] = json!(own);
    }
    stored.to_string()
}

/// The property of stored documents that has the text of the author.
const AS_WRITTEN: &str = "asWritten";

/// Reads what [`to_authored_text`] wrote, whatever the rules for new documents have become.
pub(super) fn from_authored_text<D: DeserializeOwned>(
    text: &str,
) -> Result<Authored<D>, InvalidResource> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct WithAuthor {
        as_written: Option<Box<str>>,
    }
    let document = from_text(text)?;
    let WithAuthor { as_written } = from_text(text)?;
    let own = as_written::from_text(&AsWritten(as_written.map(Into::into)));
    Ok(Authored { document, own })
}

/// A document with its secrets.
pub(super) fn written(document: &impl Serialize) -> Value {
    reveal(|| json!(document))
}

/// Reads what [`to_text`] wrote, whatever the rules for new documents have become.
pub(super) fn from_text<D: DeserializeOwned>(text: &str) -> Result<D, InvalidResource> {
    let read = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text));
    // Serde quotes the value that it does not take, which may be a secret.
    read.map_err(|error| {
        InvalidResource::of(
            &error.path().to_string(),
            "the stored definition cannot be read",
        )
    })
}

/// Reports whether a stored document has the property `name` among its `properties`.
pub(super) fn has_property(text: &str, name: &str) -> bool {
    let document: Option<Value> = serde_json::from_str(text).ok();
    document.is_some_and(|document| document["properties"].get(name).is_some())
}
