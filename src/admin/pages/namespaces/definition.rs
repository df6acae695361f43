//! The form that makes and changes namespaces. It is turned into the document that the management API
//! takes, so both have the same checks.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::admin::forms::document::{pairs, words};
use crate::admin::forms::form::{all_of, both, number};
use crate::admin::forms::sheet::{named, of_fields};
use crate::admin::lists::filter::given;
use crate::admin::page::*;
use crate::model::name::NamespaceName;
use crate::model::namespace::NamespaceDefinition;
use crate::model::registry::NamespaceEntry;
use crate::wire::resource::{InvalidResource, parse_namespace, patch_namespace};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NamespaceForm {
    /// With the location, of a new one alone.
    name: String,
    location: String,
    capacity: String,
    public_network_access: String,
    inbound_ip_rules: String,
    tags: String,
}

#[derive(Template)]
#[template(path = "pages/namespace_form.html")]
struct NamespaceFormPage {
    frame: Frame,
    form: Filled<NamespaceForm>,
    back: String,
    is_new: bool,
}

/// A new one.
impl Sheet<()> for NamespaceForm {
    fn begin(_: &Call) -> PageResult<Self> {
        Ok(Self {
            location: "local".to_owned(),
            capacity: "1".to_owned(),
            ..Self::default()
        })
    }

    fn page(call: &Call, form: Filled<Self>) -> impl Template {
        NamespaceFormPage {
            frame: Frame::new(&call.visitor, "New namespace"),
            form,
            back: "/admin/namespaces".to_owned(),
            is_new: true,
        }
    }

    async fn save(&self, call: &Call) -> Result<Response, Refused> {
        let is_taken = |name: &NamespaceName| call.broker.registry().namespace(name).is_some();
        let name = named(&self.name, "a namespace", NamespaceName::parse, is_taken);
        let (name, definition) = both(name, self.read(parse_namespace))?;
        let entry = call
            .broker
            .put_namespace(call.by(), name, definition)
            .await?;
        flash_and_show(&call.visitor, &entry, "created").await
    }
}

/// A change.
impl Sheet<Arc<NamespaceEntry>> for NamespaceForm {
    fn begin(call: &Call<Arc<NamespaceEntry>>) -> PageResult<Self> {
        Ok(Self::of(&call.of.namespace.definition))
    }

    fn page(call: &Call<Arc<NamespaceEntry>>, form: Filled<Self>) -> impl Template {
        let title = format!("Edit namespace {}", call.of.namespace.name);
        NamespaceFormPage {
            frame: Frame::new(&call.visitor, title),
            form,
            back: call.of.page(),
            is_new: false,
        }
    }

    async fn save(&self, call: &Call<Arc<NamespaceEntry>>) -> Result<Response, Refused> {
        let name = call.of.namespace.name.clone();
        let patch = |current: &NamespaceDefinition| {
            let patched = self.read(|document| patch_namespace(current, document));
            patched.map_err(Refused::Form)
        };
        let entry = call.broker.patch_namespace(call.by(), name, patch).await?;
        flash_and_show(&call.visitor, &entry, "changed").await
    }
}

async fn flash_and_show(
    visitor: &Visitor,
    entry: &Arc<NamespaceEntry>,
    what: &str,
) -> Result<Response, Refused> {
    let said = format!("Namespace {} has been {what}.", entry.namespace.name);
    Ok(visitor.leave(Flash::done(said), &entry.page()).await?)
}

impl NamespaceForm {
    fn of(definition: &NamespaceDefinition) -> Self {
        let networks = definition.network_access.allowed.iter();
        let networks: Vec<String> = networks.map(ToString::to_string).collect();
        let tags = definition.tags.iter();
        let tags: Vec<String> = tags
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let access = match definition.network_access.disabled {
            true => "Disabled",
            false => "Enabled",
        };
        Self {
            capacity: definition.capacity.to_string(),
            public_network_access: access.to_owned(),
            inbound_ip_rules: networks.join("\n"),
            tags: tags.join("\n"),
            ..Self::default()
        }
    }

    /// What `parse` makes of the document that the form stands for, or all that is wrong with it.
    fn read(
        &self,
        parse: impl FnOnce(&Value) -> Result<NamespaceDefinition, InvalidResource>,
    ) -> Result<NamespaceDefinition, Vec<Refusal>> {
        let networks = words(&self.inbound_ip_rules, '\n').into_iter();
        let allow = |mask| json!({ "ipMask": mask, "action": "Allow" });
        let tags = pairs(&self.tags, "=");
        let mut document = json!({
            "tags": tags.as_ref().ok(),
            "sku": { "name": "Standard", "capacity": number(&self.capacity) },
            "properties": {
                "publicNetworkAccess": given(&self.public_network_access),
                "inboundIpRules": networks.map(allow).collect::<Vec<_>>(),
            },
        });
        if let Some(location) = given(&self.location) {
            document["location"] = json!(location);
        }
        let unread = tags.err().map(|problem| Refusal::of("tags", problem));
        let parsed = parse(&document).map_err(|invalid| of_fields(&invalid));
        all_of(unread.into_iter().collect(), parsed)
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
            let form = Form::of([("location", "local".to_owned()), (field, value.to_owned())]);
            let form = Filled::<NamespaceForm>::sent(&form);
            let refusals = form.values.read(parse_namespace).expect_err(value);
            assert!(
                refusals[0].closeness(field) > 1,
                "{field} = {value}: {refusals:?}"
            );
        }
    }

    #[test]
    fn a_definition_comes_from_its_form_and_makes_it_again() {
        let form = NamespaceForm {
            location: "local".to_owned(),
            capacity: "3".to_owned(),
            public_network_access: "Disabled".to_owned(),
            inbound_ip_rules: " 10.0.0.0/8 \n\n192.0.2.7".to_owned(),
            tags: "a = b=c\nd=".to_owned(),
            ..NamespaceForm::default()
        };
        let definition = form.read(parse_namespace).expect("a definition");
        assert_eq!(definition.capacity, 3);
        assert_eq!(
            (definition.tags["a"].as_str(), definition.tags["d"].as_str()),
            ("b=c", "")
        );
        assert_eq!(definition.network_access.allowed.len(), 2);
        let again = NamespaceForm::of(&definition);
        let again = again.read(|document| patch_namespace(&definition, document));
        assert_eq!(again, Ok(definition));
    }
}
