//! An [`EventFilter`] as SQL conditions on `event`. Filters of dead letters share some of them.

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, ToSql};

use crate::model::event_filter::{DeliveryStage, EventFilter, TextSearch};
use crate::store::error::StoreError;

/// Matches events by type and subject.
pub(in crate::store) const OF_EVENT: &str = "(:type IS NULL OR event.event_type = :type) \
     AND (:type_begin IS NULL OR substr(event.event_type, 1, length(:type_begin)) = :type_begin) \
     AND (:subject IS NULL OR event.subject = :subject) \
     AND (:subject_begin IS NULL \
         OR substr(event.subject, 1, length(:subject_begin)) = :subject_begin)";

/// Matches events by text.
pub(in crate::store) const OF_TEXT: &str = "(:text IS NULL OR instr(lower(event.event_id), :text) \
     OR instr(lower(event.event_type), :text) OR instr(lower(event.subject), :text) \
     OR (:in_data AND has_text(event.data, :text)))";

/// Adds `has_text`, which [`OF_TEXT`] uses, to a connection.
pub(in crate::store) fn add_functions(connection: &Connection) -> Result<(), StoreError> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("has_text", 2, flags, |row| {
        let data = row.get_raw(0).as_bytes_or_null()?.unwrap_or_default();
        Ok(has_text(
            &String::from_utf8_lossy(data),
            row.get_raw(1).as_str()?,
        ))
    })?;
    Ok(())
}

/// Reports whether `data` contains `sought`, whose ASCII letters are in lower case. Data is stored as it was published,
/// and JSON may write any character as an escape (`M\u00fcller`), so both spellings are searched.
fn has_text(data: &str, sought: &str) -> bool {
    let has = |text: &str| text.to_ascii_lowercase().contains(sought);
    has(data) || (data.contains('\\') && has(&unescaped(data)))
}

/// Returns the text with the escape sequences of JSON strings decoded.
fn unescaped(text: &str) -> String {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        units.extend(plain.encode_utf16());
        let digits = escape.strip_prefix('u').and_then(|rest| rest.get(..4));
        let code = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let mut after = escape.chars();
        match (code, after.next()) {
            (Some(unit), _) => {
                units.push(unit);
                rest = &escape[5..];
                continue;
            }
            (None, Some('n')) => units.push(0x0a),
            (None, Some('t')) => units.push(0x09),
            (None, Some(other)) => units.extend(other.encode_utf16(&mut [0; 2]).iter()),
            (None, None) => {}
        }
        rest = after.as_str();
    }
    units.extend(rest.encode_utf16());
    String::from_utf16_lossy(&units)
}

/// Matches events by topic, id and time.
const ITSELF: &str = "(:topic IS NULL OR event.topic_id = :topic) \
     AND (:event_id IS NULL OR event.event_id = :event_id) \
     AND (:received_from IS NULL OR event.received_at >= :received_from) \
     AND (:received_before IS NULL OR event.received_at < :received_before)";

/// Matches deliveries that are shown. Excludes deliveries that are about to end because their subscription is deleted:
/// pending ones, and dead letters that are messages.
pub(super) const IS_SHOWN: &str = "((delivery.state <> 'Pending' \
         AND (delivery.state <> 'DeadLettered' OR delivery.number IS NULL)) \
     OR NOT EXISTS (SELECT 1 FROM event_subscription \
         WHERE id = abs(delivery.subscription_id) AND deleted_at IS NOT NULL))";

/// The parameters of a filter's conditions.
pub(in crate::store) struct FilterValues {
    named: Vec<(&'static str, Box<dyn ToSql>)>,
}

impl FilterValues {
    /// Returns the parameters of [`OF_EVENT`] and [`OF_TEXT`]. A type or subject is a prefix if it ends in `*`, else it
    /// must match exactly.
    pub(in crate::store) fn of_event(
        event_type: Option<&str>,
        subject: Option<&str>,
        text: Option<&TextSearch>,
    ) -> Self {
        let (event_type, type_begin) = whole_or_begin(event_type);
        let (subject, subject_begin) = whole_or_begin(subject);
        // SQLite's lower() changes ASCII letters only.
        let in_data = text.is_some_and(|text| text.in_data);
        let sought = text.map(|text| text.text.to_ascii_lowercase());
        Self {
            named: vec![
                (":type", Box::new(event_type)),
                (":type_begin", Box::new(type_begin)),
                (":subject", Box::new(subject)),
                (":subject_begin", Box::new(subject_begin)),
                (":text", Box::new(sought)),
                (":in_data", Box::new(in_data)),
            ],
        }
    }

