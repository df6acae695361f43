//! Serialization of the model's values in documents, as strings, words of a list and numbers.

use std::borrow::Cow;
use std::convert::Infallible;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::secret::unless_hidden;
use crate::base::Timestamp;
use crate::model::access::{KeyName, Secret};
use crate::model::alert::{AlertFormat, AlertMessageState, SmtpSecurity};
use crate::model::delivery::{DeliveryState, Outcome};
use crate::model::destination::{DeliveryMode, EndpointUrl, EntityId};
use crate::model::entity_status::EntityStatus;
use crate::model::event_filter::DeliveryStage;
use crate::model::filter::{FilterKey, Operator, Text};
use crate::model::limits::OWN_WAITS_MAX;
use crate::model::name::TopicName;
use crate::model::pace::Rate;
use crate::model::replay::{ReplayState, Replayed};
use crate::model::response_script::ResponseScript;
use crate::model::retention::Pressure;
use crate::model::signing::SigningSecret;
use crate::model::subscription::ValidationState;
use crate::model::topic::DeliverySchema;

/// Deserializes `null` as the default value.
pub(super) fn default_if_null<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Implements `JsonSchema` for types that do not derive it.
macro_rules! schemas {
    ($($type:ty => $schema:expr;)*) => {$(
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )*};
}

schemas! {
    EndpointUrl => json_schema!({ "type": "string", "format": "uri", "x-check": "url" });
    EntityId => json_schema!({ "type": "string", "x-check": "entityId" });
    KeyName => {
        let words = KeyName::ALL.map(KeyName::name);
        json_schema!({ "type": "string", "enum": words })
    };
    FilterKey => json_schema!({ "type": "string", "x-check": "filterKey" });
    ResponseScript => json_schema!({ "type": "string", "x-check": "script" });
    SigningSecret => json_schema!({ "type": "string", "x-check": "signingSecret" });
    Text => json_schema!({ "type": "string" });
    TopicName => json_schema!({ "type": "string", "x-check": "topicName" });
    Timestamp => json_schema!({ "type": "string", "format": "date-time", "x-check": "dateTime" });
    Waits => json_schema!({
        "type": "array",
        "items": { "type": "string", "format": "duration", "x-check": "wait" },
        "minItems": 1,
        "maxItems": OWN_WAITS_MAX,
        "x-noun": "waits",
        "x-hint": "leave it out for the published schedule",
    });
    Rate => json_schema!({
        "type": "number",
        "minimum": per_second(*Rate::BOUNDS.start()),
        "maximum": per_second(*Rate::BOUNDS.end()),
        "x-decimals": 3,
    });
}

/// Answers show no secrets.
impl JsonSchema for Secret {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        if generator.contract().is_serialize() {
            json_schema!({ "type": ["string", "null"] })
        } else {
            json_schema!({ "type": "string" })
        }
    }
}

/// Implements serde for types that are represented as strings, from a function to parse and one to format.
macro_rules! texts {
    ($($type:ty: $read:expr, $write:expr;)*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<str>::deserialize(deserializer)?;
                $read(&text).map_err(D::Error::custom)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $write(self).serialize(serializer)
            }
        }
    )*};
}

texts! {
    EndpointUrl: EndpointUrl::parse, write_url;
    EntityId: EntityId::parse, EntityId::as_str;
    FilterKey: FilterKey::parse, FilterKey::as_str;
    ResponseScript: str::parse::<ResponseScript>, ToString::to_string;
    Secret: read_secret, write_secret;
    SigningSecret: SigningSecret::parse, write_signing_secret;
    Text: read_text, Text::as_str;
    Timestamp: str::parse::<Timestamp>, ToString::to_string;
    TopicName: TopicName::parse, TopicName::as_str;
}

fn read_secret(text: &str) -> Result<Secret, Infallible> {
    Ok(Secret::new(text))
}

fn write_secret(secret: &Secret) -> Option<&str> {
    unless_hidden(secret.reveal())
}

fn write_signing_secret(secret: &SigningSecret) -> Option<&str> {
    unless_hidden(secret.reveal())
}

fn read_text(text: &str) -> Result<Text, Infallible> {
    Ok(Text::from(text.to_owned()))
}

/// Returns the text of a URL. The query may hold a secret, so it is left out where secrets are hidden.
fn write_url(url: &EndpointUrl) -> &str {
    unless_hidden(url.reveal_text()).unwrap_or_else(|| url.base())
}

