//! The visitor's own account: password, second factor and sessions.

use serde::{Deserialize, Serialize};

use crate::admin::bare::draw_with;
use crate::admin::forms::filled::Filled;
use crate::admin::page::*;
use crate::admin::pages::sessions::SessionTable;
use crate::admin::security::open_form::fault;
use crate::admin::zone::Zone;
use crate::broker::people::PeopleError;

const PATH: &str = "/admin/account";

#[derive(Template)]
#[template(path = "pages/account.html")]
struct AccountPage {
    frame: Frame,
    /// Recovery codes that are left.
    recovery_codes: u64,
    /// Of all forms of the page.
    form: Filled<AccountForm>,
    zones: Vec<(&'static str, &'static str)>,
    sessions: SessionTable,
}

/// What the forms of the page are filled in with; passwords never are.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct AccountForm {
    /// In which zone times are shown: its name in the IANA database; empty for that of the browser.
    zone: String,
}

/// The account.
pub(crate) async fn show(Call { site, visitor, .. }: Call) -> PageResult {
    draw_account(&site, &visitor, None).await
}

/// The account, with what is wrong with one of its forms.
pub(crate) async fn draw_account(
    site: &Site,
    visitor: &Visitor,
    refusal: Option<Refusal>,
) -> PageResult {
    let zone = visitor.time_zone.clone().unwrap_or_default();
    let form = Filled::with(AccountForm { zone }).with_faults(refusal);
    let zones = Zone::names()
        .iter()
        .map(|name| (name.as_str(), name.as_str()));
    let page = AccountPage {
        frame: Frame::new(visitor, "Your account"),
        recovery_codes: site.people.accounts().recovery_codes(visitor.id).await?,
        zones: std::iter::once(("", "The browser's zone"))
            .chain(zones)
            .collect(),
        sessions: SessionTable::read(site, visitor, Some(visitor.id)).await?,
        form,
    };
    Ok(draw_with(page.form.status(), &page))
}

/// Changes the password; every other session ends.
pub(crate) async fn change_password(call: Call) -> PageResult {
    let Call {
        site,
        visitor,
        form,
        ..
    } = &call;
    let (name, address) = (&visitor.name, visitor.caller.address);
    site.throttle.begin(name, address, visitor.now).await?;
    let (present, password) = (form.raw("present"), form.raw("password"));
    let kept = visitor.session_key();
    let changed = site
        .people
        .change_password(call.by(), &visitor.user, present, password, kept);
    let changed = changed.await;
    if matches!(changed, Ok(()) | Err(PeopleError::Password(_))) {
        // The present one was right.
        site.throttle.succeeded(name, address).await?;
    }
    match changed {
        Ok(()) => {
            let message = "Your password has been changed; all other sessions have ended.";
            visitor.leave(Flash::done(message), PATH).await
        }
        Err(error) => draw_account(site, visitor, Some(fault(error)?)).await,
    }
}

/// Chooses the zone in which times are shown.
pub(crate) async fn change_zone(call: Call) -> PageResult {
    let (visitor, zone) = (&call.visitor, call.form.filled("zone"));
    if zone.is_some_and(|zone| Zone::named(zone).is_none()) {
        let refusal = Refusal::of("zone", "There is no such time zone.");
        return draw_account(&call, visitor, Some(refusal)).await;
    }
    let accounts = call.people.accounts();
    accounts
        .set_time_zone(visitor.id, zone.map(str::to_owned))
        .await?;
    visitor.leave(Flash::done("Time zone changed."), PATH).await
}
