//! The form that makes a topic.

use crate::admin::forms::form_page::FormPage;
use crate::admin::forms::rows::{self, Row, RowSection, part, section};
use crate::admin::page::*;
use crate::admin::paths::topic_page;
use crate::model::name::TopicName;
use crate::wire::resource::parse_topic;

#[rustfmt::skip] // a table
const SECTIONS: &[RowSection] = &[
    section("Topic", &[
        part("", &[Row::line("name", "Name").apart().mono().required()
            .hint("3 to 50 letters, digits and hyphens, such as orders. It is part of the URL.")]),
        part("properties", &[
            Row::choice("inputSchema", "Input schema", &[
                ("EventGridSchema", "Event Grid"),
                ("CloudEventSchemaV1_0", "CloudEvents 1.0"),
                ("CustomEventSchema", "Custom, with a mapping"),
            ]).hint("Event Grid is what Azure's clients send by default."),
            Row::json("inputSchemaMapping", "Mapping of custom events", 9).only("inputSchema", &["CustomEventSchema"])
                .hint("Which properties of your events stand for which part, as JSON."),
        ]),
    ]),
    section("For clients of Azure", &[
        part("", &[Row::line("location", "Location").mono()
            .hint("Azure's region; shown to clients that ask for it, without meaning here.")]),
        part("properties", &[Row::tick("disableLocalAuth", "Reject keys and signatures")
            .hint("Then only the bearer of the management token can publish.")]),
    ]),
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
    let form = Form::of([
        ("location", "local".to_owned()),
        ("inputSchemaMapping", MAPPING_EXAMPLE.to_owned()),
    ]);
    draw_form(&visitor, &form, Vec::new())
}

/// Makes the topic.
pub(crate) async fn create(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let is_taken = |name: &TopicName| site.broker.registry().topic(name).is_some();
    let name = rows::new_name(&form, "a topic", TopicName::custom, is_taken);
    let definition = rows::read(SECTIONS, &form, |document| parse_topic(&document));
    let (name, definition) = match rows::both(name, definition) {
        Ok(read) => read,
        Err(refusals) => return Ok(draw_form(&visitor, &form, refusals)),
    };
    let put = site
        .broker
        .put_topic(&visitor.caller, name.clone(), definition);
    put.await?;
    let next = "Publish to its URL with one of its keys, and subscribe whoever wants its events.";
    let message = format!("Topic {name} has been created. {next}");
    visitor
        .leave(Flash::done(message), &topic_page(name.as_str()))
        .await
}

fn draw_form(visitor: &Visitor, form: &Form, refusals: Vec<Refusal>) -> Response {
    let page = FormPage {
        intro: "A topic has a URL to publish to and two keys. Its input schema cannot be changed later.".to_owned(),
        sections: rows::fields(SECTIONS, form),
        button: "Create topic",
        back: "/admin/topics".to_owned(),
    };
    page.draw(Frame::new(visitor, "New topic"), refusals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_becomes_a_topic_or_tells_what_is_wrong_by_the_field() {
        let read = |schema: &str, mapping: &str| {
            let form = Form::of([
                ("location", "local".to_owned()),
                ("inputSchema", schema.to_owned()),
                ("inputSchemaMapping", mapping.to_owned()),
            ]);
            rows::read(SECTIONS, &form, |document| parse_topic(&document))
        };
        read("EventGridSchema", "left over").expect("a topic");
        read("CustomEventSchema", MAPPING_EXAMPLE).expect("a topic");
        for (schema, mapping, field) in [
            ("Nonsense", "", "inputSchema"),
            ("CustomEventSchema", "{", "inputSchemaMapping"),
            ("CustomEventSchema", "{}", "inputSchemaMapping"),
        ] {
            let refusals = read(schema, mapping).expect_err("it is wrong");
            let path = format!("properties.{field}");
            assert!(refusals[0].closeness(&path) > 1, "{refusals:?}");
        }
    }
}
