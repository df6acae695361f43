//! Names and contents of dead-letter blobs, in the layout of Azure Event Grid (rule 9.2; for namespace topics rule N7).

use aws_lc_rs::digest::{Context, SHA256};
use uuid::Uuid;

use crate::base::Timestamp;
use crate::model::delivery::DeliveryId;
use crate::model::name::{SubscriptionName, TopicName};

/// The content type of a blob.
pub const CONTENT_TYPE: &str = "application/json";

/// The parts that the name of a blob is made of. Equal parts make the same name.
#[derive(Clone, Copy, Debug)]
pub struct BlobTitle<'a> {
    /// The resource id of the topic, which distinguishes appliances, and topics of the same name.
    pub topic_resource_id: &'a str,
    pub topic: &'a TopicName,
    pub subscription: &'a SubscriptionName,
    /// The first dead letter in it, and when its event was published.
    pub first: DeliveryId,
    pub first_published_at: Timestamp,
    /// When the blob was begun.
    pub at: Timestamp,
}

impl BlobTitle<'_> {
    /// Returns the name of the blob in its container: `BILLING/2026/11/21/6/{guid}.json`, or
    /// `shop/orders/billing/2026/…` for a namespace topic. The date and the hour are in UTC, without leading zeros.
    pub fn name(&self) -> String {
        let (at, guid) = (self.at.to_utc(), self.guid());
        let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
        let folder = match self.topic.namespace() {
            Some(_) => format!("{}/{}", self.topic, self.subscription),
            None => self.subscription.as_str().to_ascii_uppercase(),
        };
        format!("{folder}/{year}/{month}/{day}/{}/{guid}.json", at.hour())
    }

    fn guid(&self) -> Uuid {
        let mut hash = Context::new(&SHA256);
        for part in [
            self.topic_resource_id,
            self.subscription.as_str(),
            &self.first.to_string(),
            &self.first_published_at.to_string(),
            &self.at.to_string(),
        ] {
            hash.update(part.as_bytes());
            hash.update(&[0]);
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finish().as_ref()[..16]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }
}

/// Returns the content of a blob: a JSON array of `records`, each of which is encoded already.
pub fn text(records: &[Vec<u8>]) -> Vec<u8> {
    let bytes: usize = records.iter().map(|record| record.len() + 1).sum();
    let mut text = Vec::with_capacity(bytes + 2);
    text.push(b'[');
    text.extend(records.join(&b','));
    text.push(b']');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title<'a>(topic: &'a TopicName, subscription: &'a SubscriptionName) -> BlobTitle<'a> {
        BlobTitle {
            topic_resource_id: "/t",
            topic,
            subscription,
            first: DeliveryId(7),
            first_published_at: Timestamp::from_ms(1_795_243_253_138),
            at: Timestamp::from_ms(1_786_168_805_000),
        }
    }

    #[test]
    fn names_follow_azures_layout() {
        let subscription = SubscriptionName::parse("Billing-1").expect("a name");
        for (topic, folder) in [
            ("orders", "BILLING-1/2026/8/8/6/"),
            ("shop/orders", "shop/orders/Billing-1/2026/8/8/6/"),
        ] {
            let topic = TopicName::parse(topic).expect("a name");
            let name = title(&topic, &subscription).name();
            let guid = name.strip_prefix(folder).expect(&name);
            let guid = guid.strip_suffix(".json").expect(&name);
            assert!(Uuid::parse_str(guid).is_ok(), "{name}");
        }
    }

    #[test]
    fn the_same_blob_has_the_same_name_and_another_has_another() {
        let topic = TopicName::parse("orders").expect("a name");
        let subscription = SubscriptionName::parse("billing").expect("a name");
        let title = title(&topic, &subscription);
        assert_eq!(title.name(), title.name());
        for other in [
            BlobTitle {
                first: DeliveryId(8),
                ..title
            },
            BlobTitle {
                topic_resource_id: "/u",
                ..title
            },
            BlobTitle {
                first_published_at: title.at,
                ..title
            },
        ] {
            assert_ne!(title.name(), other.name(), "{other:?}");
        }
    }

    #[test]
    fn a_blob_is_an_array() {
        let text = |records: &[&str]| {
            let records: Vec<Vec<u8>> = records.iter().map(|each| each.as_bytes().into()).collect();
            String::from_utf8(super::text(&records)).expect("UTF-8")
        };
        assert_eq!(text(&[]), "[]");
        assert_eq!(text(&["{}"]), "[{}]");
        assert_eq!(text(&["{}", r#"{"a":1}"#]), r#"[{},{"a":1}]"#);
    }
}
