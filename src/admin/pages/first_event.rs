//! The guided way from an empty appliance to a delivered event, and to one that fails on the way.
//!
//! Every step is a form. What has been done so far stands in the address alone, so that the page can be
//! read again, left and come back to.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::admin::bare::draw_with;
use crate::admin::forms::filled::Filled;
use crate::admin::page::*;
use crate::admin::pages::delivery::DeliveryCard;
use crate::admin::pages::inspectors::deliver_to;
use crate::admin::paths::{event_page, inspector_page, topic_page};
use crate::admin::site::delivery_id;
use crate::admin::widgets::json_text;
use crate::model::delivery::{DeliveryId, DeliveryState};
use crate::model::event::{Event, EventKey};
use crate::model::inspector::{Inspector, InspectorDefinition};
use crate::model::name::{InspectorName, SubscriptionName, TopicName};
use crate::model::response_script::ScriptedResponse;
use crate::wire::{self, resource};

const PATH: &str = "/admin/first-event";

/// An event subscription with an inspector of its own, and the events that it gets: the rejected event must not change
/// what becomes of the others.
struct Way {
    subscription: &'static str,
    /// Of the inspector's name, after the topic.
    suffix: &'static str,
    event_type: &'static str,
}

const TAKING: Way = Way {
    subscription: "first-event",
    suffix: "inspector",
    event_type: "Example.Created",
};

const REJECTING: Way = Way {
    subscription: "rejected-event",
    suffix: "rejecting",
    event_type: "Example.Rejected",
};

/// Resubmissions that are followed from an event to the newest of its line; the default of
/// `replay.resubmissions_max`.
const FOLLOWED_MAX: usize = 10;

/// What the inspectors of the guide answer, by step.
const TAKES: &str = "200";
const FAILS_TWICE: &str = "503 503 200";
const REFUSES: &str = "400";

/// What has been done so far, as the address says.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Progress {
    topic: String,
    /// The event that was delivered at once.
    taken: Option<i64>,
    /// The event that failed twice.
    failed: Option<i64>,
    /// The event that was refused.
    refused: Option<i64>,
}

impl Progress {
    /// The page as it is by then.
    fn page(&self) -> String {
        link(PATH, &Filled::with(self.clone()).pairs())
    }
}

/// The name to give to the topic.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct TopicForm {
    topic: String,
}

#[derive(Template)]
#[template(path = "pages/first_event.html")]
struct FirstEventPage {
    frame: Frame,
    form: Filled<TopicForm>,
    done: Progress,
    ready: Option<Ready>,
    taken: Option<Sent>,
    failed: Option<Sent>,
    refused: Option<Sent>,
}

/// The topic with its inspector, once they are there.
struct Ready {
    topic: TopicName,
    inspector: InspectorName,
    /// Whether the other inspector would refuse the next event for good.
    refuses: bool,
    example: String,
}

/// An event of the guide and what became of it.
struct Sent {
    key: EventKey,
    /// Where it stands, for the sentence above its deliveries.
    state: Option<DeliveryState>,
    /// The dead letter that waits to be resubmitted.
    dead_letter: Option<DeliveryId>,
    deliveries: Vec<DeliveryCard>,
}

impl Sent {
    fn is_delivered(&self) -> bool {
        self.state == Some(DeliveryState::Delivered)
    }
}

/// The guide, as far as it has come.
pub(crate) async fn show(Query(done): Query<Progress>, call: Call) -> PageResult {
    let topic = "orders".to_owned();
    draw_page(&call, done, Filled::with(TopicForm { topic })).await
}

