//! The visitor's own account: password, second factor and sessions.

use crate::admin::page::*;
use crate::admin::pages::sessions::SessionTable;
use crate::admin::security::password_again::check_password;
use crate::admin::zone::Zone;

const PATH: &str = "/admin/account";

#[derive(Template)]
#[template(path = "pages/account.html")]
struct AccountPage {
    frame: Frame,
    recovery_codes: u64,
    form: Filled<AccountForm>,
    zones: Vec<(String, String)>,
    sessions: SessionTable,
}

/// What the forms of the page are filled in with; passwords never are.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct AccountForm {
    /// In which zone times are shown: its name in the IANA database; empty for that of the browser.
    zone: String,
}

pub(crate) async fn show(call: Call) -> PageResult {
    draw_account(&call, Vec::new()).await
}

/// Says that it is done, or what is wrong with one of the forms.
pub(crate) async fn answer(call: &Call, done: PageResult<()>, said: &str) -> PageResult {
    match done {
        Ok(()) => call.visitor.leave(Flash::done(said), PATH).await,
        Err(error) => draw_account(call, error.in_form()?).await,
    }
}

async fn draw_account(call: &Call, refusals: Vec<Refusal>) -> PageResult {
    let (visitor, accounts) = (&call.visitor, call.people.accounts());
    let zone = visitor.time_zone.clone().unwrap_or_default();
    let zones = Zone::names().map(|name| (name.clone(), name));
    let browsers = (String::new(), "The browser's zone".to_owned());
    let page = AccountPage {
        frame: Frame::new(visitor, "Your account"),
        recovery_codes: accounts.recovery_codes(visitor.id).await?,
        form: Filled::with(AccountForm { zone }).with_faults(refusals),
        zones: std::iter::once(browsers).chain(zones).collect(),
        sessions: SessionTable::read(call, Some(visitor.id)).await?,
    };
    Ok(draw_with(page.form.status(), &page))
}

pub(crate) async fn change_password(call: Call) -> PageResult {
    let said = "Your password has been changed; all other sessions have ended.";
    answer(&call, set_password(&call).await, said).await
}

async fn set_password(call: &Call) -> PageResult<()> {
    let (visitor, form, people) = (&call.visitor, &call.form, &call.people);
    check_password(call, visitor, form, "present").await?;
    let (password, kept) = (form.raw("password"), visitor.session_key());
    let set = people.set_password(call.by(), &visitor.user, password, kept);
    Ok(set.await?)
}

pub(crate) async fn change_zone(call: Call) -> PageResult {
    answer(&call, set_zone(&call).await, "Time zone changed.").await
}

async fn set_zone(call: &Call) -> PageResult<()> {
    let (accounts, zone) = (call.people.accounts(), call.form.filled("zone"));
    if zone.is_some_and(|zone| Zone::named(zone).is_none()) {
        return Err(Refusal::of("zone", "There is no such time zone.").into());
    }
    let zone = zone.map(str::to_owned);
    Ok(accounts.set_time_zone(call.visitor.id, zone).await?)
}
