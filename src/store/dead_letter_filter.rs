//! A [`DeadLetterFilter`] as conditions on `delivery` and `event`.

use rusqlite::ToSql;

use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::Outcome;

/// True for the deliveries that are meant, as far as they themselves tell. An index has all that it reads.
pub(super) const OF_DELIVERY: &str = "(:topic IS NULL OR delivery.subscription_id IN \
         (SELECT id FROM event_subscription WHERE topic_id = :topic)) \
     AND (:subscription IS NULL OR delivery.subscription_id = :subscription) \
     AND (:reason IS NULL OR delivery.dead_letter_reason = :reason \
         OR delivery.dead_letter_own_reason = :reason) \
     AND (:outcome IS NULL OR delivery.last_outcome = :outcome) \
     AND (:status IS NULL OR delivery.last_status = :status) \
     AND (:ended_from IS NULL OR delivery.ended_at >= :ended_from) \
     AND (:ended_before IS NULL OR delivery.ended_at < :ended_before)";

/// The same, as far as the type and the subject of their events tell.
pub(super) const OF_EVENT: &str = "(:type IS NULL OR event.event_type = :type) \
     AND (:type_begin IS NULL OR substr(event.event_type, 1, length(:type_begin)) = :type_begin) \
     AND (:subject IS NULL OR event.subject = :subject) \
     AND (:subject_begin IS NULL \
         OR substr(event.subject, 1, length(:subject_begin)) = :subject_begin)";

/// [`OF_EVENT`] of dead letters, by what an index has of their events.
pub(super) const OF_ABOUT: &str = "(:type IS NULL OR delivery.about_type = :type) \
     AND (:type_begin IS NULL OR substr(delivery.about_type, 1, length(:type_begin)) = :type_begin) \
     AND (:subject IS NULL OR delivery.about_subject = :subject) \
     AND (:subject_begin IS NULL \
         OR substr(delivery.about_subject, 1, length(:subject_begin)) = :subject_begin)";

/// The same, as far as the words in their events tell.
pub(super) const OF_TEXT: &str = "(:text IS NULL OR instr(lower(event.event_id), :text) \
     OR instr(lower(event.event_type), :text) OR instr(lower(event.subject), :text) \
     OR instr(lower(event.data), :text))";

/// The parameters of all of these.
pub(super) struct FilterValues {
    named: [(&'static str, Box<dyn ToSql>); 12],
}

impl FilterValues {
    pub(super) fn of(filter: &DeadLetterFilter) -> Self {
        let (event_type, type_begin) = whole_or_begin(filter.event_type.as_deref());
        let (subject, subject_begin) = whole_or_begin(filter.subject.as_deref());
        // What lower() does to the columns: ASCII letters alone.
        let text = filter.text.as_deref().map(str::to_ascii_lowercase);
        Self {
            named: [
                (":topic", Box::new(filter.topic)),
                (":subscription", Box::new(filter.subscription)),
                (":reason", Box::new(filter.reason.clone())),
                (":outcome", Box::new(filter.outcome.map(Outcome::name))),
                (":status", Box::new(filter.status)),
                (":ended_from", Box::new(filter.from.map(|at| at.as_ms()))),
                (":ended_before", Box::new(filter.to.map(|at| at.as_ms()))),
                (":type", Box::new(event_type)),
                (":type_begin", Box::new(type_begin)),
                (":subject", Box::new(subject)),
                (":subject_begin", Box::new(subject_begin)),
                (":text", Box::new(text)),
            ],
        }
    }

    /// Those of these that `sql` names, and further parameters.
    pub(super) fn in_sql<'a>(
        &'a self,
        sql: &str,
        further: &[(&'static str, &'a dyn ToSql)],
    ) -> Vec<(&'static str, &'a dyn ToSql)> {
        let own = self.named.iter().filter(|(name, _)| sql.contains(name));
        let own = own.map(|(name, value)| (*name, &**value as &dyn ToSql));
        own.chain(further.iter().copied()).collect()
    }
}

/// A text to be equal to, or one to begin with.
fn whole_or_begin(pattern: Option<&str>) -> (Option<String>, Option<String>) {
    match pattern.map(|pattern| (pattern, pattern.strip_suffix('*'))) {
        None => (None, None),
        Some((_, Some(begin))) => (None, Some(begin.to_owned())),
        Some((whole, None)) => (Some(whole.to_owned()), None),
    }
}
