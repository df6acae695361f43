//! Filters that compare properties for equality (rule S7.1).

use crate::model::rule::message::{MessageView, SystemProperty};
use crate::model::rule::property::PropertyValue;

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
    /// Of [`CorrelationFilter::fields`], each once.
    pub system: Vec<(SystemProperty, String)>,
    pub user: Vec<(String, PropertyValue)>,
}

/// A property and its value, in a form in which equal values are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Condition {
    System(SystemProperty, String),
    User(String, Key),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    Bool(bool),
    Integer(i128),
    /// The bits of a number that is not whole.
    Fraction(u64),
    Timestamp(i64),
    Uuid(u128),
    Binary(Vec<u8>),
    Text(String),
}

impl CorrelationFilter {
    /// The system properties that can be compared.
    pub fn fields() -> [SystemProperty; 8] {
        FIELDS
    }

    /// Whether it compares nothing, which no filter may.
    pub fn is_empty(&self) -> bool {
        self.system.is_empty() && self.user.is_empty()
    }

    /// Whether `message` has everything that is asked for.
    pub fn matches(&self, message: &dyn MessageView) -> bool {
        self.system.iter().all(|(property, text)| {
            message.system(*property).and_then(text_of).as_ref() == Some(text)
        }) && self.user.iter().all(|(name, value)| {
            let found = message.user(name).and_then(|found| key(&found));
            found.is_some() && found == key(value)
        })
    }

    /// What has to hold; `None` if it can never hold, since one of the values equals nothing.
    pub(super) fn conditions(&self) -> Option<Vec<Condition>> {
        let system = self.system.iter();
        let system =
            system.map(|(property, text)| Some(Condition::System(*property, text.clone())));
        let user = self.user.iter();
        let user =
            user.map(|(name, value)| Some(Condition::User(name.to_lowercase(), key(value)?)));
        system.chain(user).collect()
    }
}

/// What a message offers to conditions.
pub(super) fn offered(message: &dyn MessageView) -> Vec<Condition> {
    let system = FIELDS.into_iter().filter_map(|property| {
        let text = text_of(message.system(property)?)?;
        Some(Condition::System(property, text))
    });
    let user = message.user_properties().into_iter();
    let user =
        user.filter_map(|(name, value)| Some(Condition::User(name.to_lowercase(), key(&value)?)));
    let mut offered: Vec<Condition> = system.chain(user).collect();
    // Names that differ in their letter case alone would find the same filters twice.
    offered.sort_unstable();
    offered.dedup();
    offered
}

/// Identifiers may be other than texts, and compare by how they are written.
fn text_of(value: PropertyValue) -> Option<String> {
    match value.in_type_of(&PropertyValue::Text(String::new())) {
        PropertyValue::Text(text) => Some(text),
        PropertyValue::Null
        | PropertyValue::Bool(_)
        | PropertyValue::Integer(..)
        | PropertyValue::Float(_)
        | PropertyValue::Double(_)
        | PropertyValue::Timestamp(_)
        | PropertyValue::Uuid(_)
        | PropertyValue::Binary(_)
        | PropertyValue::Other => None,
    }
}

fn key(value: &PropertyValue) -> Option<Key> {
    Some(match value {
        PropertyValue::Null | PropertyValue::Other => return None,
        PropertyValue::Bool(value) => Key::Bool(*value),
        PropertyValue::Integer(_, number) => Key::Integer(*number),
        PropertyValue::Float(number) => number_key(f64::from(*number))?,
        PropertyValue::Double(number) => number_key(*number)?,
        PropertyValue::Timestamp(at) => Key::Timestamp(at.as_ms()),
        PropertyValue::Uuid(uuid) => Key::Uuid(uuid.as_u128()),
        PropertyValue::Binary(bytes) => Key::Binary(bytes.clone()),
        PropertyValue::Text(text) => Key::Text(text.clone()),
    })
}

/// Whole numbers that an integer can hold are integers. Not a number equals nothing.
fn number_key(number: f64) -> Option<Key> {
    const WHOLE_MAX: f64 = 18_446_744_073_709_551_616.0; // 2^64
    if number.is_nan() {
        return None;
    }
    if number.fract() == 0.0 && number.abs() <= WHOLE_MAX {
        return Some(Key::Integer(number as i128));
    }
    Some(Key::Fraction(number.to_bits()))
}
