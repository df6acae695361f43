//! Azure's envelope of errors (rule 1.5).

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::base::Timestamp;

/// An error as the SDKs read it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorBody {
    pub error: ErrorObject,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ErrorObject {
    /// The name of the status, such as `BadRequest`.
    pub code: String,
    pub message: String,
    /// All that is wrong.
    pub details: Vec<ErrorDetail>,
    /// The property at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// One of the things that are wrong.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ErrorDetail {
    /// Says more than the status, such as `InputJsonInvalid`.
    pub code: String,
    pub message: String,
    /// The property at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl ErrorBody {
    /// Creates an error with `message` both in the error and in its detail, since clients read either one.
    pub fn new(code: &str, message: String, detail_code: &str) -> Self {
        let detail = ErrorDetail {
            code: detail_code.to_owned(),
            message: message.clone(),
            target: None,
        };
        Self {
            error: ErrorObject {
                code: code.to_owned(),
                message,
                details: vec![detail],
                target: None,
            },
        }
    }
}

/// Returns the end of the error message for a rejected publish request: an id, which is also in the log, and the time.
/// Their position and format are those of Event Grid.
pub fn correlation(id: Uuid, now: Timestamp) -> String {
    let at = now.to_utc();
    let (hour, period) = match at.hour() {
        0 => (12, "AM"),
        hour @ 1..=11 => (hour, "AM"),
        12 => (12, "PM"),
        hour => (hour - 12, "PM"),
    };
    format!(
        " Report '{id}:0:{}/{}/{} {hour}:{:02}:{:02} {period} (UTC)' to your Everpost operator if the \
         problem persists.",
        u8::from(at.month()),
        at.day(),
        at.year(),
        at.minute(),
        at.second()
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_message_stands_twice() {
        assert_eq!(
            json!(ErrorBody::new(
                "BadRequest",
                "no".to_owned(),
                "InputJsonInvalid"
            )),
            json!({ "error": {
                "code": "BadRequest",
                "message": "no",
                "details": [{ "code": "InputJsonInvalid", "message": "no" }],
            } })
        );
    }

    #[test]
    fn moments_are_american() {
        for (at, expected) in [
            ("2021-02-22T23:54:39Z", "2/22/2021 11:54:39 PM"),
            ("2021-02-02T00:04:09Z", "2/2/2021 12:04:09 AM"),
            ("2021-12-31T12:00:00Z", "12/31/2021 12:00:00 PM"),
            ("2021-12-31T01:02:03Z", "12/31/2021 1:02:03 AM"),
        ] {
            let text = correlation(Uuid::nil(), at.parse().expect("RFC 3339"));
            let start =
                format!(" Report '00000000-0000-0000-0000-000000000000:0:{expected} (UTC)' ");
            assert!(text.starts_with(&start), "{text}");
        }
    }
}
