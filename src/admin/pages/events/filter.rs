//! Which events an address asks for.

use serde::{Deserialize, Serialize};

use crate::admin::lists::filter::{self, Of, given, in_utc, of_flags, sought};
use crate::admin::page::*;
use crate::model::event::EventKey;
use crate::model::event_filter::{DeliveryStage, EventFilter};
use crate::store::views::EventQuery;

/// Stands among the states of deliveries for events that have none.
pub(crate) const UNMATCHED: &str = "Unmatched";

/// What the addresses of the list and of its file ask for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EventForm {
    /// A topic, or one of its subscriptions: `orders`, `orders/billing`.
    pub(crate) of: String,
    /// Of its deliveries, or [`UNMATCHED`].
    pub(crate) state: String,
    pub(crate) text: String,
    /// One of [`SPANS`].
    pub(crate) since: String,
    #[serde(rename = "type")]
    pub(crate) event_type: String,
    pub(crate) subject: String,
    pub(crate) id: String,
    /// Moments as a reader types them, or in RFC 3339.
    pub(crate) from: String,
    pub(crate) to: String,
    /// The key of the event before which a page begins.
    pub(crate) before: String,
}

const HOUR: Duration = Duration::from_secs(3_600);

/// How far back events are looked for: in the address, how long, and what it is called.
pub(crate) const SPANS: [(&str, Duration, &str); 4] = [
    ("", Duration::MAX, "Any time"),
    ("1h", HOUR, "Last hour"),
    ("24h", HOUR.saturating_mul(24), "Last 24 hours"),
    ("7d", HOUR.saturating_mul(24 * 7), "Last 7 days"),
];

impl EventForm {
    /// The search, or all fields that make none.
    pub(crate) fn query(
        &self,
        visitor: &Visitor,
        limit: usize,
    ) -> Result<EventQuery, Vec<Refusal>> {
        let mut faults = Vec::new();
        let mut moment = |name: &str, text: &str| {
            let at = given(text).map(|text| filter::moment(&text));
            if at == Some(None) {
                let problem = format!("{text:?} is no moment such as 2026-11-21T06:40.");
                faults.push(Refusal::of(name, problem));
            }
            at.flatten()
        };
        let (from, to) = (moment("from", &self.from), moment("to", &self.to));
        let of = Of::named(self.of.trim(), &visitor.standing.registry);
        if of.is_none() {
            let problem = format!("There is no topic or event subscription {:?}.", self.of);
            faults.push(Refusal::of("of", problem));
        }
        let is_unmatched = self.state == UNMATCHED;
        let state = given(&self.state).filter(|_| !is_unmatched);
        let state = state.map(|name| {
            let stage = DeliveryStage::from_name(&name);
            if stage.is_none() {
                faults.push(Refusal::of(
                    "state",
                    format!("No delivery is ever {name:?}."),
                ));
            }
            stage
        });
        if !faults.is_empty() {
            return Err(faults);
        }
        let of = of.unwrap_or_default();
        Ok(EventQuery {
            filter: EventFilter {
                topic: of.topic,
                subscription: of.subscription,
                state: state.flatten(),
                id: given(&self.id),
                event_type: given(&self.event_type),
                subject: given(&self.subject),
                unmatched: is_unmatched,
                from: from.max(self.since(visitor.now)),
                to,
                text: sought(&self.text, visitor),
            },
            before: self.before.parse().ok().map(EventKey),
            limit,
        })
    }

    fn since(&self, now: Timestamp) -> Option<Timestamp> {
        let mut spans = SPANS.iter().skip(1);
        let (_, span, _) = spans.find(|(name, ..)| *name == self.since)?;
        Some(now - *span)
    }

    /// Whether only what nobody wanted is asked for.
    pub(crate) fn is_for_unmatched(&self) -> bool {
        self.state == UNMATCHED
    }

    /// The same for `everpost` and the management API, in which whoever asks for what nobody wanted says no
    /// more than that.
    pub(crate) fn flags(&self, now: Timestamp) -> Vec<(&'static str, String)> {
        let from = match self.since(now) {
            Some(since) if self.from.is_empty() => since.to_string(),
            Some(_) | None => in_utc(&self.from),
        };
        let state = match self.is_for_unmatched() {
            true => String::new(),
            false => self.state.clone(),
        };
        let others = [
            ("state", state),
            ("type", self.event_type.clone()),
            ("subject", self.subject.clone()),
            ("text", self.text.clone()),
            ("id", self.id.clone()),
            ("from", from),
            ("to", in_utc(&self.to)),
        ];
        let others = others.map(|(name, value)| (name, value.trim().to_owned()));
        of_flags(self.of.trim()).into_iter().chain(others).collect()
    }

    /// Whether anything of what is folded away is filled in.
    pub(crate) fn asks_for_more(&self) -> bool {
        let folded = [
            &self.event_type,
            &self.subject,
            &self.id,
            &self.from,
            &self.to,
        ];
        folded.iter().any(|value| !value.trim().is_empty())
    }
}
