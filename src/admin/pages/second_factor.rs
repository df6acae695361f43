//! Setting up the visitor's second factor, and switching it off.

use crate::admin::page::*;
use crate::admin::pages::account;
use crate::admin::security::password_again::{PASSWORD_FIELD, check_password};
use crate::admin::widgets::qr::Qr;
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

pub(crate) async fn offer(call: Call) -> Response {
    draw_offer(&call.visitor, &call.people.offer_seed(), Vec::new())
}

fn draw_offer(visitor: &Visitor, seed: &Seed, refusals: Vec<Refusal>) -> Response {
    let text = seed.to_text();
    let characters: Vec<char> = text.chars().collect();
    let groups: Vec<String> = characters.chunks(4).map(String::from_iter).collect();
    let page = OfferPage {
        frame: Frame::new(visitor, "Second factor"),
        qr: Qr::new(&seed.url(&visitor.name)),
        seed: text.to_string(),
        spelt: groups.join(" "),
        form: Filled::with(()).with_faults(refusals),
    };
    draw_with(page.form.status(), &page)
}

#[derive(Template)]
#[template(path = "pages/recovery_codes.html")]
struct CodesPage {
    frame: Frame,
    codes: Vec<Secret>,
}

/// Switches it on, and shows the recovery codes.
pub(crate) async fn set_up(call: Call) -> PageResult {
    let damaged = || PageError::Unreadable("The form holds no seed.".to_owned());
    let seed = Seed::parse(call.form.raw("seed")).ok_or_else(damaged)?;
    match switch_on(&call, seed.clone()).await {
        Ok(codes) => {
            let frame = Frame::new(&call.visitor, "Recovery codes");
            Ok(draw(&CodesPage { frame, codes }))
        }
        Err(error) => Ok(draw_offer(&call.visitor, &seed, error.in_form()?)),
    }
}

async fn switch_on(call: &Call, seed: Seed) -> PageResult<Vec<Secret>> {
    let (visitor, form, people) = (&call.visitor, &call.form, &call.people);
    check_password(call, visitor, form, PASSWORD_FIELD).await?;
    let code = form.text("code");
    let codes = people.set_second_factor(call.by(), visitor.id, seed, code);
    Ok(codes.await?)
}

pub(crate) async fn remove(call: Call) -> PageResult {
    let said = "The second factor is switched off; the password alone signs you in.";
    account::answer(&call, switch_off(&call).await, said).await
}

async fn switch_off(call: &Call) -> PageResult<()> {
    let (visitor, form, people) = (&call.visitor, &call.form, &call.people);
    check_password(call, visitor, form, PASSWORD_FIELD).await?;
    Ok(people.remove_second_factor(call.by(), visitor.id).await?)
}
