//! The visitor's own account: password, second factor and sessions.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;

use crate::admin::client::Client;
use crate::admin::error::{PageError, PageResult, sentence};
use crate::admin::field::{Field, Problem, mark};
use crate::admin::form::{Refusal, Submitted};
use crate::admin::login;
use crate::admin::session::Visitor;
use crate::admin::sessions::SessionTable;
use crate::admin::setup::new_password;
use crate::admin::view::{Flash, Frame, draw_with};
use crate::admin::{Site, print, second_factor};
use crate::broker::people::PeopleError;
use crate::store::accounts::User;

#[derive(Template)]
#[template(path = "admin/account.html")]
struct AccountPage {
    frame: Frame,
    role: &'static str,
    problem: Option<Problem>,
    password_fields: [Field; 2],
    has_second_factor: bool,
    /// Recovery codes that are left.
    recovery_codes: String,
    remove_fields: [Field; 1],
    sessions: SessionTable,
}

/// The account.
pub(super) async fn show(visitor: Visitor, State(site): State<Arc<Site>>) -> PageResult {
    draw_account(&site, &visitor, None).await
}

/// The account, with what is wrong with one of its forms.
pub(super) async fn draw_account(
    site: &Site,
    visitor: &Visitor,
    refusal: Option<Refusal>,
) -> PageResult {
    let user = own_user(site, visitor).await?;
    let recovery_codes = site.people.accounts().recovery_codes(user.id).await?;
    let status = match refusal {
        None => StatusCode::OK,
        Some(_) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let mut password_fields = [
        Field::password("present", "Present password", "current-password").required(),
        new_password("New password"),
    ];
    let mut remove_fields = [second_factor::password_field()];
    let all_fields = password_fields.iter_mut().chain(&mut remove_fields);
    let problem = mark(all_fields, refusal);
    let page = AccountPage {
        frame: Frame::new(visitor, "Your account"),
        role: visitor.role.name(),
        problem,
        password_fields,
        has_second_factor: user.has_second_factor,
        recovery_codes: print::plural(recovery_codes, "recovery code", "recovery codes"),
        remove_fields,
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
    if let Some(refusal) = too_often(&site, &visitor, &client).await? {
        return Ok(refusal);
    }
    let (present, password) = (form.raw("present"), form.raw("password"));
    let kept = visitor.session_key();
    let changed = site.people.change_password(&user, present, password, kept);
    let refusal = match changed.await {
        Ok(()) => {
            site.throttle
                .succeeded(&visitor.name, client.address)
                .await?;
            let told = "Your password has been changed; all other sessions have ended.";
            visitor.tell(Flash::done(told)).await?;
            return Ok(Redirect::to("/admin/account").into_response());
        }
        Err(PeopleError::WrongPassword) => Refusal::of("present", "This is not your password."),
        Err(PeopleError::Password(problem)) => {
            site.throttle
                .succeeded(&visitor.name, client.address)
                .await?;
            Refusal::of("password", sentence(&problem))
        }
        Err(error) => return Err(error.into()),
    };
    draw_account(&site, &visitor, Some(refusal)).await
}

/// The answer to somebody who has tried too many passwords; a try that may be made is counted.
pub(super) async fn too_often(
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
pub(super) async fn own_user(site: &Site, visitor: &Visitor) -> Result<User, PageError> {
    let user = site.people.accounts().user(visitor.id).await?;
    user.ok_or(PageError::SignedOut)
}
