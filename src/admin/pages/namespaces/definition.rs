//! The form that makes and changes namespaces.

use super::*;
use crate::model::namespace::NamespaceDefinition;
use crate::wire::resource::bodies::NamespaceRequest;
use crate::wire::resource::{namespace_to_text, parse_namespace, patch_namespace};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct NamespaceForm(Form);

impl Sheet<()> for NamespaceForm {
    const HEAD: Head = (Fields::Namespace, "New namespace", LIST);

    fn begin(_: &Call) -> PageResult<Self> {
        Ok(Self(Form::of([("location", "local"), ("capacity", "1")])))
    }

    async fn save(&self, call: &Call) -> PageResult {
        let is_taken = |name: &NamespaceName| call.broker.registry().namespace(name).is_some();
        let (parse, definition) = (NamespaceName::parse, self.read(parse_namespace));
        let (name, definition) = named(&self.0, "a namespace", parse, is_taken, definition)?;
        let put = call.broker.put_namespace(call.by(), name, definition);
        tell(call, &put.await?, "created").await
    }
}

impl Sheet<Arc<NamespaceEntry>> for NamespaceForm {
    const HEAD: Head = (Fields::Namespace, "Edit namespace", "");

    fn begin(call: &Call<Arc<NamespaceEntry>>) -> PageResult<Self> {
        Ok(Self::of(&call.of.namespace.definition))
    }

    async fn save(&self, call: &Call<Arc<NamespaceEntry>>) -> PageResult {
        let name = call.of.namespace.name.clone();
        let patch = |current: &NamespaceDefinition| {
            let patched = self.read(|document| patch_namespace(current, document));
            patched.map_err(PageError::from)
        };
        let patched = call.broker.patch_namespace(call.by(), name, patch);
        tell(call, &patched.await?, "changed").await
    }
}

async fn tell<S>(call: &Call<S>, entry: &Arc<NamespaceEntry>, what: &str) -> PageResult {
    let said = format!("Namespace {} has been {what}.", entry.namespace.name);
    call.visitor.leave(Flash::done(said), &entry.page()).await
}

impl NamespaceForm {
    fn of(definition: &NamespaceDefinition) -> Self {
        let document = serde_json::from_str(&namespace_to_text(definition));
        Self(Shape::of::<NamespaceRequest>().form(&document.unwrap_or_default()))
    }

    /// Returns the namespace that `parse` reads from the document of the form, or everything that is wrong with the
    /// form.
    fn read(
        &self,
        parse: impl FnOnce(&Value) -> Result<NamespaceDefinition, InvalidResource>,
    ) -> Result<NamespaceDefinition, Vec<FormError>> {
        // What is left empty goes back to nothing.
        let blank = json!({
            "tags": {},
            "sku": { "name": "Standard", "capacity": null },
            "properties": { "publicNetworkAccess": null, "inboundIpRules": [] },
        });
        Shape::of::<NamespaceRequest>().define(&self.0, blank, parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_by_its_field() {
        for (field, value) in [
            ("capacity", "0"),
            ("capacity", "41"),
            ("capacity", "many"),
            ("publicNetworkAccess", "Perhaps"),
            ("inboundIpRules", "10.0.0.0/8\nhome"),
            ("tags", "team"),
        ] {
            let form = Form::of([("location", "local"), (field, value)]);
            let form = Filled::<NamespaceForm>::sent(&form);
            let form_errors = form.values.read(parse_namespace).expect_err(value);
            assert!(
                form_errors[0].fits(field),
                "{field} = {value}: {form_errors:?}"
            );
        }
    }

    #[test]
    fn a_definition_comes_from_its_form_and_makes_it_again() {
        let form = NamespaceForm(Form::of([
            ("location", "local"),
            ("capacity", "3"),
            ("publicNetworkAccess", "Disabled"),
            ("inboundIpRules", " 10.0.0.0/8 \n\n192.0.2.7"),
            ("tags", "a = b=c\nd="),
        ]));
        let definition = form.read(parse_namespace).expect("a definition");
        assert_eq!(definition.capacity, 3);
        assert_eq!(
            (definition.tags["a"].as_str(), definition.tags["d"].as_str()),
            ("b=c", "")
        );
        assert_eq!(definition.network_access.allowed.len(), 2);
        let again = NamespaceForm::of(&definition);
        let again = again.read(|document| patch_namespace(&definition, document));
        let in_same_words = again.map(|again| NamespaceDefinition {
            as_written: definition.as_written.clone(),
            ..again
        });
        assert_eq!(in_same_words, Ok(definition));
    }
}
