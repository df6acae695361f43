//! Errors of pages, and the pages that show them.

use std::fmt::Display;
use std::time::Duration;

use axum::response::{IntoResponse, Redirect, Response};
use http::header::RETRY_AFTER;
use http::{HeaderName, StatusCode};

use crate::admin::bare::BareMessage;
use crate::admin::form_error::FormError;
use crate::admin::widgets::print::sentence;
use crate::base::request_memory::TooMuch;
use crate::base::seldom::SeldomLine;
use crate::broker::diagnostics::SettingError;
use crate::broker::people::{Crowded, PeopleError, TooOften};
use crate::broker::{
    AlertError, BackupRejected, ErrorKind, InspectorError, ManageError, PublishError, ReplayError,
    ResubmitError, SendError, TooManyTrials,
};
use crate::store::StoreError;
use crate::store::accounts::{AccountError, Role};

pub(crate) type PageResult<T = Response> = Result<T, PageError>;

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
    WrongHost { host: String, overview: String },
    #[error("Too many tries. Try again in {} s.", seconds(*.0))]
    TooOften(Duration),
    #[error("This takes the role {role}, which your account does not have.", role = .0.name())]
    Forbidden(Role),
    /// Something that does not exist.
    #[error("There is no {0}.")]
    NotFound(String),
    #[error("{0}")]
    Missing(String),
    #[error("This address is not opened, or not sent to, in this way.")]
    NoSuchAction,
    /// Invalid input, shown in the form, or on a page if there is no form.
    #[error("{}", problems(.0))]
    Form(Vec<FormError>),
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
    pub(crate) fn retry_after(&self) -> Option<[(HeaderName, String); 1]> {
        let Self::TooOften(wait) = self else {
            return None;
        };
        Some([(RETRY_AFTER, seconds(*wait).to_string())])
    }

    pub(crate) fn kind(&self) -> (StatusCode, &'static str) {
        match self {
            Self::SignedOut => (StatusCode::FORBIDDEN, "Signed out"),
            Self::Foreign | Self::BadToken => (StatusCode::FORBIDDEN, "Not carried out"),
            Self::TooOften(_) => (StatusCode::TOO_MANY_REQUESTS, "Not now"),
            Self::WrongHost { .. } => (StatusCode::MISDIRECTED_REQUEST, "Not under this name"),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "Not allowed"),
            Self::NotFound(_) | Self::Missing(_) => (StatusCode::NOT_FOUND, "Not found"),
            Self::NoSuchAction => (StatusCode::METHOD_NOT_ALLOWED, "Not possible"),
            Self::Form(_) | Self::Unreadable(_) => (StatusCode::BAD_REQUEST, "Not understood"),
            Self::Conflict(_) => (StatusCode::CONFLICT, "Not possible any more"),
            Self::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "Not available now"),
            Self::Damaged(_) => (StatusCode::INTERNAL_SERVER_ERROR, "Not readable"),
        }
    }

    /// Returns the errors to show in the form, or the error itself if the form cannot show it. A conflict is shown in
    /// the form, since it may end.
    pub(crate) fn in_form(self) -> PageResult<Vec<FormError>> {
        if let Self::Conflict(problem) = self {
            return Ok(vec![FormError::whole(problem)]);
        }
        let Self::Form(form_errors) = self else {
            return Err(self);
        };
        Ok(form_errors)
    }

    /// Converts the framework's error text about a body that it could not read.
    pub(crate) fn of_body(told: String) -> Self {
        if TooMuch::is_told_by(&told) {
            return Self::Unavailable(TooMuch.to_string());
        }
        Self::Unreadable(told)
    }

    pub(crate) fn rejected(reason: impl Display) -> Self {
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
        let mut message = BareMessage::new(title, self.to_string());
        let retry_after = self.retry_after();
        if let Self::WrongHost { overview, .. } = self {
            message.overview = overview;
        }
        (retry_after, message.draw(status)).into_response()
    }
}

impl From<TooManyTrials> for PageError {
    fn from(error: TooManyTrials) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        if matches!(error, StoreError::Provisioned { .. }) {
            return Self::rejected(error);
        }
        static LINE: SeldomLine = SeldomLine::new();
        LINE.log(&error, "a page could not be made");
        if error.is_unreadable() {
            return Self::Damaged(sentence(&error.to_string()));
        }
        Self::Unavailable(error.to_string())
    }
}

