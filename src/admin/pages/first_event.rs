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
use crate::model::event::EventKey;
use crate::model::inspector::{Inspector, InspectorDefinition};
use crate::model::name::{InspectorName, SubscriptionName, TopicName};
use crate::model::response_script::ScriptedResponse;
use crate::store::views::EventDetail;
use crate::wire::{self, resource};

const PATH: &str = "/admin/first-event";

/// The topic that is proposed.
const TOPIC: &str = "orders";

/// The event subscription between the two.
const SUBSCRIPTION: &str = "first-event";

/// Resubmissions that are followed from an event to the newest of its line; the default of
/// `replay.resubmissions_max`.
const FOLLOWED_MAX: usize = 10;

/// What the inspector of the guide answers, by step.
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
    /// Whether it would refuse the next event for good.
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

    /// Whether the answers of the inspector still decide about it.
    fn is_pending(&self) -> bool {
        self.state == Some(DeliveryState::Pending)
    }
}

impl FirstEventPage {
    /// Whether the event that fails twice would fail for good if the inspector answered otherwise now.
    fn must_wait(&self) -> bool {
        self.failed.as_ref().is_some_and(Sent::is_pending)
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

/// Makes the topic, the inspector and the event subscription between them, where they are missing.
pub(crate) async fn prepare(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let names = names(form.text("topic"));
    let (topic, inspector) = match names {
        Ok(names) => names,
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
    answer_with(&site, &visitor, &inspector, TAKES).await?;
    let name = SubscriptionName::parse(SUBSCRIPTION).expect("the guide's own name is good");
    deliver_to(&site, &visitor, &entry, name, &inspector).await?;
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
    done.taken = Some(send(&site, &visitor, &done.topic, TAKES).await?.0);
    Ok(Redirect::to(&done.page("publish")).into_response())
}

/// Publishes an event whose receiver fails twice.
pub(crate) async fn fail(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let mut done = Done::of(&form);
    done.failed = Some(send(&site, &visitor, &done.topic, FAILS_TWICE).await?.0);
    Ok(Redirect::to(&done.page("fail")).into_response())
}

/// Publishes an event that is refused.
pub(crate) async fn refuse(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let mut done = Done::of(&form);
    done.refused = Some(send(&site, &visitor, &done.topic, REFUSES).await?.0);
    Ok(Redirect::to(&done.page("refuse")).into_response())
}

/// Lets the inspector take events again and sends the dead letter, where there is one, once more.
pub(crate) async fn repair(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let done = Done::of(&form);
    let inspector = ready(&site, &done.topic).await?.1.name;
    let dead = Some(form.text("delivery")).filter(|id| !id.is_empty());
    let dead = dead.map(delivery_id).transpose()?;
    answer_with(&site, &visitor, &inspector, TAKES).await?;
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

fn names(topic: &str) -> Result<(TopicName, InspectorName), Refusal> {
    let refuse = |problem: String| Refusal::of("topic", sentence(&problem));
    let topic = TopicName::custom(topic).map_err(|error| refuse(error.to_string()))?;
    let inspector = InspectorName::parse(&format!("{topic}-inspector"))
        .map_err(|_| refuse("use a shorter name".to_owned()))?;
    Ok((topic, inspector))
}

/// The topic and the inspector of a step that comes after the first.
async fn ready(site: &Site, topic: &str) -> Result<(Arc<TopicEntry>, Inspector), PageError> {
    let entry = site.custom_topic(topic)?;
    let names = names(entry.topic.name.as_str());
    let (_, inspector) = names.map_err(|refusal| PageError::Conflict(refusal.problem))?;
    Ok((entry, site.broker.inspector(&inspector).await?))
}

async fn answer_with(
    site: &Site,
    visitor: &Visitor,
    inspector: &InspectorName,
    answers: &str,
) -> Result<(), PageError> {
    let definition = InspectorDefinition {
        responses: answers.parse().expect("the guide's own scripts are good"),
        ..InspectorDefinition::default()
    };
    site.broker
        .put_inspector(&visitor.caller, inspector, definition)
        .await?;
    Ok(())
}

/// Publishes an example to the topic, whose inspector answers like this from now on.
async fn send(
    site: &Site,
    visitor: &Visitor,
    topic: &str,
    answers: &str,
) -> Result<EventKey, PageError> {
    let (topic, inspector) = ready(site, topic).await?;
    answer_with(site, visitor, &inspector.name, answers).await?;
    let schema = &topic.topic.definition.input_schema;
    let (entropy, now) = (site.broker.entropy(), visitor.now);
    let example = wire::example(schema, entropy, now).to_string();
    let event = wire::decode_one(schema, &topic.resource_id, &example, now, entropy)
        .map_err(|error| PageError::Conflict(sentence(&error.to_string())))?;
    let by = &visitor.caller;
    let keys = site.broker.publish_by_hand(by, &topic, vec![event]).await?;
    let key = keys.first().copied();
    key.ok_or_else(|| PageError::Conflict("The event was taken for a repetition.".to_owned()))
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
        let (topic, inspector) = ready(site, topic).await?;
        let schema = &topic.topic.definition.input_schema;
        let example = wire::example(schema, site.broker.entropy(), visitor.now);
        Ok(Self {
            topic_path: topic_page(topic.topic.name.as_str()),
            inspector_path: inspector_page(&inspector.name),
            refuses: refuses(&inspector),
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
