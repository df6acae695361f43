//! The objects that a publish request's body consists of, before their properties are looked at.

use serde_json::value::RawValue;

use crate::model::event::Event;
use crate::wire::bad_input::{BadInput, BadInputKind};
use crate::wire::json::{JsonKind, JsonMembers, at_most};
use crate::wire::json_fault;

/// Reads the events of a JSON array of at most `events_max` objects. `event_of` is given each object's text and
/// properties.
pub(super) fn array<'a>(
    text: &'a str,
    events_max: usize,
    event_of: impl Fn(&'a str, &JsonMembers<'a>) -> Result<Event, BadInput>,
) -> Result<Vec<Event>, BadInput> {
    expect(JsonKind::Array, text)?;
    let read = at_most(serde_json::Deserializer::from_str(text), events_max);
    let some = read.map_err(|error| not_json(&error))?;
    let elements: Vec<&'a RawValue> = some.ok_or_else(|| too_many(events_max))?;
    let events = elements.iter().enumerate().map(|(index, element)| {
        let event = object(element.get()).and_then(|members| event_of(element.get(), &members));
        event.map_err(|bad| bad.at(index))
    });
    events.collect()
}

/// Reads the properties of a JSON object. Two properties with the same name are an error.
pub(super) fn object(text: &str) -> Result<JsonMembers<'_>, BadInput> {
    expect(JsonKind::Object, text)?;
    let members: JsonMembers<'_> = serde_json::from_str(text).map_err(|error| not_json(&error))?;
    match members.duplicate() {
        None => Ok(members),
        Some(name) => Err(BadInput::in_field(name, "it is there more than once")),
    }
}

/// Returns the error for a text that is not valid JSON.
pub(super) fn not_json(error: &serde_json::Error) -> BadInput {
    let words = json_fault::words(error);
    BadInput::malformed(format!("it is not valid JSON: {words}"))
}

/// Checks that no event of a body has more than `bytes_max` bytes. `events` is the number of events that were read from
/// the body. The error begins with Azure's words.
pub fn check_sizes(body: &[u8], events: usize, bytes_max: usize) -> Result<(), BadInput> {
    if body.len() <= bytes_max {
        return Ok(()); // as nearly always
    }
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let array = at_most::<&RawValue>(serde_json::Deserializer::from_slice(text), events);
    let too_large = match array.ok().flatten() {
        Some(array) if array.len() == events => {
            array.iter().position(|each| each.get().len() > bytes_max)
        }
        Some(_) | None => Some(0), // it is one event, which is no array or has one for its data
    };
    too_large.map_or(Ok(()), |index| {
        let problem = format!(
            "The maximum size ({bytes_max}) has been exceeded. It is that of an event, the setting publish.event_bytes_max"
        );
        Err(BadInput::new(BadInputKind::TooLarge, problem).at(index))
    })
}

fn too_many(events_max: usize) -> BadInput {
    BadInput::new(
        BadInputKind::TooLarge,
        format!("the request holds too many events; at most {events_max} are taken at once"),
    )
}

/// Rejects JSON of another kind, in Event Grid's words (rule 1.3).
fn expect(kind: JsonKind, text: &str) -> Result<(), BadInput> {
    let found = JsonKind::of(text);
    // Accepts text that is not JSON, since the parser reports a better error later.
    if found == kind || (found == JsonKind::Nothing && !text.trim_ascii().is_empty()) {
        return Ok(());
    }
    let problem = format!(
        "Unexpected token when reading JSON. Expected: {}, actual: {}",
        kind.token(),
        found.token()
    );
    Err(BadInput {
        misfit: Some((kind.in_plain_words(), found.in_plain_words())),
        ..BadInput::malformed(problem)
    })
}
