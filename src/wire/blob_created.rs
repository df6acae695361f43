//! `Microsoft.Storage.BlobCreated`, the event that an Azure storage account publishes for a new blob.

use serde_json::json;
use uuid::Uuid;

use crate::base::Timestamp;
use crate::model::event::{Event, EventData};

/// The type of the event.
pub const BLOB_CREATED: &str = "Microsoft.Storage.BlobCreated";

/// A completely written blob, or a file that stands for a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobCreated {
    pub container: String,
    /// The name of the blob within the container, including slashes.
    pub path: String,
    /// The URL from which the blob can be read.
    pub url: String,
    pub content_type: String,
    /// The size of the blob in bytes.
    pub content_length: u64,
    pub e_tag: String,
}

impl BlobCreated {
    /// Returns the event for the blob. `id` is the id of the event and of the request that wrote the blob.
    pub fn to_event(&self, id: Uuid, now: Timestamp) -> Event {
        let request_id = id.to_string();
        let data = json!({
            "api": "PutBlob",
            "clientRequestId": request_id,
            "requestId": request_id,
            "eTag": self.e_tag,
            "contentType": self.content_type,
            "contentLength": self.content_length,
            "blobType": "BlockBlob",
            "url": self.url,
            // Receivers compare sequencers as text: the later of two events of a blob has the greater sequencer.
            "sequencer": format!("{:032x}", now.as_ms()),
            "storageDiagnostics": { "batchId": request_id },
        });
        Event {
            id: request_id,
            source: None,
            event_type: BLOB_CREATED.to_owned(),
            subject: Some(format!(
                "/blobServices/default/containers/{}/blobs/{}",
                self.container, self.path
            )),
            time: Some(now.to_string()),
            data_version: Some(String::new()),
            attributes: Vec::new(),
            data: EventData::Json(data.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_blob_is_told_as_azure_tells_it() {
        let blob = BlobCreated {
            container: "dead".to_owned(),
            path: "BILLING/2026/8/8/5/one.json".to_owned(),
            url: "https://store.example/dead/BILLING/2026/8/8/5/one.json".to_owned(),
            content_type: "application/json".to_owned(),
            content_length: 512,
            e_tag: "0x8D4BCC2E4835CD0".to_owned(),
        };
        let now = "2026-08-08T05:00:00Z".parse().expect("a moment");
        let event = blob.to_event(Uuid::from_u128(7), now);
        assert_eq!(event.event_type, "Microsoft.Storage.BlobCreated");
        assert_eq!(
            event.subject.as_deref(),
            Some("/blobServices/default/containers/dead/blobs/BILLING/2026/8/8/5/one.json")
        );
        let EventData::Json(data) = &event.data else {
            panic!("JSON data");
        };
        let data: Value = serde_json::from_str(data).expect("JSON");
        for (pointer, expected) in [
            ("/api", json!("PutBlob")),
            ("/requestId", json!("00000000-0000-0000-0000-000000000007")),
            ("/eTag", json!("0x8D4BCC2E4835CD0")),
            ("/contentType", json!("application/json")),
            ("/contentLength", json!(512)),
            ("/blobType", json!("BlockBlob")),
            ("/url", json!(blob.url)),
        ] {
            assert_eq!(data.pointer(pointer), Some(&expected), "{pointer}");
        }
        let later = blob.to_event(
            Uuid::from_u128(8),
            now + std::time::Duration::from_millis(1),
        );
        assert!(sequencer(&event) < sequencer(&later));
    }

    fn sequencer(event: &Event) -> String {
        let EventData::Json(data) = &event.data else {
            panic!("JSON data");
        };
        let data: Value = serde_json::from_str(data).expect("JSON");
        data["sequencer"].as_str().expect("a text").to_owned()
    }
}
