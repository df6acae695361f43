//! The life of a delivery: where it stands, what becomes of it next, and every attempt so far.

use askama::Template;

use crate::admin::pages::lineage::{Origin, Resubmitted};
use crate::admin::pages::subscriptions::state;
use crate::admin::paths::{dead_letter_page, subscription_page};
use crate::admin::security::session::Visitor;
use crate::admin::widgets::hint;
use crate::admin::widgets::print;
use crate::admin::widgets::print::sentence;
use crate::admin::widgets::{Badge, Due, Moment, Tone, part};
use crate::base::Timestamp;
use crate::model::delivery::{DeliveryAttempt, DeliveryState, Outcome};
use crate::model::probation::Health;
use crate::model::registry::Registry;
use crate::model::subscription::EventSubscription;
use crate::store::views::{DeliveryDetail, DeliveryRow};

/// A delivery ready to print.
#[derive(Template)]
#[template(path = "admin/parts/delivery.html")]
pub(crate) struct DeliveryCard {
    id: String,
    subscription: String,
    /// `None` once the subscription is deleted.
    subscription_href: Option<String>,
    endpoint: String,
    state: Badge,
    summary: String,
    next_attempt: Option<Due>,
    /// Why there is none for the time being, although it is pending.
    held_up: Option<String>,
    /// How to bring the next attempt forward, where the page offers that.
    retry_now: Option<Hasten>,
    ended_at: Option<Moment>,
    reason: Option<String>,
    /// What the receiver said, if it dead-lettered the event itself.
    description: Option<String>,
    /// Name and value, likewise.
    properties: Vec<(String, String)>,
    hint: Option<&'static str>,
    /// Where it can be looked at and resubmitted, for a dead letter.
    dead_letter_href: Option<String>,
    origin: Option<Origin>,
    resubmissions: Vec<Resubmitted>,
    attempts: Vec<AttemptRow>,
}

/// What a form needs that asks for an attempt now.
struct Hasten {
    csrf: String,
    /// Where to come back to.
    back: String,
}

/// An attempt ready to print.
struct AttemptRow {
    number: u32,
    outcome: Badge,
    status: Option<u16>,
    started_at: Moment,
    took: String,
    error: Option<String>,
    /// What the receiver answered after all.
    late: Option<String>,
    hint: Option<&'static str>,
    remote_address: Option<String>,
    headers: Vec<(String, String)>,
    body: String,
    body_note: &'static str,
    /// It was answered with a status and nothing else.
    is_bare: bool,
    /// Whether its details are unfolded: those of the newest attempt, if it failed.
    open: bool,
}

part!(DeliveryCard);

impl DeliveryCard {
    /// The delivery as it is seen at `now`.
    pub(crate) fn new(delivery: DeliveryDetail, registry: &Registry, now: Timestamp) -> Self {
        let (origin, resubmissions) = (Origin::of_delivery(&delivery), Resubmitted::all(&delivery));
        let row = delivery.row;
        let known = registry.subscription(row.subscription_id);
        let known = known.map(|(_, subscription)| subscription);
        let hint = delivery
            .attempts
            .last()
            .and_then(|last| hint::for_answer(&last.result));
        Self {
            id: row.id.to_string(),
            subscription_href: known.map(|_| subscription_page(&row.topic, &row.subscription)),
            endpoint: known.map(|each| endpoint(each)).unwrap_or_default(),
            state: badge(row.state),
            summary: summary(
                &row,
                known.map(|each| each.definition.retry_policy.attempts_max),
            ),
            next_attempt: row.next_attempt_at.map(|at| Due::new(at, now)),
            held_up: known
                .filter(|_| row.state == DeliveryState::Pending)
                .and_then(|each| held_up(each, now)),
            retry_now: None,
            ended_at: row.ended_at.map(Moment::at),
            reason: row.reason().map(print::visible),
            description: row.dead_letter.description.as_deref().map(print::visible),
            properties: row.dead_letter.properties.iter().map(shown).collect(),
            hint: hint.filter(|_| row.state != DeliveryState::Delivered),
            dead_letter_href: (row.state == DeliveryState::DeadLettered)
                .then(|| dead_letter_page(row.id)),
            origin,
            resubmissions,
            attempts: attempt_rows(delivery.attempts),
            subscription: row.subscription,
        }
    }
}

