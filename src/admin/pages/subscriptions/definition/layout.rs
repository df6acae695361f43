//! Where the documents of the kinds of event subscriptions have what.

use super::properties::{CUSTOM, HEADERS, PUSH, QUEUE};
use crate::admin::forms::rows::{Part, RowSection, section};
use crate::admin::page::*;
use crate::model::destination::DeliveryMode;

/// Labels, and what is set.
pub(crate) type Facts = Vec<(&'static str, String)>;

/// Where the document of one kind of subscription has what.
pub(crate) struct Layout {
    /// What it always has.
    pub(super) constants: &'static [(&'static str, &'static str)],
    /// The properties of the webhook; `None` for what is pulled.
    pub(crate) webhook: Option<&'static str>,
    pub(super) dead_letters: &'static str,
    /// The list of advanced filters.
    pub(crate) clauses: &'static str,
    pub(crate) first: RowSection,
    pub(crate) filter: RowSection,
    /// What needs no thought at first.
    pub(crate) folds: &'static [Fold],
}

/// A section that is folded away while there is nothing of one's own in it.
pub(crate) struct Fold {
    pub(crate) id: &'static str,
    pub(crate) rows: RowSection,
    /// Whether custom headers are a part of it.
    pub(crate) has_headers: bool,
    /// Later there is a page of its own for it.
    pub(crate) only_new: bool,
}

impl Layout {
    pub(crate) fn of(topic: &TopicEntry, mode: DeliveryMode) -> &'static Self {
        match (topic.namespace.is_some(), mode) {
            (false, _) => &CUSTOM,
            (true, DeliveryMode::Push) => &PUSH,
            (true, DeliveryMode::Queue) => &QUEUE,
        }
    }

    /// Every setting: a section's id, its title, and labels with what is set. `defaults` is what holds for fields
    /// that are left empty.
    pub(crate) fn facts(
        &self,
        form: &Form,
        defaults: &[(&str, String)],
    ) -> Vec<(&'static str, &'static str, Facts)> {
        let folds = self.folds.iter().filter(|fold| !fold.only_new);
        let folds = folds.map(|fold| (fold.id, &fold.rows));
        let sections = [("first", &self.first), ("filter", &self.filter)];
        let facts = |(id, section): (&'static str, &RowSection)| {
            let parts = section.parts.iter();
            let facts = parts.flat_map(|part| part.facts(form, defaults));
            (id, section.title, facts.collect())
        };
        sections.into_iter().chain(folds).map(facts).collect()
    }

    /// Where the filter is.
    pub(super) fn filter_at(&self) -> &'static str {
        self.filter.parts.first().map_or("", |part| part.at)
    }

    /// Where custom headers are.
    pub(crate) fn headers(&self) -> Option<String> {
        let webhook = self.webhook?;
        Some(format!("{webhook}.{}", HEADERS.name))
    }

    /// Everything but lists.
    pub(super) fn parts(&self) -> impl Iterator<Item = &'static Part> {
        let folds = self.folds.iter().flat_map(|fold| fold.rows.parts);
        self.first
            .parts
            .iter()
            .chain(self.filter.parts)
            .chain(folds)
    }
}

impl Fold {
    pub(super) const fn with_headers(self) -> Self {
        Self {
            has_headers: true,
            ..self
        }
    }

    pub(super) const fn only_new(self) -> Self {
        Self {
            only_new: true,
            ..self
        }
    }

    /// What is set, in a few words.
    pub(crate) fn summary(&self, form: &Form) -> String {
        let parts = self.rows.parts.iter();
        let mut words: Vec<String> = parts.flat_map(|part| part.summary(form)).collect();
        if self.has_headers {
            let names =
                (0..HEADERS.count(form)).map(|index| form.text(&HEADERS.name(index, "name")));
            words.extend(names.filter(|name| !name.is_empty()).map(print::visible));
        }
        match words.is_empty() {
            true => "None".to_owned(),
            false => words.join(", "),
        }
    }
}

pub(super) const fn fold(id: &'static str, title: &'static str, parts: &'static [Part]) -> Fold {
    Fold {
        id,
        rows: section(title, parts),
        has_headers: false,
        only_new: false,
    }
}
