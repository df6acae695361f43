//! What went wrong, as a page.

use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;

use crate::admin::bare::Message;
use crate::admin::widgets::print::sentence;
use crate::broker::people::PeopleError;
use crate::broker::{ManageError, PublishError, ReplayError, ResubmitError};
use crate::store::StoreError;
use crate::store::accounts::{AccountError, Role};

/// What a handler gives.
pub(crate) type PageResult<T = Response> = Result<T, PageError>;

/// Why there is no page to show.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    #[error("nobody is signed in")]
    SignedOut,
    #[error("This request did not come from a page of this appliance, so it was not carried out.")]
    Foreign,
    #[error(
        "The form was too old, or not ours, so it was not carried out. Go back, load the page again \
         and repeat what you did."
    )]
    BadToken,
    #[error(
        "This request asks for the host {host:?}, and the admin pages do not answer to it: somebody \
         could have pointed a name of theirs here. If it is a name of yours, add it to the setting \
         admin.hosts (EVERPOST_ADMIN_HOSTS, --admin-hosts), or make it the public_url."
    )]
    WrongHost {
        /// Empty where the request names none.
        host: String,
        /// Where the pages do answer.
        overview: String,
    },
    #[error("This takes the role {role}, which your account does not have.", role = .0.name())]
    Forbidden(Role),
    /// What there is not.
    #[error("There is no {0}.")]
    NotFound(String),
    /// A page does not know the method.
    #[error("This address is not opened, or not sent to, in this way.")]
    NoSuchAction,
    #[error("{0}")]
    Unreadable(String),
    #[error("{0}")]
    Conflict(String),
    #[error("Try again in a moment: {0}.")]
    Unavailable(String),
    /// Trying again would not help.
    #[error("{0}")]
    Damaged(String),
}

impl PageError {
    fn status(&self) -> StatusCode {
        match self {
            Self::SignedOut | Self::Foreign | Self::BadToken | Self::Forbidden(_) => {
                StatusCode::FORBIDDEN
            }
            Self::WrongHost { .. } => StatusCode::MISDIRECTED_REQUEST,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::NoSuchAction => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unreadable(_) => StatusCode::BAD_REQUEST,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Damaged(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn title(&self) -> &'static str {
        match self {
            Self::SignedOut => "Signed out",
            Self::Foreign | Self::BadToken => "Not carried out",
            Self::WrongHost { .. } => "Not under this name",
            Self::Forbidden(_) => "Not allowed",
            Self::NotFound(_) => "Not found",
            Self::NoSuchAction => "Not possible",
            Self::Unreadable(_) => "Not understood",
            Self::Conflict(_) => "Not possible any more",
            Self::Unavailable(_) => "Not available now",
            Self::Damaged(_) => "Not readable",
        }
    }

    /// What to do next; empty where that is said already.
    fn advice(&self) -> &'static str {
        match self {
            Self::SignedOut | Self::Foreign | Self::BadToken | Self::WrongHost { .. } => "",
            Self::Forbidden(_) => "An administrator can give it to you, or do this for you.",
            Self::NotFound(_) => {
                "It may have been deleted, after its retention too, or the address is not complete."
            }
            Self::NoSuchAction => "Open the page that it belongs to, and use what is there.",
            Self::Unreadable(_) => "Nothing was changed. Go back, mend it and try again.",
            Self::Conflict(_) => "Nothing was changed. Look at how things stand now.",
            Self::Unavailable(_) => {
                "Look first whether it was done all the same. If this lasts, the log of the appliance \
                 says more."
            }
            Self::Damaged(_) => {
                "Whoever runs the appliance can check the integrity of the database under System."
            }
        }
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        if matches!(self, Self::SignedOut) {
            return Redirect::to("/admin/login").into_response();
        }
        let message = Message::new(self.title(), self.to_string()).advising(self.advice());
        let status = self.status();
        if let Self::WrongHost { overview, .. } = self {
            return message.leading_to(overview).draw(status);
        }
        message.draw(status)
    }
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "a page could not be made");
        if error.is_unreadable() {
            return Self::Damaged(sentence(&error.to_string()));
        }
        Self::Unavailable(error.to_string())
    }
}

