//! The pages of users, for administrators.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};

use crate::admin::action::Confirm;
use crate::admin::bare::draw;
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::field::{Field, Section};
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::forms::form_page::FormPage;
use crate::admin::frame::{Frame, role_title};
use crate::admin::lists::list::List;
use crate::admin::lists::recipe::{Recipe, quoted};
use crate::admin::pages::sessions;
use crate::admin::pages::sessions::SessionTable;
use crate::admin::security::csrf::Submitted;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::print;
use crate::admin::widgets::print::sentence;
use crate::admin::widgets::{Badge, Flash, Time, Tone};
use crate::base::Timestamp;
use crate::broker::people::{NAME_CHARACTERS_MAX, PeopleError, UserPatch};
use crate::model::access::Secret;
use crate::store::accounts::{AccountError, Role, User, UserId};

/// Roles with what they are for.
const ROLES: [(&str, &str); 3] = [
    (
        "viewer",
        "Viewer: sees everything but secrets and the data of events",
    ),
    (
        "operator",
        "Operator: also sees data, resubmits, pauses and publishes",
    ),
    ("admin", "Administrator: everything"),
];

#[derive(Template)]
#[template(path = "pages/users.html")]
struct UsersPage {
    frame: Frame,
    list: List,
    rows: Vec<Row>,
}

struct Row {
    href: String,
    name: String,
    is_own: bool,
    role: &'static str,
    state: Badge,
    signed_in: String,
    created_at: Time,
}

/// All users.
pub(crate) async fn list(visitor: Visitor, State(site): State<Arc<Site>>) -> PageResult {
    let users = site.people.accounts().users().await?;
    let rows = users.iter().map(|user| Row {
        href: user_page(user.id),
        name: user.name.clone(),
        is_own: user.id == visitor.id,
        role: role_title(user.role),
        state: state(user, visitor.now),
        signed_in: signed_in(user, visitor.now),
        created_at: Time::relative(user.created_at),
    });
    Ok(draw(&UsersPage {
        frame: Frame::new(&visitor, "Users"),
        list: List::whole(
            "/admin/users",
            print::plural(users.len() as u64, "user", "users"),
            Recipe::get(&site.management_url("/everpost/users")).everpost("everpost admin list"),
        ),
        rows: rows.collect(),
    }))
}

fn state(user: &User, now: Timestamp) -> Badge {
    match (user.disabled_at, user.password_hash.is_empty()) {
        (Some(_), _) => Badge::new(Tone::Bad, "Disabled"),
        (None, true) if user.link_expires_at > Some(now) => Badge::new(Tone::Warn, "Invited"),
        (None, true) => Badge::new(Tone::Bad, "Invitation expired"),
        (None, false) => Badge::new(Tone::Good, "Active"),
    }
}

fn signed_in(user: &User, now: Timestamp) -> String {
    let at = user.signed_in_at;
    at.map_or("never".to_owned(), |at| print::relative(at, now))
}

fn user_page(id: UserId) -> String {
    format!("/admin/users/{}", id.0)
}

/// The form for a new user.
pub(crate) async fn draft(visitor: Visitor) -> Response {
    draw_form(&visitor, &Form::of([("role", "viewer".to_owned())]), None)
}

fn draw_form(visitor: &Visitor, form: &Form, refusal: Option<Refusal>) -> Response {
    let fields = vec![
        Field::line("name", "Name", form)
            .hint(format!(
                "1 to {NAME_CHARACTERS_MAX} characters, to sign in with."
            ))
            .required(),
        Field::choice("role", "Role", &ROLES, form),
    ];
    let page = FormPage {
        intro: "You get a link to pass on, by which the new user chooses a password.".to_owned(),
        sections: vec![Section {
            title: "User",
            fields,
        }],
        button: "Create user",
        back: "/admin/users".to_owned(),
    };
    page.draw(Frame::new(visitor, "New user"), refusal)
}

