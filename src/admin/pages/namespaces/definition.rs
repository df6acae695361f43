//! The form that makes and changes namespaces. It is turned into the document that the management API
//! takes, so both have the same checks.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::{Map, Value, json};

use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::faults;
use crate::admin::forms::field::{Field, Section};
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::forms::form_page::FormPage;
use crate::admin::frame::Frame;
use crate::admin::paths::namespace_page;
use crate::admin::security::csrf::Submitted;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::Flash;
use crate::admin::widgets::print::sentence;
use crate::broker::ManageError;
use crate::model::limits::{INBOUND_IP_RULES_MAX, THROUGHPUT_UNITS_MAX, TOPICS_PER_UNIT_MAX};
use crate::model::name::NamespaceName;
use crate::model::namespace::NamespaceDefinition;
use crate::model::registry::NamespaceEntry;
use crate::wire::resource;

const NETWORK: &str = "publicNetworkAccess";
const RULES: &str = "inboundIpRules";

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
    let (name, definition) = match read_new(&site, &form) {
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
    let form = form_of(&entry.namespace.definition);
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
        let patch = |form: &Form| {
            resource::patch_namespace(current, &document(form)?).map_err(Refusal::from)
        };
        faults::gather(&form, &blank(), patch).map_err(NoChange::Refused)
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

fn read_new(
    site: &Site,
    form: &Form,
) -> Result<(NamespaceName, NamespaceDefinition), Vec<Refusal>> {
    let definition = faults::gather(form, &blank(), definition);
    faults::both(new_name(site, form), definition)
}

fn new_name(site: &Site, form: &Form) -> Result<NamespaceName, Refusal> {
    let name = NamespaceName::parse(form.text("name"));
    let name = name.map_err(|error| Refusal::of("name", sentence(&error.to_string())))?;
    match site.broker.registry().namespace(&name) {
        None => Ok(name),
        Some(_) => {
            let problem = format!("There is a namespace {name} already.");
            Err(Refusal::of("name", problem))
        }
    }
}

fn definition(form: &Form) -> Result<NamespaceDefinition, Refusal> {
    let mut document = document(form)?;
    document["location"] = json!(form.text("location"));
    resource::parse_namespace(&document).map_err(Refusal::from)
}

/// The body of the request that the form stands for.
fn document(form: &Form) -> Result<Value, Refusal> {
    let rules = lines(form, RULES);
    let rules: Vec<Value> = rules
        .map(|mask| json!({ "ipMask": mask, "action": "Allow" }))
        .collect();
    Ok(json!({
        "tags": tags(form)?,
        "sku": { "name": "Standard", "capacity": form.number("capacity") },
        "properties": { NETWORK: form.filled(NETWORK), RULES: rules },
    }))
}

fn tags(form: &Form) -> Result<Map<String, Value>, Refusal> {
    let mut tags = Map::new();
    for line in lines(form, "tags") {
        let problem = || format!("{line:?} is no tag: write its name, = and its value.");
        let (name, value) = line
            .split_once('=')
            .ok_or_else(|| Refusal::of("tags", problem()))?;
        tags.insert(name.trim().to_owned(), json!(value.trim()));
    }
    Ok(tags)
}

fn lines<'a>(form: &'a Form, name: &str) -> impl Iterator<Item = &'a str> {
    let lines = form.raw(name).lines().map(str::trim);
    lines.filter(|line| !line.is_empty())
}

fn form_of(definition: &NamespaceDefinition) -> Form {
    let network = &definition.network_access;
    let rules: Vec<String> = network.allowed.iter().map(ToString::to_string).collect();
    let tags = definition.tags.iter();
    let tags: Vec<String> = tags
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let access = if network.disabled {
        "Disabled"
    } else {
        "Enabled"
    };
    Form::of([
        ("capacity", definition.capacity.to_string()),
        (NETWORK, access.to_owned()),
        (RULES, rules.join("\n")),
        ("tags", tags.join("\n")),
    ])
}

