//! The life of a delivery: where it stands, every attempt so far, and what becomes of it next.

use crate::admin::action::ActionButton;
use crate::admin::page::*;
use crate::admin::pages::lineage::{Origin, Resubmitted};
use crate::admin::paths::{dead_letter_page, event_page, subscription_page};
use crate::admin::site::delivery_id;
use crate::admin::standing::Standing;
use crate::admin::widgets::strip::succeeded;
use crate::admin::widgets::{hint, response};
use crate::broker::RetryNowError;
use crate::model::delivery::{DeliveryAttempt, DeliveryId, DeliveryState};
use crate::model::destination::DeliveryMode;
use crate::model::event::EventKey;
use crate::model::subscription::EventSubscription;
use crate::store::views::DeliveryDetail;

/// A delivery of an event, of which an address tells the number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    id: DeliveryId,
    event: EventKey,
}

impl Subject for Delivery {
    async fn find(site: &Site, names: &Names) -> Result<Self, PageError> {
        let id = names.get("id").map_or("", String::as_str);
        let id = delivery_id(id)?;
        let found = site.views.delivery(id).await?;
        let found = found.ok_or_else(|| PageError::NotFound(format!("delivery {id}")))?;
        Ok(Self {
            id,
            event: found.row.event,
        })
    }

    fn page(&self) -> String {
        format!("{}#delivery-{}", event_page(self.event), self.id)
    }

    fn address(&self) -> String {
        format!("/admin/deliveries/{}", self.id)
    }
}

/// Makes a pending delivery due now; on probation, also the one attempt that decides how it goes on.
pub(crate) async fn retry_now(call: Call<Delivery>) -> PageResult<Done> {
    let (broker, id) = (&call.broker, call.of.id);
    let row = call.views.delivery(id).await?.map(|found| found.row);
    let standing = &call.visitor.standing;
    let found = row.and_then(|row| standing.registry.subscription(row.subscription_id));
    let state = found.map(|(_, each)| standing.of(each));
    if let Some(state) = state.filter(|state| state.is_stopped()) {
        let word = state.word().to_lowercase();
        return Ok(Done::failed(format!("Nothing is sent: {word}.")));
    }
    match broker.retry_now(call.by(), id).await {
        Ok(_) => {}
        Err(RetryNowError::Store(error)) => return Err(error.into()),
        Err(error) => return Ok(Done::failed(sentence(&error.to_string()))),
    }
    let Some(held) = state.filter(|state| state.held_until().is_some()) else {
        return Ok(Done::well("The next attempt is made now."));
    };
    broker
        .retry_subscription_now(call.by(), held.subscription.id)
        .await?;
    Ok(Done::well(
        "The endpoint is on probation: one attempt is made now. If it succeeds, the others follow.",
    ))
}

/// A delivery on a page.
#[derive(Template)]
#[template(path = "pages/delivery.html")]
pub(crate) struct DeliveryCard {
    detail: DeliveryDetail,
    sees_data: bool,
    /// `None` once the subscription is deleted.
    subscription: Option<Arc<EventSubscription>>,
    standing: Arc<Standing>,
    now: Timestamp,
    origin: Option<Origin>,
    resubmissions: Vec<Resubmitted>,
    /// Whether it stands on the page of the dead letter itself, which says the rest above.
    is_own_page: bool,
    retry: Option<ActionButton>,
}

part!(DeliveryCard);

/// What becomes of a delivery next.
enum Next {
    /// It has ended.
    Nothing,
    /// Nothing is sent before somebody does something; in a word.
    Stopped(&'static str),
    /// The endpoint is on probation.
    Held(Timestamp),
    /// A receiver holds it.
    Locked(Timestamp),
    /// Receivers come for it.
    Available,
    /// It waits for its turn.
    Due,
    At(Timestamp),
}

impl DeliveryCard {
    pub(crate) fn new(detail: DeliveryDetail, visitor: &Visitor) -> Self {
        let detail = detail.seen_by(visitor.role);
        let registry = &visitor.standing.registry;
        let known = registry.subscription(detail.row.subscription_id);
        let subscription = known.map(|(_, subscription)| Arc::clone(subscription));
        Self {
            origin: Origin::of_delivery(&detail),
            resubmissions: Resubmitted::all(&detail),
            subscription,
            detail,
            sees_data: visitor.sees_data(),
            standing: Arc::clone(&visitor.standing),
            now: visitor.now,
            is_own_page: false,
            retry: None,
        }
    }

    /// The same with a button that has it tried now, and comes back to the page at `back`.
    pub(crate) fn with_retry(self, back: &str) -> Self {
        let row = &self.detail.row;
        let delivery = Delivery {
            id: row.id,
            event: row.event,
        };
        let button = delivery.button("retry-now").class("tiny");
        let button = button.coming_back_to(format!("{back}#delivery-{}", row.id));
        let is_waiting = matches!(self.next(), Next::Held(_) | Next::At(_));
        Self {
            retry: is_waiting.then_some(button),
            ..self
        }
    }

