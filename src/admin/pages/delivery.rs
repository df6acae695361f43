//! The history of a delivery: its state, every attempt so far, and its next step.

use askama::Template;

use crate::admin::action::{ActionButton, Call, Names, Subject, name_of};
use crate::admin::error::PageResult;
use crate::admin::paths;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::print::sentence;
use crate::admin::widgets::{Badge, Flash, Time, Tone, filters, hint, part, print, response};
use crate::base::Timestamp;
use crate::broker::{Broker, RetryNowError};
use crate::model::delivery::{DeliveryId, DeliveryState, Outcome};
use crate::model::destination::DeliveryMode;
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::store::views::{DeliveryDetail, DeliveryRow};

/// A delivery that is identified by its number in an address.
pub(crate) struct DeliveryNumber(DeliveryRow);

impl Subject for DeliveryNumber {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        Ok(Self(site.delivery(name_of(names, "id")).await?.row))
    }

    fn page(&self) -> String {
        let Self(row) = self;
        format!("{}#delivery-{}", paths::event_page(row.event), row.id)
    }

    fn address(&self) -> String {
        format!("/admin/deliveries/{}", self.0.id)
    }
}

/// Makes a pending delivery due now; on probation, also the one attempt that decides how it goes on.
pub(crate) async fn retry_now(call: Call<DeliveryNumber>) -> PageResult<Flash> {
    let done = retry(&call).await?;
    Ok(done.about(call.of.0.id))
}

async fn retry(call: &Call<DeliveryNumber>) -> PageResult<Flash> {
    let (broker, DeliveryNumber(row), since) = (&call.broker, &call.of, call.broker.clock().now());
    let (standing, of) = (&call.visitor.standing, row.subscription_id);
    let found = standing.registry.subscription(of);
    let state = found.map(|(_, each)| standing.of(each));
    if let Some(state) = state.filter(|state| state.is_stopped()) {
        let word = state.badge().word.to_lowercase();
        return Ok(Flash::failed(format!("Nothing is sent: {word}.")));
    }
    match broker.retry_now(call.by(), row.id).await {
        Ok(_) => {}
        Err(RetryNowError::Store(error)) => return Err(error.into()),
        Err(error) => return Ok(Flash::failed(sentence(&error.to_string()))),
    }
    if state.is_some_and(|state| state.held_until().is_some()) {
        broker.retry_subscription_now(call.by(), of).await?;
    }
    came_of(call, of, row.id, since).await
}

/// Reports the result of the attempt that is made after `since`: that of the delivery, or of another delivery of the
/// same subscription if its endpoint is on probation and that one was chosen to test it.
pub(crate) async fn came_of(
    site: &Site,
    of: SubscriptionId,
    delivery: DeliveryId,
    since: Timestamp,
) -> PageResult<Flash> {
    let Some((attempt, row)) = site.broker.attempt_since(of, delivery, since).await? else {
        let text = "The attempt is being made, and has no response yet.";
        return Ok(Flash::done(text));
    };
    let held_until = site.broker.health_of(of).probation.map(|it| it.until);
    let expires_at = site.broker.expires_first(&row);
    let next = row
        .next_attempt_at
        .max(held_until)
        .filter(|_| row.state == DeliveryState::Pending);
    let came = response::of_attempt(&attempt);
    let retried = format!("Retried: {came}");
    // The text for a timeout already includes the duration.
    let is_told = attempt.result.outcome == Outcome::TimedOut;
    let after = if is_told {
        String::new()
    } else {
        format!(" after {}", print::span(attempt.duration))
    };
    let (now, state) = (site.broker.clock().now(), row.state);
    Ok(match next {
        Some(at) => {
            let (what, at) = expires_at.map_or(("next attempt", at), |at| ("expires at", at));
            let (at, wait) = (Time::minute(at).text(), print::relative(at, now));
            Flash::failed(format!("{retried}{after}; {what} {at} ({wait})."))
        }
        None if state == DeliveryState::Delivered => {
            Flash::done(format!("Delivered: {came}{after}."))
        }
        None => {
            let became = badge(state).word.to_lowercase();
            Flash::failed(format!("{retried}{after}; {became}."))
        }
    })
}

#[derive(Template)]
#[template(path = "pages/delivery.html")]
pub(crate) struct DeliveryCard {
    pub(crate) detail: DeliveryDetail,
    visitor: Visitor,
    /// Is true if the card stands on the page of the dead letter itself, which shows the rest above it.
    is_own_page: bool,
    retry: Option<ActionButton>,
    /// Time at which the delivery expires, if that is before another attempt.
    expires_at: Option<Timestamp>,
}

part!(DeliveryCard);

/// The next step for a pending delivery.
enum Next {
    /// No attempt is made until somebody acts; described in a word.
    Stopped(String),
    /// The endpoint is on probation.
    Held(Timestamp),
    /// A receiver has locked the delivery.
    Locked(Timestamp),
    Available,
    Due,
    At(Timestamp),
    /// The delivery expires before another attempt.
    Expires(Timestamp),
}

impl DeliveryCard {
    pub(crate) fn new(detail: DeliveryDetail, visitor: &Visitor, broker: &Broker) -> Self {
        Self {
            expires_at: broker.expires_first(&detail.row),
            detail: detail.seen_by(visitor.role),
            visitor: visitor.clone(),
            is_own_page: false,
            retry: None,
        }
    }

    /// Adds a button that retries the delivery now and leads back to the page at `back`.
    pub(crate) fn with_retry(mut self, back: &str) -> Self {
        if let Some(Next::Held(_) | Next::At(_) | Next::Expires(_)) = self.next() {
            let delivery = DeliveryNumber(self.detail.row.clone());
            let back = format!("{back}#delivery-{}", delivery.0.id);
            let button = delivery.button("retry-now").class("tiny");
            self.retry = Some(button.coming_back_to(back));
        }
        self
    }

