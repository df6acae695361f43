//! What the store keeps comes back, whatever the rules for new definitions have become.

use std::collections::BTreeMap;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::base::Entropy;
use crate::model::access::Secret;
use crate::model::batch::BatchPolicy;
use crate::model::blob_storage::{AzureAccess, AzureAccount, BlobStorage, S3Account};
use crate::model::credentials::{
    Authentication, ClientCertificate, ClientCredentials, Credentials, SecretPlace, TlsMaterial,
};
use crate::model::destination::{
    AttributeValue, DeliveryAttributeMapping, Destination, EndpointUrl, WebHook,
};
use crate::model::filter::{Dialect, Filter};
use crate::model::limits::QUEUE_MEGABYTES_MAX;
use crate::model::pace::{Rate, ReceiverLimits};
use crate::model::queue::SendRules;
use crate::model::retry::RetryPolicy;
use crate::model::signing::{ActiveSecret, Signing, SigningSecret};
use crate::model::subscription::{DeadLetterDestination, Disabled, SubscriptionOptions};
use crate::model::topic::{
    DeliverySchema, InputMapping, MappedField, NetworkAccess, TopicKindName,
};

/// The last millisecond of the year 9999.
const LAST_MS: i64 = 253_402_300_799_999;

proptest! {
    #[test]
    fn stored_subscriptions_come_back(definition in any_subscription()) {
        let text = subscription_to_text(&definition);
        prop_assert_eq!(subscription_from_text(&text), Ok(definition));
    }

    #[test]
    fn stored_topics_come_back(definition in any_topic()) {
        let text = topic_to_text(&definition);
        prop_assert_eq!(topic_from_text(TopicId(7), definition.name(), &text), Ok(definition));
    }

    #[test]
    fn stored_queues_come_back(megabytes_max in 1..=QUEUE_MEGABYTES_MAX, detects_duplicates in any::<bool>(), seconds in 20..=600_u64) {
        let duplicate_window = Duration::from_secs(seconds);
        let kind = TopicKind::Queue(SendRules { megabytes_max, detects_duplicates, duplicate_window });
        let text = topic_to_text(&kind);
        prop_assert_eq!(topic_from_text(TopicId(7), kind.name(), &text), Ok(kind));
    }

    #[test]
    fn shown_topics_can_be_sent_back(definition in any_topic()) {
        let shown = render_topic(&entry(definition.clone()), "http://host").expect("a topic of events");
        prop_assert_eq!(parse_topic(&shown).map(meant_topic), Ok(definition));
    }
}

#[test]
fn the_store_reads_what_a_client_may_not_send() {
    let mut stored = webhook(
        "{'endpointUrl': 'http://a/', 'skipValidaton': 1, 'deliveryAttributeMappings':
          [{'name': 'aeg-x', 'type': 'Static', 'properties': {'value': 'a'}}]}",
    );
    let past = "{'expirationTimeUtc': '2001-01-01T00:00:00Z', 'lable': 1}";
    stored["properties"] = with(stored["properties"].take(), past);
    assert!(parse(&stored).is_err());
    assert!(subscription_from_text(&stored.to_string()).is_ok());

    let stored = read("{'location': 'local', 'tag': {}, 'inputSchema': 'x', 'properties': {}}");
    assert!(parse_topic(&stored).is_err());
    let kind = TopicKindName::Custom;
    assert!(topic_from_text(TopicId(7), kind, &stored.to_string()).is_ok());
}

#[test]
fn damaged_texts_are_errors() {
    for text in [
        "",
        "{",
        "[]",
        "null",
        "{}",
        "{\"properties\":{\"destination\":{}}}",
    ] {
        assert!(subscription_from_text(text).is_err(), "{text}");
        let read = topic_from_text(TopicId(7), TopicKindName::Custom, text);
        assert!(read.is_err(), "{text}");
    }
    for text in ["", "{", "[]", "null", "{}"] {
        for kind in [
            TopicKindName::Namespace,
            TopicKindName::Queue,
            TopicKindName::ServiceBus,
        ] {
            let read = topic_from_text(TopicId(7), kind, text);
            assert!(read.is_err(), "{kind:?} {text}");
        }
    }
    let unknown = topic_from_text(TopicId(7), TopicKindName::System, "{}");
    assert!(unknown.is_err(), "no built-in topic has this id");
}

fn text() -> &'static str {
    "\\PC{0,9}"
}

fn some_text() -> &'static str {
    "\\PC{1,9}"
}

