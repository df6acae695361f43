//! Forms for users who are not signed in: signing in, choosing a password, and the first run.

use std::sync::Arc;

use askama::Template;
use axum::extract::{FromRequest, Request};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use tower_sessions::Session;

use crate::admin::bare::{Bare, draw_with};
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::filled::FilledForm;
use crate::admin::forms::form::{Form, FormError};
use crate::admin::security::client::Client;
use crate::admin::security::proxy_user;
use crate::admin::site::Site;
use crate::admin::widgets::filters;
use crate::broker::people::NAME_CHARACTERS_MAX;
use crate::model::identity::Identity;

/// The maximum size in bytes of a form that anybody may send; a name, a password and a token fit many times over.
pub(crate) const OPEN_FORM_BYTES_MAX: usize = 16_384;

pub(crate) struct Stranger {
    pub(crate) site: Arc<Site>,
    pub(crate) session: Session,
    pub(crate) client: Client,
    pub(crate) headers: HeaderMap,
    /// The user that a trusted proxy names.
    pub(crate) proxied: Option<Identity>,
    /// The form that was sent, or the query of the address for a page that is only read.
    pub(crate) form: Form,
}

impl FromRequest<Arc<Site>> for Stranger {
    type Rejection = PageError;

    async fn from_request(request: Request, site: &Arc<Site>) -> PageResult<Self> {
        let session = request.extensions().get::<Session>().cloned();
        Ok(Self {
            site: Arc::clone(site),
            session: session.expect("the router has put one there"),
            client: Client::of(request.headers(), request.extensions()),
            headers: request.headers().clone(),
            proxied: proxy_user::identity(site, request.headers(), request.extensions()),
            form: Form::from_request(request, site).await?,
        })
    }
}

pub(crate) enum Purpose<'a> {
    SignIn {
        next: &'a str,
        /// A message for a user who sees the form instead of the expected page.
        news: &'a str,
        /// The ways to sign in besides the form, each with its address and its label.
        others: Vec<(String, String)>,
        has_form: bool,
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
    frame: Bare,
    purpose: Purpose<'a>,
    token: &'a str,
    form: FilledForm<Typed>,
}

/// The form values that are shown again; passwords and codes never are.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Typed {
    name: String,
}

impl Purpose<'_> {
    /// Draws the form with its CSRF token or the token that gives access to it, and with the name that was typed.
    pub(crate) fn draw(self, token: &str, name: &str, form_errors: Vec<FormError>) -> Response {
        let (title, rejected) = match self {
            Self::SignIn { .. } => ("Sign in", StatusCode::UNAUTHORIZED),
            Self::SecondFactor => ("Second factor", StatusCode::UNAUTHORIZED),
            Self::SetUp => ("Set up Everpost", StatusCode::UNPROCESSABLE_ENTITY),
            Self::Password { .. } => ("Choose a password", StatusCode::UNPROCESSABLE_ENTITY),
        };
        let status = match form_errors.as_slice() {
            [] => StatusCode::OK,
            _ => rejected,
        };
        let typed = Typed {
            name: name.chars().take(NAME_CHARACTERS_MAX).collect(),
        };
        let page = OpenForm {
            frame: Bare::new(title),
            purpose: self,
            token,
            form: FilledForm::with(typed).with_faults(form_errors),
        };
        draw_with(status, &page)
    }
}
