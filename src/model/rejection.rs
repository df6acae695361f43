//! Rejected publish requests, recorded for whoever looks for missing events.

use crate::base::Timestamp;
use crate::base::named::ids;
use crate::model::limits::{REJECTED_BYTES_KEPT_MAX, REJECTED_TEXT_KEPT_MAX};
use crate::model::topic::TopicId;

ids! {
    /// The id of a rejected request: ascending, never reused.
    RejectionId,
}

/// A publish request of an authorized publisher that was rejected with 4xx. Contains no header but the
/// content type, and no URL: keys and tokens are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub topic: TopicId,
    pub received_at: Timestamp,
    /// The status of the response.
    pub status: u16,
    /// Azure's error code.
    pub code: String,
    /// The message to the publisher, without the number to report.
    pub reason: String,
    pub content_type: Option<String>,
    /// Bytes of the body, as far as it was read.
    pub bytes: usize,
    /// The beginning of the body: at most [`REJECTED_BYTES_KEPT_MAX`].
    pub body_start: Vec<u8>,
}

impl Rejection {
    /// The beginning of a text, as much as is recorded: a header or a message that quotes the request may be
    /// long.
    pub fn text_of(text: &str) -> String {
        text.chars().take(REJECTED_TEXT_KEPT_MAX).collect()
    }

    /// The beginning of a body, as much as is recorded.
    pub fn body_start_of(body: &[u8]) -> Vec<u8> {
        body[..body.len().min(REJECTED_BYTES_KEPT_MAX)].to_vec()
    }
}

/// A stored rejection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRejection {
    pub id: RejectionId,
    /// The name of the topic.
    pub topic: String,
    pub rejection: Rejection,
}
