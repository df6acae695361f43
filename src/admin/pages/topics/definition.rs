//! The form that makes a topic. It is turned into the document that the management API takes, so both
//! have the same checks.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::{Value, json};

use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::faults;
use crate::admin::forms::field::{Field, Section};
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::forms::form_page::FormPage;
use crate::admin::frame::Frame;
use crate::admin::paths::topic_page;
use crate::admin::security::csrf::Submitted;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::Flash;
use crate::admin::widgets::print::sentence;
use crate::model::name::TopicName;
use crate::model::topic::TopicDefinition;
use crate::wire::resource;

const CUSTOM: &str = "CustomEventSchema";

const SCHEMAS: [(&str, &str); 3] = [
    ("EventGridSchema", "Event Grid"),
    ("CloudEventSchemaV1_0", "CloudEvents 1.0"),
    (CUSTOM, "Custom, with a mapping"),
];

/// What the field for the mapping shows before anything is typed.
const MAPPING_EXAMPLE: &str = r#"{
  "inputSchemaMappingType": "Json",
  "properties": {
    "id": { "sourceField": "id" },
    "eventType": { "sourceField": "kind", "defaultValue": "Unknown" },
    "subject": { "defaultValue": "/" },
    "dataVersion": { "defaultValue": "1.0" }
  }
}"#;

/// The empty form.
pub(crate) async fn draft(visitor: Visitor) -> Response {
    draw_form(&visitor, &blank(), Vec::new())
}

fn blank() -> Form {
    Form::of([
        ("location", "local".to_owned()),
        ("inputSchema", "EventGridSchema".to_owned()),
        ("inputSchemaMapping", MAPPING_EXAMPLE.to_owned()),
    ])
}

/// Makes the topic.
pub(crate) async fn create(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let (name, definition) = match read(&site, &form) {
        Ok(read) => read,
        Err(refusals) => return Ok(draw_form(&visitor, &form, refusals)),
    };
    site.broker
        .put_topic(&visitor.caller, name.clone(), definition)
        .await
        .map_err(PageError::from)?;
    let next = "Publish to its URL with one of its keys, and subscribe whoever wants its events.";
    visitor
        .flash(Flash::done(format!(
            "Topic {name} has been created. {next}"
        )))
        .await?;
    Ok(Redirect::to(&topic_page(name.as_str())).into_response())
}

fn read(site: &Site, form: &Form) -> Result<(TopicName, TopicDefinition), Vec<Refusal>> {
    let definition = faults::gather(form, &blank(), definition);
    faults::both(new_name(site, form), definition)
}

fn new_name(site: &Site, form: &Form) -> Result<TopicName, Refusal> {
    let name = TopicName::custom(form.text("name"));
    let name = name.map_err(|error| Refusal::of("name", sentence(&error.to_string())))?;
    match site.broker.registry().topic(&name) {
        None => Ok(name),
        Some(_) => {
            let problem = format!("There is a topic {name} already.");
            Err(Refusal::of("name", problem))
        }
    }
}

fn definition(form: &Form) -> Result<TopicDefinition, Refusal> {
    resource::parse_topic(&document(form)?).map_err(Refusal::from)
}

/// The body of the PUT that the form stands for.
fn document(form: &Form) -> Result<Value, Refusal> {
    let schema = form.text("inputSchema");
    let mut properties = json!({
        "inputSchema": form.filled("inputSchema"),
        "disableLocalAuth": form.is_on("disableLocalAuth"),
    });
    if schema == CUSTOM {
        properties["inputSchemaMapping"] = form.json("inputSchemaMapping")?;
    }
    Ok(json!({ "location": form.text("location"), "properties": properties }))
}

fn draw_form(visitor: &Visitor, form: &Form, refusals: Vec<Refusal>) -> Response {
    let sections = sections(form);
    let page = FormPage {
        intro: "A topic has a URL to publish to and two keys. What it takes in cannot be changed \
                later."
            .to_owned(),
        sections,
        button: "Create topic",
        back: "/admin/topics".to_owned(),
    };
    page.draw(Frame::new(visitor, "New topic"), refusals)
}

fn sections(form: &Form) -> Vec<Section> {
    let name = Field::line("name", "Name", form)
        .hint("3 to 50 letters, digits and hyphens, such as orders. It is part of the URL.")
        .mono()
        .required();
    let schema = Field::choice("inputSchema", "Input schema", &SCHEMAS, form)
        .hint("Event Grid is what Azure's clients send by default.");
    let mapping = Field::area("inputSchemaMapping", "Mapping of custom events", 9, form)
        .hint("Which properties of your events stand for which part, as JSON.")
        .only_for("only-custom");
    let local_auth = Field::tick("disableLocalAuth", "Reject keys and signatures", form)
        .hint("Then only the bearer of the management token can publish.");
    let location = Field::line("location", "Location", form)
        .hint("Azure's region; shown to clients that ask for it, without meaning here.")
        .mono();
    vec![
        Section {
            title: "Topic",
            fields: vec![name, schema, mapping],
        },
        Section {
            title: "For clients of Azure",
            fields: vec![location, local_auth],
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_becomes_the_document_of_the_api() {
        let form = Form::of([
            ("location", "local".to_owned()),
            ("inputSchema", "EventGridSchema".to_owned()),
            ("inputSchemaMapping", "left over".to_owned()),
        ]);
        let document = document(&form).expect("a document");
        assert!(resource::parse_topic(&document).is_ok(), "{document}");
    }

    #[test]
    fn the_example_of_a_mapping_is_taken() {
        let form = Form::of([
            ("location", "local".to_owned()),
            ("inputSchema", CUSTOM.to_owned()),
            ("inputSchemaMapping", MAPPING_EXAMPLE.to_owned()),
        ]);
        let document = document(&form).expect("a document");
        assert!(resource::parse_topic(&document).is_ok(), "{document}");
    }

    #[test]
    fn what_the_document_lacks_is_told_by_the_field() {
        for (schema, mapping, field) in [
            ("Nonsense", "", "inputSchema"),
            (CUSTOM, "{", "inputSchemaMapping"),
            (CUSTOM, "{}", "inputSchemaMapping"),
        ] {
            let form = Form::of([
                ("location", "local".to_owned()),
                ("inputSchema", schema.to_owned()),
                ("inputSchemaMapping", mapping.to_owned()),
            ]);
            let refusal = document(&form)
                .and_then(|document| resource::parse_topic(&document).map_err(Refusal::from));
            let refusal = refusal.expect_err("it is wrong");
            assert!(refusal.is_about(field), "{refusal:?}");
        }
    }
}
