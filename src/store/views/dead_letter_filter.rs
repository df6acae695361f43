//! A [`DeadLetterFilter`] as SQL conditions on `delivery`.

use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::store::views::event_filter::FilterValues;

/// Matches deliveries by their own columns. An index has all of them.
pub(in crate::store) const OF_DELIVERY: &str = "(:topic IS NULL OR delivery.subscription_id IN \
         (SELECT id FROM event_subscription WHERE topic_id = :topic)) \
     AND (:subscription IS NULL OR delivery.subscription_id = :subscription) \
     AND (:reason IS NULL OR delivery.dead_letter_reason = :reason \
         OR delivery.receiver_reason = :reason) \
     AND (:outcome IS NULL OR delivery.last_outcome = :outcome) \
     AND (:status IS NULL OR delivery.last_status = :status) \
     AND (:ended_from IS NULL OR delivery.ended_at >= :ended_from) \
     AND (:ended_before IS NULL OR delivery.ended_at < :ended_before)";

/// [`OF_EVENT`](crate::store::views::event_filter::OF_EVENT) for dead letters, by the copies of the event's
/// columns, which an index has.
pub(in crate::store) const OF_ABOUT: &str = "(:type IS NULL OR delivery.event_type = :type) \
     AND (:type_begin IS NULL OR substr(delivery.event_type, 1, length(:type_begin)) = :type_begin) \
     AND (:subject IS NULL OR delivery.event_subject = :subject) \
     AND (:subject_begin IS NULL \
         OR substr(delivery.event_subject, 1, length(:subject_begin)) = :subject_begin)";

/// The parameters of all conditions.
pub(in crate::store) fn values(filter: &DeadLetterFilter) -> FilterValues {
    let in_event = FilterValues::of_event(
        filter.event_type.as_deref(),
        filter.subject.as_deref(),
        filter.text.as_ref(),
    );
    in_event.and([
        (":topic", Box::new(filter.topic)),
        (":subscription", Box::new(filter.subscription)),
        (":reason", Box::new(filter.reason.clone())),
        (":outcome", Box::new(filter.outcome)),
        (":status", Box::new(filter.status)),
        (":ended_from", Box::new(filter.from)),
        (":ended_before", Box::new(filter.to)),
    ])
}
