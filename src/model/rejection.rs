//! Publish requests that were refused, as they are kept for whoever wonders where events went.

use std::fmt;

use crate::base::Timestamp;
use crate::model::limits::{REJECTED_BYTES_KEPT_MAX, REJECTED_TEXT_KEPT_MAX};
use crate::model::topic::TopicId;

/// The appliance's own number of a refused request: ascending, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RejectionId(pub i64);

impl fmt::Display for RejectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A publish request of somebody who may publish, answered with 4xx. Holds no header but the content
/// type and nothing of the URL: that is where keys and tokens stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub topic: TopicId,
    pub received_at: Timestamp,
    /// The status that answered it.
    pub status: u16,
    /// Azure's word for it.
    pub code: String,
    /// What the publisher was told, without the number to report.
    pub reason: String,
    pub content_type: Option<String>,
    /// Bytes of the body, as far as it was read.
    pub bytes: usize,
    /// How it begins: at most [`REJECTED_BYTES_KEPT_MAX`].
    pub body_start: Vec<u8>,
}

impl Rejection {
    /// As much of a text as is kept: a header or a refusal that quotes what was sent may be long.
    pub fn text_of(text: &str) -> String {
        text.chars().take(REJECTED_TEXT_KEPT_MAX).collect()
    }

    /// As much of a body as is kept.
    pub fn body_start_of(body: &[u8]) -> Vec<u8> {
        body[..body.len().min(REJECTED_BYTES_KEPT_MAX)].to_vec()
    }
}

/// A refused request with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRejection {
    pub id: RejectionId,
    /// The name of the topic.
    pub topic: String,
    pub rejection: Rejection,
}
