//! The pages of sessions: who is signed in, from where, and how to end it.

use crate::admin::page::*;
use crate::store::StoreError;
use crate::store::accounts::{SessionRow, UserId};

/// Sessions on a page: more people than look after one appliance.
const SHOWN_MAX: usize = 200;

/// A list of sessions, each with a way to end it.
#[derive(Template)]
#[template(path = "widgets/session_table.html")]
pub(crate) struct SessionTable {
    csrf: String,
    rows: Vec<SessionRow>,
    own: UserId,
    /// The session of the visitor.
    current: Option<String>,
}

part!(SessionTable);

impl SessionTable {
    /// The sessions of one user, or of everybody.
    pub(crate) async fn read(
        site: &Site,
        visitor: &Visitor,
        user: Option<UserId>,
    ) -> Result<Self, StoreError> {
        let sessions = site
            .people
            .accounts()
            .sessions(user, SHOWN_MAX + 1, visitor.now);
        Ok(Self {
            csrf: visitor.csrf.clone(),
            rows: sessions.await?,
            own: visitor.id,
            current: visitor.session_key(),
        })
    }
}

#[derive(Template)]
#[template(path = "pages/sessions.html")]
struct SessionsPage {
    frame: Frame,
    table: SessionTable,
    recipe: Recipe,
}

/// Everybody's sessions.
pub(crate) async fn list(Call { site, visitor, .. }: Call) -> PageResult {
    let recipe = Recipe::get(&site.management_url("/everpost/sessions"));
    Ok(draw(&SessionsPage {
        frame: Frame::new(&visitor, "Sessions"),
        table: SessionTable::read(&site, &visitor, None).await?,
        recipe: recipe.everpost("everpost admin sessions"),
    }))
}

/// Ends every session but the visitor's.
pub(crate) async fn end_all(call: Call) -> PageResult<Done> {
    Ok(end(&call, None).await?.leading_to("/admin/sessions"))
}

/// Ends every session of the visitor but this one.
pub(crate) async fn end_others(call: Call) -> PageResult<Done> {
    let done = end(&call, Some(call.visitor.id)).await?;
    Ok(done.leading_to("/admin/account"))
}

/// Ends the sessions of one user, or of everybody, but the visitor's present one.
pub(crate) async fn end<S>(call: &Call<S>, user: Option<UserId>) -> PageResult<Done> {
    let (kept, by) = (call.visitor.session_key(), call.by().clone());
    let ended = call.people.accounts().end_sessions(user, kept, by).await?;
    let ended = print::plural(ended as u64, "session has", "sessions have");
    Ok(Done::well(format!("{ended} been ended.")))
}

/// Ends one session, whoever it belongs to.
pub(crate) async fn end_one(call: Call) -> PageResult<Done> {
    let (accounts, session) = (call.people.accounts(), name_of(&call.names, "session"));
    accounts
        .end_session(session.to_owned(), call.by().clone())
        .await?;
    Ok(Done::well("The session has been ended.").leading_to("/admin/sessions"))
}

/// Ends one of the visitor's own sessions.
pub(crate) async fn end_own(call: Call) -> PageResult<Done> {
    let (id, now) = (call.visitor.id, call.visitor.now);
    let own = call
        .people
        .accounts()
        .sessions(Some(id), SHOWN_MAX, now)
        .await?;
    let session = name_of(&call.names, "session");
    if !own.iter().any(|row| row.id == session) {
        return Err(PageError::NotFound("such session of yours".to_owned()));
    }
    Ok(end_one(call).await?.leading_to("/admin/account"))
}
