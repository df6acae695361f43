//! The pages of users, for administrators.

use crate::admin::forms::field::{Field, Section};
use crate::admin::forms::form_page::FormPage;
use crate::admin::lists::recipe::quoted;
use crate::admin::page::*;
use crate::admin::pages::sessions;
use crate::admin::pages::sessions::SessionTable;
use crate::broker::people::{NAME_CHARACTERS_MAX, PeopleError, UserPatch};
use crate::model::access::Secret;
use crate::store::accounts::{AccountError, User, UserId};

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
    users: Vec<User>,
    own: UserId,
    now: Timestamp,
}

impl UsersPage {
    fn state(&self, user: &User) -> Badge {
        state(user, self.now).bare()
    }
}

/// All users.
pub(crate) async fn list(visitor: Visitor, State(site): State<Arc<Site>>) -> PageResult {
    let users = site.people.accounts().users().await?;
    Ok(draw(&UsersPage {
        frame: Frame::new(&visitor, "Users"),
        list: List::whole(
            "/admin/users",
            print::plural(users.len() as u64, "user", "users"),
            Recipe::get(&site.management_url("/everpost/users")).everpost("everpost admin list"),
        ),
        users,
        own: visitor.id,
        now: visitor.now,
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
            let user = find(&site, id).await?;
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
    user: User,
    is_own: bool,
    state: Badge,
    role_field: Field,
    link_until: Option<Timestamp>,
    sessions: SessionTable,
    recipe: Recipe,
}

/// One user.
pub(crate) async fn show(
    Call {
        site,
        visitor,
        of: user,
        ..
    }: Call<User>,
) -> PageResult {
    let role = Form::of([("role", user.role.name().to_owned())]);
    let link_until = user.link_expires_at.filter(|at| *at > visitor.now);
    let by_name = format!("everpost admin show {}", quoted(&user.name));
    Ok(draw(&UserPage {
        frame: Frame::new(&visitor, format!("User {}", user.name)),
        is_own: user.id == visitor.id,
        state: state(&user, visitor.now),
        role_field: Field::choice("role", "Role", &ROLES, &role),
        link_until,
        sessions: SessionTable::read(&site, &visitor, Some(user.id)).await?,
        recipe: Recipe::get(&site.management_url("/everpost/users")).everpost(by_name),
        user,
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
pub(crate) async fn put_link(
    State(site): State<Arc<Site>>,
    Call { of, visitor, .. }: Call<User>,
) -> PageResult {
    let token = site.people.put_link(&visitor.caller, of.id).await?;
    Ok(draw_link(&site, &visitor, of, &token))
}

impl Subject for User {
    async fn find(site: &Site, names: &Names) -> Result<Self, PageError> {
        let id = name_of(names, "user");
        let missing = || PageError::NotFound(format!("user {id}"));
        let number = id.parse().map(UserId).map_err(|_| missing())?;
        find(site, number).await
    }

    fn page(&self) -> String {
        user_page(self.id)
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
    let user = &call.of;
    call.people.remove_second_factor(call.by(), user.id).await?;
    Ok(Done::well(format!(
        "{} signs in with the password alone.",
        user.name
    )))
}

/// Ends the sessions of a user.
pub(crate) async fn end_sessions(call: Call<User>) -> PageResult<Done> {
    sessions::end(&call.site, &call.visitor, Some(call.of.id)).await
}

pub(crate) async fn ask_to_delete(call: Call<User>) -> PageResult<Question> {
    let (accounts, user) = (call.people.accounts(), &call.of);
    let sessions = accounts.count_sessions(user.id, call.visitor.now).await?;
    let sessions = print::plural(sessions, "session", "sessions");
    Ok(Question::new(format!("Delete user {}?", user.name))
        .would(format!(
            "{sessions} would end, and nobody could sign in by this name."
        ))
        .would("To keep the account and forbid signing in, disable it instead.")
        .dangerously())
}

pub(crate) async fn delete(call: Call<User>) -> PageResult<Done> {
    let user = &call.of;
    call.people
        .accounts()
        .delete_user(user.id, call.by().clone())
        .await?;
    Ok(Done::well(format!("User {} has been deleted.", user.name)).leading_to("/admin/users"))
}

async fn find(site: &Site, id: UserId) -> Result<User, PageError> {
    let user = site.people.accounts().user(id).await?;
    user.ok_or_else(|| PageError::NotFound(format!("user {}", id.0)))
}
