//! Forms for whoever is not signed in: signing in, choosing a password, and the first run.

use askama::Template;
use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::admin::bare::{Bare, draw_with};
use crate::admin::error::PageResult;
use crate::admin::forms::filled::Filled;
use crate::admin::forms::form::Refusal;
use crate::admin::widgets::print::sentence;
use crate::broker::people::{NAME_CHARACTERS_MAX, PeopleError};
use crate::store::accounts::AccountError;

/// Bytes of a form that anybody may send: a name, a password and a token fit many times over.
pub(crate) const OPEN_FORM_BYTES_MAX: usize = 16_384;

/// What a form is for.
pub(crate) enum Purpose<'a> {
    SignIn {
        next: &'a str,
        /// What somebody is told who finds the form instead of what they expected.
        news: &'a str,
    },
    SecondFactor,
    SetUp,
    Password {
        of: String,
    },
}

#[derive(Template)]
#[template(path = "pages/open_form.html")]
struct OpenForm<'a> {
    bare: Bare,
    purpose: Purpose<'a>,
    token: &'a str,
    form: Filled<Typed>,
}

/// What a form is filled in with; passwords and codes never are.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Typed {
    name: String,
}

impl Purpose<'_> {
    /// The form with the token that shows that it is ours, or that opens it, and with the name that was typed.
    pub(crate) fn draw(self, token: &str, name: &str, refusal: Option<Refusal>) -> Response {
        let (title, refused) = match self {
            Self::SignIn { .. } => ("Sign in", StatusCode::UNAUTHORIZED),
            Self::SecondFactor => ("Second factor", StatusCode::UNAUTHORIZED),
            Self::SetUp => ("Set up Everpost", StatusCode::UNPROCESSABLE_ENTITY),
            Self::Password { .. } => ("Choose a password", StatusCode::UNPROCESSABLE_ENTITY),
        };
        let status = refusal.as_ref().map_or(StatusCode::OK, |_| refused);
        let name = name.to_owned();
        let page = OpenForm {
            bare: Bare::new(title),
            purpose: self,
            token,
            form: Filled::with(Typed { name }).with_faults(refusal),
        };
        draw_with(status, &page)
    }
}

/// What is told at a field of a form about a user or a token; anything else is no fault of the form.
pub(crate) fn fault(error: PeopleError) -> PageResult<Refusal> {
    let (field, problem) = match &error {
        PeopleError::Name(problem) => ("name", problem.clone()),
        PeopleError::Account(AccountError::NameTaken | AccountError::TokenNameTaken) => {
            ("name", error.to_string())
        }
        PeopleError::Days => ("days", error.to_string()),
        PeopleError::Password(problem) => ("password", problem.clone()),
        PeopleError::WrongPassword => ("present", "this is not your password".to_owned()),
        PeopleError::WrongCode => {
            let problem = "this is not the code that the app shows now";
            ("code", problem.to_owned())
        }
        PeopleError::DeadLink | PeopleError::Account(_) => return Err(error.into()),
    };
    Ok(Refusal::of(field, sentence(&problem)))
}
