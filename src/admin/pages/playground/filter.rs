//! Would this event get through this filter? The answer is that of the API's `explain`.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::admin::forms::field::Field;
use crate::admin::lists::filter::{Of, of_options};
use crate::admin::lists::recipe::{command, quoted};
use crate::admin::page::*;
use crate::admin::pages::events::FilterResults;
use crate::admin::pages::playground::pasted;
use crate::admin::pages::playground::pasted::{EVENT, Pasted};
use crate::admin::pages::playground::verdict::VerdictText;
use crate::admin::pages::playground::{DO, Tool};
use crate::admin::widgets::json_text;
use crate::model::explanation::Explanation;
use crate::model::filter::{Dialect, Filter};
use crate::model::subscription::EventSubscription;
use crate::wire::resource::{InvalidResource, parse_filter, render_filter};

const PATH: &str = "/admin/playground/filter";
const OF: &str = "of";
const FILTER: &str = "filter";

/// What the button says that writes the filter of the chosen subscription into the form.
const TAKE: &str = "take";

/// Bytes of a pasted filter. The longest that there can be, of 25 clauses with texts of 512 characters, is
/// well below.
const FILTER_BYTES_MAX: usize = 65_536;

/// Bytes of an event up to which commands have it in them; a longer one is better kept in a file.
const RECIPE_BYTES_MAX: usize = 4_096;

#[derive(Template)]
#[template(path = "pages/playground_filter.html")]
struct FilterPage {
    frame: Frame,
    tool: Tool,
    /// What the answer is about.
    asked: String,
    verdict: Option<VerdictText>,
    /// The answer where all subscriptions of a topic are asked.
    everybody: Option<FilterResults>,
    recipe: Option<Recipe>,
}

/// What the form asks for.
#[derive(Default)]
struct Chosen {
    topic: Option<Arc<TopicEntry>>,
    subscription: Option<Arc<EventSubscription>>,
}

/// An answer ready to print.
#[derive(Default)]
struct AttemptResult {
    asked: String,
    verdict: Option<VerdictText>,
    everybody: Option<FilterResults>,
    recipe: Option<Recipe>,
}

/// What the URL chooses.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    of: String,
}

/// The form with an event to begin with.
pub(crate) async fn draft(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(asked): Query<Asked>,
) -> PageResult {
    let mut form = Form::of([(OF, asked.of)]);
    pasted::fill_example(&site, &mut form, visitor.now);
    Ok(draw(&site, &visitor, &form, Ok(AttemptResult::default())))
}

/// Tries the filter, or writes one into the form.
pub(crate) async fn try_on_event(
    State(site): State<Arc<Site>>,
    Submitted { visitor, mut form }: Submitted,
) -> PageResult {
    let answer = match form.text(DO) {
        TAKE => take_over(&site, &mut form).map(|()| AttemptResult::default()),
        _ => answer(&site, &form, visitor.now),
    };
    Ok(draw(&site, &visitor, &form, answer))
}

fn answer(site: &Site, form: &Form, now: Timestamp) -> Result<AttemptResult, Refusal> {
    let chosen = Chosen::of(site, form)?;
    let pasted = Pasted::read(site, form, chosen.topic.clone(), now)?;
    if form.filled(FILTER).is_some() {
        let filter = typed(form, chosen.topic.as_deref())?;
        return Ok(AttemptResult {
            asked: "The filter above".to_owned(),
            verdict: Some(VerdictText::of_filter(&filter.explain(&pasted.view()))),
            ..AttemptResult::default()
        });
    }
    match (&chosen.topic, &chosen.subscription) {
        (Some(topic), Some(subscription)) => {
            let explanation = Explanation::new(subscription, &pasted.view(), now);
            Ok(AttemptResult {
                asked: format!("Event subscription {}", subscription.name),
                verdict: Some(VerdictText::of_subscription(&explanation)),
                everybody: None,
                recipe: Some(recipe(site, form, topic, Some(subscription))),
            })
        }
        (Some(topic), None) => Ok(AttemptResult {
            asked: format!("Who would get it from {}", topic.topic.name),
            verdict: None,
            everybody: Some(FilterResults::of_pasted(&pasted.event, topic, now)),
            recipe: Some(recipe(site, form, topic, None)),
        }),
        (None, _) => Err(Refusal::of(
            FILTER,
            "Write a filter here, or choose an event subscription above to try its own.",
        )),
    }
}

