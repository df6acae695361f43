//! Choosing a password by a link that an administrator has passed on.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use serde::Deserialize;
use tower_sessions::Session;

use crate::admin::bare::Bare;
use crate::admin::bare::Message;
use crate::admin::bare::draw_with;
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::field::{Field, Problem, mark};
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::security::client::Client;
use crate::admin::security::login::News;
use crate::admin::security::setup::{OPEN_FORM_BYTES_MAX, new_password};
use crate::admin::security::{login, session};
use crate::admin::site::Site;
use crate::admin::widgets::print::sentence;
use crate::broker::people::PeopleError;
use crate::model::access::Secret;

pub(crate) fn router() -> Router<Arc<Site>> {
    let page = get(show)
        .post(submit)
        .layer(DefaultBodyLimit::max(OPEN_FORM_BYTES_MAX));
    Router::new().route("/password", page)
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: String,
}

async fn show(
    State(site): State<Arc<Site>>,
    client: Client,
    Query(Token { token }): Query<Token>,
) -> PageResult {
    match holder(&site, &client, &token).await? {
        Ok(name) => Ok(draw_form(token, name, None)),
        Err(refused) => Ok(refused),
    }
}

async fn submit(
    State(site): State<Arc<Site>>,
    session: Session,
    client: Client,
    form: Form,
) -> PageResult {
    let token = form.raw("token").to_owned();
    let name = match holder(&site, &client, &token).await? {
        Ok(name) => name,
        Err(refused) => return Ok(refused),
    };
    let secret = Secret::new(token.as_str());
    let password = form.raw("password");
    match site
        .people
        .choose_password(&secret, password, client.address)
        .await
    {
        Ok(_) => {
            // Signing in with it shows that it was typed as meant, and asks for a second factor.
            session::forget(&session).await?;
            Ok(News::PasswordSet.tell_to(&name))
        }
        Err(PeopleError::Password(problem)) => {
            let refusal = Refusal::of("password", sentence(&problem));
            Ok(draw_form(token, name, Some(refusal)))
        }
        Err(PeopleError::DeadLink) => Ok(dead_link()),
        Err(error) => Err(error.into()),
    }
}

/// The name of whoever the link is for; otherwise what there is to say instead.
async fn holder(
    site: &Site,
    client: &Client,
    token: &str,
) -> Result<Result<String, Response>, PageError> {
    if let Some(wait) = site.throttle.begin_link(client.address).await? {
        return Ok(Err(login::wait(wait)));
    }
    match site.people.user_of_link(&Secret::new(token)).await {
        Ok(user) => {
            site.throttle.link_succeeded(client.address).await?;
            Ok(Ok(user.name))
        }
        Err(PeopleError::DeadLink) => Ok(Err(dead_link())),
        Err(error) => Err(error.into()),
    }
}

#[derive(Template)]
#[template(path = "pages/password.html")]
struct PasswordPage {
    bare: Bare,
    name: String,
    token: String,
    problem: Option<Problem>,
    fields: [Field; 1],
}

fn draw_form(token: String, name: String, refusal: Option<Refusal>) -> Response {
    let status = match refusal {
        None => StatusCode::OK,
        Some(_) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let mut fields = [new_password("New password")];
    let page = PasswordPage {
        bare: Bare::new("Choose a password"),
        name,
        token,
        problem: mark(fields.iter_mut(), refusal),
        fields,
    };
    draw_with(status, &page)
}

fn dead_link() -> Response {
    let text = format!(
        "It does not lead anywhere: {}. Ask an administrator for another one.",
        PeopleError::DeadLink
    );
    Message::new("This link does not work", text).draw(StatusCode::FORBIDDEN)
}
