//! The form that makes a queue, and changes one.

use super::*;
use crate::broker::Put;
use crate::wire::duration::DURATION_MAX;
use crate::wire::resource::bodies::QueueRequest;
use crate::wire::resource::parse_queue;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct QueueForm(Form);

const FIELDS: [&str; 9] = [
    "lockDuration",
    "maxDeliveryCount",
    "defaultMessageTimeToLive",
    "deadLetteringOnMessageExpiration",
    "requiresSession",
    "requiresDuplicateDetection",
    "duplicateDetectionHistoryTimeWindow",
    FORWARDS[0],
    FORWARDS[1],
];

const FORWARDS: [&str; 2] = ["forwardTo", "forwardDeadLetteredMessagesTo"];

impl Sheet<()> for QueueForm {
    const HEAD: Head = (Fields::Queue, "New queue", LIST);

    fn begin(_: &Call) -> PageResult<Self> {
        let defaults = parse_queue(&json!({})).map_err(PageError::refused)?;
        Ok(Self::of(&defaults))
    }

    async fn save(&self, call: &Call) -> PageResult {
        let is_taken = |name: &TopicName| call.broker.registry().topic(name).is_some();
        let definition = self.read(&json!({}));
        let parse = |text: &str| TopicName::of_service_bus(text).map_err(|error| error.of("a queue"));
        let noun = "a queue or topic";
        let (name, definition) = named(&self.0, noun, parse, is_taken, definition)?;
        let said = "has been created.";
        self.put(call, name, definition, (Put::Create, said)).await
    }
}

impl Sheet<Queue> for QueueForm {
    const HEAD: Head = (Fields::Queue, "Edit queue", "");

    fn begin(call: &Call<Queue>) -> PageResult<Self> {
        Ok(Self::of(&call.of.definition))
    }

    async fn save(&self, call: &Call<Queue>) -> PageResult {
        // The form does not have what cannot be changed.
        let rules = &call.of.definition.rules;
        let mut fixed = json!({
            "requiresSession": rules.has_sessions,
            "requiresDuplicateDetection": rules.detects_duplicates,
        });
        for (name, text) in &rules.inert {
            fixed[name] = serde_json::from_str(text).unwrap_or_default();
        }
        let (name, definition) = (call.of.topic_name().clone(), self.read(&fixed)?);
        let said = "has been changed.";
        self.put(call, name, definition, (Put::Update, said)).await
    }
}

impl QueueForm {
    fn of(definition: &QueueDefinition) -> Self {
        let document = resource::queue_document(definition);
        let shape = Shape::of::<QueueRequest>();
        let mut form = Form::of(FIELDS.map(|name| (name, shape.text(name, &document))));
        if definition.time_to_live == DURATION_MAX {
            form.remove("defaultMessageTimeToLive");
        }
        Self(form)
    }

    /// What the form defines beside what is `fixed`, or all that is wrong with it.
    fn read(&self, fixed: &Value) -> Result<QueueDefinition, Vec<Refusal>> {
        let blank = json!({ "properties": fixed });
        Shape::of::<QueueRequest>().define(&self.0, blank, parse_queue)
    }

    async fn put<S>(
        &self,
        call: &Call<S>,
        name: TopicName,
        definition: QueueDefinition,
        (put, said): (Put, &str),
    ) -> PageResult {
        let page = paths::queue_page(name.as_str());
        let said = Flash::done(format!("Queue {name} {said}"));
        let put = call
            .broker
            .put_queue(call.by(), name, definition, put)
            .await;
        put.map_err(|error| self.at_field(error))?;
        call.visitor.leave(said, &page).await
    }

    fn at_field(&self, error: ManageError) -> PageError {
        let field = match &error {
            ManageError::NoForwardTarget(target) => {
                let mut fields = FORWARDS.into_iter();
                fields.find(|field| self.0.text(field) == target.as_str())
            }
            ManageError::InTheWay(..) => Some("name"),
            _ => return error.into(),
        };
        Refusal::of(field.unwrap_or_default(), sentence(&error.to_string())).into()
    }
}