    pub(crate) fn on_its_own_page(mut self) -> Self {
        self.is_own_page = true;
        self
    }

    /// Returns the subscription of the delivery; `None` if the subscription is deleted.
    pub(crate) fn subscription(&self) -> Option<&EventSubscription> {
        let id = self.detail.row.subscription_id;
        let found = self.visitor.standing.registry.subscription(id);
        found.map(|(_, found)| &**found)
    }

    fn next(&self) -> Option<Next> {
        let row = &self.detail.row;
        let is_pending = row.state == DeliveryState::Pending;
        let of = self.subscription().filter(|_| is_pending)?;
        let (state, now) = (self.visitor.standing.of(of), self.visitor.now);
        let is_pulled = of.definition.destination.delivery_mode() == DeliveryMode::Queue;
        Some(match row.locked_until.filter(|until| *until > now) {
            _ if state.is_stopped() => Next::Stopped(state.badge().word),
            Some(until) => Next::Locked(until),
            None if is_pulled => Next::Available,
            None => match (self.expires_at, state.held_until(), row.next_attempt_at) {
                (Some(at), _, _) if at > now => Next::Expires(at),
                (_, Some(until), _) => Next::Held(until),
                (_, None, Some(at)) if at > now => Next::At(at),
                (_, None, _) => Next::Due,
            },
        })
    }
}

/// The state of a delivery as a badge, in the words of the pages.
pub(crate) fn badge(state: DeliveryState) -> Badge {
    match state {
        DeliveryState::Pending => Badge::new(Tone::Warn, "Pending"),
        DeliveryState::Delivered => Badge::new(Tone::Good, "Delivered"),
        DeliveryState::DeadLettered => Badge::new(Tone::Bad, "Dead-lettered").with("dead"),
        DeliveryState::Dropped => Badge::new(Tone::Bad, "Dropped"),
        DeliveryState::Resubmitted => Badge::new(Tone::Rest, "Resubmitted").with("replay"),
        DeliveryState::Removed => Badge::new(Tone::Rest, "Removed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::delivery::DeliveryId;
    use crate::model::event::EventKey;
    use crate::model::replay::ReplayJobId;
    use crate::store::views::LineageRow;

    /// A resubmission at both of its ends.
    #[derive(Template)]
    #[template(
        ext = "html",
        source = "{% import \"lineage.html\" as lineage %}{% call lineage::resubmitted(line) %}{% endcall %}|\
                  {% call lineage::origin(line, own) %}{% endcall %}"
    )]
    struct Told {
        line: LineageRow,
        own: EventKey,
    }

    fn line() -> LineageRow {
        LineageRow {
            delivery: DeliveryId(4),
            event: EventKey(3),
            as_delivery: None,
            as_event: None,
            as_topic: None,
            url: None,
            replay_job: None,
            resubmitted_at: Timestamp::from_ms(0),
        }
    }

    /// What people read of it.
    fn words(html: &str) -> String {
        let parts = html.split('<');
        let texts = parts.map(|part| part.split_once('>').map_or(part, |(_, text)| text));
        let words: String = texts.collect();
        words.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn told(line: LineageRow, own: EventKey) -> (String, String) {
        let told = Told { line, own }.to_string();
        let (resubmitted, origin) = told.split_once('|').expect("both ends");
        (words(resubmitted), origin.to_owned())
    }

    #[test]
    fn every_target_is_told() {
        let as_delivery = Some(DeliveryId(5));
        let as_event = Some(EventKey(9));
        let as_topic = Some("audit".to_owned());
        let url = Some("https://x.example/in".to_owned());
        let own = LineageRow {
            as_delivery,
            ..line()
        };
        let edited = LineageRow {
            as_event,
            as_topic: as_topic.clone(),
            ..own.clone()
        };
        let topic = LineageRow {
            as_event,
            as_topic: as_topic.clone(),
            replay_job: Some(ReplayJobId(2)),
            ..line()
        };
        let gone = LineageRow { as_event, ..line() };
        let plain = LineageRow { url, ..line() };
        let edited_at_url = LineageRow {
            as_event,
            as_topic,
            ..plain.clone()
        };
        for (line, said) in [
            (own, "Resubmitted as delivery 5 at 1970-01-01 00:00:00."),
            (
                edited,
                "Resubmitted as delivery 5 of the edited event 9 at 1970-01-01 00:00:00.",
            ),
            (
                topic,
                "Resubmitted as event 9 of the topic audit at 1970-01-01 00:00:00 by replay job 2.",
            ),
            (
                gone,
                "Resubmitted as event 9, which is gone by now, at 1970-01-01 00:00:00.",
            ),
            (
                plain,
                "Resubmitted to https://x.example/in at 1970-01-01 00:00:00.",
            ),
            (
                edited_at_url,
                "Resubmitted to https://x.example/in as the edited event 9 at 1970-01-01 00:00:00.",
            ),
        ] {
            assert_eq!(told(line, EventKey(3)).0, said);
        }
    }

    #[test]
    fn what_is_new_tells_where_it_comes_from() {
        let line = LineageRow {
            as_event: Some(EventKey(9)),
            ..line()
        };
        let (_, edited) = told(line.clone(), EventKey(9));
        assert_eq!(
            words(&edited),
            "Resubmission of delivery 4 of event 3 at 1970-01-01 00:00:00"
        );
        assert!(edited.contains("/admin/events/3#delivery-4"), "{edited}");
        let (_, afresh) = told(line, EventKey(3));
        assert_eq!(
            words(&afresh),
            "Resubmission of delivery 4 at 1970-01-01 00:00:00"
        );
    }
}