/// Types that are one word of a list.
macro_rules! words {
    ($($type:ty: $all:expr;)*) => {
        texts! {$(
            $type: |word: &str| $all.into_iter().find(|each| each.name() == word).ok_or("no such word"),
                |each: &Self| each.name();
        )*}

        schemas! {$(
            $type => {
                let words: Vec<&str> = $all.into_iter().map(|each| each.name()).collect();
                json_schema!({ "type": "string", "enum": words })
            };
        )*}
    };
}

words! {
    AlertFormat: AlertFormat::ALL;
    AlertMessageState: AlertMessageState::ALL;
    DeliveryMode: DeliveryMode::ALL;
    DeliveryStage: DeliveryStage::ALL;
    DeliveryState: DeliveryState::ALL;
    DeliverySchema: DeliverySchema::ALL;
    EntityStatus: EntityStatus::ALL;
    Operator: Operator::ALL.map(|row| row.operator);
    Outcome: Outcome::ALL;
    Pressure: [Pressure::Size, Pressure::Disk];
    Replayed: Replayed::ALL;
    ReplayState: ReplayState::ALL;
    SmtpSecurity: SmtpSecurity::ALL;
    ValidationState: ValidationState::ALL;
}

/// Serializes a rate as requests per second, for example `2` or `2.5`.
impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        per_second(self.in_1000_s()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let in_1000_s = (f64::deserialize(deserializer)? * 1_000.0).round();
        Self::per_1000_s(in_1000_s as u32).ok_or_else(|| D::Error::custom("no such rate"))
    }
}

/// Converts a number of thousandths to a JSON number.
fn per_second(thousandths: u32) -> Value {
    match thousandths % 1_000 {
        0 => json!(thousandths / 1_000),
        _ => json!(f64::from(thousandths) / 1_000.0),
    }
}

/// Defines modules for serde that represent durations as an integer number of a unit.
macro_rules! durations {
    ($($module:ident: $read:expr, $write:expr;)*) => {$(
        pub(super) mod $module {
            use std::time::Duration;

            use serde::{Deserialize, Deserializer, Serializer};

            pub(in crate::wire::resource) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Duration, D::Error> {
                u32::deserialize(deserializer).map(u64::from).map($read)
            }

            pub(in crate::wire::resource) fn serialize<S: Serializer>(
                duration: &Duration,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serializer.serialize_u64($write(duration))
            }
        }
    )*};
}

durations! {
    days: |days| Duration::from_secs(days * 86_400), |duration: &Duration| duration.as_secs() / 86_400;
    minutes: |minutes| Duration::from_secs(minutes * 60), |duration: &Duration| duration.as_secs() / 60;
    seconds: Duration::from_secs, Duration::as_secs;
    milliseconds: Duration::from_millis, |duration: &Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
}

/// Durations of ISO 8601.
pub(super) mod iso {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::wire::duration;

    pub(in crate::wire::resource) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&duration::format(*duration))
    }

    pub(in crate::wire::resource) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        duration::parse(&text).map_err(D::Error::custom)
    }
}

/// Durations of ISO 8601, where a missing value and the longest duration mean no limit.
pub(super) mod unless_for_ever {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::iso;
    use crate::wire::duration;

    pub(in crate::wire::resource) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        iso::serialize(&duration.unwrap_or(duration::DURATION_MAX), serializer)
    }

    pub(in crate::wire::resource) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text: Option<String> = Option::deserialize(deserializer)?;
        let duration = text
            .map(|text| duration::parse(&text).map_err(D::Error::custom))
            .transpose()?;
        Ok(duration.filter(|duration| *duration < duration::DURATION_MAX))
    }
}

/// The schema of [`waits`].
pub(super) struct Waits;

/// Waits after failed attempts, as durations of ISO 8601; `null` for none (extension).
pub(super) mod waits {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::wire::duration;

    pub(in crate::wire::resource) fn serialize<S: Serializer>(
        waits: &[Duration],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(waits.iter().copied().map(duration::format))
    }

    pub(in crate::wire::resource) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Duration>, D::Error> {
        let texts: Option<Vec<String>> = Option::deserialize(deserializer)?;
        let waits = texts
            .unwrap_or_default()
            .into_iter()
            .map(|text| duration::parse(&text));
        waits.collect::<Result<_, _>>().map_err(D::Error::custom)
    }
}