impl DeliveryCard {
    /// The same with a button that asks for the next attempt now, and comes back to the page at `back`;
    /// for those who may do that.
    pub(crate) fn with_try_now(self, visitor: &Visitor, back: &str) -> Self {
        let waits = self.next_attempt.is_some()
            && self.held_up.is_none()
            && visitor.may_send(&format!("/admin/deliveries/{}/try-now", self.id));
        Self {
            retry_now: waits.then(|| Hasten {
                csrf: visitor.csrf.clone(),
                back: format!("{back}#delivery-{}", self.id),
            }),
            ..self
        }
    }

    /// The same on the page of the dead letter itself, which needs no link to it and says above what has
    /// become of it.
    pub(crate) fn on_its_own_page(self) -> Self {
        Self {
            dead_letter_href: None,
            resubmissions: Vec::new(),
            ..self
        }
    }
}

fn shown((name, value): &(String, String)) -> (String, String) {
    (print::visible(name), print::visible(value))
}

fn attempt_rows(attempts: Vec<DeliveryAttempt>) -> Vec<AttemptRow> {
    let newest = attempts.len();
    let numbered = attempts.into_iter().zip(1..);
    numbered
        .map(|(attempt, number)| AttemptRow::new(attempt, number == newest))
        .collect()
}

impl AttemptRow {
    fn new(attempt: DeliveryAttempt, newest: bool) -> Self {
        let answer = attempt.result;
        let status = answer.status();
        let delivered = answer.outcome == Outcome::Delivered;
        let tone = if delivered { Tone::Good } else { Tone::Bad };
        let hint = hint::for_answer(&answer);
        let response = answer.response.unwrap_or_default();
        Self {
            number: attempt.attempt,
            hint,
            outcome: Badge::new(tone, answer.outcome.name()),
            status,
            started_at: Moment::exactly(attempt.started_at),
            took: print::span(attempt.duration),
            error: answer.error.as_deref().map(sentence),
            is_bare: status.is_some() && response.headers.is_empty() && response.body.is_empty(),
            late: attempt.late.map(|late| {
                let status = late.status.map(|status| status.to_string());
                let answer = status.unwrap_or_else(|| late.outcome.name().to_owned());
                let after = print::span(late.after);
                format!("It answered {answer} after all, {after} after the start.")
            }),
            remote_address: answer.remote_address,
            body_note: match std::str::from_utf8(&response.body) {
                Ok(_) => "",
                Err(_) => "Not all of it is text; what is not shows as \u{fffd}.",
            },
            body: print::visible(&String::from_utf8_lossy(&response.body)),
            headers: headers(response.headers),
            open: newest && !delivered,
        }
    }
}

fn headers(headers: Vec<(String, String)>) -> Vec<(String, String)> {
    let headers = headers.into_iter();
    headers
        .map(|(name, value)| (name, print::visible(&value)))
        .collect()
}

/// The state of a delivery as a badge.
pub(crate) fn badge(state: DeliveryState) -> Badge {
    Badge::new(tone(state), word(state))
}

/// The tone of a state.
pub(crate) fn tone(state: DeliveryState) -> Tone {
    match state {
        DeliveryState::Pending => Tone::Waiting,
        DeliveryState::Delivered => Tone::Good,
        DeliveryState::DeadLettered | DeliveryState::Dropped => Tone::Bad,
        DeliveryState::Resubmitted | DeliveryState::Removed => Tone::Neutral,
    }
}

/// The state in the words of the pages.
pub(crate) fn word(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Pending => "Pending",
        DeliveryState::Delivered => "Delivered",
        DeliveryState::DeadLettered => "Dead letter",
        DeliveryState::Dropped => "Dropped",
        DeliveryState::Resubmitted => "Resubmitted",
        DeliveryState::Removed => "Removed",
    }
}

/// Why nothing is sent for `subscription` at all. A receiver on probation is no such reason: an attempt that
/// is asked for ends its wait.
pub(crate) fn held_up(subscription: &EventSubscription, now: Timestamp) -> Option<String> {
    let why = || state(subscription, &Health::default(), now).why;
    (!subscription.may_deliver()).then(why)
}

fn endpoint(subscription: &EventSubscription) -> String {
    subscription.definition.destination.brief().to_owned()
}

fn summary(row: &DeliveryRow, attempts_max: Option<u32>) -> String {
    let attempts = print::plural(u64::from(row.attempts), "attempt", "attempts");
    match (row.state, attempts_max) {
        (DeliveryState::Pending, Some(most)) => format!("{attempts} of {most}"),
        _ => attempts,
    }
}
