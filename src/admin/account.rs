//! The visitor's own account: password and sessions.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;

use crate::admin::Site;
use crate::admin::client::Client;
use crate::admin::error::{PageError, PageResult, sentence};
use crate::admin::field::{Field, Problem, mark};
use crate::admin::form::{Refusal, Submitted};
use crate::admin::login;
use crate::admin::session::Visitor;
use crate::admin::sessions::SessionTable;
use crate::admin::setup::new_password;
use crate::admin::view::{Flash, Frame, draw_with};
use crate::broker::people::PeopleError;
use crate::store::accounts::User;

#[derive(Template)]
#[template(path = "admin/account.html")]
struct AccountPage {
    frame: Frame,
    role: &'static str,
    problem: Option<Problem>,
    password_fields: [Field; 2],
    sessions: SessionTable,
}

/// The account.
pub(super) async fn show(visitor: Visitor, State(site): State<Arc<Site>>) -> PageResult {
    draw_account(&site, &visitor, None).await
}

async fn draw_account(site: &Site, visitor: &Visitor, refusal: Option<Refusal>) -> PageResult {
    let status = match refusal {
        None => StatusCode::OK,
        Some(_) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let mut password_fields = [
        Field::password("present", "Present password", "current-password").required(),
        new_password("New password"),
    ];
    let page = AccountPage {
        frame: Frame::new(visitor, "Your account"),
        role: visitor.role.name(),
        problem: mark(password_fields.iter_mut(), refusal),
        password_fields,
        sessions: SessionTable::read(site, visitor, Some(visitor.id)).await?,
    };
    Ok(draw_with(status, &page))
}

/// Changes the password; every other session ends.
pub(super) async fn change_password(
    State(site): State<Arc<Site>>,
    client: Client,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let user = own_user(&site, &visitor).await?;
    if let Some(refusal) = too_often(&site, &visitor, &client) {
        return Ok(refusal);
    }
    let (present, password) = (form.raw("present"), form.raw("password"));
    let kept = visitor.session_key();
    let changed = site.people.change_password(&user, present, password, kept);
    let refusal = match changed.await {
        Ok(()) => {
            site.throttle.succeeded(&visitor.name, client.address);
            let told = "Your password has been changed; all other sessions have ended.";
            visitor.tell(Flash::done(told)).await?;
            return Ok(Redirect::to("/admin/account").into_response());
        }
        Err(PeopleError::WrongPassword) => Refusal::of("present", "This is not your password."),
        Err(PeopleError::Password(problem)) => {
            site.throttle.succeeded(&visitor.name, client.address);
            Refusal::of("password", sentence(&problem))
        }
        Err(error) => return Err(error.into()),
    };
    draw_account(&site, &visitor, Some(refusal)).await
}

/// The answer to somebody who has tried too many passwords; a try that may be made is counted.
pub(super) fn too_often(site: &Site, visitor: &Visitor, client: &Client) -> Option<Response> {
    let begun = site
        .throttle
        .begin(&visitor.name, client.address, visitor.now);
    begun.err().map(login::wait)
}

/// The visitor as the book has it.
pub(super) async fn own_user(site: &Site, visitor: &Visitor) -> Result<User, PageError> {
    let user = site.people.accounts().user(visitor.id).await?;
    user.ok_or(PageError::SignedOut)
}