/// Makes a user, and shows the link to pass on.
pub(crate) async fn create(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let Some(role) = Role::parse(form.text("role")) else {
        let refusal = Refusal::of("role", "Choose one of the roles.");
        return Ok(draw_form(&visitor, &form, Some(refusal)));
    };
    let name = form.text("name");
    let refusal = match site.people.add(&visitor.caller, name, role, None).await {
        Ok((id, token)) => {
            let user = find_by_id(&site, id).await?;
            let token = token.expect("without a password there is a link");
            return Ok(draw_link(&site, &visitor, user, &token));
        }
        Err(PeopleError::Name(problem)) => Refusal::of("name", sentence(&problem)),
        Err(PeopleError::Account(error @ AccountError::NameTaken)) => {
            Refusal::of("name", sentence(&error.to_string()))
        }
        Err(error) => return Err(error.into()),
    };
    Ok(draw_form(&visitor, &form, Some(refusal)))
}

#[derive(Template)]
#[template(path = "pages/user_link.html")]
struct LinkPage {
    frame: Frame,
    name: String,
    back: String,
    link: String,
}

fn draw_link(site: &Site, visitor: &Visitor, user: User, token: &Secret) -> Response {
    draw(&LinkPage {
        frame: Frame::new(visitor, format!("Link for {}", user.name)),
        back: user_page(user.id),
        name: user.name,
        link: format!(
            "{}/admin/password?token={}",
            site.public_url(),
            token.reveal()
        ),
    })
}

#[derive(Template)]
#[template(path = "pages/user.html")]
struct UserPage {
    frame: Frame,
    path: String,
    name: String,
    is_own: bool,
    is_disabled: bool,
    has_second_factor: bool,
    state: Badge,
    role: &'static str,
    role_field: Field,
    created_at: Time,
    signed_in: String,
    link_until: Option<Time>,
    sessions: SessionTable,
    recipe: Recipe,
}

/// One user.
pub(crate) async fn show(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(user): Path<String>,
) -> PageResult {
    let user = find(&site, &user).await?;
    let role = Form::of([("role", user.role.name().to_owned())]);
    let link_until = user.link_expires_at.filter(|at| *at > visitor.now);
    let by_name = format!("everpost admin show {}", quoted(&user.name));
    Ok(draw(&UserPage {
        frame: Frame::new(&visitor, format!("User {}", user.name)),
        path: user_page(user.id),
        is_own: user.id == visitor.id,
        is_disabled: user.disabled_at.is_some(),
        has_second_factor: user.has_second_factor,
        state: state(&user, visitor.now),
        role: role_title(user.role),
        role_field: Field::choice("role", "Role", &ROLES, &role),
        created_at: Time::relative(user.created_at),
        signed_in: signed_in(&user, visitor.now),
        link_until: link_until.map(Time::at),
        sessions: SessionTable::read(&site, &visitor, Some(user.id)).await?,
        recipe: Recipe::get(&site.management_url("/everpost/users")).everpost(by_name),
        name: user.name,
    }))
}

/// Gives a user another role.
pub(crate) async fn change_role(
    State(site): State<Arc<Site>>,
    Path(user): Path<String>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let user = find(&site, &user).await?;
    let role = Role::parse(form.text("role"));
    let role = role.ok_or_else(|| PageError::Unreadable("There is no such role.".to_owned()))?;
    let patch = UserPatch {
        role: Some(role),
        ..UserPatch::default()
    };
    let message = format!("{} has the role {} now.", user.name, role.name());
    change_user(&site, &visitor, &user, patch, message).await
}

/// Forbids a user to sign in.
pub(crate) async fn disable(
    State(site): State<Arc<Site>>,
    Path(user): Path<String>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    set_disabled(&site, &visitor, &user, true).await
}

/// Lets a user sign in again.
pub(crate) async fn enable(
    State(site): State<Arc<Site>>,
    Path(user): Path<String>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    set_disabled(&site, &visitor, &user, false).await
}

