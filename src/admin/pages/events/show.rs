//! The page of one event: what it is, what it carries, and what became of it.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, Query, State};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::admin::bare::draw;
use crate::admin::error::{PageError, PageResult};
use crate::admin::frame::Frame;
use crate::admin::lists::download::file;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::events::why::{PassedOver, WhyTable};
use crate::admin::pages::lineage::Origin;
use crate::admin::pages::timeline::DeliveryCard;
use crate::admin::pages::topics::copy_page;
use crate::admin::paths::{event_page, topic_page};
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::site::event_key;
use crate::admin::widgets::{Moment, part};
use crate::admin::widgets::{json_text, print};
use crate::model::event::{Event, EventData, StoredEvent};
use crate::store::views::EventDetail;

/// Bytes of data that are laid out: beyond, nobody reads, and indentation multiplies it.
const LAID_OUT_MAX: usize = 65_536;

/// Bytes of data that are shown; all of it can be downloaded.
const SHOWN_MAX: usize = 262_144;

/// What the URL asks for.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(crate) struct Asked {
    /// `raw` shows the data as it was published.
    data: String,
}

#[derive(Template)]
#[template(path = "admin/event.html")]
struct EventPage {
    frame: Frame,
    facts: Vec<Fact>,
    topic: String,
    /// `None` once the topic is deleted.
    topic_path: Option<String>,
    /// Where to publish another one like it, if anybody may publish to its topic.
    copy: Option<String>,
    received_at: Moment,
    /// `None` for what a publisher sent.
    origin: Option<Origin>,
    attributes: Vec<(String, String)>,
    data: DataPart,
    /// Subscriptions that wanted it.
    matched: u64,
    /// Those that would have taken it, had they taken any event.
    passed_over: Vec<PassedOver>,
    /// `None` once the topic is deleted.
    why: Option<WhyTable>,
    deliveries: Vec<DeliveryCard>,
    recipe: Recipe,
}

/// A part of the envelope.
struct Fact {
    label: &'static str,
    value: String,
    /// Whether people look for it elsewhere.
    is_id: bool,
}

/// What an event carries, for whoever may see it.
#[derive(Template)]
#[template(path = "admin/parts/data.html")]
pub(crate) struct DataPart {
    /// The page of the event.
    event_path: String,
    data: Option<DataText>,
}

part!(DataPart);

/// The data ready to print.
struct DataText {
    kind: &'static str,
    text: String,
    size: String,
    is_raw: bool,
    can_be_laid_out: bool,
    is_cut: bool,
}

/// One event.
pub(crate) async fn show(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(key): Path<String>,
    Query(asked): Query<Asked>,
) -> PageResult {
    let event = find(&site, &key).await?;
    let registry = site.broker.registry();
    let topic = registry.topic_by_id(event.topic_id);
    let why = topic.map(|topic| WhyTable::new(&event, topic, &visitor));
    let topic_path = topic.map(|_| topic_page(&event.topic));
    let open = topic.filter(|topic| !topic.topic.is_built_in());
    let copy = open.map(|_| copy_page(&topic_page(&event.topic), event.stored.key));
    let origin = event.lineage.made_by.as_ref().map(Origin::of_event);
    let stored = &event.stored;
    let key = stored.key;
    let deliveries = event.deliveries.into_iter();
    let path = event_page(key);
    let data = DataPart::new(&visitor, stored, asked.data == "raw");
    let deliveries = deliveries
        .map(|each| DeliveryCard::new(each, &registry, visitor.now).with_try_now(&visitor, &path))
        .collect();
    Ok(draw(&EventPage {
        frame: Frame::new(
            &visitor,
            format!("Event {}", print::visible(&stored.event.event_type)),
        ),
        facts: facts(&stored.event, &stored.output_id()),
        topic_path,
        copy,
        topic: event.topic,
        received_at: Moment::exactly(stored.received_at),
        origin,
        attributes: attributes(&stored.event),
        data,
        matched: event.matched,
        passed_over: why.as_ref().map(WhyTable::passed_over).unwrap_or_default(),
        why: why.filter(|why| !why.is_empty()),
        deliveries,
        recipe: Recipe::get(&site.management_url(&format!("/everpost/events/{key}")))
            .everpost(format!("everpost events show {key}")),
    }))
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

impl DataPart {
    /// The data of `stored`, as it was published if it is to be `raw`.
    pub(crate) fn new(visitor: &Visitor, stored: &StoredEvent, raw: bool) -> Self {
        let text = || DataText::new(&stored.event.data, raw);
        Self {
            event_path: event_page(stored.key),
            data: visitor.sees_data().then(text),
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

fn facts(event: &Event, output_id: &str) -> Vec<Fact> {
    let facts = [
        ("Event id", Some(event.id.as_str()), true),
        ("Type", Some(&event.event_type), false),
        ("Subject", event.subject.as_deref(), false),
        ("Source", event.source.as_deref(), true),
        ("Event time", event.time.as_deref(), false),
        ("Data version", event.data_version.as_deref(), false),
        ("Output event id", Some(output_id), true),
    ];
    let facts = facts.into_iter().filter_map(|(label, value, is_id)| {
        let value = print::visible(value.filter(|value| !value.is_empty())?);
        Some(Fact {
            label,
            value,
            is_id,
        })
    });
    facts.collect()
}

fn attributes(event: &Event) -> Vec<(String, String)> {
    let attributes = event.attributes.iter();
    attributes
        .map(|each| (each.name.clone(), print::visible(&plain(&each.value))))
        .collect()
}

/// A value that is written as JSON, without the quotes of a text.
fn plain(value: &str) -> String {
    serde_json::from_str(value).unwrap_or_else(|_| value.to_owned())
}

impl DataText {
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
            size: print::bytes(u64::try_from(text.len()).unwrap_or(u64::MAX)),
            is_raw: raw || !can_be_laid_out,
            can_be_laid_out,
            is_cut: shown.len() < text.len(),
            text: match can_be_laid_out && !raw {
                true => print::visible(&json_text::laid_out(shown)),
                false => print::visible(shown),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_laid_out_raw_or_cut() {
        let small = EventData::Json("{\"a\":1}".to_owned());
        assert_eq!(DataText::new(&small, false).text, "{\n  \"a\": 1\n}");
        assert_eq!(DataText::new(&small, true).text, "{\"a\":1}");
        let big = EventData::Json(format!("\"{}\"", "ü".repeat(SHOWN_MAX)));
        let big = DataText::new(&big, false);
        assert!(big.is_cut && big.is_raw && big.text.len() <= SHOWN_MAX);
        let binary = DataText::new(&EventData::Base64("AAEC".to_owned()), false);
        assert_eq!((binary.text.as_str(), binary.kind), ("AAEC", "base64"));
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
