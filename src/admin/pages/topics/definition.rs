//! The form that makes a topic, in a namespace too, and says how long one of these keeps events.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::admin::forms::form::{both, number};
use crate::admin::forms::json_fault;
use crate::admin::forms::sheet::{named, of_fields};
use crate::admin::lists::filter::given;
use crate::admin::page::*;
use crate::model::name::{InvalidName, TopicName};
use crate::model::registry::NamespaceEntry;
use crate::model::topic::TopicDefinition;
use crate::wire::resource::{parse_namespace_topic, parse_topic};

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

/// Each of its pages has some of the fields.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct TopicForm {
    name: String,
    location: String,
    input_schema: String,
    input_schema_mapping: String,
    disable_local_auth: String,
    event_retention_in_days: String,
}

#[derive(Template)]
#[template(path = "pages/topic_form.html")]
struct TopicFormPage {
    frame: Frame,
    form: Filled<TopicForm>,
    back: String,
    is_new: bool,
    in_namespace: bool,
}

/// A custom topic.
impl Sheet<()> for TopicForm {
    fn begin(_: &Call) -> PageResult<Self> {
        Ok(Self {
            location: "local".to_owned(),
            input_schema_mapping: MAPPING_EXAMPLE.to_owned(),
            ..Self::default()
        })
    }

    fn page(call: &Call, form: Filled<Self>) -> impl Template {
        TopicFormPage {
            frame: Frame::new(&call.visitor, "New topic"),
            form,
            back: "/admin/topics".to_owned(),
            is_new: true,
            in_namespace: false,
        }
    }

    async fn save(&self, call: &Call) -> Result<Response, Refused> {
        let next = "with one of its keys";
        self.make(call, TopicName::custom, self.definition(), next)
            .await
    }
}

/// A topic of a namespace.
impl Sheet<Arc<NamespaceEntry>> for TopicForm {
    fn begin(_: &Call<Arc<NamespaceEntry>>) -> PageResult<Self> {
        Ok(Self::keeping("1".to_owned()))
    }

    fn page(call: &Call<Arc<NamespaceEntry>>, form: Filled<Self>) -> impl Template {
        let title = format!("New topic of {}", call.of.namespace.name);
        TopicFormPage {
            frame: Frame::new(&call.visitor, title),
            form,
            back: call.of.page(),
            is_new: true,
            in_namespace: true,
        }
    }

    async fn save(&self, call: &Call<Arc<NamespaceEntry>>) -> Result<Response, Refused> {
        let parse = |name: &str| TopicName::in_namespace(&call.of.namespace.name, name);
        let next = "with a key of its own or of the namespace";
        self.make(call, parse, self.retention(), next).await
    }
}

/// How long a topic of a namespace keeps events.
impl Sheet<Arc<TopicEntry>> for TopicForm {
    fn begin(call: &Call<Arc<TopicEntry>>) -> PageResult<Self> {
        let retention = retention(&call.of)?;
        Ok(Self::keeping(print::days(retention).to_string()))
    }

    fn page(call: &Call<Arc<TopicEntry>>, form: Filled<Self>) -> impl Template {
        TopicFormPage {
            frame: Frame::new(
                &call.visitor,
                format!("Retention of {}", call.of.topic.name),
            ),
            form,
            back: call.of.page(),
            is_new: false,
            in_namespace: true,
        }
    }

    async fn save(&self, call: &Call<Arc<TopicEntry>>) -> Result<Response, Refused> {
        retention(&call.of).map_err(Refused::Page)?;
        let name = &call.of.topic.name;
        let put = call
            .broker
            .put_topic(call.by(), name.clone(), self.retention()?);
        put.await?;
        let said = Flash::done(format!("How long {name} keeps events has been changed."));
        Ok(call.visitor.leave(said, &call.of.page()).await?)
    }
}

fn retention(topic: &TopicEntry) -> PageResult<Duration> {
    topic.topic.definition.event_retention.ok_or_else(|| {
        PageError::Conflict(format!(
            "{} is no topic of a namespace: it keeps events as long as the settings of the \
             appliance say.",
            topic.topic.name
        ))
    })
}

impl TopicForm {
    fn keeping(event_retention_in_days: String) -> Self {
        Self {
            event_retention_in_days,
            ..Self::default()
        }
    }

    /// `with` is by what it is published to.
    async fn make<S>(
        &self,
        call: &Call<S>,
        parse: impl FnOnce(&str) -> Result<TopicName, InvalidName>,
        definition: Result<TopicDefinition, Vec<Refusal>>,
        with: &str,
    ) -> Result<Response, Refused> {
        let is_taken = |name: &TopicName| call.broker.registry().topic(name).is_some();
        let name = named(&self.name, "a topic", parse, is_taken);
        let (name, definition) = both(name, definition)?;
        let topic = call.broker.put_topic(call.by(), name, definition).await?;
        let said = Flash::done(format!(
            "Topic {} has been created. Publish to its URL {with}, and subscribe whoever wants its events.",
            topic.topic.name
        ));
        Ok(call.visitor.leave(said, &topic.page()).await?)
    }

    fn retention(&self) -> Result<TopicDefinition, Vec<Refusal>> {
        let days = number(&self.event_retention_in_days);
        let document = json!({ "properties": { "eventRetentionInDays": days } });
        parse_namespace_topic(&document).map_err(|invalid| of_fields(&invalid))
    }

    fn definition(&self) -> Result<TopicDefinition, Vec<Refusal>> {
        let mapping = match (&*self.input_schema, given(&self.input_schema_mapping)) {
            ("CustomEventSchema", Some(text)) => serde_json::from_str(&text).map_err(|error| {
                let problem = json_fault::words(&error);
                vec![Refusal::of("inputSchemaMapping", problem)]
            })?,
            _ => Value::Null,
        };
        let document = json!({ "location": given(&self.location), "properties": {
            "inputSchema": given(&self.input_schema),
            "inputSchemaMapping": mapping,
            "disableLocalAuth": !self.disable_local_auth.is_empty(),
        } });
        parse_topic(&document).map_err(|invalid| of_fields(&invalid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_becomes_a_topic_or_tells_what_is_wrong_by_the_field() {
        let read = |schema: &str, mapping: &str| {
            let form = TopicForm {
                location: "local".to_owned(),
                input_schema: schema.to_owned(),
                input_schema_mapping: mapping.to_owned(),
                ..TopicForm::default()
            };
            form.definition()
        };
        read("EventGridSchema", "left over").expect("a topic");
        read("CustomEventSchema", MAPPING_EXAMPLE).expect("a topic");
        for (schema, mapping, field) in [
            ("Nonsense", "", "inputSchema"),
            ("CustomEventSchema", "{", "inputSchemaMapping"),
            ("CustomEventSchema", "{}", "inputSchemaMapping"),
        ] {
            let refusals = read(schema, mapping).expect_err("it is wrong");
            assert!(refusals[0].closeness(field) > 1, "{refusals:?}");
        }
    }

    #[test]
    fn days_are_whole_and_few() {
        let read = |days: &str| TopicForm::keeping(days.to_owned()).retention();
        let retention = |text| read(text).map(|topic| topic.event_retention.map(print::days));
        assert_eq!(retention("7"), Ok(Some(7)));
        assert_eq!(retention(""), Ok(Some(1)));
        for wrong in ["0", "8", "1.5", "long"] {
            let refusal = read(wrong).expect_err(wrong);
            assert_eq!(refusal[0].target, "eventRetentionInDays");
        }
    }
}
