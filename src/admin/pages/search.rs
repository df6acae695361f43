//! The search criteria in the addresses of events and dead letters: for the lists, for their downloads, and for the
//! actions on all rows that match.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::admin::forms::filled::FilledForm;
use crate::admin::forms::form::FormError;
use crate::admin::lists::filter::{Reading, given, in_utc, of_flags};
use crate::admin::lists::link;
use crate::admin::security::session::Visitor;
use crate::base::Timestamp;
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::Outcome;
use crate::model::event_filter::{DeliveryStage, EventFilter, TextSearch};

/// The value of the state filter for events without deliveries.
pub(crate) const UNMATCHED: &str = "Unmatched";

/// The descriptions of valid values of some fields, for the messages about invalid ones.
const STATES: &str = "a delivery status such as Pending";
const OUTCOMES: &str = "an outcome such as TimedOut";
const STATUSES: &str = "an HTTP status such as 503";

/// The fields of the search forms of events and of dead letters. Each form has some of the fields.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SearchForm {
    /// A topic, or one of its subscriptions: `orders`, `orders/billing`.
    pub(crate) of: String,
    /// The state of a delivery, or [`UNMATCHED`].
    pub(crate) state: String,
    pub(crate) reason: String,
    pub(crate) outcome: String,
    pub(crate) status: String,
    /// The time span before now: `1h`, `24h` or `7d`.
    pub(crate) since: String,
    #[serde(rename = "type")]
    pub(crate) event_type: String,
    pub(crate) subject: String,
    pub(crate) id: String,
    pub(crate) text: String,
    /// Moments as a reader types them, or in RFC 3339.
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) group: String,
    /// The number of the row before which a page begins.
    pub(crate) before: String,
}

impl SearchForm {
    /// Returns the filter for events, or an error for every invalid field.
    pub(crate) fn events(&self, visitor: &Visitor) -> Result<EventFilter, Vec<FormError>> {
        let (mut reading, since) = (Reading::default(), self.since(visitor.now));
        let of = reading.of(&self.of, &visitor.standing.registry);
        let filter = EventFilter {
            topic: of.topic,
            subscription: of.subscription,
            state: reading.field("state", self.state(), STATES, DeliveryStage::from_name),
            id: given(&self.id),
            event_type: given(&self.event_type),
            subject: given(&self.subject),
            unmatched: self.is_for_unmatched(),
            from: since.max(reading.moment("from", &self.from)),
            to: reading.moment("to", &self.to),
            text: self.text(visitor),
        };
        reading.end(filter)
    }

    /// Returns the filter for dead letters, or an error for every invalid field.
    pub(crate) fn dead_letters(
        &self,
        visitor: &Visitor,
    ) -> Result<DeadLetterFilter, Vec<FormError>> {
        let mut reading = Reading::default();
        let of = reading.of(&self.of, &visitor.standing.registry);
        let filter = DeadLetterFilter {
            topic: of.topic,
            subscription: of.subscription,
            reason: given(&self.reason),
            outcome: reading.field("outcome", &self.outcome, OUTCOMES, Outcome::from_name),
            status: reading.field("status", &self.status, STATUSES, |it| it.parse().ok()),
            event_type: given(&self.event_type),
            subject: given(&self.subject),
            from: reading.moment("from", &self.from),
            to: reading.moment("to", &self.to),
            text: self.text(visitor),
        };
        reading.end(filter)
    }

    pub(crate) fn is_for_unmatched(&self) -> bool {
        self.state == UNMATCHED
    }

    fn state(&self) -> &str {
        let is_other = self.is_for_unmatched();
        if is_other { "" } else { &self.state }
    }

    /// Returns the query string for all rows of this search, ungrouped and from the first page on; empty if there are
    /// no criteria.
    pub(crate) fn query(&self) -> String {
        let mut rows = self.clone();
        (rows.group, rows.before) = Default::default();
        link("", &FilledForm::with(rows).pairs())
    }

    /// Returns the criteria as flags of `everpost`, which are also the query parameters of the management API. There is
    /// none for [`UNMATCHED`], so that is left out.
    pub(crate) fn flags(&self, now: Timestamp) -> Vec<(&'static str, String)> {
        let since = self.since(now).filter(|_| self.from.is_empty());
        let from = since.map_or_else(|| in_utc(&self.from), |since| since.to_string());
        let others = [
            ("state", self.state()),
            ("reason", &self.reason),
            ("outcome", &self.outcome),
            ("status", &self.status),
            ("type", &self.event_type),
            ("subject", &self.subject),
            ("text", &self.text),
            ("id", &self.id),
            ("from", &from),
            ("to", &in_utc(&self.to)),
        ]
        .map(|(name, value)| (name, value.trim().to_owned()));
        of_flags(self.of.trim()).into_iter().chain(others).collect()
    }

    fn since(&self, now: Timestamp) -> Option<Timestamp> {
        let hours = match self.since.as_str() {
            "1h" => 1,
            "24h" => 24,
            "7d" => 7 * 24,
            _ => return None,
        };
        Some(now - Duration::from_secs(hours * 3_600))
    }

    fn text(&self, visitor: &Visitor) -> Option<TextSearch> {
        let in_data = visitor.sees_data();
        given(&self.text).map(|text| TextSearch { text, in_data })
    }
}
