//! Documents: what PUT and PATCH make of a request, and the form in which the store keeps it.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::InvalidResource;
use super::reader::{self, Before};
use super::rules::Context;
use super::secret::reveal;

/// Reads the body of a request.
pub(super) fn read<T>(body: &Value, context: &Context<'_>) -> Result<T, InvalidResource>
where
    T: DeserializeOwned + JsonSchema + 'static,
{
    typed::<T>(body, Before::Nothing, context)
}

/// Reads the body of a request that depends on nothing else.
pub fn read_body<T>(body: &Value) -> Result<T, InvalidResource>
where
    T: DeserializeOwned + JsonSchema + 'static,
{
    read(body, &Context::NONE)
}

/// Reads the body of a PUT; the secrets of what it replaces need not be given again.
pub(super) fn put<D>(
    body: &Value,
    replaced: Option<&D>,
    context: &Context<'_>,
) -> Result<D, InvalidResource>
where
    D: Serialize + DeserializeOwned + JsonSchema + 'static,
{
    let replaced = replaced.map(written);
    typed(
        body,
        replaced.as_ref().map_or(Before::Nothing, Before::Replaced),
        context,
    )
}

/// Applies the body of a PATCH. It replaces single properties of the objects at the paths `merged`, and
/// the others as a whole; `null` restores the default.
pub(super) fn patch<D>(
    current: &D,
    body: &Value,
    context: &Context<'_>,
    merged: &[&str],
) -> Result<D, InvalidResource>
where
    D: Serialize + DeserializeOwned + JsonSchema + 'static,
{
    typed(body, Before::Updated(&written(current), merged), context)
}

fn typed<T>(body: &Value, before: Before<'_>, context: &Context<'_>) -> Result<T, InvalidResource>
where
    T: DeserializeOwned + JsonSchema + 'static,
{
    let read = reader::read::<T>(body, before, context);
    let read = read.map_err(|faults| InvalidResource { faults })?;
    // The schema must not permit what the type does not take; a test looks for that.
    serde_json::from_value(read).map_err(|_| InvalidResource::of("", "it cannot be read"))
}

/// The form in which the store keeps a document, secrets included.
pub(super) fn to_text(document: &impl Serialize) -> String {
    written(document).to_string()
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

/// Whether a stored document has the property `name` among its `properties`.
pub(super) fn has_property(text: &str, name: &str) -> bool {
    let document: Option<Value> = serde_json::from_str(text).ok();
    document.is_some_and(|document| document["properties"].get(name).is_some())
}
