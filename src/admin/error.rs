//! What went wrong, as a page.

use std::fmt::Display;
use std::time::Duration;

use axum::response::{IntoResponse, Redirect, Response};
use http::header::RETRY_AFTER;
use http::{HeaderName, StatusCode};

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
    #[error("Too many tries. Try again in {} s.", seconds(*.0))]
    TooOften(Duration),
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
    pub(crate) fn status(&self) -> StatusCode {
        self.kind().0
    }

    /// When it may be tried again.
    pub(crate) fn retry_after(&self) -> Option<[(HeaderName, String); 1]> {
        let Self::TooOften(wait) = self else {
            return None;
        };
        Some([(RETRY_AFTER, seconds(*wait).to_string())])
    }

    /// The status, and a title.
    fn kind(&self) -> (StatusCode, &'static str) {
        match self {
            Self::SignedOut => (StatusCode::FORBIDDEN, "Signed out"),
            Self::Foreign | Self::BadToken => (StatusCode::FORBIDDEN, "Not carried out"),
            Self::TooOften(_) => (StatusCode::TOO_MANY_REQUESTS, "Not now"),
            Self::WrongHost { .. } => (StatusCode::MISDIRECTED_REQUEST, "Not under this name"),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "Not allowed"),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "Not found"),
            Self::NoSuchAction => (StatusCode::METHOD_NOT_ALLOWED, "Not possible"),
            Self::Unreadable(_) => (StatusCode::BAD_REQUEST, "Not understood"),
            Self::Conflict(_) => (StatusCode::CONFLICT, "Not possible any more"),
            Self::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "Not available now"),
            Self::Damaged(_) => (StatusCode::INTERNAL_SERVER_ERROR, "Not readable"),
        }
    }

    /// What an address or a form asks for cannot be done, for this reason.
    pub(crate) fn refused(reason: impl Display) -> Self {
        Self::Conflict(sentence(&reason.to_string()))
    }
}

fn seconds(wait: Duration) -> u128 {
    wait.as_millis().div_ceil(1_000)
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        if matches!(self, Self::SignedOut) {
            return Redirect::to("/admin/login").into_response();
        }
        let (status, title) = self.kind();
        let mut message = Message::new(title, self.to_string());
        let retry_after = self.retry_after();
        if let Self::WrongHost { overview, .. } = self {
            message.overview = overview;
        }
        (retry_after, message.draw(status)).into_response()
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
        if let ManageError::Store(error) = error {
            error.into()
        } else if let ManageError::TopicNotFound(name) = error {
            Self::NotFound(format!("topic {name}"))
        } else if let ManageError::NamespaceNotFound(name) = error {
            Self::NotFound(format!("namespace {name}"))
        } else if let ManageError::SubscriptionNotFound(topic, name) = error {
            Self::NotFound(format!("event subscription {name} of the topic {topic}"))
        } else {
            Self::refused(error)
        }
    }
}

impl From<PeopleError> for PageError {
    fn from(error: PeopleError) -> Self {
        if let PeopleError::Account(error) = error {
            error.into()
        } else {
            Self::refused(error)
        }
    }
}

impl From<AccountError> for PageError {
    fn from(error: AccountError) -> Self {
        if let AccountError::Store(error) = error {
            error.into()
        } else if matches!(error, AccountError::NotFound) {
            Self::NotFound("such user".to_owned())
        } else if matches!(error, AccountError::TokenNotFound) {
            Self::NotFound("such token".to_owned())
        } else {
            Self::refused(error)
        }
    }
}

impl From<PublishError> for PageError {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Stopping | PublishError::DiskLow => Self::Unavailable(error.to_string()),
            PublishError::BuiltIn(_) => Self::refused(error),
            PublishError::Store(error) => error.into(),
        }
    }
}

impl From<ReplayError> for PageError {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::NotFound(id) => Self::NotFound(format!("replay job {id}")),
            ReplayError::Ended(..) | ReplayError::TooMany => Self::refused(error),
            ReplayError::Store(error) => error.into(),
        }
    }
}

impl From<ResubmitError> for PageError {
    fn from(error: ResubmitError) -> Self {
        if let ResubmitError::Store(error) = error {
            error.into()
        } else if let ResubmitError::NotFound(id) = error {
            Self::NotFound(format!("delivery {id}"))
        } else if matches!(error, ResubmitError::Stopping | ResubmitError::DiskLow) {
            Self::Unavailable(error.to_string())
        } else {
            Self::refused(error)
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
