//! Keys of events that filters can name.

use std::collections::BTreeSet;

use crate::model::filter::value::{FilterValue, Node};
use crate::model::filter::view::EventView;

/// The most keys to collect; a longer list would not help a user to choose one.
const KEYS_MAX: usize = 200;

/// The greatest nesting of objects whose keys are collected.
const DEPTH_MAX: usize = 8;

/// Keys at which at least one event has a value, without duplicates.
#[derive(Clone, Debug, Default)]
pub struct SeenKeys(BTreeSet<String>);

impl SeenKeys {
    /// Adds the keys of an event, as long as there is room.
    pub fn add(&mut self, event: &EventView<'_>) {
        for name in event.envelope_names() {
            self.put(name);
        }
        match (event.root(), event.data()) {
            (Some(root), _) => self.add_members(root, "", DEPTH_MAX),
            (None, Some(data)) => self.add_node(data, "data", DEPTH_MAX),
            (None, None) => {}
        }
    }

    /// The keys in their order.
    pub fn into_keys(self) -> impl Iterator<Item = String> {
        self.0.into_iter()
    }

    /// Adds `key`, or for an object the keys of its members, since an object cannot be compared with a value.
    fn add_node(&mut self, node: &Node<'_>, key: &str, depth: usize) {
        match node.value() {
            FilterValue::Object(_) => self.add_members(node, &format!("{key}."), depth),
            FilterValue::Null | FilterValue::Scalar(_) | FilterValue::Array(_) => self.put(key),
        }
    }

    fn add_members(&mut self, node: &Node<'_>, prefix: &str, depth: usize) {
        let FilterValue::Object(members) = node.value() else {
            return;
        };
        let Some(depth) = depth.checked_sub(1) else {
            return;
        };
        // A filter key cannot address a member whose name is empty or contains a dot.
        let named = members
            .iter()
            .filter(|(name, _)| !name.is_empty() && !name.contains('.'));
        for (name, node) in named {
            self.add_node(node, &format!("{prefix}{name}"), depth);
        }
    }

    fn put(&mut self, key: &str) {
        if self.0.len() < KEYS_MAX {
            self.0.insert(key.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::{Event, EventData};
    use crate::model::filter::FilterKey;

    fn event(data: &str) -> Event {
        Event {
            id: "1".to_owned(),
            source: None,
            event_type: "T".to_owned(),
            subject: None,
            time: None,
            data_version: Some("1".to_owned()),
            attributes: Vec::new(),
            data: EventData::Json(data.to_owned()),
        }
    }

    #[test]
    fn keys_are_those_that_a_filter_finds() {
        let events = [
            event(
                r#"{"total": 1, "customer": {"name": null, "a.b": 1, "": 2}, "lines": [{"x": 1}]}"#,
            ),
            event(r#"{"total": 2, "paid": true}"#),
            event("[1]"),
        ];
        let mut seen = SeenKeys::default();
        for event in &events {
            seen.add(&EventView::new(event, "/topic"));
        }
        let keys: Vec<String> = seen.into_keys().collect();
        let expected = [
            "data",
            "data.customer.name",
            "data.lines",
            "data.paid",
            "data.total",
            "dataVersion",
            "eventType",
            "id",
            "topic",
        ];
        assert_eq!(keys, expected);
        let views: Vec<_> = events
            .iter()
            .map(|event| EventView::new(event, "/topic"))
            .collect();
        for key in keys {
            let key = FilterKey::parse(&key).expect("a key");
            assert!(
                views.iter().any(|view| key.find(view).is_some()),
                "{}",
                key.as_str()
            );
        }
    }

    #[test]
    fn custom_input_is_named_without_data() {
        let event = event(r#"{"order": {"total": 1}}"#);
        let mut seen = SeenKeys::default();
        seen.add(&EventView::of_custom_input(&event, "/topic"));
        assert!(seen.into_keys().any(|key| key == "order.total"));
    }

    #[test]
    fn there_is_an_end_to_depth_and_number() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(50), "}".repeat(50));
        let many: Vec<String> = (0..500).map(|n| format!("\"k{n}\":{n}")).collect();
        let many = format!("{{{}}}", many.join(","));
        let mut seen = SeenKeys::default();
        seen.add(&EventView::new(&event(&deep), "/topic"));
        seen.add(&EventView::new(&event(&many), "/topic"));
        let keys: Vec<String> = seen.into_keys().collect();
        assert_eq!(keys.len(), KEYS_MAX);
        assert!(keys.iter().all(|key| key.matches('.').count() <= DEPTH_MAX));
    }
}
