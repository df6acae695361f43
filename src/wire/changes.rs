//! What differs between two JSON documents, property by property.

use serde_json::Value;

use crate::model::audit::Change;

/// Changes that are told; beyond, the whole document is.
const CHANGES_MAX: usize = 100;

/// Bytes of one value that are told.
const VALUE_BYTES_MAX: usize = 4_096;

/// Properties that change with every change, or by themselves, and say nothing about it.
const RESTLESS: [&str; 4] = ["systemData", "updatedAt", "signedInAt", "usedAt"];

/// What `after` has that `before` has not, and the other way round.
pub fn changes(before: Option<&Value>, after: Option<&Value>) -> Vec<Change> {
    let mut found = Vec::new();
    let null = Value::Null;
    compare(
        String::new(),
        before.unwrap_or(&null),
        after.unwrap_or(&null),
        &mut found,
    );
    found.truncate(CHANGES_MAX);
    found
}

fn compare(property: String, before: &Value, after: &Value, found: &mut Vec<Change>) {
    if before == after {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        found.push(Change {
            property,
            before: told(before),
            after: told(after),
        });
        return;
    };
    let null = Value::Null;
    let added = new.keys().filter(|name| !old.contains_key(*name));
    for name in old.keys().chain(added) {
        if RESTLESS.contains(&name.as_str()) {
            continue;
        }
        let inner = match property.as_str() {
            "" => name.clone(),
            outer => format!("{outer}.{name}"),
        };
        let (old, new) = (old.get(name), new.get(name));
        compare(inner, old.unwrap_or(&null), new.unwrap_or(&null), found);
    }
}

fn told(value: &Value) -> String {
    let text = value.to_string();
    match text.len() > VALUE_BYTES_MAX {
        true => format!("{}…", &text[..text.floor_char_boundary(VALUE_BYTES_MAX)]),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told_of(before: Option<&Value>, after: Option<&Value>) -> Vec<(String, String, String)> {
        let changes = changes(before, after).into_iter();
        changes
            .map(|each| (each.property, each.before, each.after))
            .collect()
    }

    fn change(property: &str, before: &str, after: &str) -> (String, String, String) {
        (property.to_owned(), before.to_owned(), after.to_owned())
    }

    #[test]
    fn properties_are_compared_by_name() {
        let before = json!({ "a": 1, "b": { "c": [1], "d": "x" }, "gone": true, "updatedAt": 1 });
        let after = json!({ "a": 1, "b": { "c": [1, 2], "d": "x" }, "new": null, "updatedAt": 2 });
        let expected = vec![
            change("b.c", "[1]", "[1,2]"),
            change("gone", "true", "null"),
        ];
        assert_eq!(told_of(Some(&before), Some(&after)), expected);
        assert_eq!(told_of(Some(&before), Some(&before)), []);
        assert_eq!(told_of(None, None), []);
    }

    #[test]
    fn what_is_made_or_deleted_is_told_as_a_whole() {
        let made = told_of(None, Some(&json!({ "a": 1 })));
        assert_eq!(made, [change("", "null", "{\"a\":1}")]);
        let deleted = told_of(Some(&json!({ "a": 1 })), None);
        assert_eq!(deleted, [change("", "{\"a\":1}", "null")]);
    }

    #[test]
    fn long_values_and_many_changes_are_cut() {
        let long = told_of(None, Some(&json!("ü".repeat(VALUE_BYTES_MAX))));
        assert!(long[0].2.len() <= VALUE_BYTES_MAX + 3 && long[0].2.ends_with('…'));
        let many: serde_json::Map<String, Value> =
            (0..500).map(|n| (format!("p{n}"), json!(n))).collect();
        let many = told_of(Some(&json!({})), Some(&Value::Object(many)));
        assert_eq!(many.len(), CHANGES_MAX);
    }
}
