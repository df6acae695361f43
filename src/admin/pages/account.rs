//! The visitor's own account: password, second factor and sessions.

use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::admin::bare::draw_with;
use crate::admin::forms::field::{Field, Problem, mark};
use crate::admin::forms::filled::Filled;
use crate::admin::page::*;
use crate::admin::pages::sessions::SessionTable;
use crate::admin::security::client::Client;
use crate::admin::security::own_password::{self, own_user, too_often};
use crate::admin::security::setup::new_password;
use crate::admin::zone::Zone;
use crate::broker::people::PeopleError;

#[derive(Template)]
#[template(path = "pages/account.html")]
struct AccountPage {
    frame: Frame,
    problem: Option<Problem>,
    password_fields: [Field; 2],
    has_second_factor: bool,
    /// Recovery codes that are left.
    recovery_codes: String,
    remove_fields: [Field; 1],
    sessions: SessionTable,
    zone: Filled<ZoneForm>,
    zones: Vec<(String, String)>,
}

/// In which zone times are shown.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct ZoneForm {
    /// By its name in the IANA database; empty for that of the browser.
    zone: String,
}

/// The account.
pub(crate) async fn show(visitor: Visitor, State(site): State<Arc<Site>>) -> PageResult {
    draw_account(&site, &visitor, None).await
}

/// The account, with what is wrong with one of its forms.
pub(crate) async fn draw_account(
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
        Field::password("present", "Current password", "current-password").required(),
        new_password("New password"),
    ];
    let mut remove_fields = [own_password::password_field()];
    let all_fields = password_fields.iter_mut().chain(&mut remove_fields);
    let problem = mark(all_fields, refusal);
    let page = AccountPage {
        frame: Frame::new(visitor, "Your account"),
        problem,
        password_fields,
        has_second_factor: user.has_second_factor,
        recovery_codes: print::plural(recovery_codes, "recovery code", "recovery codes"),
        remove_fields,
        sessions: SessionTable::read(site, visitor, Some(visitor.id)).await?,
        zone: Filled::with(ZoneForm {
            zone: user.time_zone.unwrap_or_default(),
        }),
        zones: zones(),
    };
    Ok(draw_with(status, &page))
}

/// Changes the password; every other session ends.
pub(crate) async fn change_password(
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
    let by = &visitor.caller;
    let changed = site
        .people
        .change_password(by, &user, present, password, kept);
    let refusal = match changed.await {
        Ok(()) => {
            site.throttle
                .succeeded(&visitor.name, client.address)
                .await?;
            let message = "Your password has been changed; all other sessions have ended.";
            return visitor.leave(Flash::done(message), "/admin/account").await;
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

/// All zones to choose from, the browser's first.
fn zones() -> Vec<(String, String)> {
    let own = (String::new(), "The browser's zone".to_owned());
    let names = Zone::names().iter().cloned();
    let names = names.map(|name| (name.clone(), name));
    std::iter::once(own).chain(names).collect()
}

/// Chooses the zone in which times are shown.
pub(crate) async fn change_zone(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let ZoneForm { zone } = Filled::sent(&form).values;
    if !zone.is_empty() && Zone::named(&zone).is_none() {
        let refusal = Refusal::of("zone", "There is no such time zone.");
        return draw_account(&site, &visitor, Some(refusal)).await;
    }
    let chosen = Some(zone).filter(|zone| !zone.is_empty());
    let accounts = site.people.accounts();
    accounts.set_time_zone(visitor.id, chosen).await?;
    visitor
        .leave(Flash::done("Time zone changed."), "/admin/account")
        .await
}
