//! The guided way from an empty appliance to a delivered event, and to one that fails on the way.
//!
//! Every step is a form. The progress is kept in the address alone, so that the page can be reloaded, left and
//! returned to.

use std::sync::Arc;

use axum::extract::Query;
use axum::response::{IntoResponse, Redirect, Response};
use serde::{Deserialize, Serialize};

use crate::admin::action::{Call, name_of};
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::filled::FilledForm;
use crate::admin::forms::form::{Form, FormError};
use crate::admin::lists::link;
use crate::admin::pages::answer;
use crate::admin::pages::delivery::DeliveryCard;
use crate::admin::pages::inspectors::deliver_to;
use crate::admin::pages::topics::example;
use crate::admin::paths;
use crate::admin::site::numbered;
use crate::admin::widgets::{Badge, Icon, Tone, filters, json_text};
use crate::model::delivery::{DeliveryId, DeliveryState};
use crate::model::event::{Event, EventKey};
use crate::model::inspector::InspectorDefinition;
use crate::model::name::{InspectorName, SubscriptionName, TopicName};
use crate::model::registry::TopicEntry;
use crate::model::response_script::ScriptedResponse;
use crate::model::topic::{CustomTopic, TopicKind};
use crate::store::views::DeliveryDetail;
use crate::wire;

/// An event subscription of the guide: its name, the name suffix of its own inspector, and the type of its events. The
/// rejected event has its own subscription, so that it does not affect the delivery of the others.
struct Way(&'static str, &'static str, &'static str);

const TAKING: Way = Way("first-event", "inspector", "Example.Created");
const REJECTING: Way = Way("rejected-event", "rejecting", "Example.Rejected");

/// Resubmissions that are followed from an event to the newest of its line; the default of
/// `replay.resubmissions_max`.
const FOLLOWED_MAX: usize = 10;

/// The progress through the guide, as the query of its address has it: the topic, and the events that were delivered at
/// once, failed twice, and were rejected.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct GuideProgress {
    topic: String,
    taken: Option<i64>,
    failed: Option<i64>,
    rejected: Option<i64>,
}

impl GuideProgress {
    /// Returns the address of the page with this progress.
    fn page(&self) -> String {
        link(
            "/admin/first-event",
            &FilledForm::with(self.clone()).pairs(),
        )
    }

    /// Redirects to a step of the page.
    fn at(&self, step: &str) -> Response {
        Redirect::to(&format!("{}#{step}", self.page())).into_response()
    }
}

/// The things that exist once the topic has been made.
struct GuideObjects {
    inspector: InspectorName,
    /// Is true if the other inspector answers the next request with 400, so that the event becomes a dead letter at
    /// once.
    rejects: bool,
    example: String,
}

/// An event of the guide, with its deliveries and those of the events that it was resubmitted as.
struct GuideEvent {
    key: EventKey,
    deliveries: Vec<DeliveryCard>,
}

impl GuideEvent {
    /// Returns the newest delivery if it is in `state`.
    fn newest(&self, state: DeliveryState) -> Option<DeliveryId> {
        let newest = self.deliveries.last().map(|card| &card.detail.row);
        newest.filter(|row| row.state == state).map(|row| row.id)
    }

    fn is_delivered(&self) -> bool {
        self.newest(DeliveryState::Delivered).is_some()
    }
}

fn is_done(step: &Option<GuideEvent>) -> bool {
    step.as_ref().is_some_and(GuideEvent::is_delivered)
}

pub(crate) async fn show(Query(done): Query<GuideProgress>, call: Call) -> PageResult {
    let form = Form::of([("topic", "orders")]);
    draw_page(&call, done, FilledForm::sent(&form)).await
}

/// Makes the topic, the inspectors and the event subscriptions between them, where they are missing.
pub(crate) async fn prepare(call: Call) -> PageResult {
    let form = FilledForm::<GuideProgress>::sent(&call.form);
    let topic = match topic_named(&call, form.values.topic.trim()).await {
        Ok(topic) => topic,
        Err(error) => {
            let faulty_form = form.with_faults(error.in_form()?);
            return draw_page(&call, GuideProgress::default(), faulty_form).await;
        }
    };
    TAKING.prepare(&call, &topic, "200").await?;
    // The rejecting subscription is prepared early, so that its validation handshake is over when its step comes.
    REJECTING.prepare(&call, &topic, "400").await?;
    let done = GuideProgress {
        topic: topic.topic.name.to_string(),
        ..GuideProgress::default()
    };
    Ok(done.at("publish"))
}

/// Returns the topic named `name`, and creates it if it does not exist.
async fn topic_named(call: &Call, name: &str) -> PageResult<Arc<TopicEntry>> {
    let reject = |problem: &str| FormError::of("topic", problem);
    // The names of the inspectors begin with the topic name.
    let unfit = || reject("Use 3 to 40 letters, digits and hyphens.");
    let name = TopicName::custom(name).map_err(|_| unfit())?;
    let inspectors = TAKING.inspector(&name).and(REJECTING.inspector(&name));
    inspectors.map_err(|_| unfit())?;
    match call.broker.registry().topic(&name).cloned() {
        Some(entry) if entry.topic.kind.is_built_in() => {
            Err(reject("The appliance alone publishes to this topic; take another name.").into())
        }
        Some(entry) => Ok(entry),
        None => {
            let kind = TopicKind::Custom(CustomTopic::default());
            Ok(call.broker.put_topic(call.by(), name, kind).await?)
        }
    }
}

