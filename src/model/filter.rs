//! Which events a subscription wants.

use crate::model::event::Event;

/// The filter of an event subscription; all of its parts must agree (spec 4.1).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Filter {
    /// `None` means every type.
    pub included_event_types: Option<Vec<String>>,
    pub subject_begins_with: String,
    pub subject_ends_with: String,
    pub subject_case_sensitive: bool,
}

impl Filter {
    /// Whether `event` passes.
    pub fn matches(&self, event: &Event) -> bool {
        self.type_matches(&event.event_type)
            && self.subject_matches(event.subject.as_deref().unwrap_or(""))
    }

    /// Ordinal equality with one of the types (spec A).
    fn type_matches(&self, event_type: &str) -> bool {
        self.included_event_types
            .as_ref()
            .is_none_or(|types| types.iter().any(|included| included == event_type))
    }

    fn subject_matches(&self, subject: &str) -> bool {
        if self.subject_case_sensitive {
            return subject.starts_with(&self.subject_begins_with)
                && subject.ends_with(&self.subject_ends_with);
        }
        let subject = subject.to_lowercase();
        subject.starts_with(&self.subject_begins_with.to_lowercase())
            && subject.ends_with(&self.subject_ends_with.to_lowercase())
    }
}
