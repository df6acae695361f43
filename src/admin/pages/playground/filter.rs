//! Would this event get through this filter? The answer is that of the API's `explain`.

use serde_json::{Value, json};

use crate::admin::forms::json_fault;
use crate::admin::lists::filter::Of;
use crate::admin::lists::recipe::{command, quoted};
use crate::admin::page::*;
use crate::admin::pages::events::FilterResults;
use crate::admin::pages::playground::pasted::{PastedEvent, check_size};
use crate::admin::pages::playground::{Outcome, Pasted};
use crate::admin::widgets::json_text;
use crate::model::explanation::Explanation;
use crate::model::filter::{Dialect, Filter, FilterResult};
use crate::model::subscription::EventSubscription;
use crate::wire::explanation::{unmet, why_not};
use crate::wire::resource::{parse_filter, render_filter};

/// Bytes of a pasted filter. The longest that there can be, of 25 clauses with texts of 512 characters, is
/// well below.
const FILTER_BYTES_MAX: usize = 65_536;

/// Bytes of an event up to which commands have it in them; a longer one is better kept in a file.
const RECIPE_BYTES_MAX: usize = 4_096;

/// How an event fares with a filter, clause by clause.
#[derive(Template)]
#[template(path = "widgets/verdict.html")]
pub(super) struct Verdict {
    /// `None` for a filter that belongs to nobody.
    of: Option<String>,
    result: FilterResult,
    matched: bool,
    /// Why not, or what is to be said besides.
    why_not: Option<String>,
}

part!(Verdict);

type Chosen = (Option<Arc<TopicEntry>>, Option<Arc<EventSubscription>>);

/// Tries the filter, or writes that of the chosen subscription into the form.
pub(super) fn use_it(call: &Call, pasted: &mut Pasted) -> Result<Option<Outcome>, Refusal> {
    let chosen = chosen(call, &pasted.of)?;
    if pasted.r#do != "take" {
        return answer(call, pasted, chosen).map(Some);
    }
    let problem = "Choose the event subscription whose filter is to be written below.";
    let subscription = chosen.1.ok_or_else(|| Refusal::of("of", problem))?;
    let filter = render_filter(&subscription.definition.filter);
    pasted.filter = json_text::laid_out(&filter.to_string());
    Ok(None)
}

fn chosen(call: &Call, of: &str) -> Result<Chosen, Refusal> {
    let registry = call.broker.registry();
    let missing = || {
        Refusal::of(
            "of",
            "There is no such topic or event subscription any more.",
        )
    };
    let of = Of::named(of.trim(), &registry).ok_or_else(missing)?;
    Ok(
        match of.subscription.and_then(|id| registry.subscription(id)) {
            Some((topic, subscription)) => (Some(topic.clone()), Some(subscription.clone())),
            None => (
                of.topic.and_then(|id| registry.topic_by_id(id)).cloned(),
                None,
            ),
        },
    )
}

fn answer(call: &Call, pasted: &Pasted, (topic, subscription): Chosen) -> Result<Outcome, Refusal> {
    let event = PastedEvent::read(call, &pasted.event, topic.clone())?;
    if !pasted.filter.trim().is_empty() {
        let result = typed(&pasted.filter, topic.as_deref())?.explain(&event.view());
        let verdict = Verdict {
            of: None,
            matched: result.matched(),
            why_not: result.first_failed().map(unmet),
            result,
        };
        return Ok(Outcome::Verdict(verdict, None));
    }
    let problem = "Write a filter here, or choose an event subscription above to try its own.";
    let topic = topic.ok_or_else(|| Refusal::of("filter", problem))?;
    let recipe = recipe(call, &pasted.event, &topic, subscription.as_deref());
    let now = call.visitor.now;
    Ok(match subscription {
        Some(subscription) => {
            let explanation = Explanation::new(&subscription, &event.view(), now);
            let verdict = Verdict {
                of: Some(subscription.name.to_string()),
                matched: explanation.matched(),
                why_not: why_not(&explanation),
                result: explanation.verdict,
            };
            Outcome::Verdict(verdict, Some(recipe))
        }
        None => {
            let all = FilterResults::of_pasted(&event.event, &topic, now);
            Outcome::Everybody(all, recipe)
        }
    })
}

/// The filter that was typed, in the form that subscriptions of `topic` have.
fn typed(text: &str, topic: Option<&TopicEntry>) -> Result<Filter, Refusal> {
    let refuse = |problem: String| Refusal::of("filter", problem);
    check_size("filter", text, FILTER_BYTES_MAX)?;
    let filter: Value =
        serde_json::from_str(text).map_err(|error| refuse(json_fault::words(&error)))?;
    if !filter.is_object() {
        let problem = "It must be an object, such as {\"subjectBeginsWith\": \"/orders/\"}; {} \
                       matches every event.";
        return Err(refuse(problem.to_owned()));
    }
    let dialect = topic.map_or(Dialect::Basic, TopicEntry::filter_dialect);
    parse_filter(dialect, &filter).map_err(|invalid| refuse(sentence(&invalid.to_string())))
}

/// The same question for the API and the command.
fn recipe(
    call: &Call,
    event: &str,
    topic: &TopicEntry,
    subscription: Option<&EventSubscription>,
) -> Recipe {
    let event = event.trim();
    let name = &topic.topic.name;
    let subscription = subscription.map(|each| each.name.to_string());
    let of = subscription.clone().unwrap_or_default();
    let flags = [("topic", name.to_string()), ("subscription", of)];
    let explain = command("everpost explain", &flags);
    if event.len() > RECIPE_BYTES_MAX {
        return Recipe::everpost_alone(&format!("{explain} --file event.json"));
    }
    let below = subscription.map(|each| format!("/eventSubscriptions/{each}"));
    let path = format!("{}{}/explain", name.path(), below.unwrap_or_default());
    let body = json!({ "event": serde_json::from_str::<Value>(event).unwrap_or_default() });
    Recipe::post(&call.management_url(&path), &body)
        .everpost(format!("echo {} | {explain} --file -", quoted(event)))
}