    /// Returns the parameters of [`conditions`].
    pub(in crate::store) fn of(filter: &EventFilter) -> Self {
        let in_event = Self::of_event(
            filter.event_type.as_deref(),
            filter.subject.as_deref(),
            filter.text.as_ref(),
        );
        let state = filter.state.map(|each| each.state());
        in_event.and([
            (":topic", Box::new(filter.topic)),
            (":subscription", Box::new(filter.subscription)),
            (":state", Box::new(state)),
            (":event_id", Box::new(filter.id.clone())),
            (":received_from", Box::new(filter.from)),
            (":received_before", Box::new(filter.to)),
        ])
    }

    /// Adds parameters.
    pub(in crate::store) fn and<const N: usize>(
        mut self,
        others: [(&'static str, Box<dyn ToSql>); N],
    ) -> Self {
        self.named.extend(others);
        self
    }

    /// Returns the parameters of the filter that `sql` uses, followed by `further`.
    pub(in crate::store) fn in_sql<'a>(
        &'a self,
        sql: &str,
        further: &[(&'static str, &'a dyn ToSql)],
    ) -> Vec<(&'static str, &'a dyn ToSql)> {
        let own = self.named.iter().filter(|(name, _)| sql.contains(name));
        own.map(|(name, value)| (*name, &**value as &dyn ToSql))
            .chain(further.iter().copied())
            .collect()
    }
}

/// Returns the condition for matching events, with the cheap parts first. The flag `unmatched` is not part of it: the
/// search uses an index for that.
pub(in crate::store) fn conditions(filter: &EventFilter) -> String {
    if asks_for_deliveries(filter) {
        format!(
            "{ITSELF} AND {OF_EVENT} AND {} AND {OF_TEXT}",
            wanted_delivery(filter)
        )
    } else {
        format!("{ITSELF} AND {OF_EVENT} AND {OF_TEXT}")
    }
}

/// Reports whether the filter has conditions on the deliveries of an event.
pub(in crate::store) fn asks_for_deliveries(filter: &EventFilter) -> bool {
    filter.subscription.is_some() || filter.state.is_some()
}

fn wanted_delivery(filter: &EventFilter) -> String {
    let tried = match filter.state {
        Some(DeliveryStage::Retrying) => "delivery.attempts > 0",
        Some(DeliveryStage::In(_)) | None => "TRUE",
    };
    format!(
        "EXISTS (SELECT 1 FROM delivery WHERE delivery.event_id = event.id \
         AND (:subscription IS NULL OR delivery.subscription_id = :subscription) \
         AND (:state IS NULL OR delivery.state = :state) AND {tried} AND {IS_SHOWN})"
    )
}

/// Returns an exact text, or the prefix if the pattern ends in `*`.
fn whole_or_begin(pattern: Option<&str>) -> (Option<String>, Option<String>) {
    match pattern.map(|pattern| (pattern, pattern.strip_suffix('*'))) {
        None => (None, None),
        Some((_, Some(begin))) => (None, Some(begin.to_owned())),
        Some((whole, None)) => (Some(whole.to_owned()), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_searched_in_every_spelling_of_json() {
        for (data, sought, expected) in [
            (r#"{"name":"Müller"}"#, "müller", true),
            (r#"{"name":"M\u00fcller"}"#, "müller", true),
            (r#"{"name":"M\u00FCLLER"}"#, "müller", true),
            (r#"{"name":"M\u00fcller"}"#, r"m\u00fcller", true),
            (r#"{"name":"\ud83d\ude80 x"}"#, "🚀 x", true),
            (
                r#"{"name":"a\u0026b \"c\" \/d\ne"}"#,
                "a&b \"c\" /d\ne",
                true,
            ),
            (r#"{"name":"C:\\temp"}"#, r"c:\temp", true),
            (r#"{"name":"Muller"}"#, "müller", false),
            (r"broken \u12", "broken u12", true),
            (r"broken \", "broken ", true),
        ] {
            assert_eq!(has_text(data, sought), expected, "{data} {sought}");
        }
    }
}
