//! Query parameters of requests. Only the fields of the struct that a query is parsed into define the parameter names.
//! A request with any other parameter is rejected, and the error lists the known names.

use axum::extract::{FromRequestParts, Query, Request};
use axum::http::Uri;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use serde::de::value::Error as NoValue;
use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};
use url::form_urlencoded;

use crate::api::error::ApiError;

/// The query parameter that Azure's own clients add to every request, for every path.
const API_VERSION: &str = "api-version";

/// The query parameters of a request, all of which are fields of `T`.
pub(super) struct RequestParameters<T>(pub(super) T);

/// The query parameters of a request, each of which is a field of `A` or of `B`.
pub(super) struct BothParameters<A, B>(pub(super) A, pub(super) B);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for RequestParameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        reject_unknown(&parts.uri, names::<T>())?;
        Ok(Self(read(&parts.uri)?))
    }
}

impl<A: DeserializeOwned, B: DeserializeOwned, S: Sync> FromRequestParts<S>
    for BothParameters<A, B>
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        reject_unknown(&parts.uri, &[names::<A>(), names::<B>()].concat())?;
        Ok(Self(read(&parts.uri)?, read(&parts.uri)?))
    }
}

/// Rejects all parameters, for routes that take none.
pub(super) async fn reject_all(request: Request, next: Next) -> Result<Response, ApiError> {
    reject_unknown(request.uri(), &[])?;
    Ok(next.run(request).await)
}

fn reject_unknown(uri: &Uri, known: &[&str]) -> Result<(), ApiError> {
    let query = uri.query().unwrap_or_default();
    let mut asked = form_urlencoded::parse(query.as_bytes());
    let is_unknown = |name: &str| name != API_VERSION && !known.contains(&name);
    match asked.find(|(name, _)| is_unknown(name)) {
        None => Ok(()),
        Some((name, _)) if known.is_empty() => Err(ApiError::bad_request(format!(
            "There is no parameter {name:?} here, nor any other."
        ))),
        Some((name, _)) => Err(ApiError::bad_request(format!(
            "There is no parameter {name:?} here; there are: {}.",
            known.join(", ")
        ))),
    }
}

/// Parses the parameters that are fields of `T`, and ignores the others.
fn read<T: DeserializeOwned>(uri: &Uri) -> Result<T, ApiError> {
    let read = Query::try_from_uri(uri);
    let Query(parameters) = read.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        ApiError::bad_request(format!(
            "The parameters cannot be read: {}.",
            cause.unwrap_or_else(|| error.to_string())
        ))
    })?;
    Ok(parameters)
}

/// Returns the serialized names of the fields of `T`.
fn names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &[&str] = &[];
    // Deserialization always fails, because `FieldNames` has no data.
    let _ = T::deserialize(FieldNames(&mut names));
    names
}

/// Deserializer that records the field names of a struct and then fails.
struct FieldNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = NoValue;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NoValue> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NoValue> {
        Err(NoValue::custom("there is nothing"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Wanted {
        topic: Option<String>,
        #[serde(rename = "stepSeconds")]
        step: Option<u32>,
        #[serde(default)]
        all: bool,
    }

    async fn check(query: &str, expected: &str) {
        let request = Request::get(format!("/everpost/x?{query}")).body(());
        let (mut parts, ()) = request.expect("a request").into_parts();
        let read = RequestParameters::<Wanted>::from_request_parts(&mut parts, &()).await;
        let told = match read {
            Ok(RequestParameters(Wanted { topic, step, all })) => {
                format!("{topic:?} {step:?} {all}")
            }
            Err(error) => format!("{error:?}"),
        };
        assert!(told.contains(expected), "{query}: {told}");
    }

    #[derive(Debug, Deserialize)]
    struct Page {
        limit: Option<u8>,
    }

    #[tokio::test]
    async fn two_parts_know_their_parameters_together() {
        for (query, expected) in [
            ("topic=a&limit=5", "Ok((Some(\"a\"), Some(5)))"),
            ("limits=5", "there are: topic, stepSeconds, all, limit."),
            (
                "limit=five",
                "The parameters cannot be read: limit: invalid",
            ),
        ] {
            let request = Request::get(format!("/everpost/x?{query}")).body(());
            let (mut parts, ()) = request.expect("a request").into_parts();
            let read = BothParameters::<Wanted, Page>::from_request_parts(&mut parts, &()).await;
            let told = format!("{:?}", read.map(|it| (it.0.topic, it.1.limit)));
            assert!(told.contains(expected), "{query}: {told}");
        }
    }

    #[tokio::test]
    async fn parameters_are_known_by_the_struct_alone() {
        check("", "None None false").await;
        check("api-version=2025-02-15", "None None false").await;
        check(
            "topic=a%20b&stepSeconds=60&all=true",
            "Some(\"a b\") Some(60) true",
        )
        .await;
        check(
            "topic=a&step=60",
            "There is no parameter \\\"step\\\" here; there are: topic, stepSeconds, all.",
        )
        .await;
        check("Topic=a", "no parameter \\\"Topic\\\"").await;
        check(
            "stepSeconds=soon",
            "The parameters cannot be read: stepSeconds: invalid",
        )
        .await;
        check("topic=a&topic=b", "duplicate field").await;
    }
}
