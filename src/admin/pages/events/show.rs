//! The page of one event: what it is, what it carries, and what became of it.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::admin::pages::delivery::DeliveryCard;
use crate::admin::pages::topics::copy_page;

/// Bytes of data that are laid out: beyond, nobody reads, and indentation multiplies it.
const LAID_OUT_MAX: usize = 65_536;

/// Bytes of data that are shown; all of it can be downloaded.
const SHOWN_MAX: usize = 262_144;

pub(crate) struct Data<'a> {
    pub(crate) kind: &'static str,
    pub(crate) text: Cow<'a, str>,
    pub(crate) can_be_laid_out: bool,
    /// Whether it is shown as it was published.
    pub(crate) is_raw: bool,
}

pub(crate) async fn show(
    Path(key): Path<String>,
    Query(asked): Query<Names>,
    call: Call,
) -> PageResult {
    let visitor = &call.visitor;
    let mut event = find(&call, &key).await?;
    let topic = visitor.standing.registry.topic_by_id(event.topic_id);
    let results = topic.map(|topic| FilterResults::new(&event, topic, visitor));
    let (key, event_type) = (event.stored.key, &event.stored.event.event_type);
    let title = print::visible(event_type);
    let deliveries = std::mem::take(&mut event.deliveries).into_iter();
    let card = |each| DeliveryCard::new(each, visitor).with_retry(&paths::event_page(key));
    answer!("pages/event.html", visitor, title, {
        results: Option<FilterResults> = results.filter(|results| !results.rows.is_empty()),
        deliveries: Vec<DeliveryCard> = deliveries.map(card).collect(),
        recipe: Recipe = Recipe::one(&call, "events", "events show", key),
        // Whether the data is to be shown as it was published.
        is_raw: bool = name_of(&asked, "data") == "raw",
        topic: Option<Arc<TopicEntry>> = topic.cloned(),
        event: EventDetail = event,
    })
}

/// How many of the deliveries stand where.
fn badges(deliveries: &[DeliveryCard]) -> Vec<Badge> {
    let badge = |state| {
        let badge = delivery::badge(state);
        let states = deliveries.iter().map(|each| each.detail.row.state);
        let count = states.filter(|own| *own == state).count();
        let said = format!("{count} {}", badge.word.to_lowercase());
        (count > 0).then(|| badge.saying(said))
    };
    DeliveryState::ALL.into_iter().filter_map(badge).collect()
}

/// When an event says that it happened, if that is a moment.
fn event_time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// A value that is written as JSON, without the quotes of a text.
fn plain(value: &str) -> String {
    serde_json::from_str(value).unwrap_or_else(|_| value.to_owned())
}

pub(crate) async fn download(Path(key): Path<String>, call: Call) -> PageResult {
    let event = find(&call, &key).await?.stored;
    let (bytes, ending, kind) = as_file(event.event.data);
    Ok(file(&format!("event-{}.{ending}", event.key), kind, bytes))
}

pub(crate) async fn find(site: &Site, key: &str) -> PageResult<EventDetail> {
    let number = numbered("event", key).map(EventKey)?;
    existing(site.views.event(number).await?, "event", key)
}

fn as_file(data: EventData) -> (Vec<u8>, &'static str, &'static str) {
    match data {
        EventData::Absent => (Vec::new(), "txt", "text/plain; charset=utf-8"),
        EventData::Json(text) => (text.into_bytes(), "json", "application/json"),
        EventData::Binary(bytes) => (bytes.into(), "bin", "application/octet-stream"),
    }
}

impl<'a> Data<'a> {
    /// `data` as it was published, or laid out where that helps.
    pub(crate) fn new(data: &'a EventData, is_raw: bool) -> Self {
        let (kind, text) = match data {
            EventData::Absent => ("no data", Cow::default()),
            EventData::Json(text) => ("JSON", Cow::from(text)),
            EventData::Binary(bytes) => ("base64", STANDARD.encode(bytes).into()),
        };
        let can_be_laid_out = matches!(data, EventData::Json(_)) && text.len() <= LAID_OUT_MAX;
        let is_raw = is_raw || !can_be_laid_out;
        Self {
            kind,
            text,
            can_be_laid_out,
            is_raw,
        }
    }

    pub(crate) fn shown(&self) -> &str {
        &self.text[..self.text.floor_char_boundary(SHOWN_MAX)]
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.shown().len() < self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_laid_out_raw_or_cut() {
        let small = EventData::Json("{\"a\":\"\\u00fc\"}".to_owned());
        assert!(!Data::new(&small, false).is_raw && Data::new(&small, true).is_raw);
        let big = EventData::Json(format!("\"{}\"", "ü".repeat(SHOWN_MAX)));
        let big = Data::new(&big, false);
        assert!(big.is_cut() && big.is_raw && big.shown().len() <= SHOWN_MAX);
        let binary = EventData::Binary(vec![0, 1, 2].into());
        let binary = Data::new(&binary, false);
        assert_eq!((binary.shown(), binary.kind), ("AAEC", "base64"));
        assert!(binary.is_raw && !binary.is_cut());
    }

    #[test]
    fn attributes_are_shown_without_quotes() {
        for (json, shown) in [
            (r#""a \"b\"""#, "a \"b\""),
            ("1.50", "1.50"),
            ("true", "true"),
        ] {
            assert_eq!(plain(json), shown);
        }
    }

    #[test]
    fn binary_data_is_downloaded_as_it_is() {
        let (bytes, ending, _) = as_file(EventData::Binary(vec![0, 1, 2].into()));
        assert_eq!((bytes.as_slice(), ending), (&[0, 1, 2][..], "bin"));
    }
}