async fn set_disabled(site: &Site, visitor: &Visitor, id: &str, disabled: bool) -> PageResult {
    let user = find(site, id).await?;
    let patch = UserPatch {
        disabled: Some(disabled),
        ..UserPatch::default()
    };
    let message = match disabled {
        true => format!("{} is disabled, and every session has ended.", user.name),
        false => format!("{} may sign in again.", user.name),
    };
    change_user(site, visitor, &user, patch, message).await
}

async fn change_user(
    site: &Site,
    visitor: &Visitor,
    user: &User,
    patch: UserPatch<'_>,
    message: String,
) -> PageResult {
    let flash = match site.people.change(&visitor.caller, user, patch).await {
        Ok(()) => Flash::done(message),
        Err(PeopleError::Account(error @ AccountError::LastAdmin)) => {
            Flash::failed(sentence(&error.to_string()))
        }
        Err(error) => return Err(error.into()),
    };
    visitor.flash(flash).await?;
    Ok(Redirect::to(&user_page(user.id)).into_response())
}

/// Shows a new link to choose a password by.
pub(crate) async fn put_link(
    State(site): State<Arc<Site>>,
    Path(user): Path<String>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let user = find(&site, &user).await?;
    let token = site.people.put_link(&visitor.caller, user.id).await?;
    Ok(draw_link(&site, &visitor, user, &token))
}

/// Removes the second factor of somebody who has lost it.
pub(crate) async fn remove_second_factor(
    State(site): State<Arc<Site>>,
    Path(user): Path<String>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let user = find(&site, &user).await?;
    let by = &visitor.caller;
    site.people.remove_second_factor(by, user.id).await?;
    let message = format!("{} signs in with the password alone.", user.name);
    visitor.flash(Flash::done(message)).await?;
    Ok(Redirect::to(&user_page(user.id)).into_response())
}

/// Ends the sessions of a user.
pub(crate) async fn end_sessions(
    State(site): State<Arc<Site>>,
    Path(user): Path<String>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let user = find(&site, &user).await?;
    sessions::end(&site, &visitor, Some(user.id)).await?;
    Ok(Redirect::to(&user_page(user.id)).into_response())
}

/// Asks before a user is deleted.
pub(crate) async fn ask_to_delete(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(user): Path<String>,
) -> PageResult {
    let user = find(&site, &user).await?;
    let accounts = site.people.accounts();
    let sessions = accounts.count_sessions(user.id, visitor.now).await?;
    let sessions = print::plural(sessions, "session", "sessions");
    Ok(draw(&Confirm {
        frame: Frame::new(&visitor, format!("Delete user {}?", user.name)),
        consequences: vec![
            format!("{sessions} would end, and nobody could sign in by this name."),
            "To keep the account and forbid signing in, disable it instead.".to_owned(),
        ],
        button: "Delete",
        dangerous: true,
        back: user_page(user.id),
        action: visitor.path.clone(),
    }))
}

/// Deletes.
pub(crate) async fn delete(
    State(site): State<Arc<Site>>,
    Path(user): Path<String>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let user = find(&site, &user).await?;
    let (accounts, by) = (site.people.accounts(), visitor.caller.clone());
    accounts.delete_user(user.id, by).await?;
    let message = format!("User {} has been deleted.", user.name);
    visitor.flash(Flash::done(message)).await?;
    Ok(Redirect::to("/admin/users").into_response())
}

async fn find(site: &Site, id: &str) -> Result<User, PageError> {
    match id.parse() {
        Ok(number) => find_by_id(site, UserId(number)).await,
        Err(_) => Err(PageError::NotFound(format!("user {id}"))),
    }
}

async fn find_by_id(site: &Site, id: UserId) -> Result<User, PageError> {
    let user = site.people.accounts().user(id).await?;
    user.ok_or_else(|| PageError::NotFound(format!("user {}", id.0)))
}
