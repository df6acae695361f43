//! Users and API tokens: accounts, roles and passwords.
//!
//! Users choose their own passwords, through a link that works once or while signed in. An operator of the machine
//! can also set a password from the command line.

mod external;
mod password;
mod second_factor;
mod setup_link;
mod sign_in_options;
pub mod sign_ins;
mod throttle;
mod tokens;

use std::net::IpAddr;
use std::time::Duration;

pub use external::GroupRoles;
pub use password::{
    CHARACTERS_MAX as PASSWORD_CHARACTERS_MAX, CHARACTERS_MIN as PASSWORD_CHARACTERS_MIN,
    CHARACTERS_RECOMMENDED as PASSWORD_RECOMMENDED, Crowded,
};

use password::HashPlaces;
use tokio::sync::watch;

pub use setup_link::SetupLink;
pub use sign_in_options::{ByTrustedProxy, ProxyHeaders, SignInOptions};
pub use throttle::TooOften;
pub use tokens::{ApiTokens, NewTokenRequest, TOKEN_DAYS_MAX, TokenHolder};

use crate::base::{Clock, Entropy, Timestamp, problem_of_look, sha256_hex};
use crate::model::access::Secret;
use crate::model::audit::{Actor, Caller};
use crate::store::StoreError;
use crate::store::accounts::{
    AccountError, Accounts, NewPassword, NewUser, PasswordLink, Role, User, UserChange, UserId,
};

/// The maximum number of characters in a user name.
pub const NAME_CHARACTERS_MAX: usize = 64;

/// The lifetime of a password link: three days, to cover a weekend.
pub const LINK_LIFE: Duration = Duration::from_secs(3 * 86_400);

/// Manages users and tokens. Cheap to clone.
#[derive(Clone)]
pub struct People {
    accounts: Accounts,
    tokens: ApiTokens,
    hashes: HashPlaces,
    clock: Clock,
    entropy: Entropy,
    /// Is true once an account has been created since the start.
    has_added: watch::Sender<bool>,
}

/// The changes to a user; `None` leaves a value as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserPatch<'a> {
    pub role: Option<Role>,
    pub disabled: Option<bool>,
    pub password: Option<&'a str>,
    pub removes_second_factor: bool,
}

