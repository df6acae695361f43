//! The context attributes of a CloudEvent, as they are read one by one.

use crate::model::event::{Attribute, Event, EventData};
use crate::wire::bad_input::{BadInput, quoted};
use crate::wire::cloud_events::SPEC_VERSION;
use crate::wire::field;
use crate::wire::json::JsonKind;

/// The attributes of an event that have been read so far.
///
/// `specversion` is read first: if it is missing or unsupported, the other attributes cannot be checked.
#[derive(Default)]
pub(super) struct EventContext {
    id: Option<String>,
    source: Option<String>,
    event_type: Option<String>,
    subject: Option<String>,
    time: Option<String>,
    others: Vec<Attribute>,
}

impl EventContext {
    /// Creates an empty context from the value of `specversion` as JSON, which must be the supported version.
    pub(super) fn of_version(json: Option<&str>) -> Result<Self, BadInput> {
        let version = match json {
            Some(json) => field::optional_text("specversion", json)?,
            None => None,
        };
        match version.as_deref() {
            Some(SPEC_VERSION) => Ok(Self::default()),
            Some(other) => Err(BadInput::in_field(
                "specversion",
                format!(
                    "{} is not supported; expected {SPEC_VERSION:?}",
                    quoted(other)
                ),
            )),
            None => Err(BadInput::in_field(
                "specversion",
                "it is missing; this topic is configured for the 'CloudEventV10' schema, which \
                 requires it",
            )),
        }
    }

    /// Takes an attribute with its value as JSON; `null` counts as absent.
    pub(super) fn set(&mut self, name: &str, json: &str) -> Result<(), BadInput> {
        let text = || field::optional_text(name, json);
        match name {
            "id" => self.id = text()?,
            "source" => self.source = text()?,
            "specversion" => {}
            "type" => self.event_type = text()?,
            "subject" => self.subject = said(text()?),
            "time" => self.time = said(text()?),
            "dataschema" | "datacontenttype" => {
                let check = match name {
                    "dataschema" => field::uri_reference,
                    _ => field::media_type,
                };
                if let Some(text) = said(text()?) {
                    check(name, text)?;
                    self.add(name, json);
                }
            }
            _ => {
                check_extension(name, json)?;
                self.add(name, json);
            }
        }
        Ok(())
    }

    /// Returns the event with the attributes that were read and with `data`.
    pub(super) fn finish(self, data: EventData) -> Result<Event, BadInput> {
        let time = self.time.map(|time| field::date_time("time", time));
        Ok(Event {
            id: field::required("id", self.id)?,
            source: Some(field::uri_reference(
                "source",
                field::required("source", self.source)?,
            )?),
            event_type: field::required("type", self.event_type)?,
            subject: self.subject,
            time: time.transpose()?,
            data_version: None,
            attributes: self.others,
            data,
        })
    }

    fn add(&mut self, name: &str, json: &str) {
        if JsonKind::of(json) != JsonKind::Null {
            self.others.push(Attribute {
                name: name.to_owned(),
                value: json.to_owned(),
            });
        }
    }
}

/// Returns the value of an optional attribute. An empty value counts as absent, since CloudEvents does not allow it.
fn said(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn check_extension(name: &str, json: &str) -> Result<(), BadInput> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if name.is_empty() || !name.chars().all(is_allowed) {
        return Err(BadInput::in_field(
            name,
            "the name of a CloudEvents attribute consists of lower-case letters and digits alone",
        ));
    }
    match JsonKind::of(json) {
        JsonKind::Null | JsonKind::Boolean => Ok(()),
        // A receiver that follows CloudEvents 1.0 (3.1) can read only integers of 32 bits.
        JsonKind::Number if json.parse::<i32>().is_ok() => Ok(()),
        JsonKind::Number => Err(BadInput::in_field(
            name,
            format!(
                "{json} is not an integer of 32 bits, and CloudEvents has no other numbers; send it as a string"
            ),
        )),
        JsonKind::String => field::string(name, json).map(drop),
        kind @ (JsonKind::Object | JsonKind::Array | JsonKind::Nothing) => Err(BadInput::in_field(
            name,
            format!(
                "it is {}; an extension attribute is a string, a number or a boolean",
                kind.noun()
            ),
        )),
    }
}
