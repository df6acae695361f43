//! The guided way from an empty appliance to a delivered event, and to one that fails on the way.
//!
//! Every step is a form. What has been done so far stands in the address alone, so that the page can be
//! read again, left and come back to.

use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use crate::admin::bare::draw_with;
use crate::admin::forms::field::{Field, Problem, mark};
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
use crate::store::views::EventDetail;
use crate::wire::{self, resource};

const PATH: &str = "/admin/first-event";

/// The topic that is proposed.
const TOPIC: &str = "orders";

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
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Done {
    topic: String,
    /// The event that was delivered at once.
    taken: Option<i64>,
    /// The event that failed twice.
    failed: Option<i64>,
    /// The event that was refused.
    refused: Option<i64>,
}

impl Done {
    fn of(form: &Form) -> Self {
        let number = |name: &str| form.text(name).parse().ok();
        Self {
            topic: form.text("topic").to_owned(),
            taken: number("taken"),
            failed: number("failed"),
            refused: number("refused"),
        }
    }

    fn page(&self, step: &str) -> String {
        let number = |key: Option<i64>| key.map_or_else(String::new, |key| key.to_string());
        let parameters = [
            ("topic", self.topic.clone()),
            ("taken", number(self.taken)),
            ("failed", number(self.failed)),
            ("refused", number(self.refused)),
        ];
        format!("{}#{step}", link(PATH, &parameters))
    }
}

#[derive(Template)]
#[template(path = "pages/first_event.html")]
struct FirstEventPage {
    frame: Frame,
    problem: Option<Problem>,
    field: Field,
    done: Done,
    /// The page as it is, to be read again.
    again_path: String,
    ready: Option<Ready>,
    taken: Option<Sent>,
    failed: Option<Sent>,
    refused: Option<Sent>,
}

/// The topic with its inspector, once they are there.
struct Ready {
    topic_path: String,
    inspector: String,
    inspector_path: String,
    /// Whether the other inspector would refuse the next event for good.
    refuses: bool,
    example: String,
}

/// An event of the guide and what became of it.
struct Sent {
    path: String,
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
pub(crate) async fn show(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(done): Query<Done>,
) -> PageResult {
    let form = Form::of([("topic", TOPIC.to_owned())]);
    draw(&site, &visitor, done, &form, None).await
}

/// Makes the topic, the inspectors and the event subscriptions between them, where they are missing.
pub(crate) async fn prepare(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let topic = match name_of(form.text("topic")) {
        Ok(topic) => topic,
        Err(refusal) => {
            return draw(&site, &visitor, Done::default(), &form, Some(refusal)).await;
        }
    };
    let entry = match site.broker.registry().topic(&topic).cloned() {
        Some(entry) if entry.topic.is_built_in() => {
            let problem = "The appliance alone publishes to this topic; take another name.";
            let refusal = Refusal::of("topic", problem);
            return draw(&site, &visitor, Done::default(), &form, Some(refusal)).await;
        }
        Some(entry) => entry,
        None => {
            let definition = resource::parse_topic(&json!({ "location": "local" }))
                .map_err(|error| PageError::Conflict(error.to_string()))?;
            site.broker
                .put_topic(&visitor.caller, topic.clone(), definition)
                .await?
        }
    };
    TAKING.prepare(&site, &visitor, &entry, TAKES).await?;
    // Now, so that its handshake is over when the step comes.
    REJECTING.prepare(&site, &visitor, &entry, REFUSES).await?;
    let done = Done {
        topic: topic.to_string(),
        ..Done::default()
    };
    Ok(Redirect::to(&done.page("publish")).into_response())
}

/// Publishes an event that is taken at once.
pub(crate) async fn publish(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let mut done = Done::of(&form);
    done.taken = Some(TAKING.send(&site, &visitor, &done.topic, TAKES).await?.0);
    Ok(Redirect::to(&done.page("publish")).into_response())
}

/// Publishes an event whose receiver fails twice.
pub(crate) async fn fail(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let mut done = Done::of(&form);
    done.failed = Some(
        TAKING
            .send(&site, &visitor, &done.topic, FAILS_TWICE)
            .await?
            .0,
    );
    Ok(Redirect::to(&done.page("fail")).into_response())
}

/// Publishes an event that is refused.
pub(crate) async fn refuse(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let mut done = Done::of(&form);
    done.refused = Some(
        REJECTING
            .send(&site, &visitor, &done.topic, REFUSES)
            .await?
            .0,
    );
    Ok(Redirect::to(&done.page("refuse")).into_response())
}

/// Lets the inspector take events again and sends the dead letter, where there is one, once more.
pub(crate) async fn repair(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let done = Done::of(&form);
    let entry = site.custom_topic(&done.topic)?;
    let dead = Some(form.text("delivery")).filter(|id| !id.is_empty());
    let dead = dead.map(delivery_id).transpose()?;
    REJECTING.prepare(&site, &visitor, &entry, TAKES).await?;
    let message = match dead {
        None => "The inspector answers 200 from now on.".to_owned(),
        Some(id) => {
            let fresh = site.broker.resubmit(&visitor.caller, id).await?;
            format!("Dead letter {id} has been resubmitted as delivery {fresh}.")
        }
    };
    visitor
        .leave(Flash::done(message), &done.page("refuse"))
        .await
}

fn name_of(topic: &str) -> Result<TopicName, Refusal> {
    let refuse = |problem: String| Refusal::of("topic", sentence(&problem));
    let topic = TopicName::custom(topic).map_err(|error| refuse(error.to_string()))?;
    match TAKING.inspector(&topic).and(REJECTING.inspector(&topic)) {
        Ok(_) => Ok(topic),
        Err(_) => Err(refuse("use a shorter name".to_owned())),
    }
}

impl Way {
    fn inspector(&self, topic: &TopicName) -> Result<InspectorName, PageError> {
        let name = InspectorName::parse(&format!("{topic}-{}", self.suffix));
        name.map_err(|error| PageError::Conflict(sentence(&error.to_string())))
    }

