//! Dead-letter reasons and the details that receivers give.

use crate::base::named::named_enum;
use crate::model::limits::{
    DEAD_LETTER_PROPERTIES_MAX, DEAD_LETTER_PROPERTY_NAME_MAX, DEAD_LETTER_TEXT_MAX,
};

named_enum! {
    /// The reason that a delivery was dead-lettered or dropped. Names are Azure's (rule A).
    #[derive(PartialOrd, Ord)]
    pub enum DeadLetterReason {
        MaxDeliveryAttemptsExceeded,
        TimeToLiveExceeded,
        UndeliverableDueToHttpBadRequest,
        UndeliverableDueToHttpUnauthorized,
        UndeliverableDueToHttpForbidden,
        UndeliverableDueToHttpRequestEntityTooLarge,
        UndeliverableDueToProbationCausedByClientError,
        /// A webhook of a namespace topic answered with a final status. Namespace topics have this single reason for
        /// all final statuses.
        UndeliverableDueToClientError,
        SubscriptionDeleted,
        /// The stored event cannot be read any more (an extension).
        EventUnreadable,
        Manual,
        /// The scheduled message was cancelled before its scheduled time.
        Cancelled,
        /// The message has no session id, but its queue or subscription requires sessions.
        SessionIdMissing,
        /// A rule of the subscription could not be evaluated for the message.
        FilterEvaluationFailed,
        /// A rule of the subscription made the header and properties of the message exceed their maximum size.
        HeaderSizeExceeded,
        /// The message was forwarded too often, or forwarding would have created too many copies.
        MaxTransferHopCountExceeded,
        /// The queue or topic that the message was to be forwarded to does not exist any more.
        ForwardTargetMissing,
        /// The queue or topic that the message was to be forwarded to is full.
        ForwardTargetFull,
        /// The queue or topic that the message was to be forwarded to has a status that does not allow sending.
        ForwardTargetDisabled,
        /// The message exceeds the maximum message size of the queue or topic that it was to be forwarded to.
        MessageSizeExceeded,
        /// A receiver dead-lettered the event, with its own reason in [`DeadLetterDetails`].
        Application,
    }
}

