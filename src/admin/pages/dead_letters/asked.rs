//! Which dead letters an address asks for.

use serde::{Deserialize, Serialize};

use crate::admin::lists::filter;
use crate::admin::lists::filter::{Of, given, in_utc, of_flags, sought};
use crate::admin::page::*;
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::{DeliveryId, Outcome};
use crate::model::registry::Registry;
use crate::store::views::{DeadLetterQuery, GroupBy};

/// What the address of the list, and of what is done with all of it, asks for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    /// A topic, or one of its subscriptions: `orders`, `orders/billing`.
    of: String,
    reason: String,
    outcome: String,
    status: String,
    #[serde(rename = "type")]
    event_type: String,
    subject: String,
    text: String,
    /// Moments in UTC, as a form or RFC 3339 has them.
    from: String,
    to: String,
    group: String,
    before: String,
}

/// Something in the address that is no filter: the field.
pub(crate) struct Unknown(&'static str);

impl Unknown {
    pub(crate) fn fault(&self) -> Refusal {
        Refusal::of(self.0, "There is nothing of the kind.")
    }
}

impl Asked {
    /// The parameters that choose dead letters.
    pub(crate) fn filters(&self) -> [(&'static str, String); 9] {
        [
            ("of", self.of.clone()),
            ("reason", self.reason.clone()),
            ("outcome", self.outcome.clone()),
            ("status", self.status.clone()),
            ("type", self.event_type.clone()),
            ("subject", self.subject.clone()),
            ("text", self.text.clone()),
            ("from", self.from.clone()),
            ("to", self.to.clone()),
        ]
    }

    /// `path` for the same dead letters.
    pub(crate) fn at(&self, path: &str) -> String {
        link(path, &self.filters())
    }

    /// `path` for the same, and one more parameter in the place of what is there.
    pub(crate) fn with(&self, path: &str, name: &'static str, value: String) -> String {
        let mut filters = self.filters().to_vec();
        filters.retain(|(known, _)| *known != name);
        filters.push((name, value));
        link(path, &filters)
    }

    pub(crate) fn is_filtered(&self) -> bool {
        self.filters().iter().any(|(_, value)| !value.is_empty())
    }

    pub(crate) fn is_later_page(&self) -> bool {
        !self.before.is_empty()
    }

    /// What the dead letters are to be put together by.
    pub(crate) fn group(&self) -> Option<GroupBy> {
        GroupBy::ALL.into_iter().find(|by| by.name() == self.group)
    }

    /// Whether anything of what is folded away is filled in.
    pub(crate) fn asks_for_more(&self) -> bool {
        let folded = [
            &self.outcome,
            &self.status,
            &self.event_type,
            &self.subject,
            &self.from,
            &self.to,
            &self.group,
        ];
        folded.iter().any(|value| !value.trim().is_empty())
    }

    pub(crate) fn query(
        &self,
        registry: &Registry,
        visitor: &Visitor,
        limit: usize,
    ) -> Result<DeadLetterQuery, Unknown> {
        Ok(DeadLetterQuery {
            filter: self.filter(registry, visitor)?,
            before: self.before.parse().ok().map(DeliveryId),
            limit,
        })
    }

    pub(crate) fn filter(
        &self,
        registry: &Registry,
        visitor: &Visitor,
    ) -> Result<DeadLetterFilter, Unknown> {
        let outcome = |name: String| Outcome::from_name(&name).ok_or(Unknown("outcome"));
        let moment = |at: &str, name| {
            let read = |at: String| filter::moment(&at).ok_or(Unknown(name));
            given(at).map(read).transpose()
        };
        let of = self.of(registry).ok_or(Unknown("of"))?;
        Ok(DeadLetterFilter {
            topic: of.topic,
            subscription: of.subscription,
            reason: given(&self.reason),
            outcome: given(&self.outcome).map(outcome).transpose()?,
            status: given(&self.status)
                .map(|status| status.parse().map_err(|_| Unknown("status")))
                .transpose()?,
            event_type: given(&self.event_type),
            subject: given(&self.subject),
            text: sought(&self.text, visitor),
            from: moment(&self.from, "from")?,
            to: moment(&self.to, "to")?,
        })
    }

    /// Whose they are; `None` for something that there is not.
    pub(crate) fn of(&self, registry: &Registry) -> Option<Of> {
        Of::named(self.of.trim(), registry)
    }

    /// The same for `everpost` and the management API.
    pub(crate) fn flags(&self) -> Vec<(&'static str, String)> {
        let others = self.filters().into_iter().filter(|(name, _)| *name != "of");
        let others = others.map(|(name, value)| match name {
            "from" | "to" => (name, in_utc(&value)),
            _ => (name, value),
        });
        of_flags(&self.of).into_iter().chain(others).collect()
    }
}
