//! Choosing a password by a link that an administrator has passed on.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use http::StatusCode;
use tower_sessions::Session;

use crate::admin::bare::Message;
use crate::admin::error::PageResult;
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::security::client::Client;
use crate::admin::security::login;
use crate::admin::security::open_form::{Purpose, fault};
use crate::admin::security::setup::Token;
use crate::admin::site::Site;
use crate::broker::people::PeopleError;
use crate::model::access::Secret;

pub(crate) async fn show(
    State(site): State<Arc<Site>>,
    client: Client,
    Query(Token { token }): Query<Token>,
) -> PageResult {
    let name = holder(&site, &client, &token).await?;
    Ok(name.map_or_else(dead_link, |name| draw_form(&token, name, None)))
}

pub(crate) async fn submit(
    State(site): State<Arc<Site>>,
    session: Session,
    client: Client,
    form: Form,
) -> PageResult {
    let token = form.raw("token");
    let Some(name) = holder(&site, &client, token).await? else {
        return Ok(dead_link());
    };
    let (secret, password) = (Secret::new(token), form.raw("password"));
    let chosen = site
        .people
        .choose_password(&secret, password, client.address);
    match chosen.await {
        Ok(_) => {
            // Signing in with it shows that it was typed as meant, and asks for a second factor.
            session.flush().await?;
            Ok(login::told("password-set", &name))
        }
        Err(PeopleError::DeadLink) => Ok(dead_link()),
        Err(error) => Ok(draw_form(token, name, Some(fault(error)?))),
    }
}

/// The name of whoever the link is for; `None` where it leads nowhere.
async fn holder(site: &Site, client: &Client, token: &str) -> PageResult<Option<String>> {
    let (throttle, address) = (&site.throttle, client.address);
    throttle.begin_link(address).await?;
    match site.people.user_of_link(&Secret::new(token)).await {
        Ok(user) => {
            throttle.link_succeeded(address).await?;
            Ok(Some(user.name))
        }
        Err(PeopleError::DeadLink) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn draw_form(token: &str, of: String, refusal: Option<Refusal>) -> Response {
    Purpose::Password { of }.draw(token, "", refusal)
}

fn dead_link() -> Response {
    let text = format!(
        "It does not lead anywhere: {}. Ask an administrator for another one.",
        PeopleError::DeadLink
    );
    Message::new("This link does not work", text).draw(StatusCode::FORBIDDEN)
}
