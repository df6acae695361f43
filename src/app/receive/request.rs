//! A request as the receiver saw it, with what was answered.

use std::net::SocketAddr;

use bytes::Bytes;

use crate::base::Timestamp;
use crate::model::response_script::ScriptedResponse;
use crate::wire::received::{ReceivedProperties, RequestKind};
use crate::wire::signature::NotSigned;

/// A request and what was answered.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// From 1, in the order of arrival.
    pub number: u64,
    pub received_at: Timestamp,
    pub remote_address: SocketAddr,
    pub method: String,
    /// With the query.
    pub path: String,
    /// Names in lower case, in the order in which they came.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    pub kind: RequestKind,
    /// The result of checking its signature; `None` where none is expected.
    pub signature: Option<Result<(), NotSigned>>,
    pub events: Vec<ReceivedProperties>,
    pub answer: ScriptedResponse,
}

impl ReceivedRequest {
    /// The value of the header `name` (in lower case), if it was sent.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(each, _)| each == name)?;
        Some(&found.1)
    }
}
