//! The form that makes and changes namespaces. It is turned into the document that the management API
//! takes, so both have the same checks.

use serde_json::{Value, json};

use crate::admin::forms::form_page::FormPage;
use crate::admin::forms::rows::{self, Part, Row, RowSection, part, section};
use crate::admin::page::*;
use crate::admin::paths::namespace_page;
use crate::broker::ManageError;
use crate::model::limits::THROUGHPUT_UNITS_MAX;
use crate::model::name::NamespaceName;
use crate::model::namespace::NamespaceDefinition;
use crate::model::registry::NamespaceEntry;
use crate::wire::resource;

const RULES: &str = "inboundIpRules";

const NAME: RowSection = section(
    "Name",
    &[part(
        "",
        &[Row::line("name", "Name")
            .apart()
            .mono()
            .required()
            .hint("3 to 50 letters, digits and hyphens, such as shop. It is part of the URL.")],
    )],
);
const SIZE: RowSection = section(
    "Size",
    &[part(
        "sku",
        &[Row::whole("capacity", "Throughput units")
            .range(1, THROUGHPUT_UNITS_MAX)
            .hint("Each adds room for topics; they bound nothing else here.")],
    )],
);
const NETWORK: RowSection = section(
    "Network",
    &[part(
        "properties",
        &[
            Row::choice(
                "publicNetworkAccess",
                "Publish and receive",
                &[
                    ("Enabled", "Allowed"),
                    ("Disabled", "Rejected for everybody"),
                ],
            ),
            Row::lines(RULES, "From these networks alone", 3).hint(
                "One address or network per line, such as 10.1.0.0/16. Empty allows every address.",
            ),
        ],
    )],
);
const TAGS: Part = part(
    "",
    &[Row::pairs("tags", "Tags", 2, "=")
        .hint("One per line, such as team=billing. Shown, without meaning here.")],
);
const LOCATION: Part = part(
    "",
    &[Row::line("location", "Location")
        .mono()
        .hint("Azure's region; shown to clients that ask for it, without meaning here.")],
);
const NEW: &[RowSection] = &[NAME, SIZE, NETWORK, section("Notes", &[TAGS, LOCATION])];
const CHANGE: &[RowSection] = &[SIZE, NETWORK, section("Notes", &[TAGS])];

/// The empty form.
pub(crate) async fn draft(visitor: Visitor) -> Response {
    draw_new(&visitor, &blank(), None)
}

fn blank() -> Form {
    Form::of([
        ("location", "local".to_owned()),
        ("capacity", "1".to_owned()),
    ])
}

/// Makes the namespace.
pub(crate) async fn create(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let is_taken = |name: &NamespaceName| site.broker.registry().namespace(name).is_some();
    let name = rows::new_name(&form, "a namespace", NamespaceName::parse, is_taken);
    let (name, definition) = match rows::both(name, read_new(&form)) {
        Ok(read) => read,
        Err(refusals) => return Ok(draw_new(&visitor, &form, refusals)),
    };
    match site
        .broker
        .put_namespace(&visitor.caller, name, definition)
        .await
    {
        Ok(entry) => flash_and_show(&visitor, &entry, "created").await,
        Err(error @ ManageError::TooManyNamespaces) => {
            let refusal = Refusal::whole(sentence(&error.to_string()));
            Ok(draw_new(&visitor, &form, Some(refusal)))
        }
        Err(error) => Err(error.into()),
    }
}

/// The form with the present definition in it.
pub(crate) async fn edit(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
) -> PageResult {
    let entry = site.namespace(&name)?;
    let form = form_of(resource::render_namespace(&entry, ""));
    Ok(draw_change(&visitor, &entry, &form, None))
}

/// Changes the namespace.
pub(crate) async fn change(
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let entry = site.namespace(&name)?;
    let name = entry.namespace.name.clone();
    let patch = |current: &NamespaceDefinition| {
        let patch = |document| resource::patch_namespace(current, &with_rules(document));
        rows::read(CHANGE, &form, patch).map_err(NoChange::Refused)
    };
    match site
        .broker
        .patch_namespace(&visitor.caller, name, patch)
        .await
    {
        Ok(entry) => flash_and_show(&visitor, &entry, "changed").await,
        Err(NoChange::Refused(refusals)) => Ok(draw_change(&visitor, &entry, &form, refusals)),
        Err(NoChange::Failed(error)) => Err(error),
    }
}