/// Makes the topic, the inspectors and the event subscriptions between them, where they are missing.
pub(crate) async fn prepare(call: Call) -> PageResult {
    let form = Filled::<TopicForm>::sent(&call.form);
    let topic = match name_of(form.values.topic.trim()) {
        Ok(topic) => topic,
        Err(problem) => return refuse_name(&call, form, problem).await,
    };
    let entry = match call.broker.registry().topic(&topic).cloned() {
        Some(entry) if entry.topic.is_built_in() => {
            let problem = "The appliance alone publishes to this topic; take another name.";
            return refuse_name(&call, form, problem.to_owned()).await;
        }
        Some(entry) => entry,
        None => {
            let definition = resource::parse_topic(&json!({ "location": "local" }));
            let definition = definition.map_err(|error| PageError::Conflict(error.to_string()))?;
            let put = call.broker.put_topic(call.by(), topic.clone(), definition);
            put.await?
        }
    };
    TAKING.prepare(&call, &entry, TAKES).await?;
    // Now, so that its handshake is over when the step comes.
    REJECTING.prepare(&call, &entry, REFUSES).await?;
    let done = Progress {
        topic: topic.to_string(),
        ..Progress::default()
    };
    Ok(Redirect::to(&format!("{}#publish", done.page())).into_response())
}

async fn refuse_name(call: &Call, form: Filled<TopicForm>, problem: String) -> PageResult {
    let form = form.with_faults([Refusal::of("topic", problem)]);
    draw_page(call, Progress::default(), form).await
}

fn name_of(topic: &str) -> Result<TopicName, String> {
    let topic = TopicName::custom(topic).map_err(|error| sentence(&error.to_string()))?;
    match TAKING.inspector(&topic).and(REJECTING.inspector(&topic)) {
        Ok(_) => Ok(topic),
        Err(_) => Err("Use a shorter name.".to_owned()),
    }
}

/// Publishes an event that is taken at once.
pub(crate) async fn publish(call: Call) -> PageResult {
    TAKING
        .send(&call, TAKES, "publish", |done| &mut done.taken)
        .await
}

/// Publishes an event whose receiver fails twice.
pub(crate) async fn fail(call: Call) -> PageResult {
    TAKING
        .send(&call, FAILS_TWICE, "fail", |done| &mut done.failed)
        .await
}

/// Publishes an event that is refused.
pub(crate) async fn refuse(call: Call) -> PageResult {
    REJECTING
        .send(&call, REFUSES, "refuse", |done| &mut done.refused)
        .await
}

/// Lets the inspector take events again and sends the dead letter, where there is one, once more.
pub(crate) async fn repair(call: Call) -> PageResult {
    let done = Filled::<Progress>::sent(&call.form).values;
    let entry = call.custom_topic(&done.topic)?;
    let dead = call.form.filled("delivery").map(delivery_id).transpose()?;
    REJECTING.prepare(&call, &entry, TAKES).await?;
    let message = match dead {
        None => "The inspector answers 200 from now on.".to_owned(),
        Some(id) => {
            let fresh = call.broker.resubmit(call.by(), id).await?;
            format!("Dead letter {id} has been resubmitted as delivery {fresh}.")
        }
    };
    let page = format!("{}#refuse", done.page());
    call.visitor.leave(Flash::done(message), &page).await
}

impl Way {
    fn inspector(&self, topic: &TopicName) -> PageResult<InspectorName> {
        let name = InspectorName::parse(&format!("{topic}-{}", self.suffix));
        name.map_err(|error| PageError::Conflict(sentence(&error.to_string())))
    }

    /// Makes the inspector, and the event subscription, where they are missing. The inspector answers like this from
    /// now on.
    async fn prepare(&self, call: &Call, topic: &TopicEntry, answers: &str) -> PageResult<()> {
        let inspector = self.inspector(&topic.topic.name)?;
        let definition = InspectorDefinition {
            responses: answers.parse().expect("the guide's own scripts are good"),
            ..InspectorDefinition::default()
        };
        let put = call.broker.put_inspector(call.by(), &inspector, definition);
        put.await?;
        let name = SubscriptionName::parse(self.subscription).expect("the guide's own name");
        let event_type = Some(self.event_type);
        deliver_to(call, &call.visitor, topic, name, &inspector, event_type).await?;
        Ok(())
    }

