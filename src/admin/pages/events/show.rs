//! The page of one event: what it is, what it carries, and what became of it.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::admin::lists::download::file;
use crate::admin::page::*;
use crate::admin::pages::delivery::{self, DeliveryCard};
use crate::admin::pages::events::FilterResults;
use crate::admin::pages::lineage::Origin;
use crate::admin::pages::topics::copy_page;
use crate::admin::paths::{event_page, topic_page};
use crate::admin::site::event_key;
use crate::admin::widgets::json_code::JsonCode;
use crate::model::delivery::DeliveryState;
use crate::model::event::{EventData, StoredEvent};
use crate::store::views::{DeliveryDetail, EventDetail};

/// Bytes of data that are laid out: beyond, nobody reads, and indentation multiplies it.
const LAID_OUT_MAX: usize = 65_536;

/// Bytes of data that are shown; all of it can be downloaded.
const SHOWN_MAX: usize = 262_144;

/// What the address asks for.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Shown {
    /// `raw` shows the data as it was published.
    data: String,
}

#[derive(Template)]
#[template(path = "pages/event.html")]
struct EventPage {
    frame: Frame,
    stored: StoredEvent,
    topic: String,
    /// `None` once the topic is deleted.
    topic_page: Option<String>,
    /// Where to publish another one like it, if anybody may publish to its topic.
    copy: Option<String>,
    badges: Vec<Badge>,
    /// `None` for what a publisher sent.
    origin: Option<Origin>,
    data: DataPanel,
    /// Subscriptions that matched it.
    matched: u64,
    /// Whether deliveries are still being created.
    is_fanning_out: bool,
    /// `None` once the topic is deleted.
    results: Option<FilterResults>,
    deliveries: Vec<DeliveryCard>,
    recipe: Recipe,
}

/// What an event carries, for whoever may see it.
#[derive(Template)]
#[template(path = "pages/data.html")]
pub(crate) struct DataPanel {
    event_page: String,
    data: Option<Data>,
}

part!(DataPanel);

/// The data, ready to print.
struct Data {
    kind: &'static str,
    size: usize,
    is_raw: bool,
    can_be_laid_out: bool,
    is_cut: bool,
    content: Content,
}

enum Content {
    Nothing,
    Json(JsonCode),
    Text(String),
}

/// One event.
pub(crate) async fn show(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(key): Path<String>,
    Query(shown): Query<Shown>,
) -> PageResult {
    let event = find(&site, &key).await?;
    let topic = visitor.standing.registry.topic_by_id(event.topic_id);
    let results = topic.map(|topic| FilterResults::new(&event, topic, &visitor));
    let open = topic.filter(|topic| !topic.topic.is_built_in());
    let path = event_page(event.stored.key);
    let key = event.stored.key;
    let badges = badges(&event.deliveries);
    let deliveries = event.deliveries.into_iter();
    Ok(draw(&EventPage {
        frame: Frame::new(&visitor, print::visible(&event.stored.event.event_type)),
        topic_page: topic.map(|_| topic_page(&event.topic)),
        copy: open
            .map(|_| copy_page(&topic_page(&event.topic), key))
            .filter(|copy| visitor.may_open(copy)),
        badges,
        origin: event.lineage.made_by.as_ref().map(Origin::of_event),
        data: DataPanel::new(&visitor, &event.stored, shown.data == "raw"),
        matched: event.matched,
        is_fanning_out: event.is_fanning_out,
        results: results.filter(|results| !results.rows.is_empty()),
        deliveries: deliveries
            .map(|each| DeliveryCard::new(each, &visitor).with_retry(&path))
            .collect(),
        recipe: Recipe::get(&site.management_url(&format!("/everpost/events/{key}")))
            .everpost(format!("everpost events show {key}")),
        topic: event.topic,
        stored: event.stored,
    }))
}

/// How many of the deliveries stand where.
fn badges(deliveries: &[DeliveryDetail]) -> Vec<Badge> {
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    for each in deliveries {
        let mut states = DeliveryState::ALL.iter();
        let place = states.position(|state| *state == each.row.state);
        *counts.entry(place.unwrap_or_default()).or_default() += 1;
    }
    let badges = counts.into_iter().map(|(place, count)| {
        let badge = delivery::badge(DeliveryState::ALL[place]);
        let word = badge.word.to_lowercase();
        badge.saying(format!("{} {word}", print::count(count)))
    });
    badges.collect()
}

