//! Rejected publish requests, recorded to help find missing events.

use crate::base::Timestamp;
use crate::base::named::ids;
use crate::model::limits::{REJECTED_BYTES_KEPT_MAX, REJECTED_TEXT_KEPT_MAX};
use crate::model::topic::TopicId;

ids! {
    /// The id of a rejected request: ascending, never reused.
    RejectionId,
}

/// A publish request of an authorized publisher that was rejected with 4xx. Contains neither the URL nor any header
/// other than the content type, because they may contain keys and tokens.
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
    /// The number of bytes read from the body.
    pub bytes: usize,
    /// The beginning of the body: at most [`REJECTED_BYTES_KEPT_MAX`].
    pub body_start: Vec<u8>,
}

impl Rejection {
    /// Truncates a text to the recorded length. A header, or a message that quotes the request, may be long.
    pub fn text_of(text: &str) -> String {
        text.chars().take(REJECTED_TEXT_KEPT_MAX).collect()
    }

    /// Truncates a body to the first [`REJECTED_BYTES_KEPT_MAX`] bytes.
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
