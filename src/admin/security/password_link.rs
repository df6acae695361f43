//! Choosing a password by a link that an administrator has passed on.

use axum::response::Response;
use http::StatusCode;

use crate::admin::bare::BareMessage;
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::form::{Form, FormError};
use crate::admin::security::login;
use crate::admin::security::open_form::{Purpose, Stranger};
use crate::broker::people::PeopleError;
use crate::model::access::Secret;

pub(crate) async fn show(from: Stranger) -> PageResult {
    let name = holder(&from).await?;
    Ok(name.map_or_else(dead_link, |name| draw_form(&from.form, name, Vec::new())))
}

pub(crate) async fn submit(from: Stranger) -> PageResult {
    let Some(name) = holder(&from).await? else {
        return Ok(dead_link());
    };
    let (people, form, address) = (&from.site.people, &from.form, from.client.address);
    let (secret, password) = (Secret::new(form.raw("token")), form.raw("password"));
    match people.choose_password(&secret, password, address).await {
        Ok(_) => {
            // Signing in with it shows that it was typed as meant, and asks for a second factor.
            from.session.flush().await?;
            Ok(login::told("password-set", &name))
        }
        Err(PeopleError::DeadLink) => Ok(dead_link()),
        Err(error) => Ok(draw_form(form, name, PageError::from(error).in_form()?)),
    }
}

/// The name of whoever the link is for; `None` where it leads nowhere.
async fn holder(from: &Stranger) -> PageResult<Option<String>> {
    let (site, secret) = (&from.site, Secret::new(from.form.raw("token")));
    let user = async {
        match site.people.user_of_link(&secret).await {
            Ok(user) => Ok(Some(user.name)),
            Err(PeopleError::DeadLink) => Ok(None),
            Err(error) => Err(error.into()),
        }
    };
    site.people.guess(None, from.client.address, user).await
}

fn draw_form(form: &Form, of: String, form_errors: Vec<FormError>) -> Response {
    Purpose::Password { of }.draw(form.raw("token"), "", form_errors)
}

fn dead_link() -> Response {
    let text = format!(
        "It does not lead anywhere: {}. Ask an administrator for another one.",
        PeopleError::DeadLink
    );
    BareMessage::new("This link does not work", text).draw(StatusCode::FORBIDDEN)
}