impl EventPage {
    /// When it says that it happened, if that is a moment.
    fn event_time(&self) -> Option<Timestamp> {
        self.stored.event.time.as_deref()?.parse().ok()
    }

    /// Its further attributes, without the quotes of texts.
    fn attributes(&self) -> Vec<(String, String)> {
        let attributes = self.stored.event.attributes.iter();
        attributes
            .map(|each| (each.name.clone(), print::visible(&plain(&each.value))))
            .collect()
    }

    fn passed_over(&self) -> Vec<(String, String, String)> {
        let results = self.results.as_ref();
        results.map(FilterResults::passed_over).unwrap_or_default()
    }
}

/// The data of an event as a file.
pub(crate) async fn download(
    _: Visitor,
    State(site): State<Arc<Site>>,
    Path(key): Path<String>,
) -> PageResult {
    let event = find(&site, &key).await?;
    let key = event.stored.key;
    let (bytes, ending, kind) = as_file(event.stored.event.data);
    Ok(file(&format!("event-{key}.{ending}"), kind, bytes))
}

impl DataPanel {
    /// The data of `stored`, as it was published if it is to be `raw`.
    pub(crate) fn new(visitor: &Visitor, stored: &StoredEvent, raw: bool) -> Self {
        let data = || Data::new(&stored.event.data, raw);
        Self {
            event_page: event_page(stored.key),
            data: visitor.sees_data().then(data),
        }
    }
}

/// The event that a URL names by its key.
pub(crate) async fn find(site: &Site, key: &str) -> Result<EventDetail, PageError> {
    let event = site.views.event(event_key(key)?).await?;
    event.ok_or_else(|| PageError::NotFound(format!("event {key}")))
}

fn as_file(data: EventData) -> (Vec<u8>, &'static str, &'static str) {
    match data {
        EventData::Absent => (Vec::new(), "txt", "text/plain; charset=utf-8"),
        EventData::Json(text) => (text.into_bytes(), "json", "application/json"),
        EventData::Base64(text) => match STANDARD.decode(&text) {
            Ok(bytes) => (bytes, "bin", "application/octet-stream"),
            Err(_) => (text.into_bytes(), "txt", "text/plain; charset=utf-8"),
        },
    }
}

/// A value that is written as JSON, without the quotes of a text.
fn plain(value: &str) -> String {
    serde_json::from_str(value).unwrap_or_else(|_| value.to_owned())
}

impl Data {
    /// `data` as it was published, or laid out where that helps.
    fn new(data: &EventData, raw: bool) -> Self {
        let (kind, text) = match data {
            EventData::Absent => ("no data", ""),
            EventData::Json(text) => ("JSON", text.as_str()),
            EventData::Base64(text) => ("base64", text.as_str()),
        };
        let can_be_laid_out = matches!(data, EventData::Json(_)) && text.len() <= LAID_OUT_MAX;
        let shown = &text[..text.floor_char_boundary(SHOWN_MAX)];
        Self {
            kind,
            size: text.len(),
            is_raw: raw || !can_be_laid_out,
            can_be_laid_out,
            is_cut: shown.len() < text.len(),
            content: match can_be_laid_out && !raw {
                _ if text.is_empty() => Content::Nothing,
                true => Content::Json(JsonCode::new(shown)),
                false => Content::Text(print::visible(shown)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_laid_out_raw_or_cut() {
        let text = |data: &Data| match &data.content {
            Content::Nothing => String::new(),
            Content::Json(code) => code.text(),
            Content::Text(text) => text.clone(),
        };
        let small = EventData::Json("{\"a\":\"\\u00fc\"}".to_owned());
        let laid_out = Data::new(&small, false);
        assert_eq!(text(&laid_out), "{\n  \"a\": \"ü\"\n}");
        assert_eq!(text(&Data::new(&small, true)), "{\"a\":\"\\u00fc\"}");
        let big = EventData::Json(format!("\"{}\"", "ü".repeat(SHOWN_MAX)));
        let big = Data::new(&big, false);
        assert!(big.is_cut && big.is_raw && text(&big).len() <= SHOWN_MAX);
        let binary = Data::new(&EventData::Base64("AAEC".to_owned()), false);
        assert_eq!((text(&binary).as_str(), binary.kind), ("AAEC", "base64"));
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
        let (bytes, ending, _) = as_file(EventData::Base64("AAEC".to_owned()));
        assert_eq!((bytes.as_slice(), ending), (&[0, 1, 2][..], "bin"));
    }
}
