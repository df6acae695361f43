//! Asking for the visitor's own password again.

use axum::response::Response;

use crate::admin::error::PageError;
use crate::admin::forms::field::Field;
use crate::admin::forms::form::Refusal;
use crate::admin::security::client::Client;
use crate::admin::security::login;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::store::accounts::User;

/// The name of [`password_field`].
pub(crate) const PASSWORD_FIELD: &str = "own-password";

/// The field for the present password in forms that have another one as well.
pub(crate) fn password_field() -> Field {
    Field::password(PASSWORD_FIELD, "Your password", "current-password").required()
}

/// Why a password was not taken.
pub(crate) enum Denied {
    Wrong(Refusal),
    TooOften(Response),
}

/// Asks for the password again before a credential changes.
pub(crate) async fn knows_password(
    site: &Site,
    visitor: &Visitor,
    client: &Client,
    password: &str,
) -> Result<Result<(), Denied>, PageError> {
    if let Some(answer) = too_often(site, visitor, client).await? {
        return Ok(Err(Denied::TooOften(answer)));
    }
    let user = own_user(site, visitor).await?;
    if !site.people.knows_password(&user, password).await {
        let refusal = Refusal::of(PASSWORD_FIELD, "This is not your password.");
        return Ok(Err(Denied::Wrong(refusal)));
    }
    site.throttle
        .succeeded(&visitor.name, client.address)
        .await?;
    Ok(Ok(()))
}

/// The answer to somebody who has tried too many passwords; a try that may be made is counted.
pub(crate) async fn too_often(
    site: &Site,
    visitor: &Visitor,
    client: &Client,
) -> Result<Option<Response>, PageError> {
    let begun = site
        .throttle
        .begin(&visitor.name, client.address, visitor.now);
    Ok(begun.await?.map(login::wait))
}

/// The visitor as the book has it.
pub(crate) async fn own_user(site: &Site, visitor: &Visitor) -> Result<User, PageError> {
    let user = site.people.accounts().user(visitor.id).await?;
    user.ok_or(PageError::SignedOut)
}