prop_compose! {
    fn any_subscription()(
        destination in any_destination(),
        filter in any_filter(),
        delivery_schema in select(DeliverySchema::ALL.to_vec()),
        attempts_max in 1..=30u32,
        minutes in 1..=1_440u64,
        dead_letter in any_dead_letter(),
        labels in vec(text(), 0..4),
        expires_at in option::of(0..=LAST_MS),
        own_waits in vec((1_000..=86_400_000u64).prop_map(Duration::from_millis), 0..=30),
        (paused, disable_on_gone) in any::<(bool, bool)>(),
        disabled in any_disabled(),
    ) -> SubscriptionDefinition {
        SubscriptionDefinition {
            destination,
            filter,
            delivery_schema,
            retry_policy: RetryPolicy {
                attempts_max,
                time_to_live: Duration::from_secs(minutes * 60),
                own_waits,
                ..RetryPolicy::default()
            },
            dead_letter,
            options: SubscriptionOptions {
                labels,
                paused,
                disable_on_gone,
            },
            expires_at: expires_at.map(Timestamp::from_ms),
            disabled,
            as_written: AsWritten::default(),
        }
    }
}

prop_compose! {
    fn any_destination()(
        endpoint_url in any_url(),
        max_events in option::of(1..=5_000u32),
        preferred_kilobytes in option::of(1..=1_024u32),
        pace in any_pace(),
        attribute_mappings in vec(any_attribute(), 0..4),
        credentials in any_credentials(),
        (skip_validation, split_on_error) in any::<(bool, bool)>(),
    ) -> Destination {
        let batch = BatchPolicy { max_events, preferred_kilobytes, split_on_error };
        Destination::WebHook(WebHook {
            endpoint_url,
            batch,
            pace,
            attribute_mappings,
            credentials,
            skip_validation,
        })
    }
}

prop_compose! {
    fn any_pace()(
        seconds in option::of(1..=300u64),
        in_flight_max in option::of(1..=1_024u32),
        rate in option::of(Rate::BOUNDS),
    ) -> ReceiverLimits {
        ReceiverLimits {
            response_deadline: seconds.map(Duration::from_secs),
            in_flight_max,
            rate: rate.and_then(Rate::per_1000_s),
        }
    }
}

prop_compose! {
    fn any_credentials()(
        authentication in option::of(any_authentication()),
        certificate in option::of((some_text(), some_text())),
        authorities in option::of(text()),
        signing in vec((any::<u64>(), 0..=LAST_MS, option::of(0..=LAST_MS)), 0..3),
    ) -> Credentials {
        let client_certificate = certificate.map(|(certificate, key)| ClientCertificate {
            certificate,
            key: Secret::new(key),
        });
        let has_tls = client_certificate.is_some() || authorities.is_some();
        let signing = signing.into_iter().map(|(seed, created_ms, expires_ms)| ActiveSecret {
            secret: SigningSecret::generate(&Entropy::seeded(seed)),
            created_at: Timestamp::from_ms(created_ms),
            expires_at: expires_ms.map(Timestamp::from_ms),
        });
        Credentials {
            authentication,
            tls: has_tls.then(|| Arc::new(TlsMaterial { client_certificate, authorities })),
            signing: Signing(signing.collect()),
        }
    }
}

fn any_authentication() -> impl Strategy<Value = Authentication> {
    let secret = || some_text().prop_map(Secret::new);
    let basic = (some_text(), secret())
        .prop_map(|(username, password)| Authentication::Basic { username, password });
    let bearer = secret().prop_map(|token| Authentication::Bearer { token });
    let place = select(vec![SecretPlace::Header, SecretPlace::Body]);
    let optional = (option::of(text()), option::of(text()));
    let client = (any_url(), some_text(), secret(), optional, place).prop_map(
        |(token_url, client_id, client_secret, (scope, audience), sent_in)| {
            Authentication::ClientCredentials(ClientCredentials {
                token_url,
                client_id,
                client_secret,
                scope,
                audience,
                sent_in,
            })
        },
    );
    prop_oneof![basic, bearer, client]
}

fn any_disabled() -> impl Strategy<Value = Option<Disabled>> {
    prop_oneof![
        Just(None),
        Just(Some(Disabled::ByOperator)),
        (0..=LAST_MS).prop_map(|ms| Some(Disabled::Gone {
            at: Timestamp::from_ms(ms),
        })),
    ]
}

fn any_url() -> impl Strategy<Value = EndpointUrl> {
    "https?://[a-z]{1,9}(:[1-9][0-9]{0,3})?/\\PC{0,20}(\\?\\PC{0,20})?"
        .prop_filter_map("no URL", |text| EndpointUrl::parse(&text).ok())
}

