//! Filters and actions of rules, read and evaluated.

#![no_main]

use everpost::base::Entropy;
use everpost::model::rule::{
    MessageView, PropertyValue, SqlAction, SqlFilter, Steps, SystemProperty,
};
use libfuzzer_sys::fuzz_target;

/// A message all of whose properties are one text.
struct Echo(String);

impl MessageView for Echo {
    fn system(&self, _: SystemProperty) -> Option<PropertyValue> {
        Some(PropertyValue::Text(self.0.clone()))
    }

    fn user(&self, name: &str) -> Option<PropertyValue> {
        (name.len() % 2 == 0).then(|| PropertyValue::Text(self.0.clone()))
    }

    fn user_properties(&self) -> Vec<(String, PropertyValue)> {
        vec![("name".to_owned(), PropertyValue::Text(self.0.clone()))]
    }
}

fuzz_target!(|text: &str| {
    let (message, entropy) = (Echo(text.to_owned()), Entropy::seeded(1));
    if let Ok(filter) = SqlFilter::parse(text, Default::default()) {
        let _ = filter.matches(&message, &entropy, &mut Steps::of_message());
    }
    if let Ok(action) = SqlAction::parse(text, Default::default()) {
        let _ = action.apply(&message, &entropy, &mut Steps::of_message());
    }
});