/// Why a user or a token was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeopleError {
    #[error("the name: {0}")]
    Name(String),
    #[error("the password: {0}")]
    Password(String),
    #[error("the days must be a whole number from 1 to {TOKEN_DAYS_MAX}")]
    Days,
    #[error("the code is another one, or was used already")]
    WrongCode,
    #[error("the link is older than three days, or it was used, or there is a newer one")]
    DeadLink,
    #[error(transparent)]
    Crowded(#[from] Crowded),
    #[error(transparent)]
    Account(#[from] AccountError),
}

impl From<StoreError> for PeopleError {
    fn from(error: StoreError) -> Self {
        Self::Account(AccountError::Store(error))
    }
}

impl People {
    /// Manages the users and tokens of `accounts`.
    pub async fn open(
        accounts: Accounts,
        clock: Clock,
        entropy: Entropy,
    ) -> Result<Self, StoreError> {
        let tokens = ApiTokens::open(accounts.clone(), clock.clone(), entropy.clone());
        Ok(Self {
            tokens: tokens.await?,
            hashes: HashPlaces::default(),
            accounts,
            clock,
            entropy,
            has_added: watch::Sender::new(false),
        })
    }

    /// Returns the API tokens.
    pub fn tokens(&self) -> &ApiTokens {
        &self.tokens
    }

    /// Returns the stored accounts, for queries.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Creates the first user, an admin. Returns `None` if a user exists already.
    pub async fn claim(
        &self,
        by: Caller,
        name: &str,
        password: &str,
    ) -> Result<Option<UserId>, PeopleError> {
        judge_name(name)?;
        judge_password(password, name)?;
        if self.accounts.is_claimed().await? {
            return Ok(None); // and nothing is hashed in vain
        }
        let hash = self.hash(&by, password).await?;
        let made = self.accounts.claim(name.to_owned(), hash, by).await?;
        self.has_added.send_replace(true);
        Ok(made)
    }

    /// Adds a user. Without a password, returns the token of a link by which the user chooses one.
    pub async fn add(
        &self,
        by: &Caller,
        name: &str,
        role: Role,
        password: Option<&str>,
    ) -> Result<(UserId, Option<Secret>), PeopleError> {
        judge_name(name)?;
        let mut new = NewUser {
            name: name.to_owned(),
            password_hash: String::new(),
            role,
            link: None,
        };
        let mut token = None;
        match password {
            Some(password) => {
                judge_password(password, name)?;
                new.password_hash = self.hash(by, password).await?;
            }
            None => {
                let (made, link) = self.new_link();
                (token, new.link) = (Some(made), Some(link));
            }
        }
        let id = self.accounts.add_user(new, by.clone()).await?;
        self.has_added.send_replace(true);
        Ok((id, token))
    }

    /// Waits until any account has been created since the start. The file with the setup link for the first account
    /// can then be removed.
    pub async fn added(&self) {
        let mut added = self.has_added.subscribe();
        // The sender lives as long as `self`.
        let _ = added.wait_for(|added| *added).await;
    }

    /// Applies a patch to a user, all or nothing.
    pub async fn change(
        &self,
        by: &Caller,
        user: &User,
        patch: UserPatch<'_>,
    ) -> Result<(), PeopleError> {
        let password = match patch.password {
            Some(password) => Some(self.new_password(by, user, password, None).await?),
            None => None,
        };
        let change = UserChange {
            role: patch.role,
            disabled: patch.disabled,
            password,
            removes_second_factor: patch.removes_second_factor,
        };
        Ok(self
            .accounts
            .change_user(user.id, change, by.clone())
            .await?)
    }

    /// Creates a link through which the user chooses a password. The link replaces an older one. The current password
    /// stays valid until the user has chosen a new one.
    pub async fn put_link(&self, by: &Caller, id: UserId) -> Result<Secret, PeopleError> {
        let (token, link) = self.new_link();
        self.accounts.put_link(id, link, by.clone()).await?;
        Ok(token)
    }

    fn new_link(&self) -> (Secret, PasswordLink) {
        let token = Secret::new(self.entropy.secret());
        let link = PasswordLink {
            hash: hash_of(&token),
            expires_at: self.now() + LINK_LIFE,
        };
        (token, link)
    }

    /// Returns the user whose password link has this token. Fails if the link has expired or the user is disabled.
    pub async fn user_of_link(&self, token: &Secret) -> Result<User, PeopleError> {
        let found = self.accounts.user_of_link(hash_of(token), self.clock.now());
        let enabled = found.await?.filter(|user| user.disabled_at.is_none());
        enabled.ok_or(PeopleError::DeadLink)
    }

    /// Sets the password of the user of a link. `address` is the address of the user. The link is used up, and all
    /// sessions of the user end.
    pub async fn choose_password(
        &self,
        token: &Secret,
        password: &str,
        address: Option<IpAddr>,
    ) -> Result<User, PeopleError> {
        let user = self.user_of_link(token).await?;
        let by = Caller::user(&user.name, address, self.now());
        let mut new = self.new_password(&by, &user, password, None).await?;
        new.by_link = Some(hash_of(token)); // others may have used it meanwhile
        match self.put_password(&by, &user, new).await {
            Err(PeopleError::Account(AccountError::DeadLink)) => Err(PeopleError::DeadLink),
            done => done.map(|()| user),
        }
    }

    /// Changes the password of a user, and ends all sessions of the user except `kept`.
    pub async fn set_password(
        &self,
        by: &Caller,
        user: &User,
        password: &str,
        kept: Option<String>,
    ) -> Result<(), PeopleError> {
        let new = self.new_password(by, user, password, kept).await?;
        self.put_password(by, user, new).await
    }

    async fn put_password(
        &self,
        by: &Caller,
        user: &User,
        new: NewPassword,
    ) -> Result<(), PeopleError> {
        let change = UserChange {
            password: Some(new),
            ..UserChange::default()
        };
        Ok(self
            .accounts
            .change_user(user.id, change, by.clone())
            .await?)
    }

    async fn new_password(
        &self,
        by: &Caller,
        user: &User,
        password: &str,
        kept_session: Option<String>,
    ) -> Result<NewPassword, PeopleError> {
        judge_password(password, &user.name)?;
        Ok(NewPassword {
            hash: self.hash(by, password).await?,
            kept_session,
            by_link: None,
        })
    }

    /// Hashes a new password, set by a caller who is authorized to set it.
    async fn hash(&self, by: &Caller, password: &str) -> Result<String, Crowded> {
        let place = self.hashes.known(by.actor.clone()).await?;
        Ok(password::hash(place, password.to_owned()).await)
    }

    /// Returns whether `presented` is the password of `user`, who is signed in at `address`. A wrong password counts
    /// as a failed guess.
    pub async fn knows_password<E>(
        &self,
        user: &User,
        presented: &str,
        address: Option<IpAddr>,
    ) -> Result<bool, E>
    where
        E: From<StoreError> + From<TooOften> + From<Crowded>,
    {
        let place = self.hashes.known(Actor::User(user.name.clone())).await?;
        let right = async {
            let (presented, hash) = (presented.to_owned(), user.password_hash.clone());
            let is_right = password::is_right(place, presented, hash).await;
            Ok::<_, E>(is_right.then_some(()))
        };
        let right = self.guess(Some(&user.name), address, right).await?;
        Ok(right.is_some())
    }

    /// Returns the user with this name and password, if the user may sign in. Returning `None` counts as a failed
    /// guess. The response takes as long for a name that does not exist.
    pub async fn authenticate<E>(
        &self,
        name: &str,
        presented: &str,
        address: Option<IpAddr>,
    ) -> Result<Option<User>, E>
    where
        E: From<StoreError> + From<TooOften> + From<Crowded>,
    {
        let place = self.place_to_guess::<E>(name, address).await?;
        let known = async {
            let found = self.accounts.find(name.to_owned()).await?;
            let user = found.filter(|user| !user.password_hash.is_empty());
            let hash = user
                .as_ref()
                .map_or(password::NOBODY, |user| &user.password_hash);
            let (presented, hash) = (presented.to_owned(), hash.to_owned());
            let is_right = password::is_right(place, presented, hash).await;
            Ok::<_, E>(user.filter(|user| is_right && user.disabled_at.is_none()))
        };
        self.guess(Some(name), address, known).await
    }

    /// Returns the current time of the clock that expires links.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// Returns the hash that is stored in place of a random secret, so that the store does not reveal the secret.
fn hash_of(secret: &Secret) -> String {
    sha256_hex(secret.reveal().as_bytes())
}

fn judge_password(password: &str, name: &str) -> Result<(), PeopleError> {
    match password::problem(password, name) {
        Some(problem) => Err(PeopleError::Password(problem)),
        None => Ok(()),
    }
}

fn judge_name(name: &str) -> Result<(), PeopleError> {
    let characters = name.chars().count();
    let has_room = (1..=NAME_CHARACTERS_MAX).contains(&characters);
    let length = || format!("it must have 1 to {NAME_CHARACTERS_MAX} characters");
    let problem = (!has_room).then(length);
    match problem.or_else(|| problem_of_look(name).map(str::to_owned)) {
        None => Ok(()),
        Some(problem) => Err(PeopleError::Name(problem)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::registry::ResourceScope;
    use crate::store::Store;

    impl People {
        /// As many strangers as may wait to sign in, until it is dropped.
        pub(crate) async fn crowd(&self) -> impl Sized {
            self.hashes.crowd().await
        }
    }

    #[test]
    fn names_are_judged() {
        for (name, taken) in [
            ("a", true),
            ("ann.lee+ops@example.com", true),
            ("Jörg", true),
            ("", false),
            ("two words", true),
            (" ann", false),
            ("a\nb", false),
            ("a\u{202e}b", false),
            ("ad\u{200b}min", false),
            (&"x".repeat(65), false),
        ] {
            assert_eq!(judge_name(name).is_ok(), taken, "{name}");
        }
    }

    #[tokio::test]
    async fn a_link_that_is_used_twice_at_once_works_once() {
        let scope = ResourceScope {
            subscription: "s".to_owned(),
            resource_group: "g".to_owned(),
        };
        let accounts = Store::open_inline(scope).expect("a store").accounts;
        let clock = Clock::simulated(Timestamp::from_ms(1_000));
        let people = People::open(accounts, clock, Entropy::seeded(1)).await;
        let people = people.expect("nobody");
        let by = Caller::command_line(people.now());
        let root = people.claim(by.clone(), "root", "correct horse battery");
        root.await.expect("the first user");
        let (id, link) = people
            .add(&by, "ann", Role::Viewer, None)
            .await
            .expect("one");
        let link = link.expect("a link");
        let choose = |password| people.choose_password(&link, password, None);
        let (one, other) =
            tokio::join!(choose("the first password"), choose("the second password"));
        let used = [one, other].map(|each| each.map(|user| user.id));
        assert!(used.contains(&Ok(id)), "{used:?}");
        assert!(used.contains(&Err(PeopleError::DeadLink)), "{used:?}");
    }
}
