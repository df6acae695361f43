//! The form that makes a queue or a subscription of a Service Bus topic, and changes one.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{LIST, QUEUE, QueueName, SUBSCRIPTION};
use crate::admin::action::{Call, Deletable, Subject};
use crate::admin::error::{PageError, PageResult};
use crate::admin::form_error::all_of;
use crate::admin::forms::document::Shape;
use crate::admin::forms::form::{Form, FormError};
use crate::admin::forms::sheet::{Head, Sheet, SheetFields, named};
use crate::admin::pages::service_bus::BusTopic;
use crate::admin::site::existing;
use crate::admin::widgets::Flash;
use crate::admin::widgets::print::sentence;
use crate::broker::{ManageError, Put};
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::queue::{MessageSubscription, QueueDefinition, ReceiveRules};
use crate::model::rule::{Parameters, Rule, RuleFilter, SqlFilter};
use crate::wire::duration::DURATION_MAX;
use crate::wire::resource::bodies::{QueueRequest, ServiceBusSubscriptionRequest};
use crate::wire::resource::{parse_queue, parse_service_bus_subscription};
use crate::wire::{duration, resource};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct QueueForm(Form);

/// The field for the duration for which a queue remembers message ids to detect duplicates.
pub(crate) const WINDOW: &str = "duplicateDetectionHistoryTimeWindow";

/// The filter of the first rule of a new subscription.
const FILTER: &str = "filter";

/// The property is on unless it is set to `false`. A form does not submit an unticked checkbox, so `false` must be set
/// explicitly.
const FILTER_ERRORS: &str = "deadLetteringOnFilterEvaluationExceptions";

impl Sheet<()> for QueueForm {
    const HEAD: Head = (SheetFields::Queue, "New queue", LIST);

    fn begin(_: &Call) -> PageResult<Self> {
        let defaults = parse_queue(&json!({})).map_err(PageError::rejected)?;
        Ok(Self::of_queue(&defaults))
    }

    fn remark(_: &Call) -> String {
        QUEUE.to_owned()
    }

    async fn save(&self, call: &Call) -> PageResult {
        let is_taken = |name: &TopicName| call.broker.registry().topic(name).is_some();
        let definition = self.read_queue(&json!({}));
        let parse =
            |text: &str| TopicName::of_service_bus(text).map_err(|error| error.of("a queue"));
        let noun = "a queue or topic";
        let (name, definition) = named(&self.0, noun, parse, is_taken, definition)?;
        let said = "has been created.";
        self.put_queue(call, name, definition, Put::Create, said)
            .await
    }
}

impl Sheet<BusTopic> for QueueForm {
    const HEAD: Head = (SheetFields::Queue, "New subscription of", "");

    fn begin(_: &Call<BusTopic>) -> PageResult<Self> {
        let defaults = parse_service_bus_subscription(&json!({}));
        Ok(Self::of_subscription(
            &defaults.map_err(PageError::rejected)?,
        ))
    }

    fn remark(_: &Call<BusTopic>) -> String {
        SUBSCRIPTION.to_owned()
    }

    async fn save(&self, call: &Call<BusTopic>) -> PageResult {
        let topic = &call.of.0;
        let is_taken = |name: &SubscriptionName| topic.subscription(name).is_some();
        let definition = self.read_subscription(json!({}));
        let noun = "a subscription";
        let parse =
            |text: &str| SubscriptionName::of_service_bus(text).map_err(|error| error.of(noun));
        let definition = all_of(self.first_rule().err().into_iter().collect(), definition);
        let (name, definition) = named(&self.0, noun, parse, is_taken, definition)?;
        let said = "has been created.";
        let of = &topic.topic.name;
        self.put_subscription(call, of, name, definition, Put::Create, said)
            .await
    }
}

impl Sheet<QueueName> for QueueForm {
    const HEAD: Head = (SheetFields::Queue, "Edit", "");

    fn begin(call: &Call<QueueName>) -> PageResult<Self> {
        let Some(queue) = call.of.topic.queue_definition() else {
            return Ok(Self::of_subscription(&call.of.definition));
        };
        let mut form = Self::of_queue(&queue);
        if !queue.sending.detects_duplicates {
            form.0.remove(WINDOW);
        }
        Ok(form)
    }

    fn title(call: &Call<QueueName>) -> String {
        format!("Edit {} {}", call.of.noun(), call.of.name())
    }

    fn remark(call: &Call<QueueName>) -> String {
        call.of.noun().to_owned()
    }

