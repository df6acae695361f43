//! How often and for how long it is tried.

use std::time::Duration;

use serde_json::{Value, json};

use super::value::{joined, text, ticked, words};
use crate::admin::forms::field::Field;
use crate::admin::forms::form::Form;
use crate::admin::widgets::print;
use crate::model::limits::{ATTEMPTS_MAX, TIME_TO_LIVE_MINUTES_MAX};

const ATTEMPTS: &str = "maxDeliveryAttempts";
const MINUTES: &str = "eventTimeToLiveInMinutes";
pub(crate) const SCHEDULE: &str = "schedule";
pub(crate) const ON_GONE: &str = "disableOnGone";

/// For a new subscription.
pub(crate) fn blank(form: &mut Form) {
    form.set(ATTEMPTS, ATTEMPTS_MAX.to_string());
    form.set(MINUTES, TIME_TO_LIVE_MINUTES_MAX.to_string());
}

pub(crate) fn fill(form: &mut Form, properties: &Value) {
    let retry = &properties["retryPolicy"];
    form.set(ATTEMPTS, text(&retry[ATTEMPTS]));
    form.set(MINUTES, text(&retry[MINUTES]));
    form.set(SCHEDULE, joined(&retry[SCHEDULE], ", "));
    form.set(ON_GONE, ticked(&properties[ON_GONE]));
}

pub(crate) fn write(form: &Form, properties: &mut Value) {
    properties["retryPolicy"] = json!({
        ATTEMPTS: form.number(ATTEMPTS),
        MINUTES: form.number(MINUTES),
        SCHEDULE: schedule(form),
    });
    properties[ON_GONE] = form.is_on(ON_GONE).into();
}

/// Waits of its own; `null` for the published ones.
pub(crate) fn schedule(form: &Form) -> Value {
    let schedule = words(form.text(SCHEDULE), ',');
    json!((!schedule.is_empty()).then_some(schedule))
}

/// In a few words.
pub(crate) fn summary(form: &Form) -> String {
    let minutes = form.text(MINUTES);
    let within = match minutes.parse::<u32>() {
        Ok(minutes) => print::span(Duration::from_secs(60 * u64::from(minutes))),
        Err(_) => format!("{minutes} minutes"),
    };
    let attempts = form.text(ATTEMPTS);
    format!(
        "up to {attempts} attempts within {within}{}",
        webhook_summary(form)
    )
}

/// What follows how often and how long it is tried.
pub(crate) fn webhook_summary(form: &Form) -> String {
    let waits = match form.filled(SCHEDULE) {
        None => ", on the published schedule".to_owned(),
        Some(waits) => format!(", with waits of {waits}"),
    };
    match form.is_on(ON_GONE) {
        true => format!("{waits}; disabled by an answer of 410"),
        false => waits,
    }
}

pub(crate) fn fields(form: &Form) -> Vec<Field> {
    let mut fields = vec![
        Field::number(ATTEMPTS, "Attempts", form)
            .hint(format!("1 to {ATTEMPTS_MAX}, the first one included.")),
        Field::number(MINUTES, "Time to live in minutes", form).hint(format!(
            "1 to {TIME_TO_LIVE_MINUTES_MAX}, from the publishing."
        )),
    ];
    fields.extend(webhook_fields(form));
    fields
}

/// What a webhook's answers, or their lack, lead to.
pub(crate) fn webhook_fields(form: &Form) -> [Field; 2] {
    [
        Field::line(SCHEDULE, "Waits between attempts", form).hint(
            "ISO 8601, separated by commas, such as PT10S, PT1M, PT1H; the last one repeats. Empty \
             follows the published schedule.",
        ),
        Field::tick(ON_GONE, "Disable it when the webhook answers 410", form),
    ]
}
