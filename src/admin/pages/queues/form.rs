//! The form that makes a queue or a subscription of a Service Bus topic, and changes one.

use super::*;
use crate::admin::pages::service_bus::BusTopic;
use crate::wire::resource::bodies::{QueueRequest, ServiceBusSubscriptionRequest};
use crate::wire::resource::{parse_queue, parse_service_bus_subscription};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct QueueForm(Form);

const FORWARDS: [&str; 2] = ["forwardTo", "forwardDeadLetteredMessagesTo"];

/// Of queues that detect duplicates.
pub(crate) const WINDOW: &str = "duplicateDetectionHistoryTimeWindow";

/// The filter of the first rule of a new subscription.
const FILTER: &str = "filter";

/// On unless it is said to be off, which an empty tick does not say.
const FILTER_ERRORS: &str = "deadLetteringOnFilterEvaluationExceptions";

impl Sheet<()> for QueueForm {
    const HEAD: Head = (Fields::Queue, "New queue", LIST);

    fn begin(_: &Call) -> PageResult<Self> {
        let defaults = parse_queue(&json!({})).map_err(PageError::refused)?;
        Ok(Self::of(&defaults, false))
    }

    fn remark(_: &Call) -> String {
        QUEUE.to_owned()
    }

    async fn save(&self, call: &Call) -> PageResult {
        let is_taken = |name: &TopicName| call.broker.registry().topic(name).is_some();
        let definition = self.read(json!({}), false);
        let parse =
            |text: &str| TopicName::of_service_bus(text).map_err(|error| error.of("a queue"));
        let noun = "a queue or topic";
        let (name, definition) = named(&self.0, noun, parse, is_taken, definition)?;
        let said = (Put::Create, "has been created.");
        self.put(call, (name, None), definition, said).await
    }
}

impl Sheet<BusTopic> for QueueForm {
    const HEAD: Head = (Fields::Queue, "New subscription of", "");

    fn begin(_: &Call<BusTopic>) -> PageResult<Self> {
        let defaults = parse_service_bus_subscription(&json!({}));
        Ok(Self::of(&defaults.map_err(PageError::refused)?, true))
    }

    fn remark(_: &Call<BusTopic>) -> String {
        SUBSCRIPTION.to_owned()
    }

    async fn save(&self, call: &Call<BusTopic>) -> PageResult {
        let topic = &call.of.0;
        let is_taken = |name: &SubscriptionName| topic.subscription(name).is_some();
        let definition = self.read(json!({}), true);
        let noun = "a subscription";
        let parse =
            |text: &str| SubscriptionName::of_service_bus(text).map_err(|error| error.of(noun));
        let definition = all_of(self.first_rule().err().into_iter().collect(), definition);
        let (name, definition) = named(&self.0, noun, parse, is_taken, definition)?;
        let (of, said) = (topic.topic.name.clone(), (Put::Create, "has been created."));
        self.put(call, (of, Some(name)), definition, said).await
    }
}

impl Sheet<Queue> for QueueForm {
    const HEAD: Head = (Fields::Queue, "Edit", "");

    fn begin(call: &Call<Queue>) -> PageResult<Self> {
        let mut form = Self::of(&call.of.definition, call.of.is_subscription());
        if !call.of.definition.rules.detects_duplicates {
            form.0.remove(WINDOW);
        }
        Ok(form)
    }

    fn title(call: &Call<Queue>) -> String {
        format!("Edit {} {}", call.of.noun(), call.of.name())
    }

    fn remark(call: &Call<Queue>) -> String {
        call.of.noun().to_owned()
    }

    async fn save(&self, call: &Call<Queue>) -> PageResult {
        // The form does not have what cannot be changed.
        let (of, rules) = (&call.of, &call.of.definition.rules);
        let mut fixed = json!({
            "requiresSession": rules.has_sessions,
            "requiresDuplicateDetection": rules.detects_duplicates,
        });
        for (name, text) in &rules.inert {
            fixed[name] = serde_json::from_str(text).unwrap_or_default();
        }
        if !rules.detects_duplicates {
            fixed[WINDOW] = duration::format(rules.duplicate_window).into();
        }
        let definition = self.read(fixed, of.is_subscription())?;
        let own = of.is_subscription().then(|| of.subscription.name.clone());
        let said = (Put::Update, "has been changed.");
        let names = (of.topic_name().clone(), own);
        self.put(call, names, definition, said).await
    }
}

impl QueueForm {
    fn of(definition: &QueueDefinition, is_subscription: bool) -> Self {
        let (document, shape) = match is_subscription {
            false => (
                resource::queue_document(definition),
                Shape::of::<QueueRequest>(),
            ),
            true => (
                resource::service_bus_subscription_document(definition),
                Shape::of::<ServiceBusSubscriptionRequest>(),
            ),
        };
        let mut form = shape.form(&document);
        if definition.time_to_live == DURATION_MAX {
            form.remove("defaultMessageTimeToLive");
        }
        Self(form)
    }

    /// What the form defines beside what is `fixed`, or all that is wrong with it.
    fn read(
        &self,
        mut fixed: Value,
        is_subscription: bool,
    ) -> Result<QueueDefinition, Vec<Refusal>> {
        if !is_subscription {
            let blank = json!({ "properties": fixed });
            return Shape::of::<QueueRequest>().define(&self.0, blank, parse_queue);
        }
        fixed[FILTER_ERRORS] = false.into();
        let blank = json!({ "properties": fixed });
        let shape = Shape::of::<ServiceBusSubscriptionRequest>();
        shape.define(&self.0, blank, parse_service_bus_subscription)
    }

    /// Saves a queue, or the subscription of a topic.
    async fn put<S>(
        &self,
        call: &Call<S>,
        (topic, name): (TopicName, Option<SubscriptionName>),
        definition: QueueDefinition,
        (put, said): (Put, &str),
    ) -> PageResult {
        let (broker, by) = (&call.broker, call.by());
        let (saved, noun) = match name {
            None => (broker.put_queue(by, topic, definition, put).await, "Queue"),
            Some(name) => {
                let first = self.first_rule()?;
                let put =
                    broker.put_service_bus_subscription(by, &topic, name, definition, first, put);
                (put.await, "Subscription")
            }
        };
        let saved = saved.map_err(|error| self.at_field(error))?;
        let queue = existing(Queue::of(saved), QUEUE, noun)?;
        let said = Flash::done(format!("{noun} {} {said}", queue.name()));
        call.visitor.leave(said, &queue.page()).await
    }

    /// For all messages unless the form has a filter.
    fn first_rule(&self) -> Result<Rule, Refusal> {
        let mut first = Rule::default_rule();
        if let Some(sql) = self.0.filled(FILTER) {
            let filter = SqlFilter::parse(sql, Parameters::new());
            let filter =
                filter.map_err(|error| Refusal::of(FILTER, sentence(&error.to_string())))?;
            first.filter = RuleFilter::Sql(filter);
        }
        Ok(first)
    }

    fn at_field(&self, error: ManageError) -> PageError {
        let ManageError::NoForwardTarget(target) = &error else {
            return error.into();
        };
        let mut fields = FORWARDS.into_iter();
        let field = fields.find(|field| self.0.text(field) == target.as_str());
        Refusal::of(field.unwrap_or_default(), sentence(&error.to_string())).into()
    }
}