    async fn save(&self, call: &Call<QueueName>) -> PageResult {
        // The form has no fields for immutable properties.
        let pull = &call.of.definition.pull;
        let mut fixed = json!({ "requiresSession": pull.receiving.has_sessions });
        for (name, text) in pull.upkeep.inert_in(call.broker.options().service_bus_tier) {
            fixed[name] = serde_json::from_str(text).unwrap_or_default();
        }
        let said = "has been changed.";
        let of = call.of.topic_name();
        let Some(queue) = call.of.topic.queue_definition() else {
            let definition = self.read_subscription(fixed)?;
            let name = call.of.subscription.name.clone();
            return self
                .put_subscription(call, of, name, definition, Put::Update, said)
                .await;
        };
        let sending = queue.sending;
        fixed["requiresDuplicateDetection"] = sending.detects_duplicates.into();
        if !sending.detects_duplicates {
            fixed[WINDOW] = duration::format(sending.duplicate_window).into();
        }
        let definition = self.read_queue(&fixed)?;
        self.put_queue(call, of.clone(), definition, Put::Update, said)
            .await
    }
}

impl QueueForm {
    fn of_queue(definition: &QueueDefinition) -> Self {
        let document = resource::queue_document(definition);
        let form = Shape::of::<QueueRequest>().form(&document);
        let form = Self::with_names(form, &definition.subscription.pull.receiving);
        Self::without_end(form, definition.subscription.time_to_live)
    }

    fn of_subscription(definition: &MessageSubscription) -> Self {
        let document = resource::service_bus_subscription_document(definition);
        let form = Shape::of::<ServiceBusSubscriptionRequest>().form(&document);
        let form = Self::with_names(form, &definition.pull.receiving);
        Self::without_end(form, definition.time_to_live)
    }

    /// Sets the fields for forwarding to the names of the target queues, in place of the references in the definition.
    fn with_names(mut form: Form, rules: &ReceiveRules) -> Form {
        for reference in rules.references() {
            form.set(reference.property, reference.to.as_str());
        }
        form
    }

    fn without_end(mut form: Form, time_to_live: Duration) -> Self {
        if time_to_live == DURATION_MAX {
            form.remove("defaultMessageTimeToLive");
        }
        Self(form)
    }

    /// Parses the queue from the form and the `fixed` properties, or returns all errors.
    fn read_queue(&self, fixed: &Value) -> Result<QueueDefinition, Vec<FormError>> {
        let blank = json!({ "properties": fixed });
        Shape::of::<QueueRequest>().define(&self.0, blank, parse_queue)
    }

    /// Reads a subscription, as [`QueueForm::read_queue`] reads a queue.
    fn read_subscription(&self, mut fixed: Value) -> Result<MessageSubscription, Vec<FormError>> {
        fixed[FILTER_ERRORS] = false.into();
        let blank = json!({ "properties": fixed });
        let shape = Shape::of::<ServiceBusSubscriptionRequest>();
        shape.define(&self.0, blank, parse_service_bus_subscription)
    }

    async fn put_queue<S>(
        &self,
        call: &Call<S>,
        name: TopicName,
        definition: QueueDefinition,
        put: Put,
        said: &str,
    ) -> PageResult {
        let saved = call.broker.put_queue(call.by(), name, definition, put);
        self.leave(call, saved.await, "Queue", said).await
    }

    async fn put_subscription<S>(
        &self,
        call: &Call<S>,
        of: &TopicName,
        name: SubscriptionName,
        definition: MessageSubscription,
        put: Put,
        said: &str,
    ) -> PageResult {
        let (broker, first) = (&call.broker, self.first_rule()?);
        let saved =
            broker.put_service_bus_subscription(call.by(), of, name, definition, first, put);
        self.leave(call, saved.await, "Subscription", said).await
    }

    async fn leave<S>(
        &self,
        call: &Call<S>,
        saved: Result<crate::broker::Queue, ManageError>,
        noun: &str,
        said: &str,
    ) -> PageResult {
        let found = saved.map_err(at_field)?;
        let queue = existing(QueueName::of(found), QUEUE, noun)?;
        let done = Flash::done(format!("{noun} {} {said}", queue.name()));
        call.visitor.leave(done, &queue.page()).await
    }

    /// Returns the first rule, which matches all messages unless the form has a filter.
    fn first_rule(&self) -> Result<Rule, FormError> {
        let mut first = Rule::default_rule();
        if let Some(sql) = self.0.filled(FILTER) {
            let filter = SqlFilter::parse(sql, Parameters::new());
            let filter =
                filter.map_err(|error| FormError::of(FILTER, sentence(&error.to_string())))?;
            first.filter = RuleFilter::Sql(filter);
        }
        Ok(first)
    }
}

fn at_field(error: ManageError) -> PageError {
    let ManageError::NoForwardTarget { property, .. } = &error else {
        return error.into();
    };
    FormError::of(property, sentence(&error.to_string())).into()
}
