//! The pages of sessions: who is signed in, from where, and how to end it.

use crate::admin::page::*;
use crate::admin::security::client::browser_words;
use crate::store::accounts::{SessionRow, UserId};

/// Sessions on a page: more people than look after one appliance.
const SHOWN_MAX: usize = 200;

/// A list of sessions, each with a way to end it.
#[derive(Template)]
#[template(path = "widgets/session_table.html")]
pub(crate) struct SessionTable {
    csrf: String,
    rows: Vec<Row>,
    is_cut: bool,
}

part!(SessionTable);

struct Row {
    id: String,
    user: String,
    is_own: bool,
    is_current: bool,
    browser: String,
    user_agent: String,
    address: String,
    started_at: Time,
    used: String,
    ends_at: Time,
}

impl SessionTable {
    /// The sessions of one user, or of everybody.
    pub(crate) async fn read(
        site: &Site,
        visitor: &Visitor,
        user: Option<UserId>,
    ) -> Result<Self, PageError> {
        let accounts = site.people.accounts();
        let mut rows = accounts.sessions(user, SHOWN_MAX + 1, visitor.now).await?;
        let is_cut = rows.len() > SHOWN_MAX;
        rows.truncate(SHOWN_MAX);
        let current = visitor.session_key();
        Ok(Self {
            csrf: visitor.csrf.clone(),
            rows: rows
                .into_iter()
                .map(|row| Row::new(row, visitor, current.as_deref()))
                .collect(),
            is_cut,
        })
    }

    fn len(&self) -> usize {
        self.rows.len()
    }
}

impl Row {
    fn new(row: SessionRow, visitor: &Visitor, current: Option<&str>) -> Self {
        let user_agent = row.browser.unwrap_or_default();
        Self {
            is_own: row.user == visitor.id,
            is_current: Some(row.id.as_str()) == current,
            id: row.id,
            user: row.user_name,
            browser: browser_words(&user_agent),
            user_agent,
            address: row.address.unwrap_or_default(),
            started_at: Time::relative(row.started_at),
            used: print::relative(row.used_at, visitor.now),
            ends_at: Time::at(row.expires_at),
        }
    }
}

#[derive(Template)]
#[template(path = "pages/sessions.html")]
struct SessionsPage {
    frame: Frame,
    others: String,
    has_others: bool,
    table: SessionTable,
    recipe: Recipe,
}

/// Everybody's sessions.
pub(crate) async fn list(visitor: Visitor, State(site): State<Arc<Site>>) -> PageResult {
    let table = SessionTable::read(&site, &visitor, None).await?;
    let others = table.len().saturating_sub(1);
    Ok(draw(&SessionsPage {
        frame: Frame::new(&visitor, "Sessions"),
        others: print::plural(
            u64::try_from(others).unwrap_or(u64::MAX),
            "other session",
            "other sessions",
        ),
        has_others: others > 0,
        table,
        recipe: Recipe::get(&site.management_url("/everpost/sessions"))
            .everpost("everpost admin sessions"),
    }))
}

/// Ends every session but the visitor's.
pub(crate) async fn end_all(
    State(site): State<Arc<Site>>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let done = end(&site, &visitor, None).await?;
    visitor.leave(done.flash, "/admin/sessions").await
}

/// Ends every session of the visitor but this one.
pub(crate) async fn end_others(
    State(site): State<Arc<Site>>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let done = end(&site, &visitor, Some(visitor.id)).await?;
    visitor.leave(done.flash, "/admin/account").await
}

/// Ends the sessions of one user, or of everybody, but the visitor's present one.
pub(crate) async fn end(
    site: &Site,
    visitor: &Visitor,
    user: Option<UserId>,
) -> Result<Done, PageError> {
    let kept = visitor.session_key();
    let accounts = site.people.accounts();
    let ended = accounts
        .end_sessions(user, kept, visitor.caller.clone())
        .await?;
    let ended = print::plural(
        u64::try_from(ended).unwrap_or(u64::MAX),
        "session has",
        "sessions have",
    );
    Ok(Done::well(format!("{ended} been ended.")))
}

/// Ends one session, whoever it belongs to.
pub(crate) async fn end_one(
    State(site): State<Arc<Site>>,
    Path(session): Path<String>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let (accounts, by) = (site.people.accounts(), visitor.caller.clone());
    accounts.end_session(session, by).await?;
    let said = Flash::done("The session has been ended.");
    visitor.leave(said, "/admin/sessions").await
}

/// Ends one of the visitor's own sessions.
pub(crate) async fn end_own(
    State(site): State<Arc<Site>>,
    Path(session): Path<String>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let (accounts, by) = (site.people.accounts(), visitor.caller.clone());
    let own = accounts.sessions(Some(visitor.id), SHOWN_MAX, visitor.now);
    if !own.await?.iter().any(|row| row.id == session) {
        return Err(PageError::NotFound("such session of yours".to_owned()));
    }
    accounts.end_session(session, by).await?;
    let said = Flash::done("The session has been ended.");
    visitor.leave(said, "/admin/account").await
}
