//! The visitor's own account: password, time zone, second factor and sessions.

use crate::admin::pages::sessions::sessions_of;
use crate::admin::pages::*;
use crate::admin::security::password_again::{PASSWORD_FIELD, check_password};
use crate::admin::widgets::qr::Qr;
use crate::base::zone::Zone;
use crate::model::one_time_code::Seed;
use crate::store::accounts::SessionRow;

const PATH: &str = "/admin/account";

/// The fields of the forms of this page, except passwords, which are never filled in.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct AccountForm {
    /// The time zone in which times are shown: its name in the IANA database; empty for that of the browser.
    zone: String,
}

pub(crate) async fn show(call: Call) -> PageResult {
    draw_account(&call, Vec::new()).await
}

async fn draw_account(call: &Call, form_errors: Vec<FormError>) -> PageResult {
    let (visitor, accounts) = (&call.visitor, call.people.accounts());
    let zone = visitor.time_zone.clone().unwrap_or_default();
    answer!("pages/account.html", visitor, "Your account", {
        source: String = call.sign_in.source_in_words(visitor.source).to_owned(),
        recovery_codes: u64 = accounts.recovery_codes(visitor.id).await?,
        form: Filled<AccountForm> = Filled::with(AccountForm { zone }).with_faults(form_errors),
        sessions: Vec<SessionRow> = sessions_of(call, Some(visitor.id)).await?,
    }, form)
}

/// Says that it is done, or what is wrong with one of the forms.
async fn answer(call: &Call, done: PageResult<()>, said: &str) -> PageResult {
    match done {
        Ok(()) => call.visitor.leave(Flash::done(said), PATH).await,
        Err(error) => draw_account(call, error.in_form()?).await,
    }
}

pub(crate) async fn change_password(call: Call) -> PageResult {
    let (visitor, form, people) = (&call.visitor, &call.form, &call.people);
    let done = async {
        check_password(&call, visitor, form, "present").await?;
        let (password, kept) = (form.raw("password"), visitor.session_key());
        let set = people.set_password(call.by(), &visitor.user, password, kept);
        Ok(set.await?)
    };
    let said = "Your password has been changed; all other sessions have ended.";
    answer(&call, done.await, said).await
}

pub(crate) async fn change_zone(call: Call) -> PageResult {
    let zone = call.form.filled("zone");
    let done = async {
        if zone.is_some_and(|zone| Zone::named(zone).is_none()) {
            return Err(FormError::of("zone", "There is no such time zone.").into());
        }
        let (accounts, zone) = (call.people.accounts(), zone.map(str::to_owned));
        Ok(accounts.set_time_zone(call.visitor.id, zone).await?)
    };
    let shown = zone.unwrap_or("the browser's zone");
    answer(&call, done.await, &format!("Times are shown in {shown}.")).await
}

pub(crate) async fn offer_second_factor(call: Call) -> PageResult {
    draw_offer(&call.visitor, &call.people.offer_seed(), Vec::new())
}

fn draw_offer(visitor: &Visitor, seed: &Seed, form_errors: Vec<FormError>) -> PageResult {
    let text = seed.to_text();
    let characters: Vec<char> = text.chars().collect();
    let groups: Vec<String> = characters.chunks(4).map(String::from_iter).collect();
    answer!("pages/second_factor.html", visitor, "Second factor", {
        qr: Option<Qr> = Qr::new(&seed.url(&visitor.name)),
        seed: String = text.to_string(),
        // In groups of four, for typing.
        spelt: String = groups.join(" "),
        form: Filled<()> = Filled::with(()).with_faults(form_errors),
    }, form)
}

/// Switches it on, and shows the recovery codes.
pub(crate) async fn set_up_second_factor(call: Call) -> PageResult {
    let (visitor, form, people) = (&call.visitor, &call.form, &call.people);
    let damaged = || PageError::Unreadable("The form holds no seed.".to_owned());
    let seed = Seed::parse(form.raw("seed")).ok_or_else(damaged)?;
    let codes = async {
        check_password(&call, visitor, form, PASSWORD_FIELD).await?;
        let (seed, code) = (seed.clone(), form.text("code"));
        let codes = people.set_second_factor(call.by(), visitor.id, seed, code);
        PageResult::Ok(codes.await?)
    };
    match codes.await {
        Ok(codes) => answer!("pages/recovery_codes.html", visitor, "Recovery codes", {
            codes: Vec<Secret> = codes,
        }),
        Err(error) => draw_offer(visitor, &seed, error.in_form()?),
    }
}

pub(crate) async fn remove_second_factor(call: Call) -> PageResult {
    let visitor = &call.visitor;
    let done = async {
        check_password(&call, visitor, &call.form, PASSWORD_FIELD).await?;
        let removed = call.people.remove_second_factor(call.by(), visitor.id);
        Ok(removed.await?)
    };
    let said = "The second factor is switched off; the password alone signs you in.";
    answer(&call, done.await, said).await
}