impl From<TooOften> for PageError {
    fn from(TooOften(wait): TooOften) -> Self {
        Self::TooOften(wait)
    }
}

impl From<Crowded> for PageError {
    fn from(error: Crowded) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<tower_sessions::session::Error> for PageError {
    fn from(error: tower_sessions::session::Error) -> Self {
        static LINE: SeldomLine = SeldomLine::new();
        LINE.log(&error, "a session could not be read or kept");
        Self::Unavailable("the session could not be read".to_owned())
    }
}

/// Converts an error of the broker: `missing` for objects that do not exist, `later` for errors that a retry may solve,
/// `at` for errors of a form field. Any other error becomes a conflict.
macro_rules! tell {
    ($error:ident $(, missing: $missing:pat)? $(, later: $later:pat)? $(, at $field:literal: $at:pat)*) => {
        impl From<$error> for PageError {
            fn from(error: $error) -> Self {
                if let $error::Store(error) = error {
                    return error.into();
                }
                $(if matches!(error, $missing) {
                    return Self::Missing(sentence(&error.to_string()));
                })?
                $(if matches!(error, $later) {
                    return Self::Unavailable(error.to_string());
                })?
                $(if matches!(error, $at) {
                    return FormError::of($field, sentence(&error.to_string())).into();
                })*
                Self::rejected(error)
            }
        }
    };
}

tell!(BackupRejected, at "directory": BackupRejected::NoPlace | BackupRejected::Place(..));
tell!(AccountError, missing: AccountError::NotFound | AccountError::TokenNotFound);
tell!(PublishError, later: PublishError::Stopping | PublishError::DiskLow);
tell!(ReplayError, missing: ReplayError::NotFound(_));
tell!(AlertError, missing: AlertError::NoRule(_) | AlertError::NoChannel(_));
tell!(SettingError, missing: SettingError::NotFound(_), at "value": SettingError::Invalid { .. });
tell!(InspectorError, missing: InspectorError::NotFound(_));
tell!(SendError, missing: SendError::NoEvent(_) | SendError::NoSubscription(..),
    later: SendError::Stopping | SendError::DiskLow | SendError::TooManyTrials(_));
tell!(ResubmitError, missing: ResubmitError::NotFound(_),
    later: ResubmitError::Stopping | ResubmitError::DiskLow);

impl From<ManageError> for PageError {
    fn from(error: ManageError) -> Self {
        let said = sentence(&error.to_string());
        match (error.kind(), error) {
            (_, ManageError::Store(error)) => error.into(),
            (_, ManageError::NotValidated { .. }) => FormError::of("endpointUrl", said).into(),
            (_, ManageError::InTheWay(..)) => FormError::of("name", said).into(),
            (ErrorKind::NotFound, _) => Self::Missing(said),
            (
                ErrorKind::Exists
                | ErrorKind::Conflict
                | ErrorKind::Limit
                | ErrorKind::Invalid
                | ErrorKind::Forbidden,
                _,
            ) => Self::Conflict(said),
            (ErrorKind::Unavailable, error) => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<PeopleError> for PageError {
    fn from(error: PeopleError) -> Self {
        let (field, problem) = match error {
            PeopleError::Name(problem) => ("name", problem),
            PeopleError::Account(AccountError::NameTaken | AccountError::TokenNameTaken) => {
                ("name", error.to_string())
            }
            PeopleError::Days => ("days", error.to_string()),
            PeopleError::Password(problem) => ("password", problem),
            PeopleError::WrongCode => {
                ("code", "this is not the code that the app shows now".into())
            }
            PeopleError::Account(error) => return error.into(),
            PeopleError::Crowded(error) => return error.into(),
            PeopleError::DeadLink => return Self::rejected(error),
        };
        FormError::of(field, sentence(&problem)).into()
    }
}

impl From<FormError> for PageError {
    fn from(form_error: FormError) -> Self {
        vec![form_error].into()
    }
}

impl From<Vec<FormError>> for PageError {
    fn from(form_errors: Vec<FormError>) -> Self {
        Self::Form(form_errors)
    }
}

fn problems(form_errors: &[FormError]) -> String {
    let problems = form_errors.iter().map(|form_error| &*form_error.problem);
    problems.collect::<Vec<_>>().join(" ")
}

pub(crate) async fn no_such_page() -> PageError {
    PageError::NotFound("such page".to_owned())
}

pub(crate) async fn no_such_action() -> PageError {
    PageError::NoSuchAction
}