impl DeadLetterReason {
    /// Returns a sentence that describes the reason. Serves as the `DeadLetterErrorDescription` of a dead letter whose
    /// receiver gave no description.
    pub fn description(self) -> &'static str {
        match self {
            Self::MaxDeliveryAttemptsExceeded => {
                "The event could not be delivered with as many attempts as its subscription allows."
            }
            Self::TimeToLiveExceeded => "The event could not be delivered within its time to live.",
            Self::UndeliverableDueToHttpBadRequest => "The webhook answered 400 Bad Request.",
            Self::UndeliverableDueToHttpUnauthorized => "The webhook answered 401 Unauthorized.",
            Self::UndeliverableDueToHttpForbidden => "The webhook answered 403 Forbidden.",
            Self::UndeliverableDueToHttpRequestEntityTooLarge => {
                "The webhook answered 413 Content Too Large."
            }
            Self::UndeliverableDueToProbationCausedByClientError => {
                "The webhook was on probation because it rejected its requests."
            }
            Self::UndeliverableDueToClientError => "The webhook rejected the request permanently.",
            Self::SubscriptionDeleted => {
                "The event subscription was deleted before the event was delivered."
            }
            Self::EventUnreadable => "The stored event is damaged and cannot be read.",
            Self::Manual => "The delivery was dead-lettered by a user.",
            Self::Cancelled => "The scheduled message was cancelled.",
            Self::SessionIdMissing => {
                "Session enabled entity doesn't allow a message whose session identifier is null."
            }
            Self::FilterEvaluationFailed => {
                "A rule of the subscription could not be evaluated for the message."
            }
            Self::HeaderSizeExceeded => "The size quota for this stream has been exceeded.",
            Self::MaxTransferHopCountExceeded => {
                "The message was forwarded from queue to queue as often as it may be, or would have become too many copies."
            }
            Self::ForwardTargetMissing => {
                "The queue or topic that the message was to be forwarded to does not exist."
            }
            Self::ForwardTargetFull => {
                "The queue or topic that the message was to be forwarded to is full."
            }
            Self::ForwardTargetDisabled => {
                "The queue or topic that the message was to be forwarded to is disabled for sending."
            }
            Self::MessageSizeExceeded => {
                "The message is larger than the maximum message size of the queue or topic that it was to be forwarded to."
            }
            Self::Application => "The receiver dead-lettered the event.",
        }
    }

    /// Returns a short name of the reason.
    pub fn title(self) -> &'static str {
        self.words().0
    }

    /// Returns advice on what to fix before events that were dead-lettered for this reason are resubmitted.
    pub fn advice(self) -> &'static str {
        self.words().1
    }

    /// Returns the HTTP status that corresponds to the reason, if any.
    pub fn status(self) -> Option<u16> {
        self.words().2
    }

    /// Returns the title, the advice and the HTTP status of the reason.
    #[rustfmt::skip] // a table
    fn words(self) -> (&'static str, &'static str, Option<u16>) {
        const CREDENTIALS: &str = "Check the credentials of the subscription.";
        const WAIT: &str = "Have the endpoint answer again.";
        const MEND: &str = "Look at the response.";
        const ASK: &str = "The receiver may have given a reason of its own.";
        const CONTENT: &str = "Compare the event with the delivery schema.";
        const SIZE: &str = "Make batches smaller, or raise the receiver's limit.";
        match self {
            Self::MaxDeliveryAttemptsExceeded => ("All attempts failed", WAIT, None),
            Self::TimeToLiveExceeded => ("Its time to live was over", WAIT, None),
            Self::UndeliverableDueToHttpBadRequest => ("Rejected as a bad request", CONTENT, Some(400)),
            Self::UndeliverableDueToHttpUnauthorized => ("Rejected as unauthorized", CREDENTIALS, Some(401)),
            Self::UndeliverableDueToHttpForbidden => ("Rejected as forbidden", CREDENTIALS, Some(403)),
            Self::UndeliverableDueToHttpRequestEntityTooLarge => ("Rejected as too large", SIZE, Some(413)),
            Self::UndeliverableDueToProbationCausedByClientError => ("Not sent to a failing webhook", MEND, None),
            Self::UndeliverableDueToClientError => ("Rejected by the webhook", MEND, None),
            Self::SubscriptionDeleted => ("The subscription was deleted", "Nobody gets them any more.", None),
            Self::EventUnreadable => ("The stored event is damaged", "They cannot be sent any more.", None),
            Self::Manual => ("Dead-lettered by hand", ASK, None),
            Self::Cancelled => ("Cancelled before its time", "They cannot be sent any more.", None),
            Self::SessionIdMissing => ("It has no session id", "Its queue takes messages with a session id only.", None),
            Self::FilterEvaluationFailed => ("A rule could not be evaluated", "Correct the rule.", None),
            Self::HeaderSizeExceeded => ("A rule made its properties too large", "Have the rule set fewer or shorter ones.", None),
            Self::MaxTransferHopCountExceeded => ("Forwarded too often", "Check which queues forward to each other.", None),
            Self::ForwardTargetFull => ("The queue or topic that it goes on to is full", "Receive messages there, or raise its maximum size.", None),
            Self::ForwardTargetDisabled => ("The queue or topic that it goes on to is disabled", "Change its status, so that it takes messages.", None),
            Self::MessageSizeExceeded => ("Too large for the queue or topic that it goes on to", "Raise its maximum message size, or send smaller messages.", None),
            Self::ForwardTargetMissing => ("Where it was to be forwarded is gone", "Have the queue forward to one that exists.", None),
            Self::Application => ("Dead-lettered by the receiver", ASK, None),
        }
    }
}

