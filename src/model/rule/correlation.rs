//! Filters that compare properties for equality (rule S7.1).

use crate::model::rule::decimal::DecimalNumber;
use crate::model::rule::message::{MessageView, SystemProperty};
use crate::model::rule::precise_time::PreciseTime;
use crate::model::rule::property::{PropertyValue, RuleValue};
use crate::model::rule::sql::EvaluationError;
use crate::model::rule::steps::Steps;

/// The properties that a filter can compare, by the names of their fields.
const FIELDS: [SystemProperty; 8] = [
    SystemProperty::CorrelationId,
    SystemProperty::MessageId,
    SystemProperty::To,
    SystemProperty::ReplyTo,
    SystemProperty::Label,
    SystemProperty::SessionId,
    SystemProperty::ReplyToSessionId,
    SystemProperty::ContentType,
];

/// A message matches if it has all of the given properties with these values. Texts compare exactly, numbers by
/// their value whatever their type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CorrelationFilter {
    /// Properties out of [`CorrelationFilter::fields`], each once.
    pub system: Vec<(SystemProperty, String)>,
    pub user: Vec<(String, RuleValue)>,
}

/// A property and its value, in a form in which equal values are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Condition {
    System(SystemProperty, String),
    User(String, CorrelationKey),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum CorrelationKey {
    Bool(bool),
    /// A number in normal form.
    Number(DecimalNumber),
    Timestamp(PreciseTime),
    Duration(i64),
    Uuid(u128),
    Binary(Vec<u8>),
    Text(String),
}

impl CorrelationFilter {
    /// The system properties that can be compared.
    pub fn fields() -> [SystemProperty; 8] {
        FIELDS
    }

    /// Returns the approximate memory use of the filter and its index entries, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let system = self.system.iter().map(|(_, value)| value.len());
        let user = self.user.iter();
        let named = user.map(|(name, value)| name.len() + value.as_value().bytes());
        let each = system.chain(named);
        2 * each
            .map(|bytes| size_of::<(String, PropertyValue)>() + bytes)
            .sum::<usize>()
    }

    /// Returns whether the filter compares nothing, which is not allowed.
    pub fn is_empty(&self) -> bool {
        self.system.is_empty() && self.user.is_empty()
    }

    /// Returns whether `message` has everything that the filter asks for.
    pub fn matches(
        &self,
        message: &dyn MessageView,
        steps: &mut Steps,
    ) -> Result<bool, EvaluationError> {
        for (property, text) in &self.system {
            let found = message.system(*property);
            steps.take(1)?;
            steps.take_bytes(text.len() + found.as_ref().map_or(0, PropertyValue::bytes))?;
            if !is_text(found.as_ref(), text) {
                return Ok(false);
            }
        }
        for (name, value) in &self.user {
            let (found, value) = (message.user(name), value.as_value());
            steps.take(1)?;
            steps.take_bytes(name.len() + value.bytes())?;
            steps.take_bytes(found.as_ref().map_or(0, PropertyValue::bytes))?;
            if !is_equal(found.as_ref(), value) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Describes the first condition that `message` does not meet, in a sentence; `None` if the message matches.
    pub fn difference(&self, message: &dyn MessageView) -> Option<String> {
        let system = self.system.iter().find_map(|(property, text)| {
            let found = message.system(*property);
            let is_there = is_text(found.as_ref(), text);
            (!is_there).then(|| (property.name(), found, PropertyValue::Text(text.clone())))
        });
        let user = || {
            self.user.iter().find_map(|(name, value)| {
                let found = message.user(name);
                let is_there = is_equal(found.as_ref(), value.as_value());
                (!is_there).then(|| (name.as_str(), found, value.as_value().clone()))
            })
        };
        let (name, found, wanted) = system.or_else(user)?;
        Some(match found {
            None => format!("{name} is missing."),
            Some(found) => format!("{name} is {}, not {}.", written(found), written(wanted)),
        })
    }

    /// Returns the conditions, all of which must hold; `None` if one of the values equals nothing, so that no message
    /// can match.
    pub(super) fn conditions(&self) -> Option<Vec<Condition>> {
        let system = self
            .system
            .iter()
            .map(|(property, text)| Some(Condition::System(*property, text.clone())));
        let user = self.user.iter().map(|(name, value)| {
            let key = key(value.as_value())?;
            Some(Condition::User(name.to_lowercase(), key))
        });
        system.chain(user).collect()
    }
}

/// Returns all conditions that hold for a message.
pub(super) fn offered(message: &dyn MessageView) -> Vec<Condition> {
    let system = FIELDS.into_iter().filter_map(|property| {
        let text = text_of(message.system(property)?)?;
        Some(Condition::System(property, text))
    });
    let user = message
        .user_properties()
        .into_iter()
        .filter_map(|(name, value)| Some(Condition::User(name.to_lowercase(), key(&value)?)));
    let mut offered: Vec<Condition> = system.chain(user).collect();
    // Remove duplicates: property names that differ only in letter case would find the same filters twice.
    offered.sort_unstable();
    offered.dedup();
    offered
}

fn is_text(found: Option<&PropertyValue>, text: &str) -> bool {
    found.cloned().and_then(text_of).as_deref() == Some(text)
}

fn is_equal(found: Option<&PropertyValue>, value: &PropertyValue) -> bool {
    let found_key = found.and_then(key);
    found_key.is_some() && found_key == key(value)
}

/// Formats a value for a message to the user. Texts are quoted to distinguish them from other types.
fn written(value: PropertyValue) -> String {
    if let PropertyValue::Text(text) = &value {
        return format!("{text:?}");
    }
    text_of(value).unwrap_or_else(|| "of another type".to_owned())
}

/// Returns a system property as text. Identifiers of other types are compared by their text form.
fn text_of(value: PropertyValue) -> Option<String> {
    match value.in_type_of(&PropertyValue::Text(String::new())) {
        PropertyValue::Text(text) => Some(text),
        PropertyValue::Null
        | PropertyValue::Bool(_)
        | PropertyValue::Integer(..)
        | PropertyValue::Float(_)
        | PropertyValue::Double(_)
        | PropertyValue::Decimal(_)
        | PropertyValue::Timestamp(_)
        | PropertyValue::ZonelessTime(_)
        | PropertyValue::Duration(_)
        | PropertyValue::Uuid(_)
        | PropertyValue::Binary(_)
        | PropertyValue::Other => None,
    }
}

fn key(value: &PropertyValue) -> Option<CorrelationKey> {
    Some(match value {
        PropertyValue::Null | PropertyValue::Other => return None,
        PropertyValue::Bool(value) => CorrelationKey::Bool(*value),
        PropertyValue::Integer(..)
        | PropertyValue::Float(_)
        | PropertyValue::Double(_)
        | PropertyValue::Decimal(_) => number_key(value)?,
        PropertyValue::Timestamp(at) | PropertyValue::ZonelessTime(at) => {
            CorrelationKey::Timestamp(*at)
        }
        PropertyValue::Duration(ticks) => CorrelationKey::Duration(*ticks),
        PropertyValue::Uuid(uuid) => CorrelationKey::Uuid(uuid.as_u128()),
        PropertyValue::Binary(bytes) => CorrelationKey::Binary(bytes.clone()),
        PropertyValue::Text(text) => CorrelationKey::Text(text.clone()),
    })
}

/// Returns a key by which numbers of any type are equal if their values are. Infinity and NaN equal nothing.
fn number_key(value: &PropertyValue) -> Option<CorrelationKey> {
    Some(CorrelationKey::Number(value.as_decimal()?.normal()))
}