    /// The same on the page of the dead letter itself.
    pub(crate) fn on_its_own_page(self) -> Self {
        Self {
            is_own_page: true,
            resubmissions: Vec::new(),
            ..self
        }
    }

    fn state(&self) -> Badge {
        badge(self.detail.row.state)
    }

    fn subscription_page(&self) -> Option<String> {
        let row = &self.detail.row;
        let page = || subscription_page(&row.topic, &row.subscription);
        self.subscription.as_ref().map(|_| page())
    }

    fn dead_letter_page(&self) -> Option<String> {
        let row = &self.detail.row;
        let is_linked = row.state == DeliveryState::DeadLettered && !self.is_own_page;
        is_linked.then(|| dead_letter_page(row.id))
    }

    /// How long it took from being published.
    fn took(&self) -> Option<Duration> {
        let row = &self.detail.row;
        let ended_at = row.ended_at?;
        (row.state == DeliveryState::Delivered).then(|| ended_at.since(row.published_at))
    }

    /// `3 attempts of 30`.
    fn summary(&self) -> String {
        let row = &self.detail.row;
        let attempts = print::plural(u64::from(row.attempts), "attempt", "attempts");
        match &self.subscription {
            Some(of) if row.state == DeliveryState::Pending => {
                format!("{attempts} of {}", of.definition.retry_policy.attempts_max)
            }
            Some(_) | None => attempts,
        }
    }

    /// Why it was given up, in people's words; Azure's stand beside.
    fn reason(&self) -> Option<String> {
        let row = &self.detail.row;
        let own = row.dead_letter.reason.as_deref().map(print::visible);
        own.or_else(|| row.dead_letter_reason.map(response::of_reason))
    }

    /// When an attempt was made: by the clock for the first one, from then on its distance to it.
    fn distance(&self, attempt: &DeliveryAttempt) -> Option<String> {
        let first = self.detail.attempts.first()?.started_at;
        let after = attempt.started_at.since(first);
        let is_first = attempt.started_at == first;
        (!is_first).then(|| format!("+ {}", print::span(after)))
    }

    fn glyph(attempt: &DeliveryAttempt) -> (Tone, &'static str) {
        match succeeded(attempt.result.outcome) {
            true => (Tone::Good, "Succeeded"),
            false => (Tone::Bad, "Failed"),
        }
    }

    /// What to do about it.
    fn hint(attempt: &DeliveryAttempt) -> Option<&'static str> {
        hint::for_answer(&attempt.result)
    }

    /// Whether its details are unfolded: those of the newest attempt, if it failed.
    fn is_open(&self, attempt: &DeliveryAttempt) -> bool {
        let newest = self.detail.attempts.last();
        newest.is_some_and(|newest| newest.attempt == attempt.attempt)
            && !succeeded(attempt.result.outcome)
    }

    /// The body as text, and whether all of it is that.
    fn text(body: &[u8]) -> (String, bool) {
        let text = String::from_utf8_lossy(body);
        (print::visible(&text), std::str::from_utf8(body).is_ok())
    }

    fn next(&self) -> Next {
        let row = &self.detail.row;
        let Some(of) = self.subscription.as_ref() else {
            return Next::Nothing;
        };
        let state = self.standing.of(of);
        let is_pulled = of.definition.destination.delivery_mode() == DeliveryMode::Queue;
        match row.locked_until.filter(|until| *until > self.now) {
            _ if row.state != DeliveryState::Pending => Next::Nothing,
            _ if state.is_stopped() => Next::Stopped(state.word()),
            Some(until) => Next::Locked(until),
            None if is_pulled => Next::Available,
            None => match (state.held_until(), row.next_attempt_at) {
                (Some(until), _) => Next::Held(until),
                (None, Some(at)) if at > self.now => Next::At(at),
                (None, _) => Next::Due,
            },
        }
    }
}

/// The state of a delivery as a badge.
pub(crate) fn badge(state: DeliveryState) -> Badge {
    let badge = Badge::new(tone(state), word(state));
    match state {
        DeliveryState::DeadLettered => badge.with("dead"),
        DeliveryState::Resubmitted => badge.with("replay"),
        DeliveryState::Pending
        | DeliveryState::Delivered
        | DeliveryState::Dropped
        | DeliveryState::Removed => badge,
    }
}

fn tone(state: DeliveryState) -> Tone {
    match state {
        DeliveryState::Pending => Tone::Warn,
        DeliveryState::Delivered => Tone::Good,
        DeliveryState::DeadLettered | DeliveryState::Dropped => Tone::Bad,
        DeliveryState::Resubmitted | DeliveryState::Removed => Tone::Rest,
    }
}

/// The state in the words of the pages.
pub(crate) fn word(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Pending => "Pending",
        DeliveryState::Delivered => "Delivered",
        DeliveryState::DeadLettered => "Dead-lettered",
        DeliveryState::Dropped => "Dropped",
        DeliveryState::Resubmitted => "Resubmitted",
        DeliveryState::Removed => "Removed",
    }
}
