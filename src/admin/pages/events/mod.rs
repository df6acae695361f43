//! The pages of events.

mod export;
mod filter;
mod filter_results;
mod list;
mod send;
mod show;
mod table;

pub(crate) use export::export;
pub(crate) use filter::UNMATCHED;
pub(crate) use filter_results::FilterResults;
pub(crate) use list::list;
pub(crate) use send::{ask_to_send, send};
pub(crate) use show::{DataPanel, download, find, show};
pub(crate) use table::EventTable;

use crate::admin::lists::filter::whole_topic;
use crate::admin::lists::link;
use crate::model::name::TopicName;

/// The list of all events of a topic.
pub(crate) fn events_of(topic: &TopicName) -> String {
    link("/admin/events", &[("of", whole_topic(topic))])
}