/// The details that a receiver gives about an event that it dead-letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterDetails {
    pub reason: Option<String>,
    pub description: Option<String>,
    /// Properties that the receiver gave, as pairs of name and value. May be empty.
    pub properties: Vec<(String, String)>,
}

/// The reason why [`DeadLetterDetails`] are not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDetails {
    #[error("{field} has {found} characters; at most {DEAD_LETTER_TEXT_MAX} are kept")]
    TooLong { field: String, found: usize },
    #[error("there are {0} properties; at most {DEAD_LETTER_PROPERTIES_MAX} are kept")]
    TooMany(usize),
    #[error(
        "{0:?} is not the name of a property: 1 to {DEAD_LETTER_PROPERTY_NAME_MAX} letters, digits, \
         hyphens, dots and underscores"
    )]
    Name(String),
}

impl DeadLetterDetails {
    /// Rejects values that are too long to store, and names that are not valid as response headers.
    pub fn checked(self) -> Result<Self, InvalidDetails> {
        let texts = [("reason", &self.reason), ("description", &self.description)];
        for (field, text) in texts {
            check_length(field, text.as_deref().unwrap_or_default())?;
        }
        if self.properties.len() > DEAD_LETTER_PROPERTIES_MAX {
            return Err(InvalidDetails::TooMany(self.properties.len()));
        }
        for (name, value) in &self.properties {
            if !is_property_name(name) {
                return Err(InvalidDetails::Name(name.clone()));
            }
            check_length(name, value)?;
        }
        Ok(self)
    }

    /// Returns the total size of the texts in bytes.
    pub fn bytes(&self) -> usize {
        let texts = [&self.reason, &self.description].into_iter().flatten();
        let properties = self.properties.iter();
        texts.map(String::len).sum::<usize>()
            + properties
                .map(|(name, value)| name.len() + value.len())
                .sum::<usize>()
    }

    /// Creates details and truncates each text to the maximum length. Serves senders of details that cannot receive an
    /// error, such as a webhook in its response.
    pub fn cut(reason: &str, description: Option<&str>) -> Self {
        let cut = |text: &str| text.chars().take(DEAD_LETTER_TEXT_MAX).collect();
        Self {
            reason: Some(cut(reason)),
            description: description.map(cut),
            properties: Vec::new(),
        }
    }
}

fn check_length(field: &str, text: &str) -> Result<(), InvalidDetails> {
    let found = text.chars().count();
    if found > DEAD_LETTER_TEXT_MAX {
        return Err(InvalidDetails::TooLong {
            field: field.to_owned(),
            found,
        });
    }
    Ok(())
}

fn is_property_name(name: &str) -> bool {
    let fits = (1..=DEAD_LETTER_PROPERTY_NAME_MAX).contains(&name.len());
    fits && name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_have_limits() {
        let with = |reason: &str, properties: &[(&str, &str)]| DeadLetterDetails {
            reason: Some(reason.to_owned()),
            description: None,
            properties: properties
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let longest = "ü".repeat(DEAD_LETTER_TEXT_MAX);
        assert!(
            with(&longest, &[("Order-No.1_a", &longest)])
                .checked()
                .is_ok()
        );
        let longer = format!("{longest}x");
        for (details, fault) in [
            (with(&longer, &[]), "reason has 4097 characters"),
            (with("r", &[("a", &longer)]), "a has 4097 characters"),
            (with("r", &[("a b", "")]), "is not the name of a property"),
            (with("r", &[("", "")]), "is not the name of a property"),
            (
                with("r", &[("a", ""); DEAD_LETTER_PROPERTIES_MAX + 1]),
                "there are 33 properties",
            ),
        ] {
            let error = details.checked().expect_err(fault).to_string();
            assert!(error.contains(fault), "{error}");
        }
        assert_eq!(with("no", &[("a", "bc"), ("d", "")]).bytes(), 6);
        let cut = DeadLetterDetails::cut(&longer, Some(&longer));
        assert_eq!(cut.reason, Some(longest.clone()));
        assert_eq!(cut.description, Some(longest));
    }
}
