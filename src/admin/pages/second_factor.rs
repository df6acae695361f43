//! Setting up the visitor's second factor, and switching it off.

use crate::admin::bare::draw_with;
use crate::admin::forms::filled::Filled;
use crate::admin::page::*;
use crate::admin::pages::account::draw_account;
use crate::admin::security::open_form::fault;
use crate::admin::security::password_again::wrong_password;
use crate::admin::widgets::qr::Qr;
use crate::model::access::Secret;
use crate::model::one_time_code::Seed;

#[derive(Template)]
#[template(path = "pages/second_factor.html")]
struct OfferPage {
    frame: Frame,
    qr: Option<Qr>,
    seed: String,
    /// The seed in groups of four, for typing.
    spelt: String,
    form: Filled<()>,
}

/// Offers a seed.
pub(crate) async fn offer(Call { site, visitor, .. }: Call) -> Response {
    draw_offer(&visitor, &site.people.offer_seed(), None)
}

fn draw_offer(visitor: &Visitor, seed: &Seed, refusal: Option<Refusal>) -> Response {
    let text = seed.to_text();
    let characters: Vec<char> = text.chars().collect();
    let groups: Vec<String> = characters.chunks(4).map(String::from_iter).collect();
    let page = OfferPage {
        frame: Frame::new(visitor, "Second factor"),
        qr: Qr::new(&seed.url(&visitor.name)),
        seed: text.to_string(),
        spelt: groups.join(" "),
        form: Filled::with(()).with_faults(refusal),
    };
    draw_with(page.form.status(), &page)
}

#[derive(Template)]
#[template(path = "pages/recovery_codes.html")]
struct CodesPage {
    frame: Frame,
    codes: Vec<Secret>,
}

/// Sets the second factor up, and shows the recovery codes.
pub(crate) async fn set_up(call: Call) -> PageResult {
    let Call {
        site,
        visitor,
        form,
        ..
    } = &call;
    let damaged = || PageError::Unreadable("The form holds no seed.".to_owned());
    let seed = Seed::parse(form.raw("seed")).ok_or_else(damaged)?;
    if let Some(refusal) = wrong_password(site, visitor, form).await? {
        return Ok(draw_offer(visitor, &seed, Some(refusal)));
    }
    let (by, code) = (call.by(), form.text("code"));
    let codes = site
        .people
        .set_second_factor(by, visitor.id, seed.clone(), code);
    match codes.await {
        Ok(codes) => {
            let frame = Frame::new(visitor, "Recovery codes");
            Ok(draw(&CodesPage { frame, codes }))
        }
        Err(error) => Ok(draw_offer(visitor, &seed, Some(fault(error)?))),
    }
}

/// Switches the second factor off.
pub(crate) async fn remove(call: Call) -> PageResult {
    let Call {
        site,
        visitor,
        form,
        ..
    } = &call;
    if let Some(refusal) = wrong_password(site, visitor, form).await? {
        return draw_account(site, visitor, Some(refusal)).await;
    }
    site.people
        .remove_second_factor(call.by(), visitor.id)
        .await?;
    let message = "The second factor is switched off; the password alone signs you in.";
    visitor.leave(Flash::done(message), "/admin/account").await
}
