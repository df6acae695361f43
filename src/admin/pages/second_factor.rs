//! Setting up the visitor's second factor, and switching it off.

use http::StatusCode;

use crate::admin::bare::draw_with;
use crate::admin::forms::field::{Field, Problem, mark};
use crate::admin::page::*;
use crate::admin::pages::account::draw_account;
use crate::admin::security::client::Client;
use crate::admin::security::login_code::code_field;
use crate::admin::security::own_password::{
    Denied, PASSWORD_FIELD, knows_password, password_field,
};
use crate::admin::widgets::qr::Qr;
use crate::broker::people::PeopleError;
use crate::model::one_time_code::Seed;

#[derive(Template)]
#[template(path = "pages/second_factor.html")]
struct OfferPage {
    frame: Frame,
    qr: Option<Qr>,
    seed: String,
    /// The seed in groups of four, for typing.
    spelt: String,
    problem: Option<Problem>,
    fields: [Field; 2],
}

/// Offers a seed.
pub(crate) async fn offer(visitor: Visitor, State(site): State<Arc<Site>>) -> Response {
    draw_offer(&visitor, &site.people.offer_seed(), None)
}

fn draw_offer(visitor: &Visitor, seed: &Seed, refusal: Option<Refusal>) -> Response {
    let status = match refusal {
        None => StatusCode::OK,
        Some(_) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let mut fields = [
        code_field("The six digits that the app shows now."),
        password_field(),
    ];
    let text = seed.to_text();
    let characters: Vec<char> = text.chars().collect();
    let groups: Vec<String> = characters.chunks(4).map(String::from_iter).collect();
    let page = OfferPage {
        frame: Frame::new(visitor, "Second factor"),
        qr: Qr::new(&seed.url(&visitor.name)),
        seed: text.to_string(),
        spelt: groups.join(" "),
        problem: mark(fields.iter_mut(), refusal),
        fields,
    };
    draw_with(status, &page)
}

#[derive(Template)]
#[template(path = "pages/recovery_codes.html")]
struct CodesPage {
    frame: Frame,
    codes: Vec<String>,
}

/// Sets the second factor up, and shows the recovery codes.
pub(crate) async fn set_up(
    State(site): State<Arc<Site>>,
    client: Client,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let damaged = || PageError::Unreadable("The form holds no seed.".to_owned());
    let seed = Seed::parse(form.raw("seed")).ok_or_else(damaged)?;
    if let Err(refusal) = knows_password(&site, &visitor, &client, form.raw(PASSWORD_FIELD)).await?
    {
        return Ok(match refusal {
            Denied::Wrong(refusal) => draw_offer(&visitor, &seed, Some(refusal)),
            Denied::TooOften(answer) => answer,
        });
    }
    let code = form.text("code");
    match site
        .people
        .set_second_factor(&visitor.caller, visitor.id, seed.clone(), code)
        .await
    {
        Ok(codes) => Ok(draw(&CodesPage {
            frame: Frame::new(&visitor, "Recovery codes"),
            codes: codes.iter().map(|code| code.reveal().to_owned()).collect(),
        })),
        Err(PeopleError::WrongCode) => {
            let refusal = Refusal::of("code", "This is not the code that the app shows now.");
            Ok(draw_offer(&visitor, &seed, Some(refusal)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Switches the second factor off.
pub(crate) async fn remove(
    State(site): State<Arc<Site>>,
    client: Client,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    match knows_password(&site, &visitor, &client, form.raw(PASSWORD_FIELD)).await? {
        Ok(()) => {}
        Err(Denied::TooOften(answer)) => return Ok(answer),
        Err(Denied::Wrong(refusal)) => return draw_account(&site, &visitor, Some(refusal)).await,
    }
    let by = &visitor.caller;
    site.people.remove_second_factor(by, visitor.id).await?;
    let message = "The second factor is switched off; the password alone signs you in.";
    visitor.leave(Flash::done(message), "/admin/account").await
}
