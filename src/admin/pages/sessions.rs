//! The pages of sessions: who is signed in, from where, and how to end it.

use crate::admin::action::{Call, name_of};
use crate::admin::error::{PageError, PageResult};
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::answer;
use crate::admin::widgets::{Flash, Time, filters, print};
use crate::store::StoreError;
use crate::store::accounts::{ListedSession, UserId};

/// Sessions on a page: more people than look after one appliance.
pub(crate) const SHOWN_MAX: usize = 200;

/// The sessions of one user, or of everybody; one more than are shown tells that there are more.
pub(crate) async fn sessions_of<S>(
    call: &Call<S>,
    user: Option<UserId>,
) -> Result<Vec<ListedSession>, StoreError> {
    let (accounts, now) = (call.people.accounts(), call.visitor.now);
    accounts.sessions(user, SHOWN_MAX + 1, now).await
}

pub(crate) async fn list(call: Call) -> PageResult {
    answer!("pages/sessions.html", &call.visitor, "Sessions", {
        sessions: Vec<ListedSession> = sessions_of(&call, None).await?,
        recipe: Recipe = Recipe::of(&call, "/everpost/sessions", "everpost admin sessions"),
    })
}

/// Ends every session but the visitor's.
pub(crate) async fn end_all(call: Call) -> PageResult<Flash> {
    Ok(end(&call, None).await?.leading_to("/admin/sessions"))
}

pub(crate) async fn end_others(call: Call) -> PageResult<Flash> {
    let done = end(&call, Some(call.visitor.id)).await?;
    Ok(done.leading_to("/admin/account"))
}

/// Ends the sessions of one user, or of everybody, but the visitor's present one.
pub(crate) async fn end<S>(call: &Call<S>, user: Option<UserId>) -> PageResult<Flash> {
    let (kept, by) = (call.visitor.session_key(), call.by().clone());
    let ended = call.people.accounts().end_sessions(user, kept, by).await?;
    let ended = print::plural(ended, "session has", "sessions have");
    Ok(Flash::done(format!("{ended} been ended.")))
}

/// Ends one session, whoever it belongs to.
pub(crate) async fn end_one(call: Call) -> PageResult<Flash> {
    let (accounts, by) = (call.people.accounts(), call.by().clone());
    let session = name_of(&call.names, "session").to_owned();
    accounts.end_session(session, by).await?;
    Ok(Flash::done("The session has been ended.").leading_to("/admin/sessions"))
}

pub(crate) async fn end_own(call: Call) -> PageResult<Flash> {
    let own = sessions_of(&call, Some(call.visitor.id)).await?;
    let session = name_of(&call.names, "session");
    if own.iter().all(|row| row.id != session) {
        return Err(PageError::NotFound("such session of yours".to_owned()));
    }
    Ok(end_one(call).await?.leading_to("/admin/account"))
}
