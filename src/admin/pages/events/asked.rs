//! Which events an address asks for.

use serde::Deserialize;

use crate::admin::forms::form::Refusal;
use crate::admin::lists::filter;
use crate::admin::lists::filter::{Of, given, in_utc, of_flags, sought};
use crate::admin::security::session::Visitor;
use crate::base::Timestamp;
use crate::model::event::EventKey;
use crate::model::event_filter::{DeliveryStage, EventFilter};
use crate::model::registry::Registry;
use crate::store::views::EventQuery;

/// What the addresses of the list and of its file ask for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    /// A topic, or one of its subscriptions: `orders`, `orders/billing`.
    of: String,
    state: String,
    #[serde(rename = "type")]
    event_type: String,
    subject: String,
    text: String,
    id: String,
    /// Moments in UTC, as a form or RFC 3339 has them.
    from: String,
    to: String,
    unmatched: String,
    before: String,
}

impl Asked {
    /// The parameters that choose events.
    pub(crate) fn filters(&self) -> [(&'static str, String); 9] {
        [
            ("of", &self.of),
            ("state", &self.state),
            ("type", &self.event_type),
            ("subject", &self.subject),
            ("text", &self.text),
            ("id", &self.id),
            ("from", &self.from),
            ("to", &self.to),
            ("unmatched", &self.unmatched),
        ]
        .map(|(name, value)| (name, value.trim().to_owned()))
    }

    pub(crate) fn is_filtered(&self) -> bool {
        self.filters().iter().any(|(_, value)| !value.is_empty())
    }

    pub(crate) fn is_later_page(&self) -> bool {
        !self.before.is_empty()
    }

    /// The search, or which field makes none.
    pub(crate) fn query(
        &self,
        registry: &Registry,
        visitor: &Visitor,
        limit: usize,
    ) -> Result<EventQuery, Refusal> {
        let of = Of::named(self.of.trim(), registry).ok_or_else(|| {
            let problem = format!("There is no topic or event subscription {:?}.", self.of);
            Refusal::of("of", problem)
        })?;
        let state = given(&self.state).map(|name| {
            let problem = || Refusal::of("state", format!("No delivery is ever {name:?}."));
            DeliveryStage::from_name(&name).ok_or_else(problem)
        });
        Ok(EventQuery {
            filter: EventFilter {
                topic: of.topic,
                subscription: of.subscription,
                state: state.transpose()?,
                id: given(&self.id),
                event_type: given(&self.event_type),
                subject: given(&self.subject),
                unmatched: !self.unmatched.is_empty(),
                from: moment("from", &self.from)?,
                to: moment("to", &self.to)?,
                text: sought(&self.text, visitor),
            },
            before: self.before.parse().ok().map(EventKey),
            limit,
        })
    }

    /// The same for `everpost` and the management API; whoever asks for what nobody wanted says no more than
    /// that.
    pub(crate) fn flags(&self) -> Vec<(&'static str, String)> {
        let others = self.filters().into_iter();
        let others = others.filter_map(|(name, value)| match name {
            "of" | "unmatched" => None,
            "from" | "to" => Some((name, in_utc(&value))),
            _ => Some((name, value)),
        });
        of_flags(self.of.trim()).into_iter().chain(others).collect()
    }

    /// Whether only what nobody wanted is asked for.
    pub(crate) fn is_for_unmatched(&self) -> bool {
        !self.unmatched.is_empty()
    }
}

fn moment(name: &str, text: &str) -> Result<Option<Timestamp>, Refusal> {
    let read = |text: String| {
        let problem =
            format!("{text:?} is no moment such as 2026-11-21T06:40 or 2026-11-21T06:40:53Z.");
        filter::moment(&text).ok_or_else(|| Refusal::of(name, problem))
    };
    given(text).map(read).transpose()
}