    /// Makes the inspector, and the event subscription, where they are missing. The inspector answers like this from
    /// now on.
    async fn prepare(
        &self,
        site: &Site,
        visitor: &Visitor,
        topic: &TopicEntry,
        answers: &str,
    ) -> Result<(), PageError> {
        let inspector = self.inspector(&topic.topic.name)?;
        let definition = InspectorDefinition {
            responses: answers.parse().expect("the guide's own scripts are good"),
            ..InspectorDefinition::default()
        };
        let by = &visitor.caller;
        site.broker
            .put_inspector(by, &inspector, definition)
            .await?;
        let name = SubscriptionName::parse(self.subscription).expect("the guide's own name");
        let event_type = Some(self.event_type);
        deliver_to(site, visitor, topic, name, &inspector, event_type).await?;
        Ok(())
    }

    /// Publishes an example to the topic, whose inspector answers like this from now on.
    async fn send(
        &self,
        site: &Site,
        visitor: &Visitor,
        topic: &str,
        answers: &str,
    ) -> Result<EventKey, PageError> {
        let topic = site.custom_topic(topic)?;
        self.prepare(site, visitor, &topic, answers).await?;
        let schema = &topic.topic.definition.input_schema;
        let (entropy, now) = (site.broker.entropy(), visitor.now);
        let example = wire::example(schema, entropy, now).to_string();
        let event = wire::decode_one(schema, &topic.resource_id, &example, now, entropy)
            .map_err(|error| PageError::Conflict(sentence(&error.to_string())))?;
        let event = Event {
            event_type: self.event_type.to_owned(),
            ..event
        };
        let by = &visitor.caller;
        let keys = site.broker.publish_by_hand(by, &topic, vec![event]).await?;
        let key = keys.first().copied();
        key.ok_or_else(|| PageError::Conflict("The event was taken for a repetition.".to_owned()))
    }
}

async fn draw(
    site: &Site,
    visitor: &Visitor,
    done: Done,
    form: &Form,
    refusal: Option<Refusal>,
) -> Result<Response, PageError> {
    let status = match refusal {
        None => StatusCode::OK,
        Some(_) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let ready = match done.topic.as_str() {
        "" => None,
        topic => Some(Ready::find(site, visitor, topic).await?),
    };
    let mut field = Field::line("topic", "Name of the topic", form)
        .hint("3 to 40 letters, digits and hyphens. A topic of that name that is there already is used.")
        .mono()
        .required();
    let back = done.page("");
    let back = back.trim_end_matches('#');
    let page = FirstEventPage {
        frame: Frame::new(visitor, "First event"),
        problem: mark(std::iter::once(&mut field), refusal),
        field,
        ready,
        taken: sent(site, visitor, done.taken, back).await?,
        failed: sent(site, visitor, done.failed, back).await?,
        refused: sent(site, visitor, done.refused, back).await?,
        again_path: back.to_owned(),
        done,
    };
    Ok(draw_with(status, &page))
}

impl Ready {
    async fn find(site: &Site, visitor: &Visitor, topic: &str) -> Result<Self, PageError> {
        let topic = site.custom_topic(topic)?;
        let name = &topic.topic.name;
        let inspector = site.broker.inspector(&TAKING.inspector(name)?).await?;
        let rejecting = site.broker.inspector(&REJECTING.inspector(name)?).await;
        let schema = &topic.topic.definition.input_schema;
        let example = wire::example(schema, site.broker.entropy(), visitor.now);
        Ok(Self {
            topic_path: topic_page(name.as_str()),
            inspector_path: inspector_page(&inspector.name),
            refuses: rejecting.is_ok_and(|inspector| refuses(&inspector)),
            inspector: inspector.name.to_string(),
            example: json_text::laid_out(&example.to_string()),
        })
    }
}

fn refuses(inspector: &Inspector) -> bool {
    let next = inspector.definition.response(inspector.turn, 0);
    next == ScriptedResponse::Status(400)
}

/// `None` for a step that has not been taken, or whose event is gone.
async fn sent(
    site: &Site,
    visitor: &Visitor,
    key: Option<i64>,
    back: &str,
) -> Result<Option<Sent>, PageError> {
    let mut next = key.map(EventKey);
    let mut line = Vec::new();
    while let Some(key) = next.filter(|_| line.len() <= FOLLOWED_MAX)
        && let Some(event) = site.views.event(key).await?
    {
        let newest = event.lineage.resubmissions.last();
        next = newest.and_then(|resubmission| resubmission.as_event);
        line.push(event);
    }
    Ok(Sent::new(visitor, line, back))
}

impl Sent {
    /// An event and those that it was resubmitted as, one after the other.
    fn new(visitor: &Visitor, line: Vec<EventDetail>, back: &str) -> Option<Self> {
        let path = event_page(line.first()?.stored.key);
        let deliveries = line.into_iter().flat_map(|event| event.deliveries);
        let deliveries: Vec<_> = deliveries.collect();
        let newest = deliveries.last().map(|each| &each.row);
        let dead = newest.filter(|row| row.state == DeliveryState::DeadLettered);
        Some(Self {
            path,
            state: newest.map(|row| row.state),
            dead_letter: dead.map(|row| row.id),
            deliveries: deliveries
                .into_iter()
                .map(|each| DeliveryCard::new(each, visitor).with_retry(back))
                .collect(),
        })
    }
}