/// Why a namespace stays as it is.
enum NoChange {
    Refused(Vec<Refusal>),
    Failed(PageError),
}

impl From<ManageError> for NoChange {
    fn from(error: ManageError) -> Self {
        Self::Failed(error.into())
    }
}

fn read_new(form: &Form) -> Result<NamespaceDefinition, Vec<Refusal>> {
    let parse = |document| resource::parse_namespace(&with_rules(document));
    rows::read(NEW, form, parse)
}

/// The document with what the form says in one word: each network is allowed.
fn with_rules(mut document: Value) -> Value {
    document["sku"]["name"] = json!("Standard");
    let networks = document["properties"][RULES]
        .as_array()
        .into_iter()
        .flatten();
    let rules = networks.map(|mask| json!({ "ipMask": mask, "action": "Allow" }));
    document["properties"][RULES] = rules.collect();
    document
}

fn form_of(mut document: Value) -> Form {
    let rules = document["properties"][RULES]
        .as_array()
        .into_iter()
        .flatten();
    let networks = rules.map(|rule| rule["ipMask"].clone());
    document["properties"][RULES] = networks.collect();
    rows::form_of(CHANGE, &document)
}

async fn flash_and_show(visitor: &Visitor, entry: &NamespaceEntry, what: &str) -> PageResult {
    let name = &entry.namespace.name;
    let message = format!("Namespace {name} has been {what}.");
    visitor
        .leave(Flash::done(message), &namespace_page(name.as_str()))
        .await
}

fn draw_new(
    visitor: &Visitor,
    form: &Form,
    refusals: impl IntoIterator<Item = Refusal>,
) -> Response {
    let page = FormPage {
        intro: "A namespace holds topics of CloudEvents that share two keys and rules of the \
                network. Their events are sent to webhooks, or wait for receivers that pull."
            .to_owned(),
        sections: rows::fields(NEW, form),
        button: "Create namespace",
        back: "/admin/namespaces".to_owned(),
    };
    page.draw(Frame::new(visitor, "New namespace"), refusals)
}

fn draw_change(
    visitor: &Visitor,
    entry: &NamespaceEntry,
    form: &Form,
    refusals: impl IntoIterator<Item = Refusal>,
) -> Response {
    let name = entry.namespace.name.as_str();
    let page = FormPage {
        intro: "What is changed holds for the next request; events that are stored stay."
            .to_owned(),
        sections: rows::fields(CHANGE, form),
        button: "Save changes",
        back: namespace_page(name),
    };
    let frame = Frame::new(visitor, format!("Edit namespace {name}"));
    page.draw(frame, refusals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &[(&str, &str)]) -> Result<NamespaceDefinition, Vec<Refusal>> {
        let local = [("location", "local")];
        read_new(&Form::of_pairs(local.iter().chain(fields)))
    }

    #[test]
    fn what_is_wrong_is_told_by_its_field() {
        for (path, value) in [
            ("sku.capacity", "0"),
            ("sku.capacity", "41"),
            ("sku.capacity", "many"),
            ("properties.publicNetworkAccess", "Perhaps"),
            ("properties.inboundIpRules", "10.0.0.0/8\nhome"),
            ("tags", "team"),
        ] {
            let field = path.rsplit('.').next().unwrap_or_default();
            let refusals = read(&[(field, value)]).expect_err(value);
            assert!(
                refusals[0].closeness(path) > 1,
                "{path} = {value}: {refusals:?}"
            );
        }
    }

    #[test]
    fn a_definition_comes_from_its_form() {
        let fields = [
            ("capacity", "3"),
            ("publicNetworkAccess", "Disabled"),
            (RULES, " 10.0.0.0/8 \n\n192.0.2.7"),
            ("tags", "a = b=c\nd="),
        ];
        let definition = read(&fields).expect("a definition");
        assert_eq!(definition.capacity, 3);
        assert_eq!(
            (definition.tags["a"].as_str(), definition.tags["d"].as_str()),
            ("b=c", "")
        );
        assert_eq!(definition.network_access.allowed.len(), 2);
    }
}
