//! The pages of sessions: who is signed in, from where, and how to end it.

use crate::admin::page::*;
use crate::store::StoreError;
use crate::store::accounts::{SessionRow, UserId};

/// Sessions on a page: more people than look after one appliance.
const SHOWN_MAX: usize = 200;

#[derive(Template)]
#[template(path = "widgets/session_table.html")]
pub(crate) struct SessionTable {
    rows: Vec<SessionRow>,
    visitor: Visitor,
}

part!(SessionTable);

impl SessionTable {
    /// The sessions of one user, or of everybody.
    pub(crate) async fn read<S>(call: &Call<S>, user: Option<UserId>) -> Result<Self, StoreError> {
        let (accounts, now) = (call.people.accounts(), call.visitor.now);
        Ok(Self {
            rows: accounts.sessions(user, SHOWN_MAX + 1, now).await?,
            visitor: call.visitor.clone(),
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

pub(crate) async fn list(call: Call) -> PageResult {
    let recipe = Recipe::get(&call.management_url("/everpost/sessions"));
    Ok(draw(&SessionsPage {
        frame: Frame::new(&call.visitor, "Sessions"),
        table: SessionTable::read(&call, None).await?,
        recipe: recipe.everpost("everpost admin sessions"),
    }))
}

/// Ends every session but the visitor's.
pub(crate) async fn end_all(call: Call) -> PageResult<Done> {
    Ok(end(&call, None).await?.leading_to("/admin/sessions"))
}

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
    let (accounts, by) = (call.people.accounts(), call.by().clone());
    let session = name_of(&call.names, "session").to_owned();
    accounts.end_session(session, by).await?;
    Ok(Done::well("The session has been ended.").leading_to("/admin/sessions"))
}

pub(crate) async fn end_own(call: Call) -> PageResult<Done> {
    let own = SessionTable::read(&call, Some(call.visitor.id)).await?.rows;
    let session = name_of(&call.names, "session");
    if !own.iter().any(|row| row.id == session) {
        return Err(PageError::NotFound("such session of yours".to_owned()));
    }
    Ok(end_one(call).await?.leading_to("/admin/account"))
}
