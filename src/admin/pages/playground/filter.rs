//! Would this event get through this filter? The answer is that of the API's `explain`.

use super::*;
use crate::broker::explain_to_one;
use crate::wire::explanation::{unmet, why_not};
use crate::wire::resource::{parse_filter, render_filter};

/// Bytes of a pasted filter. The longest that there can be, of 25 clauses with texts of 512 characters, is
/// well below.
const FILTER_BYTES_MAX: usize = 65_536;

/// Bytes of an event up to which commands have it in them; a longer one is better kept in a file.
const RECIPE_BYTES_MAX: usize = 4_096;

/// Tries the filter, or writes that of the chosen subscription into the form.
pub(super) async fn use_it(call: &Call, pasted: &mut Pasted) -> Result<Option<Outcome>, FormError> {
    let registry = call.broker.registry();
    let gone = "There is no such topic or event subscription any more.";
    let of = Of::named(pasted.of.trim(), &registry).ok_or_else(|| FormError::of("of", gone))?;
    let chosen = of.subscription.and_then(|id| registry.subscription(id));
    let topic = of.topic.and_then(|id| registry.topic_by_id(id));
    let topic = chosen.map(|(topic, _)| topic).or(topic);
    let subscription = chosen.map(|(_, subscription)| subscription);
    if pasted.r#do == "take" {
        let none = "Choose the event subscription whose filter is to be written below.";
        let subscription = subscription.ok_or_else(|| FormError::of("of", none))?;
        let filter = render_filter(&subscription.definition.filter);
        pasted.filter = json_text::laid_out(&filter.to_string());
        return Ok(None);
    }
    let event = PastedEvent::read(call, &pasted.event, topic.cloned()).await?;
    if !pasted.filter.trim().is_empty() {
        let steps = event.event.size();
        let filter = typed(&pasted.filter, topic.map(|topic| &**topic))?;
        let explain = move || filter.explain(&event.view());
        let result = try_out(steps, explain).await.map_err(busy)?;
        let why_not = result.first_failed().map(unmet);
        let outcome = Outcome::Filter(result, None, why_not, Recipe::default());
        return Ok(Some(outcome));
    }
    let none = "Write a filter here, or choose an event subscription above to try its own.";
    let topic = topic.ok_or_else(|| FormError::of("filter", none))?;
    let now = call.visitor.now;
    let name = subscription.map(|each| each.name.to_string());
    let recipe = recipe(call, &pasted.event, topic, name.as_deref());
    Ok(Some(match subscription {
        Some(subscription) => {
            let explained = explain_to_one(topic, subscription, &event.event, now);
            let explanation = explained.await.map_err(busy)?;
            let why_not = why_not(&explanation);
            Outcome::Filter(explanation.verdict, name, why_not, recipe)
        }
        None => {
            let results = FilterResults::of_pasted(&event.event, topic, now);
            Outcome::Everybody(results.await.map_err(busy)?, recipe)
        }
    }))
}

/// The filter that was typed, in the form that subscriptions of `topic` have.
fn typed(text: &str, topic: Option<&TopicEntry>) -> Result<Filter, FormError> {
    let wrong = |problem: String| FormError::of("filter", problem);
    check_size("filter", text, FILTER_BYTES_MAX)?;
    let filter = serde_json::from_str::<Value>(text);
    let filter = filter.map_err(|error| wrong(json_fault::words(&error)))?;
    if !filter.is_object() {
        let problem = "The filter must be a JSON object, such as {\"subjectBeginsWith\": \"/orders/\"}; {} \
                       matches every event.";
        return Err(wrong(problem.to_owned()));
    }
    let dialect = topic.map_or(Dialect::Basic, TopicEntry::filter_dialect);
    parse_filter(dialect, &filter).map_err(|invalid| wrong(sentence(&invalid.to_string())))
}

/// Returns the call of the API, and the command, that give the same explanation.
fn recipe(call: &Call, event: &str, topic: &TopicEntry, subscription: Option<&str>) -> Recipe {
    let (event, name) = (event.trim(), &topic.topic.name);
    let of = subscription.unwrap_or_default().to_owned();
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