/// Publishes an event that is taken at once, one whose receiver fails twice, or one that is rejected, and notes it in the
/// address.
pub(crate) async fn publish(call: Call) -> PageResult {
    let mut done = FilledForm::<GuideProgress>::sent(&call.form).values;
    let step = name_of(&call.names, "step");
    let (way, answers, noted) = match step {
        "publish" => (TAKING, "200", &mut done.taken),
        "fail" => (TAKING, "503 503 200", &mut done.failed),
        "reject" => (REJECTING, "400", &mut done.rejected),
        _ => return Err(PageError::NotFound(format!("step {step}"))),
    };
    let topic = call.custom_topic(&done.topic)?;
    way.prepare(&call, &topic, answers).await?;
    let schema = topic.topic.kind.input_schema();
    let (text, entropy) = (example(&call, &topic).to_string(), call.broker.entropy());
    let event = wire::decode_one(schema, &topic.resource_id, &text, call.visitor.now, entropy);
    let mut event: Event = event.map_err(PageError::rejected)?;
    way.2.clone_into(&mut event.event_type);
    let (broker, events) = (&call.broker, vec![event]);
    let keys = broker.publish_by_hand(call.by(), &topic, events).await?;
    let repeated = || PageError::rejected("The event was taken for a repetition.");
    *noted = Some(keys.first().ok_or_else(repeated)?.0);
    Ok(done.at(step))
}

/// Lets the inspector take events again and sends the dead letter, where there is one, once more.
pub(crate) async fn repair(call: Call) -> PageResult {
    let done = FilledForm::<GuideProgress>::sent(&call.form).values;
    let topic = call.custom_topic(&done.topic)?;
    let dead = call
        .form
        .filled("delivery")
        .map(|id| numbered("delivery", id))
        .transpose()?;
    REJECTING.prepare(&call, &topic, "200").await?;
    if let Some(id) = dead.map(DeliveryId) {
        call.broker.resubmit(call.by(), id).await?;
    }
    Ok(done.at("reject"))
}

impl Way {
    fn inspector(&self, topic: &TopicName) -> PageResult<InspectorName> {
        InspectorName::parse(&format!("{topic}-{}", self.1)).map_err(PageError::rejected)
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
        let name = SubscriptionName::parse(self.0).expect("the guide's own name");
        deliver_to(call, topic, name, &inspector, Some(self.2)).await?;
        Ok(())
    }
}

async fn draw_page(
    call: &Call,
    done: GuideProgress,
    form: FilledForm<GuideProgress>,
) -> PageResult {
    let ready = match done.topic.as_str() {
        "" => None,
        topic => Some(GuideObjects::find(call, topic).await?),
    };
    answer!("pages/first_event.html", &call.visitor, "First event", {
        form: FilledForm<GuideProgress> = form,
        ready: Option<GuideObjects> = ready,
        taken: Option<GuideEvent> = sent(call, done.taken, &done).await?,
        failed: Option<GuideEvent> = sent(call, done.failed, &done).await?,
        rejected: Option<GuideEvent> = sent(call, done.rejected, &done).await?,
        done: GuideProgress = done,
    }, form)
}

impl GuideObjects {
    async fn find(call: &Call, topic: &str) -> PageResult<Self> {
        let topic = call.custom_topic(topic)?;
        let (name, broker) = (&topic.topic.name, &call.broker);
        let rejecting = broker.inspector(&REJECTING.inspector(name)?).await;
        let next = rejecting.map(|it| it.definition.response(it.turn, 0));
        Ok(Self {
            inspector: broker.inspector(&TAKING.inspector(name)?).await?.name,
            rejects: next.is_ok_and(|next| next == ScriptedResponse::Status(400)),
            example: json_text::laid_out(&example(call, &topic).to_string()),
        })
    }
}

/// An event and those that it was resubmitted as, one after the other. `None` for a step that has not been taken, or
/// whose event is gone.
async fn sent(
    call: &Call,
    key: Option<i64>,
    done: &GuideProgress,
) -> PageResult<Option<GuideEvent>> {
    let (mut next, mut line) = (key.map(EventKey), Vec::new());
    while let Some(key) = next.filter(|_| line.len() <= FOLLOWED_MAX)
        && let Some(event) = call.views.event(key).await?
    {
        let newest = event.lineage.resubmissions.last();
        next = newest.and_then(|resubmission| resubmission.as_event);
        line.push(event);
    }
    let key = line.first().map(|event| event.stored.key);
    let card = |each| DeliveryCard::new(each, &call.visitor, &call.broker).with_retry(&done.page());
    // The topic may have other event subscriptions, which the guide does not speak of.
    let is_ours =
        |each: &DeliveryDetail| [TAKING.0, REJECTING.0].contains(&&*each.row.subscription);
    let deliveries = line
        .into_iter()
        .flat_map(|event| event.deliveries)
        .filter(is_ours)
        .map(card)
        .collect();
    Ok(key.map(|key| GuideEvent { key, deliveries }))
}
