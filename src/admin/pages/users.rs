//! The pages of users, for administrators.

use crate::admin::frame::role_title;
use crate::admin::pages::sessions::{self, sessions_of};
use crate::admin::pages::*;
use crate::broker::people::UserPatch;
use crate::store::accounts::{AccountError, SessionRow};

const PATH: &str = "/admin/users";

pub(crate) async fn list(call: Call) -> PageResult {
    let users = call.people.accounts().users().await?;
    let recipe = Recipe::of(&call, "/everpost/users", "everpost admin list");
    answer!("pages/users.html", &call.visitor, "Users", {
        list: List = List::whole(users.len(), ["user", "users"], recipe),
        users: Vec<User> = users,
        site: Arc<Site> = Arc::clone(&call.site),
    })
}

fn state(user: &User, now: Timestamp) -> Badge {
    match (user.disabled_at, has_no_password(user)) {
        (Some(_), _) => Badge::new(Tone::Bad, "Disabled"),
        (None, true) if user.link_expires_at > Some(now) => Badge::new(Tone::Warn, "Invited"),
        (None, true) => Badge::new(Tone::Bad, "Invitation expired"),
        (None, false) => Badge::new(Tone::Good, "Active"),
    }
}

/// Reports whether the user has been invited but has not chosen a password yet.
fn has_no_password(user: &User) -> bool {
    user.source == UserSource::Local && user.password_hash.is_empty()
}

/// A user to create, or the role to give to one.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UserForm {
    name: String,
    role: String,
}

impl UserForm {
    fn with(role: Role) -> Self {
        let (name, role) = (String::new(), role.name().to_owned());
        Self { name, role }
    }
}

impl Sheet<()> for UserForm {
    const HEAD: Head = (Fields::User, "New user", PATH);

    fn begin(_: &Call) -> PageResult<Self> {
        Ok(Self::with(Role::Viewer))
    }

    async fn save(&self, call: &Call) -> PageResult {
        let role = chosen_role(&self.role)?;
        let added = call.people.add(call.by(), self.name.trim(), role, None);
        let (id, token) = added.await?;
        let token = token.expect("without a password there is a link");
        draw_link(call, find(call, id).await?, &token)
    }
}

pub(crate) fn chosen_role(text: &str) -> Result<Role, FormError> {
    Role::parse(text).ok_or_else(|| FormError::of("role", "Choose one of the roles."))
}

fn draw_link<S>(call: &Call<S>, user: User, token: &Secret) -> PageResult {
    let path = format!("/admin/password?token={}", token.reveal());
    answer!("pages/user_link.html", &call.visitor, format!("Password link for {}", user.name), {
        link: String = call.management_url(&path),
        user: User = user,
    })
}

pub(crate) async fn show(call: Call<User>) -> PageResult {
    let User { id, name, role, .. } = &call.of;
    let command = format!("everpost admin show {}", quoted(name));
    answer!("pages/user.html", &call.visitor, format!("User {name}"), {
        form: Filled<UserForm> = Filled::with(UserForm::with(*role)),
        sessions: Vec<SessionRow> = sessions_of(&call, Some(*id)).await?,
        recipe: Recipe = Recipe::of(&call, "/everpost/users", command),
        site: Arc<Site> = Arc::clone(&call.site),
        user: User = call.of,
    })
}

pub(crate) async fn change_role(call: Call<User>) -> PageResult<Flash> {
    let unknown = || PageError::Unreadable("There is no such role.".to_owned());
    let role = Role::parse(call.form.text("role")).ok_or_else(unknown)?;
    if role == call.of.role {
        let said = format!("{} is {} already.", call.of.name, role_title(role));
        return Ok(Flash::unchanged(said));
    }
    let patch = UserPatch {
        role: Some(role),
        ..UserPatch::default()
    };
    change(&call, patch, &format!("has the role {} now", role.name())).await
}

/// Keeps a user out, or lets one in again.
pub(crate) async fn set_disabled(call: Call<User>, disabled: bool) -> PageResult<Flash> {
    let patch = UserPatch {
        disabled: Some(disabled),
        ..UserPatch::default()
    };
    let said = if disabled {
        "is disabled, and every session has ended"
    } else if has_no_password(&call.of) {
        "is enabled, and has not chosen a password yet"
    } else {
        "is enabled, and can sign in again"
    };
    change(&call, patch, said).await
}

async fn change(call: &Call<User>, patch: UserPatch<'_>, said: &str) -> PageResult<Flash> {
    match call.people.change(call.by(), &call.of, patch).await {
        Ok(()) => Ok(Flash::done(format!("{} {said}.", call.of.name))),
        Err(PeopleError::Account(error @ AccountError::LastAdmin)) => {
            Ok(Flash::failed(sentence(&error.to_string())))
        }
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn put_link(call: Call<User>) -> PageResult {
    let token = call.people.put_link(call.by(), call.of.id).await?;
    draw_link(&call, call.of.clone(), &token)
}

impl Subject for User {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        find(site, numbered("user", name_of(names, "user")).map(UserId)?).await
    }

    fn page(&self) -> String {
        format!("{PATH}/{}", self.id.0)
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

async fn find(site: &Site, id: UserId) -> PageResult<User> {
    existing(site.people.accounts().user(id).await?, "user", id.0)
}

/// Removes the second factor of somebody who has lost it.
pub(crate) async fn remove_second_factor(call: Call<User>) -> PageResult<Flash> {
    let User { id, name, .. } = &call.of;
    call.people.remove_second_factor(call.by(), *id).await?;
    let said = format!("{name} signs in with the password alone.");
    Ok(Flash::done(said))
}

pub(crate) async fn end_sessions(call: Call<User>) -> PageResult<Flash> {
    sessions::end(&call, Some(call.of.id)).await
}

impl Deletable for User {
    const NOUN: &'static str = "user";

    async fn losing(call: &Call<Self>, question: Question) -> PageResult<Question> {
        let accounts = call.people.accounts();
        let sessions = accounts.count_sessions(call.of.id, call.visitor.now);
        let sessions = sessions.await?;
        let mut question = question.would(format!("{} can no longer sign in.", call.of.name));
        if sessions > 0 {
            let sessions = print::plural(sessions, "session ends", "sessions end");
            question = question.would(format!("{sessions} at once."));
        }
        Ok(question.would("To keep the account and forbid signing in, disable it instead."))
    }

    async fn delete(call: &Call<Self>) -> PageResult<bool> {
        let accounts = call.people.accounts();
        accounts.delete_user(call.of.id, call.by().clone()).await?;
        Ok(true)
    }
}
