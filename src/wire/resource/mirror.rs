//! Serde and schemas of types of the model, by the documents that stand for them.
//!
//! A document is a declaration with the fields of its type of the model (`#[serde(remote)]`), and says
//! what each is called, what it may be, and what it is for. So a property is written down once, and
//! nothing has to be converted.

/// Gives types of the model the serde and the schema of their documents.
macro_rules! documents {
    ($($model:ty => $document:ty;)*) => {$(
        impl serde::Serialize for $model {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                <$document>::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $model {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <$document>::deserialize(deserializer)
            }
        }

        impl schemars::JsonSchema for $model {
            fn inline_schema() -> bool {
                <$document>::inline_schema()
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                <$document>::schema_name()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                <$document>::json_schema(generator)
            }
        }
    )*};
}

pub(super) use documents;
