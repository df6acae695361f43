//! The form that makes a topic, in a namespace too, and says how long one of these keeps events.

use super::*;
use crate::wire::resource::bodies::{NamespaceTopic, TopicRequest};
use crate::wire::resource::{parse_namespace_topic, parse_topic};

/// Where the fields of the mapping are in the document.
const MAPPING: &str = "inputSchemaMapping.properties.";

/// The placeholders of the fields of the mapping.
const MAPPING_EXAMPLE: [(&str, &str); 5] = [
    ("id.sourceField", "id"),
    ("eventType.sourceField", "kind"),
    ("eventType.defaultValue", "Unknown"),
    ("subject.defaultValue", "/"),
    ("dataVersion.defaultValue", "1.0"),
];

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct TopicForm(Form);

/// A custom topic.
impl Sheet<()> for TopicForm {
    const HEAD: Head = (Fields::Topic, "New topic", "/admin/topics");

    fn begin(_: &Call) -> PageResult<Self> {
        let fields = MAPPING_EXAMPLE.into_iter().chain([("location", "local")]);
        Ok(Self(Form::of(fields)))
    }

    async fn save(&self, call: &Call) -> PageResult {
        self.make(call, TopicName::custom, self.definition()).await
    }
}

/// A topic of a namespace.
impl Sheet<Arc<NamespaceEntry>> for TopicForm {
    const HEAD: Head = (Fields::NamespaceTopic, "New topic in", "");

    fn begin(_: &Call<Arc<NamespaceEntry>>) -> PageResult<Self> {
        Ok(Self::keeping("1"))
    }

    async fn save(&self, call: &Call<Arc<NamespaceEntry>>) -> PageResult {
        let parse = |name: &str| TopicName::in_namespace(&call.of.namespace.name, name);
        self.make(call, parse, self.retention()).await
    }
}

/// How long a topic of a namespace keeps events.
impl Sheet<Arc<TopicEntry>> for TopicForm {
    const HEAD: Head = (Fields::NamespaceTopic, "Retention of", "");

    fn begin(call: &Call<Arc<TopicEntry>>) -> PageResult<Self> {
        let days = print::days(retention(&call.of)?);
        Ok(Self::keeping(&days.to_string()))
    }

    async fn save(&self, call: &Call<Arc<TopicEntry>>) -> PageResult {
        retention(&call.of)?;
        let (name, kind) = (call.of.topic.name.clone(), self.retention()?);
        let said = Flash::done(format!("How long {name} keeps events has been changed."));
        let put = call.broker.put_topic(call.by(), name, kind);
        put.await?;
        call.visitor.leave(said, &call.of.page()).await
    }
}

fn retention(topic: &TopicEntry) -> PageResult<Duration> {
    let missing =
        || PageError::rejected(format!("{} is no topic of a namespace", topic.topic.name));
    topic.topic.kind.event_retention().ok_or_else(missing)
}

impl TopicForm {
    fn keeping(days: &str) -> Self {
        Self(Form::of([("eventRetentionInDays", days)]))
    }

    async fn make<S>(
        &self,
        call: &Call<S>,
        parse: impl FnOnce(&str) -> Result<TopicName, InvalidName>,
        definition: Result<TopicKind, Vec<FormError>>,
    ) -> PageResult {
        let is_taken = |name: &TopicName| call.broker.registry().topic(name).is_some();
        let (name, definition) = named(&self.0, "a topic", parse, is_taken, definition)?;
        let topic = call.broker.put_topic(call.by(), name, definition).await?;
        let next = "Publish to its URL with a key, and subscribe whoever wants its events.";
        let said = Flash::done(format!(
            "Topic {} has been created. {next}",
            topic.topic.name
        ));
        call.visitor.leave(said, &topic.page()).await
    }

    fn retention(&self) -> Result<TopicKind, Vec<FormError>> {
        let blank = json!({ "properties": { "eventRetentionInDays": null } });
        Shape::of::<NamespaceTopic>().define(&self.0, blank, parse_namespace_topic)
    }

    fn definition(&self) -> Result<TopicKind, Vec<FormError>> {
        let mut blank = json!({ "location": null, "properties": {} });
        let is_mapped = self.0.text("inputSchema") == "CustomEventSchema";
        if is_mapped {
            blank["properties"]["inputSchemaMapping"] = json!({ "properties": {} });
        }
        let form = self.0.without(|name| !is_mapped && name.contains('.'));
        let defined = Shape::of::<TopicRequest>().define(&form, blank, parse_topic);
        defined.map_err(|mut form_errors| {
            for FormError { target, problem } in &mut form_errors {
                if let Some(field) = target.strip_prefix(MAPPING) {
                    if !field.contains('.') {
                        *problem = "Enter a property, a default, or both.".to_owned();
                    }
                    *target = field.to_owned();
                }
            }
            form_errors
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_becomes_a_topic_or_tells_what_is_wrong_by_the_field() {
        let read = |schema: &str, mapping: &[(&str, &str)]| {
            let fields = [("location", "local"), ("inputSchema", schema)];
            TopicForm(Form::of(fields.into_iter().chain(mapping.iter().copied()))).definition()
        };
        read("EventGridSchema", &[("id.sourceField", "left over")]).expect("a topic");
        let custom = read("CustomEventSchema", &MAPPING_EXAMPLE).expect("a topic");
        let InputSchema::CustomEventSchema(mapping) = custom.input_schema() else {
            panic!("{custom:?}");
        };
        assert_eq!(mapping.id.as_deref(), Some("id"));
        assert_eq!(mapping.event_type.source_field.as_deref(), Some("kind"));
        for (schema, mapping, field) in [
            ("Nonsense", &MAPPING_EXAMPLE[..], "inputSchema"),
            (
                "CustomEventSchema",
                &MAPPING_EXAMPLE[..4],
                "dataVersion.sourceField",
            ),
            ("CustomEventSchema", &[], "dataVersion.sourceField"),
        ] {
            let form_errors = read(schema, mapping).expect_err("it is wrong");
            assert!(form_errors[0].fits(field), "{form_errors:?}");
        }
    }

    #[test]
    fn days_are_whole_and_few() {
        let read = |days: &str| TopicForm::keeping(days).retention();
        let retention = |text| read(text).map(|topic| topic.event_retention().map(print::days));
        assert_eq!(retention("7"), Ok(Some(7)));
        assert_eq!(retention(""), Ok(Some(1)));
        for wrong in ["0", "8", "1.5", "long"] {
            let form_error = read(wrong).expect_err(wrong);
            assert_eq!(form_error[0].target, "eventRetentionInDays");
        }
    }
}
