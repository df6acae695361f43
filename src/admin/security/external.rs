//! People whom an OpenID Connect provider or a reverse proxy vouches for: who gets in, and what the others are told.

use crate::admin::error::PageResult;
use crate::admin::security::client::Client;
use crate::admin::site::Site;
use crate::admin::widgets::print;
use crate::broker::people::PeopleError;
use crate::model::audit::Caller;
use crate::model::identity::Identity;
use crate::store::accounts::{AccountError, User};

/// The user of `identity`, or the reason that there is none, as a sentence for that person.
pub(crate) async fn admit(
    site: &Site,
    client: &Client,
    identity: &Identity,
) -> PageResult<Result<User, String>> {
    let (name, now) = (&identity.name, site.people.now());
    let by = Caller::user(name, client.address, now);
    let reason = match site.sign_in.roles.role_of(&identity.groups) {
        None => without_role(identity),
        Some(role) => match site.people.admit(&by, identity, role).await {
            Ok(user) => return Ok(Ok(user)),
            Err(PeopleError::Account(AccountError::Store(error))) => return Err(error.into()),
            Err(PeopleError::Account(AccountError::NameTaken)) => format!(
                "another user is called {name} here already, whom an administrator has to delete first"
            ),
            Err(error) => error.to_string(),
        },
    };
    let source = site.sign_in.source_in_words(identity.source);
    if site.sign_ins.is_first_rejection(&identity.subject, now) {
        let people = &site.people;
        people.record_rejection(&by, name, reason.clone()).await?;
    }
    Ok(Err(format!(
        "You are signed in with {source} as {name}, but not here: {reason}."
    )))
}

fn without_role(identity: &Identity) -> String {
    let groups = match identity.groups.as_slice() {
        [] => "and no group is told".to_owned(),
        groups => format!("the groups are {}", print::listed(groups)),
    };
    format!("none of your groups has the role viewer, operator or admin; {groups}")
}