impl From<tower_sessions::session::Error> for PageError {
    fn from(error: tower_sessions::session::Error) -> Self {
        tracing::error!(%error, "a session could not be read or kept");
        Self::Unavailable("the session could not be read".to_owned())
    }
}

impl From<ManageError> for PageError {
    fn from(error: ManageError) -> Self {
        match error {
            ManageError::TopicNotFound(name) => Self::NotFound(format!("topic {name}")),
            ManageError::SubscriptionNotFound(topic, name) => {
                Self::NotFound(format!("event subscription {name} of the topic {topic}"))
            }
            ManageError::NamespaceNotFound(name) => Self::NotFound(format!("namespace {name}")),
            ManageError::InputSchemaFixed
            | ManageError::DeliveryModeFixed(_)
            | ManageError::NothingSent(_)
            | ManageError::BuiltIn(_)
            | ManageError::TooManyNamespaces
            | ManageError::TooManyTopics(..)
            | ManageError::NotValidated { .. }
            | ManageError::TooManySubscriptions(_)
            | ManageError::TooManySecrets(_) => Self::Conflict(sentence(&error.to_string())),
            ManageError::Store(error) => error.into(),
        }
    }
}

impl From<PeopleError> for PageError {
    fn from(error: PeopleError) -> Self {
        match error {
            PeopleError::Account(error) => error.into(),
            PeopleError::Name(_)
            | PeopleError::Days
            | PeopleError::WrongCode
            | PeopleError::Password(_)
            | PeopleError::WrongPassword
            | PeopleError::DeadLink => Self::Conflict(sentence(&error.to_string())),
        }
    }
}

impl From<AccountError> for PageError {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::NotFound => Self::NotFound("such user".to_owned()),
            AccountError::TokenNotFound => Self::NotFound("such token".to_owned()),
            AccountError::Store(error) => error.into(),
            AccountError::NameTaken
            | AccountError::TooMany
            | AccountError::FirstIsAdmin
            | AccountError::TokenNameTaken
            | AccountError::TooManyTokens
            | AccountError::DeadLink
            | AccountError::LastAdmin => Self::Conflict(sentence(&error.to_string())),
        }
    }
}

impl From<PublishError> for PageError {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Stopping | PublishError::DiskLow => Self::Unavailable(error.to_string()),
            PublishError::BuiltIn(_) => Self::Conflict(sentence(&error.to_string())),
            PublishError::Store(error) => error.into(),
        }
    }
}

impl From<ReplayError> for PageError {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::NotFound(id) => Self::NotFound(format!("replay job {id}")),
            ReplayError::Ended(..) | ReplayError::TooMany => {
                Self::Conflict(sentence(&error.to_string()))
            }
            ReplayError::Store(error) => error.into(),
        }
    }
}

impl From<ResubmitError> for PageError {
    fn from(error: ResubmitError) -> Self {
        match error {
            ResubmitError::NotFound(id) => Self::NotFound(format!("delivery {id}")),
            ResubmitError::NotDeadLettered(..)
            | ResubmitError::Locked(..)
            | ResubmitError::Rejected(..)
            | ResubmitError::EndpointFailed(..)
            | ResubmitError::InvalidEvent(_) => Self::Conflict(sentence(&error.to_string())),
            ResubmitError::Stopping | ResubmitError::DiskLow => {
                Self::Unavailable(error.to_string())
            }
            ResubmitError::Store(error) => error.into(),
        }
    }
}

/// Answers for a path that is no page.
pub(crate) async fn no_such_page() -> PageError {
    PageError::NotFound("such page".to_owned())
}

/// Answers for a method that a page does not know.
pub(crate) async fn no_such_action() -> PageError {
    PageError::NoSuchAction
}
