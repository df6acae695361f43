//! Filters of event subscriptions as flags.

use anyhow::Context;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::app::cli::output::note;
use crate::app::cli::request::given;
use crate::model::filter::STAR;

/// Which events match.
#[derive(Args, Clone, Debug, Default)]
#[group(id = "filter_flags", multiple = true)]
#[command(next_help_heading = "Filter")]
pub(super) struct FilterArgs {
    /// Type of events to deliver, may be repeated [default: all]
    #[arg(long = "event-type", value_name = "TYPE")]
    event_types: Vec<String>,
    /// Deliver events whose subject begins with this
    #[arg(long, value_name = "TEXT")]
    subject_begins_with: Option<String>,
    /// Deliver events whose subject ends with this
    #[arg(long, value_name = "TEXT")]
    subject_ends_with: Option<String>,
    /// Compare subjects case-sensitively
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false")]
    subject_case_sensitive: Option<bool>,
    /// Advanced filter, may be repeated, such as
    /// '{"operatorType":"NumberGreaterThan","key":"data.total","value":100}'
    #[arg(long = "filter", value_name = "JSON", value_parser = parse_filter)]
    filters: Vec<Value>,
}

impl FilterArgs {
    /// The `current` filter with what the flags say; `None` if they say nothing.
    pub(super) fn changed(&self, current: &Value) -> Option<Value> {
        self.note_stars();
        let members = json!({
            "includedEventTypes": not_empty(&self.event_types),
            "subjectBeginsWith": self.subject_begins_with,
            "subjectEndsWith": self.subject_ends_with,
            "isSubjectCaseSensitive": self.subject_case_sensitive,
            "advancedFilters": not_empty(&self.filters),
        });
        changed(current, given(&members))
    }

    /// Returns the changed `filtersConfiguration` of a subscription of a namespace topic; `None` if nothing changes.
    pub(super) fn changed_in_namespace(&self, current: &Value) -> anyhow::Result<Option<Value>> {
        let on_subject = self.subject_begins_with.is_some()
            || self.subject_ends_with.is_some()
            || self.subject_case_sensitive.is_some();
        anyhow::ensure!(
            !on_subject,
            "in a namespace conditions on the subject are filters like others: --filter \
             '{{\"operatorType\":\"StringBeginsWith\",\"key\":\"subject\",\"values\":[\"/orders\"]}}'"
        );
        let members = json!({
            "includedEventTypes": not_empty(&self.event_types),
            "filters": not_empty(&self.filters),
        });
        Ok(changed(current, given(&members)))
    }

    /// Tells who may have meant a pattern.
    fn note_stars(&self) {
        let on_subject = [
            ("--subject-begins-with", &self.subject_begins_with),
            ("--subject-ends-with", &self.subject_ends_with),
        ];
        for (flag, text) in on_subject {
            if text.as_ref().is_some_and(|text| text.contains('*')) {
                note(&format!("note: in {flag} {STAR}"));
            }
        }
    }
}

/// `current` with the members that are given; `None` if none is.
pub(super) fn changed(current: &Value, given: Map<String, Value>) -> Option<Value> {
    let mut object = current.as_object().cloned().unwrap_or_default();
    let is_changed = !given.is_empty();
    object.extend(given);
    is_changed.then_some(Value::Object(object))
}

/// A flag that may be repeated, if it was given at all.
pub(super) fn not_empty<T>(values: &[T]) -> Option<&[T]> {
    (!values.is_empty()).then_some(values)
}

/// `NAME=VALUE`
pub(super) fn name_and_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("write it with a =, as in NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Names with their values, as JSON.
pub(super) fn object(pairs: &[(String, String)]) -> Value {
    pairs
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
        .collect()
}

fn parse_filter(text: &str) -> anyhow::Result<Value> {
    let filter: Value = serde_json::from_str(text).context("it is not JSON")?;
    anyhow::ensure!(filter.is_object(), "it is not a JSON object");
    Ok(filter)
}