fn any_attribute() -> impl Strategy<Value = DeliveryAttributeMapping> {
    let fixed =
        (some_text(), any::<bool>()).prop_map(|(value, is_secret)| AttributeValue::Static {
            value: Secret::new(value),
            is_secret,
        });
    let dynamic = some_text().prop_map(|source_field| AttributeValue::Dynamic { source_field });
    let value = prop_oneof![fixed, dynamic];
    ("[!-~]{1,10}", value).prop_map(|(name, value)| DeliveryAttributeMapping { name, value })
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let types = option::of(vec("[a-z]{1,9}", 1..4));
    (types, text(), any::<bool>()).prop_map(|(types, begins_with, case_sensitive)| {
        let object = json!({
            "includedEventTypes": types,
            "subjectBeginsWith": begins_with,
            "isSubjectCaseSensitive": case_sensitive,
        });
        parse_filter(Dialect::Basic, &object).expect("a valid filter")
    })
}

fn any_dead_letter() -> impl Strategy<Value = DeadLetterDestination> {
    let blob = |(resource_id, container, storage)| DeadLetterDestination::StorageBlob {
        resource_id,
        container,
        storage,
    };
    prop_oneof![
        Just(DeadLetterDestination::BuiltInQueue),
        Just(DeadLetterDestination::Drop),
        (some_text(), some_text(), any_blob_storage()).prop_map(blob),
    ]
}

fn any_blob_storage() -> impl Strategy<Value = BlobStorage> {
    let endpoint = || {
        option::of(Just(
            EndpointUrl::parse("https://store.test/a").expect("a URL"),
        ))
    };
    let s3 = (endpoint(), some_text(), some_text(), some_text());
    let azure = (endpoint(), some_text(), some_text(), any::<bool>());
    prop_oneof![
        Just(BlobStorage::Directory),
        s3.prop_map(
            |(endpoint, region, id, secret)| BlobStorage::S3(Box::new(S3Account {
                endpoint,
                region,
                access_key_id: id,
                secret_access_key: Secret::new(secret),
            }))
        ),
        azure.prop_map(|(endpoint, name, secret, is_key)| {
            let secret = Secret::new(secret);
            BlobStorage::AzureBlob(Box::new(AzureAccount {
                name,
                endpoint,
                access: match is_key {
                    true => AzureAccess::Key(secret),
                    false => AzureAccess::SasToken(secret),
                },
            }))
        }),
    ]
}

prop_compose! {
    fn any_topic()(
        location in some_text(),
        tags in btree_map(text(), text(), 0..4),
        input_schema in any_input_schema(),
        disable_local_auth in any::<bool>(),
        disabled in any::<bool>(),
        allowed in vec(any_network(), 0..4),
        inert in any_inert(),
    ) -> TopicKind {
        let network_access = NetworkAccess { disabled, allowed };
        TopicKind::Custom(CustomTopic { location, tags, input_schema, disable_local_auth, network_access, inert, as_written: AsWritten::default() })
    }
}

fn any_network() -> impl Strategy<Value = IpNet> {
    (any::<IpAddr>(), 0..=32u8)
        .prop_map(|(address, length)| IpNet::new(address, length).expect("a length for both"))
}

fn any_inert() -> impl Strategy<Value = BTreeMap<String, String>> {
    let object = || text().prop_map(|text| json!({ "kind": text }).to_string());
    prop_oneof![
        Just(BTreeMap::new()),
        (object(), object()).prop_map(|(identity, info)| BTreeMap::from([
            ("identity".to_owned(), identity),
            ("eventTypeInfo".to_owned(), info),
            ("minimumTlsVersionAllowed".to_owned(), "\"1.2\"".to_owned()),
        ])),
    ]
}

fn any_input_schema() -> impl Strategy<Value = InputSchema> {
    prop_oneof![
        Just(InputSchema::EventGridSchema),
        Just(InputSchema::CloudEventSchemaV1_0),
        any_mapping().prop_map(|mapping| InputSchema::CustomEventSchema(Box::new(mapping))),
    ]
}

prop_compose! {
    fn any_mapping()(
        id in option::of(some_text()),
        topic in option::of(some_text()),
        event_time in option::of(some_text()),
        event_type in any_mapped_field(),
        subject in any_mapped_field(),
        data_version in any_mapped_field(),
    ) -> InputMapping {
        InputMapping { id, topic, event_time, event_type, subject, data_version }
    }
}

fn any_mapped_field() -> impl Strategy<Value = MappedField> {
    let field = |(source_field, default_value)| MappedField {
        source_field,
        default_value,
    };
    prop_oneof![
        (some_text().prop_map(Some), option::of(text())).prop_map(field),
        (option::of(some_text()), text().prop_map(Some)).prop_map(field),
    ]
}