async fn flash_and_show(visitor: &Visitor, entry: &NamespaceEntry, what: &str) -> PageResult {
    let name = &entry.namespace.name;
    let message = format!("Namespace {name} has been {what}.");
    visitor.flash(Flash::done(message)).await?;
    Ok(Redirect::to(&namespace_page(name.as_str())).into_response())
}

fn draw_new(
    visitor: &Visitor,
    form: &Form,
    refusals: impl IntoIterator<Item = Refusal>,
) -> Response {
    let name = Field::line("name", "Name", form)
        .hint("3 to 50 letters, digits and hyphens, such as shop. It is part of the URL.")
        .mono()
        .required();
    let location = Field::line("location", "Location", form)
        .hint("Azure's region; shown to clients that ask for it, without meaning here.")
        .mono();
    let [namespace, network, mut notes] = sections(form);
    notes.fields.push(location);
    let named = Section {
        title: "Name",
        fields: vec![name],
    };
    let page = FormPage {
        intro: "A namespace holds topics of CloudEvents that share two keys and rules of the \
                network. Their events are sent to webhooks, or wait for receivers that pull."
            .to_owned(),
        sections: vec![named, namespace, network, notes],
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
        sections: sections(form).into(),
        button: "Save changes",
        back: namespace_page(name),
    };
    let frame = Frame::new(visitor, format!("Edit namespace {name}"));
    page.draw(frame, refusals)
}

fn sections(form: &Form) -> [Section; 3] {
    let capacity = Field::number("capacity", "Throughput units", form).hint(format!(
        "1 to {THROUGHPUT_UNITS_MAX}. Each has room for {TOPICS_PER_UNIT_MAX} topics; they bound \
         nothing else here."
    ));
    let network = Field::choice(
        NETWORK,
        "Publish and receive",
        &[
            ("Enabled", "Allowed"),
            ("Disabled", "Rejected for everybody"),
        ],
        form,
    );
    let rules = Field::area(RULES, "From these networks alone", 3, form).hint(format!(
        "One address or network per line, such as 10.1.0.0/16, {INBOUND_IP_RULES_MAX} at most. \
         Empty allows every address."
    ));
    let tags = Field::area("tags", "Tags", 2, form)
        .hint("One per line, such as team=billing. Shown, without meaning here.");
    [
        Section {
            title: "Size",
            fields: vec![capacity],
        },
        Section {
            title: "Network",
            fields: vec![network, rules],
        },
        Section {
            title: "Notes",
            fields: vec![tags],
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &[(&str, &str)]) -> Result<NamespaceDefinition, Refusal> {
        let form = Form::of_pairs(fields.iter());
        let mut document = document(&form)?;
        document["location"] = json!("local");
        resource::parse_namespace(&document).map_err(Refusal::from)
    }

    #[test]
    fn what_is_wrong_is_told_by_its_field() {
        for (field, value) in [
            ("capacity", "0"),
            ("capacity", "41"),
            ("capacity", "many"),
            (NETWORK, "Perhaps"),
            (RULES, "10.0.0.0/8\nhome"),
            ("tags", "team"),
        ] {
            let refusal = read(&[(field, value)]).expect_err(value);
            assert!(refusal.is_about(field), "{field} = {value}: {refusal:?}");
        }
    }

    #[test]
    fn a_definition_comes_back_from_its_form() {
        let definition = read(&[
            ("capacity", "3"),
            (NETWORK, "Disabled"),
            (RULES, " 10.0.0.0/8 \n\n192.0.2.7"),
            ("tags", "a = b=c\nd="),
        ])
        .expect("a definition");
        assert_eq!(definition.capacity, 3);
        assert_eq!(definition.tags["a"], "b=c");
        let document = document(&form_of(&definition)).expect("a document");
        let again = resource::patch_namespace(&definition, &document).map_err(Refusal::from);
        assert_eq!(again, Ok(definition));
    }
}