/// Writes the filter of the chosen subscription into the form.
fn take_over(site: &Site, form: &mut Form) -> Result<(), Refusal> {
    let chosen = Chosen::of(site, form)?;
    let Some(subscription) = chosen.subscription else {
        let problem = "Choose the event subscription whose filter is to be written below.";
        return Err(Refusal::of(OF, problem));
    };
    let filter = &subscription.definition.filter;
    form.set(
        FILTER,
        json_text::laid_out(&render_filter(filter).to_string()),
    );
    Ok(())
}

/// The filter that was typed, in the form that subscriptions of `topic` have.
fn typed(form: &Form, topic: Option<&TopicEntry>) -> Result<Filter, Refusal> {
    pasted::text(form, FILTER, FILTER_BYTES_MAX)?;
    let filter = form.json(FILTER)?;
    if !filter.is_object() {
        let problem = "It must be an object, such as {\"subjectBeginsWith\": \"/orders/\"}; {} \
                       matches every event.";
        return Err(Refusal::of(FILTER, problem));
    }
    let dialect = topic.map_or(Dialect::Basic, TopicEntry::filter_dialect);
    let invalid = |invalid: InvalidResource| Refusal::of(FILTER, sentence(&invalid.to_string()));
    parse_filter(dialect, &filter).map_err(invalid)
}

impl Chosen {
    fn of(site: &Site, form: &Form) -> Result<Self, Refusal> {
        let registry = site.broker.registry();
        let missing = || Refusal::of(OF, "There is no such topic or event subscription any more.");
        let of = Of::named(form.text(OF), &registry).ok_or_else(missing)?;
        if let Some((topic, subscription)) =
            of.subscription.and_then(|id| registry.subscription(id))
        {
            return Ok(Self {
                topic: Some(Arc::clone(topic)),
                subscription: Some(Arc::clone(subscription)),
            });
        }
        Ok(Self {
            topic: of.topic.and_then(|id| registry.topic_by_id(id)).cloned(),
            subscription: None,
        })
    }
}

/// The same question for the API and the command.
fn recipe(
    site: &Site,
    form: &Form,
    topic: &TopicEntry,
    subscription: Option<&Arc<EventSubscription>>,
) -> Recipe {
    let name = &topic.topic.name;
    let subscription = subscription.map(|each| each.name.to_string());
    let flags = |file: &str| {
        let flags = [
            ("topic", name.to_string()),
            ("subscription", subscription.clone().unwrap_or_default()),
        ];
        format!("{} --file {file}", command("everpost explain", &flags))
    };
    let event = form.text(EVENT);
    if event.len() > RECIPE_BYTES_MAX {
        return Recipe::everpost_alone(&flags("event.json"));
    }
    let below = subscription
        .as_ref()
        .map(|each| format!("/eventSubscriptions/{each}"));
    let path = format!("{}{}/explain", name.path(), below.unwrap_or_default());
    let body = json!({ EVENT: serde_json::from_str::<Value>(event).unwrap_or_default() });
    let command = format!("echo {} | {}", quoted(event), flags("-"));
    Recipe::post(&site.management_url(&path), &body).everpost(command)
}

fn fields(site: &Site, form: &Form) -> Vec<Field> {
    let none = "None: recognize the event by itself";
    let options = of_options(&site.broker.registry(), none);
    vec![
        pasted::field(form),
        Field::grouped_choice(OF, "Topic or subscription", vec![("", options)], form).hint(
            "The topic says how the event is read; a custom event cannot be read without one.",
        ),
        Field::area(FILTER, "Filter", 8, form).hint(
            "A JSON object in Azure's form, such as {\"includedEventTypes\": [\"Example.Created\"], \
             \"advancedFilters\": [{\"operatorType\": \"NumberGreaterThan\", \"key\": \"data.number\", \
             \"value\": 5}]}. Empty asks the chosen subscription, or all subscriptions of the chosen \
             topic.",
        ),
    ]
}

fn draw(
    site: &Site,
    visitor: &Visitor,
    form: &Form,
    answer: Result<AttemptResult, Refusal>,
) -> Response {
    let mut tool = Tool {
        lead: "Paste an event and a filter, or choose an event subscription to try its own. The answer \
               tells every part of the filter, what it wanted and what the event has there.",
        action: PATH,
        problem: None,
        fields: fields(site, form),
        button: "Try it",
        other: Some((TAKE, "Write the subscription's filter here")),
    };
    let (answer, refusal) = match answer {
        Ok(answer) => (answer, None),
        Err(refusal) => (AttemptResult::default(), Some(refusal)),
    };
    tool.mark(refusal);
    let page = FilterPage {
        frame: Frame::new(visitor, "Try a filter"),
        asked: answer.asked,
        verdict: answer.verdict,
        everybody: answer.everybody,
        recipe: answer.recipe,
        tool,
    };
    page.tool.draw(&page)
}
