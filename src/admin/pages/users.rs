//! The pages of users, for administrators.

use serde::{Deserialize, Serialize};

use crate::admin::bare::draw_with;
use crate::admin::forms::filled::Filled;
use crate::admin::lists::recipe::quoted;
use crate::admin::page::*;
use crate::admin::pages::sessions::{self, SessionTable};
use crate::admin::security::open_form::fault;
use crate::broker::people::{PeopleError, UserPatch};
use crate::model::access::Secret;
use crate::store::accounts::{AccountError, User, UserId};

#[derive(Template)]
#[template(path = "pages/users.html")]
struct UsersPage {
    frame: Frame,
    list: List,
    users: Vec<User>,
    visitor: Visitor,
}

/// All users.
pub(crate) async fn list(Call { site, visitor, .. }: Call) -> PageResult {
    let users = site.people.accounts().users().await?;
    let shown = print::plural(users.len() as u64, "user", "users");
    let recipe = Recipe::get(&site.management_url("/everpost/users"));
    Ok(draw(&UsersPage {
        frame: Frame::new(&visitor, "Users"),
        list: List::whole(
            "/admin/users",
            shown,
            recipe.everpost("everpost admin list"),
        ),
        users,
        visitor,
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

/// A user to create, or the role to give to one.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct UserForm {
    name: String,
    role: String,
}

impl UserForm {
    fn with(role: Role) -> Filled<Self> {
        Filled::with(Self {
            name: String::new(),
            role: role.name().to_owned(),
        })
    }
}

#[derive(Template)]
#[template(path = "pages/new_user.html")]
struct NewUserPage {
    frame: Frame,
    form: Filled<UserForm>,
}

/// The form for a new user.
pub(crate) async fn draft(visitor: Visitor) -> Response {
    draw_form(&visitor, UserForm::with(Role::Viewer))
}

fn draw_form(visitor: &Visitor, form: Filled<UserForm>) -> Response {
    let frame = Frame::new(visitor, "New user");
    draw_with(form.status(), &NewUserPage { frame, form })
}

/// Makes a user, and shows the link to pass on.
pub(crate) async fn create(call: Call) -> PageResult {
    let form = Filled::<UserForm>::sent(&call.form);
    let UserForm { name, role } = &form.values;
    let fault = match Role::parse(role) {
        None => Refusal::of("role", "Choose one of the roles."),
        Some(role) => match call.people.add(call.by(), name.trim(), role, None).await {
            Ok((id, token)) => {
                let token = token.expect("without a password there is a link");
                return draw_link(&call, id, &token).await;
            }
            Err(error) => fault(error)?,
        },
    };
    Ok(draw_form(&call.visitor, form.with_faults([fault])))
}

#[derive(Template)]
#[template(path = "pages/user_link.html")]
struct LinkPage {
    frame: Frame,
    user: User,
    link: String,
}

async fn draw_link<S>(call: &Call<S>, id: UserId, token: &Secret) -> PageResult {
    let user = find(call, id).await?;
    let (site, token) = (call.public_url(), token.reveal());
    Ok(draw(&LinkPage {
        frame: Frame::new(&call.visitor, format!("Link for {}", user.name)),
        user,
        link: format!("{site}/admin/password?token={token}"),
    }))
}

#[derive(Template)]
#[template(path = "pages/user.html")]
struct UserPage {
    frame: Frame,
    user: User,
    visitor: Visitor,
    form: Filled<UserForm>,
    sessions: SessionTable,
    recipe: Recipe,
}

/// One user.
pub(crate) async fn show(call: Call<User>) -> PageResult {
    let by_name = format!("everpost admin show {}", quoted(&call.of.name));
    Ok(draw(&UserPage {
        frame: Frame::new(&call.visitor, format!("User {}", call.of.name)),
        form: UserForm::with(call.of.role),
        sessions: SessionTable::read(&call, &call.visitor, Some(call.of.id)).await?,
        recipe: Recipe::get(&call.management_url("/everpost/users")).everpost(by_name),
        user: call.of,
        visitor: call.visitor,
    }))
}

/// Gives a user another role.
pub(crate) async fn change_role(call: Call<User>) -> PageResult<Done> {
    let unknown = || PageError::Unreadable("There is no such role.".to_owned());
    let role = Role::parse(call.form.text("role")).ok_or_else(unknown)?;
    let patch = UserPatch {
        role: Some(role),
        ..UserPatch::default()
    };
    let message = format!("{} has the role {} now.", call.of.name, role.name());
    change(&call, patch, message).await
}

async fn change(call: &Call<User>, patch: UserPatch<'_>, message: String) -> PageResult<Done> {
    match call.people.change(call.by(), &call.of, patch).await {
        Ok(()) => Ok(Done::well(message)),
        Err(PeopleError::Account(error @ AccountError::LastAdmin)) => {
            Ok(Done::failed(sentence(&error.to_string())))
        }
        Err(error) => Err(error.into()),
    }
}

/// Shows a new link to choose a password by.
pub(crate) async fn put_link(call: Call<User>) -> PageResult {
    let token = call.people.put_link(call.by(), call.of.id).await?;
    draw_link(&call, call.of.id, &token).await
}

impl Subject for User {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        let id = name_of(names, "user");
        let missing = || PageError::NotFound(format!("user {id}"));
        let number = id.parse().map(UserId).map_err(|_| missing())?;
        find(site, number).await
    }

    fn page(&self) -> String {
        format!("/admin/users/{}", self.id.0)
    }
}

/// Forbids a user to sign in.
pub(crate) async fn disable(call: Call<User>) -> PageResult<Done> {
    let message = format!("{} is disabled, and every session has ended.", call.of.name);
    set_disabled(&call, true, message).await
}

/// Lets a user sign in again.
pub(crate) async fn enable(call: Call<User>) -> PageResult<Done> {
    let message = format!("{} may sign in again.", call.of.name);
    set_disabled(&call, false, message).await
}

async fn set_disabled(call: &Call<User>, disabled: bool, message: String) -> PageResult<Done> {
    let patch = UserPatch {
        disabled: Some(disabled),
        ..UserPatch::default()
    };
    change(call, patch, message).await
}

/// Removes the second factor of somebody who has lost it.
pub(crate) async fn remove_second_factor(call: Call<User>) -> PageResult<Done> {
    let User { id, name, .. } = &call.of;
    call.people.remove_second_factor(call.by(), *id).await?;
    Ok(Done::well(format!(
        "{name} signs in with the password alone."
    )))
}

/// Ends the sessions of a user.
pub(crate) async fn end_sessions(call: Call<User>) -> PageResult<Done> {
    sessions::end(&call, Some(call.of.id)).await
}

pub(crate) async fn ask_to_delete(call: Call<User>) -> PageResult<Question> {
    let User { id, name, .. } = &call.of;
    let sessions = call.people.accounts().count_sessions(*id, call.visitor.now);
    let sessions = print::plural(sessions.await?, "session", "sessions");
    let would = format!("{sessions} would end, and nobody could sign in by this name.");
    Ok(Question::new(format!("Delete user {name}?"))
        .would(would)
        .would("To keep the account and forbid signing in, disable it instead.")
        .dangerously())
}

pub(crate) async fn delete(call: Call<User>) -> PageResult<Done> {
    let User { id, name, .. } = &call.of;
    let accounts = call.people.accounts();
    accounts.delete_user(*id, call.by().clone()).await?;
    Ok(Done::well(format!("User {name} has been deleted.")).leading_to("/admin/users"))
}

async fn find(site: &Site, id: UserId) -> PageResult<User> {
    let user = site.people.accounts().user(id).await?;
    user.ok_or_else(|| PageError::NotFound(format!("user {}", id.0)))
}
