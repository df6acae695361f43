//! The context attributes of a CloudEvent, as they are read one by one.

use crate::model::event::{Attribute, Event, EventData};
use crate::wire::bad_input::{BadInput, quoted};
use crate::wire::cloud_events::SPEC_VERSION;
use crate::wire::field;
use crate::wire::json::JsonKind;

/// The attributes of an event that have been read so far.
///
/// `specversion` comes first: without it, or with another one, nothing else can be judged.
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
    /// Nothing yet but `specversion` with its value as JSON.
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

    /// The event of these attributes and `data`.
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

/// CloudEvents has no empty values of its optional attributes: an empty one says nothing, as if it were left out.
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
        // No receiver that keeps to CloudEvents 1.0 (3.1) could read another number.
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
