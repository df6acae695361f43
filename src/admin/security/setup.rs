//! The first run: a link that is printed once, and lets whoever holds it make the first account.

use crate::admin::page::*;
use crate::admin::security::open_form::{Purpose, Stranger};
use crate::admin::security::session;

pub(crate) async fn show(Stranger { site, form, .. }: Stranger) -> PageResult {
    Ok(match site.is_claimed().await? {
        true => used_link(),
        false if site.setup.admits(form.raw("token")) => draw_form(&form, Vec::new()),
        false => invalid_link(),
    })
}

pub(crate) async fn submit(from: Stranger) -> PageResult {
    let (site, form, address) = (from.site, from.form, from.client.address);
    if !site.is_claimed().await? && !site.setup.admits(form.raw("token")) {
        return Ok(invalid_link());
    }
    let (name, password) = (form.text("name"), form.raw("password"));
    let by = Caller::user(name, address, site.people.now());
    let user = match site.people.claim(by, name, password).await {
        Ok(Some(user)) => site.people.accounts().user(user).await?,
        Ok(None) => return Ok(used_link()),
        Err(error) => return Ok(draw_form(&form, PageError::from(error).in_form()?)),
    };
    let user = user.ok_or(PageError::SignedOut)?;
    session::sign_in(&site, &from.session, &user, &from.client, None).await?;
    site.people.guessed_right(Some(&user.name), address).await?;
    Ok(Redirect::to("/admin").into_response())
}

fn draw_form(form: &Form, form_errors: Vec<FormError>) -> Response {
    Purpose::SetUp.draw(form.raw("token"), form.raw("name"), form_errors)
}

#[derive(Template)]
#[template(path = "pages/setup_link.html")]
struct LinkPage {
    frame: Bare,
    /// Why there is no account yet; `None` where there is one.
    why: Option<&'static str>,
}

fn say(status: StatusCode, title: &'static str, why: Option<&'static str>) -> Response {
    let frame = Bare::new(title);
    draw_with(status, &LinkPage { frame, why })
}

pub(crate) fn unclaimed() -> Response {
    let why = "Nobody has an account on this appliance yet.";
    say(StatusCode::FORBIDDEN, "Not set up yet", Some(why))
}

/// Returns the page for the setup link once there is an account, so that nobody wonders why it asks for a password.
fn used_link() -> Response {
    say(StatusCode::GONE, "This link has been used", None)
}

fn invalid_link() -> Response {
    let why = "The link is incomplete or older than half an hour, or a restart has made a new one.";
    say(StatusCode::FORBIDDEN, "This link does not work", Some(why))
}