    /// Publishes an example to the topic, whose inspector answers like this from now on, and notes it in the address.
    async fn send(
        &self,
        call: &Call,
        answers: &str,
        step: &str,
        noted: fn(&mut Progress) -> &mut Option<i64>,
    ) -> PageResult {
        let mut done = Filled::<Progress>::sent(&call.form).values;
        let topic = call.custom_topic(&done.topic)?;
        self.prepare(call, &topic, answers).await?;
        let schema = &topic.topic.definition.input_schema;
        let (entropy, now) = (call.broker.entropy(), call.visitor.now);
        let example = wire::example(schema, entropy, now).to_string();
        let event = wire::decode_one(schema, &topic.resource_id, &example, now, entropy)
            .map_err(|error| PageError::Conflict(sentence(&error.to_string())))?;
        let event = Event {
            event_type: self.event_type.to_owned(),
            ..event
        };
        let keys = call
            .broker
            .publish_by_hand(call.by(), &topic, vec![event])
            .await?;
        let repeated = || PageError::Conflict("The event was taken for a repetition.".to_owned());
        *noted(&mut done) = Some(keys.first().ok_or_else(repeated)?.0);
        Ok(Redirect::to(&format!("{}#{step}", done.page())).into_response())
    }
}

async fn draw_page(call: &Call, done: Progress, form: Filled<TopicForm>) -> PageResult {
    let ready = match done.topic.as_str() {
        "" => None,
        topic => Some(Ready::find(call, topic).await?),
    };
    let page = FirstEventPage {
        frame: Frame::new(&call.visitor, "First event"),
        form,
        ready,
        taken: sent(call, done.taken, &done).await?,
        failed: sent(call, done.failed, &done).await?,
        refused: sent(call, done.refused, &done).await?,
        done,
    };
    Ok(draw_with(page.form.status(), &page))
}

impl Ready {
    async fn find(call: &Call, topic: &str) -> PageResult<Self> {
        let topic = call.custom_topic(topic)?;
        let name = &topic.topic.name;
        let inspector = call.broker.inspector(&TAKING.inspector(name)?).await?;
        let rejecting = call.broker.inspector(&REJECTING.inspector(name)?).await;
        let schema = &topic.topic.definition.input_schema;
        let example = wire::example(schema, call.broker.entropy(), call.visitor.now);
        Ok(Self {
            topic: name.clone(),
            refuses: rejecting.is_ok_and(|inspector| refuses(&inspector)),
            inspector: inspector.name,
            example: json_text::laid_out(&example.to_string()),
        })
    }
}

fn refuses(inspector: &Inspector) -> bool {
    let next = inspector.definition.response(inspector.turn, 0);
    next == ScriptedResponse::Status(400)
}

/// An event and those that it was resubmitted as, one after the other. `None` for a step that has not been taken, or
/// whose event is gone.
async fn sent(call: &Call, key: Option<i64>, done: &Progress) -> PageResult<Option<Sent>> {
    let mut next = key.map(EventKey);
    let mut line = Vec::new();
    while let Some(key) = next.filter(|_| line.len() <= FOLLOWED_MAX)
        && let Some(event) = call.views.event(key).await?
    {
        let newest = event.lineage.resubmissions.last();
        next = newest.and_then(|resubmission| resubmission.as_event);
        line.push(event);
    }
    let Some(key) = line.first().map(|event| event.stored.key) else {
        return Ok(None);
    };
    let deliveries: Vec<_> = line
        .into_iter()
        .flat_map(|event| event.deliveries)
        .collect();
    let newest = deliveries.last().map(|each| &each.row);
    let dead = newest.filter(|row| row.state == DeliveryState::DeadLettered);
    let (state, dead_letter) = (newest.map(|row| row.state), dead.map(|row| row.id));
    let card = |each| DeliveryCard::new(each, &call.visitor).with_retry(&done.page());
    Ok(Some(Sent {
        key,
        state,
        dead_letter,
        deliveries: deliveries.into_iter().map(card).collect(),
    }))
}
