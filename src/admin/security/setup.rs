//! The first run: a link that is printed once, and lets whoever holds it make the first account.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use http::StatusCode;
use serde::Deserialize;
use tower_sessions::Session;

use crate::admin::bare::Bare;
use crate::admin::bare::draw_with;
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::field::{Field, Problem, mark};
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::security::client::Client;
use crate::admin::security::session;
use crate::admin::site::Site;
use crate::admin::widgets::print::sentence;
use crate::broker::people::{
    NAME_CHARACTERS_MAX, PASSWORD_CHARACTERS_MIN, PASSWORD_RECOMMENDED, PeopleError,
};
use crate::model::audit::Caller;
use crate::store::accounts::UserId;

/// Bytes of a form that anybody may send: a name, a password and a token fit many times over.
pub(crate) const OPEN_FORM_BYTES_MAX: usize = 16_384;

pub(crate) fn router() -> Router<Arc<Site>> {
    let page = get(show)
        .post(submit)
        .layer(DefaultBodyLimit::max(OPEN_FORM_BYTES_MAX));
    Router::new().route("/setup", page)
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: String,
}

async fn show(State(site): State<Arc<Site>>, Query(Token { token }): Query<Token>) -> PageResult {
    if site.is_claimed().await? {
        return Ok(used_link());
    }
    if !site.setup.admits(&token) {
        return Ok(invalid_link());
    }
    Ok(draw_form(token, &Form::default(), None))
}

async fn submit(
    State(site): State<Arc<Site>>,
    session: Session,
    client: Client,
    form: Form,
) -> PageResult {
    let token = form.raw("token").to_owned();
    if !site.is_claimed().await? && !site.setup.admits(&token) {
        return Ok(invalid_link());
    }
    let (name, password) = (form.text("name"), form.raw("password"));
    let by = Caller::user(name, client.address, site.people.now());
    match site.people.claim(by, name, password).await {
        Ok(Some(user)) => welcome(&site, &session, user, client).await,
        Ok(None) => Ok(used_link()),
        Err(PeopleError::Name(problem)) => {
            let refusal = Refusal::of("name", sentence(&problem));
            Ok(draw_form(token, &form, Some(refusal)))
        }
        Err(PeopleError::Password(problem)) => {
            let refusal = Refusal::of("password", sentence(&problem));
            Ok(draw_form(token, &form, Some(refusal)))
        }
        Err(error) => Err(error.into()),
    }
}

async fn welcome(site: &Site, session: &Session, user: UserId, client: Client) -> PageResult {
    let user = site.people.accounts().user(user).await?;
    let user = user.ok_or(PageError::SignedOut)?;
    let address = client.address;
    session::sign_in(site, session, &user, client).await?;
    site.throttle.succeeded(&user.name, address).await?;
    Ok(Redirect::to("/admin").into_response())
}

#[derive(Template)]
#[template(path = "pages/setup.html")]
struct SetupPage {
    bare: Bare,
    token: String,
    problem: Option<Problem>,
    fields: [Field; 2],
}

fn draw_form(token: String, form: &Form, refusal: Option<Refusal>) -> Response {
    let status = match refusal {
        None => StatusCode::OK,
        Some(_) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let mut fields = [
        Field::line("name", "Name", form)
            .hint(format!(
                "1 to {NAME_CHARACTERS_MAX} characters. You sign in with it."
            ))
            .autocomplete("username")
            .required(),
        new_password("Password"),
    ];
    let page = SetupPage {
        bare: Bare::new("Set up Everpost"),
        token,
        problem: mark(fields.iter_mut(), refusal),
        fields,
    };
    draw_with(status, &page)
}

/// The field for a password that is being chosen.
pub(crate) fn new_password(label: &'static str) -> Field {
    let hint = format!(
        "At least {PASSWORD_CHARACTERS_MIN} characters, better {PASSWORD_RECOMMENDED} or more. A \
         sentence is easy to remember."
    );
    Field::password("password", label, "new-password")
        .hint(hint)
        .required()
}

#[derive(Template)]
#[template(path = "pages/unclaimed.html")]
struct UnclaimedPage {
    bare: Bare,
    why: &'static str,
}

/// What every page says while nobody has an account.
pub(crate) fn unclaimed() -> Response {
    let page = UnclaimedPage {
        bare: Bare::new("Not set up yet"),
        why: "Nobody has an account on this appliance yet.",
    };
    draw_with(StatusCode::FORBIDDEN, &page)
}

#[derive(Template)]
#[template(path = "pages/used_link.html")]
struct UsedLinkPage {
    bare: Bare,
}

/// What the link says once there is an account, so that nobody wonders why it asks for a password.
fn used_link() -> Response {
    let page = UsedLinkPage {
        bare: Bare::new("This link has been used"),
    };
    draw_with(StatusCode::GONE, &page)
}

fn invalid_link() -> Response {
    let page = UnclaimedPage {
        bare: Bare::new("This link does not work"),
        why: "The link is incomplete, older than half an hour, or from an earlier start of the \
              appliance.",
    };
    draw_with(StatusCode::FORBIDDEN, &page)
}
