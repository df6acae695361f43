//! Who is signed in: sessions in the database, by a cookie that no script can read.
//!
//! A session ends half an hour after the last request and in any case twelve hours after signing in,
//! by our own clock. The database knows the hash of its id alone (docs/security.md B3).

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Redirect};
use http::HeaderMap;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use tower_sessions::cookie::SameSite;
use tower_sessions::session::{Id, Record};
use tower_sessions::session_store::{Error, Result};
use tower_sessions::{Expiry, Session, SessionManagerLayer, SessionStore};

use crate::admin::error::{PageError, PageResult};
use crate::admin::reader::{Reader, ReadingUser};
use crate::admin::security::client::{Client, cookie};
use crate::admin::site::Site;
use crate::admin::sitemap::SiteMap;
use crate::admin::standing::Standing;
use crate::admin::widgets::Flash;
use crate::admin::zone::Zone;
use crate::base::{Clock, Entropy, Timestamp, sha256_hex};
use crate::model::audit::Caller;
use crate::store::StoreError;
#[cfg(test)]
use crate::store::accounts::Role;
use crate::store::accounts::{Accounts, SessionRecord, User, UserId};

/// How long a session lives without requests (docs/security.md B3).
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);

/// How long a session lives at most (docs/security.md B3).
const LIFE_MAX: Duration = Duration::from_secs(12 * 3_600);

/// A session is written down again after this long, so that not every page view is a write.
const TOUCHED_EVERY: Duration = Duration::from_secs(60);

/// The cookie; tied to the host where browsers come over TLS, which plain HTTP does not allow.
const COOKIE: &str = "everpost_session";
const COOKIE_OF_HOST: &str = "__Host-everpost_session";

/// Keys in a session's record.
const SIGNED_IN: &str = "signed_in";
const AWAITED: &str = "awaited";
const FLASH: &str = "flash";

/// What a session remembers about who signed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SignedIn {
    user: i64,
    /// Every form carries it; see [`crate::admin::security::csrf`].
    csrf: String,
    started_ms: i64,
    /// When the password was typed last.
    #[serde(default)]
    confirmed_ms: i64,
    touched_ms: i64,
    address: Option<IpAddr>,
    browser: Option<String>,
}

/// Somebody signed in, with the request that they make.
#[derive(Clone)]
pub(crate) struct Visitor {
    pub(crate) user: Arc<User>,
    pub(crate) csrf: String,
    /// When the password was typed last.
    pub(crate) confirmed_at: Timestamp,
    /// When the request came in.
    pub(crate) now: Timestamp,
    /// The path of the request, `/admin` included.
    pub(crate) path: String,
    /// The same with its query.
    pub(crate) address: String,
    /// What the last action has to say.
    pub(crate) flash: Option<Flash>,
    /// Whether the page can be read again: it answers no form.
    pub(crate) only_reads: bool,
    /// Which pages there are.
    pub(crate) map: &'static SiteMap,
    /// For what the visitor does.
    pub(crate) caller: Caller,
    pub(crate) standing: Arc<Standing>,
    session: Session,
}

impl Deref for Visitor {
    type Target = User;

    fn deref(&self) -> &User {
        &self.user
    }
}

impl Visitor {
    /// Whether the visitor may see what events carry.
    pub(crate) fn sees_data(&self) -> bool {
        self.role.sees_data()
    }

    /// Whether the visitor may look at the page at `path`.
    pub(crate) fn may_open(&self, path: &str) -> bool {
        self.map.opens(path, self.role)
    }

    /// Whether the visitor may send the form at `path`.
    pub(crate) fn may_send(&self, path: &str) -> bool {
        self.map.sends(path, self.role)
    }

    /// The next step on an empty page, if it is one for the visitor.
    pub(crate) fn step(
        &self,
        path: impl Into<String>,
        title: &'static str,
    ) -> Option<(String, &'static str)> {
        let path = path.into();
        self.may_open(&path).then_some((path, title))
    }

    /// What the book of sessions knows this one by.
    pub(crate) fn session_key(&self) -> Option<String> {
        self.session.id().as_ref().map(key)
    }

    /// Remembers that the password was typed just now.
    pub(crate) async fn confirm(&self) -> PageResult<()> {
        let signed_in = self.session.get::<SignedIn>(SIGNED_IN).await?;
        let mut signed_in = signed_in.ok_or(PageError::SignedOut)?;
        signed_in.confirmed_ms = self.now.as_ms();
        Ok(self.session.insert(SIGNED_IN, signed_in).await?)
    }

    /// Goes to `page`, which shows `flash`.
    pub(crate) async fn leave(&self, flash: Flash, page: &str) -> PageResult {
        self.flash(flash).await?;
        Ok(Redirect::to(page).into_response())
    }

    /// Has `flash` shown on the next page.
    pub(crate) async fn flash(&self, flash: Flash) -> PageResult<()> {
        Ok(self.session.insert(FLASH, flash).await?)
    }

    /// The same, with what the last action had to say, which is then forgotten.
    pub(crate) async fn with_flash(mut self) -> PageResult<Self> {
        self.flash = self.session.remove(FLASH).await?;
        Ok(self)
    }

    /// The same for every part of the page.
    pub(crate) fn as_reader(&self) -> Reader {
        let before = Reader::current();
        let zone = self.time_zone.as_deref().and_then(Zone::named);
        Reader {
            theme: before.theme,
            zone: zone.unwrap_or_else(|| before.zone.clone()),
            now: self.now,
            user: Some(ReadingUser {
                role: self.role,
                csrf: self.csrf.clone(),
                map: self.map,
            }),
        }
    }
}

/// The visitor that the gate has let in.
impl<S: Sync> FromRequestParts<S> for Visitor {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> PageResult<Self> {
        let visitor = parts.extensions.get::<Visitor>();
        visitor.cloned().ok_or(PageError::SignedOut)
    }
}

/// Puts a session at the handlers' disposal.
pub(crate) fn layer(site: &Arc<Site>) -> SessionManagerLayer<Sessions> {
    let sessions = Sessions {
        accounts: site.people.accounts().clone(),
        clock: site.broker.clock().clone(),
        entropy: site.broker.entropy().clone(),
    };
    let secure = site.is_https();
    SessionManagerLayer::new(sessions)
        .with_name(if secure { COOKIE_OF_HOST } else { COOKIE })
        .with_secure(secure)
        .with_path(if secure { "/" } else { "/admin" })
        .with_http_only(true)
        .with_same_site(SameSite::Lax)
        .with_expiry(Expiry::OnSessionEnd) // of the browser's; ours are looked at here
}

/// Whether a browser brings the cookie of a session, which may have ended.
pub(crate) fn is_brought(headers: &HeaderMap) -> bool {
    [COOKIE, COOKIE_OF_HOST]
        .into_iter()
        .any(|name| cookie(headers, name).is_some())
}

/// How long a second factor may be looked for after the password.
const CODE_WAIT_MAX: Duration = Duration::from_secs(10 * 60);

/// What a session remembers of somebody whose password was right and whose code is still missing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Awaited {
    user: i64,
    since_ms: i64,
    pub(crate) csrf: String,
    /// The page that was asked for.
    pub(crate) next: String,
}

impl Awaited {
    pub(crate) fn user(&self) -> UserId {
        UserId(self.user)
    }
}

/// Remembers under a new id that the password of `user` was right.
pub(crate) async fn await_code(
    site: &Site,
    session: &Session,
    user: UserId,
    next: &str,
) -> PageResult<()> {
    session.flush().await?;
    let awaited = Awaited {
        user: user.0,
        since_ms: site.broker.clock().now().as_ms(),
        csrf: site.broker.entropy().secret(),
        next: next.to_owned(),
    };
    Ok(session.insert(AWAITED, awaited).await?)
}

/// Whose code is awaited, if that was not too long ago.
pub(crate) async fn awaited(site: &Site, session: &Session) -> PageResult<Option<Awaited>> {
    let awaited = session.get::<Awaited>(AWAITED).await?;
    let now = site.broker.clock().now();
    let is_fresh = |each: &Awaited| now.since(Timestamp::from_ms(each.since_ms)) < CODE_WAIT_MAX;
    Ok(awaited.filter(is_fresh))
}

/// Signs `user` in, under a new id whatever the browser came with.
pub(crate) async fn sign_in(
    site: &Site,
    session: &Session,
    user: &User,
    client: Client,
) -> PageResult<()> {
    session.flush().await?;
    let now = site.broker.clock().now();
    let by = Caller::user(&user.name, client.address, now);
    site.people.accounts().note_sign_in(user.id, by).await?;
    let signed_in = SignedIn {
        user: user.id.0,
        csrf: site.broker.entropy().secret(),
        started_ms: now.as_ms(),
        confirmed_ms: now.as_ms(),
        touched_ms: now.as_ms(),
        address: client.address,
        browser: client.browser,
    };
    Ok(session.insert(SIGNED_IN, signed_in).await?)
}

/// Who makes the request for `address`; `None` for nobody that we know. A request that no reader made does not
/// keep the session alive.
pub(crate) async fn visitor(
    site: &Site,
    session: Session,
    address: String,
    client: &Client,
    by_reader: bool,
) -> PageResult<Option<Visitor>> {
    let Some(mut signed_in) = session.get::<SignedIn>(SIGNED_IN).await? else {
        return Ok(None);
    };
    let user = site.people.accounts().user(UserId(signed_in.user)).await?;
    let Some(user) = user.filter(|user| user.disabled_at.is_none()) else {
        return Ok(None);
    };
    let now = site.broker.clock().now();
    if by_reader && now.since(Timestamp::from_ms(signed_in.touched_ms)) >= TOUCHED_EVERY {
        signed_in.touched_ms = now.as_ms();
        session.insert(SIGNED_IN, &signed_in).await?;
    }
    Ok(Some(Visitor {
        caller: Caller::user(&user.name, client.address, now),
        user: Arc::new(user),
        csrf: signed_in.csrf,
        confirmed_at: Timestamp::from_ms(signed_in.confirmed_ms),
        now,
        path: address.split('?').next().unwrap_or_default().to_owned(),
        address,
        flash: None,
        only_reads: false,
        map: site.map,
        standing: Arc::default(),
        session,
    }))
}

#[cfg(test)]
impl Visitor {
    /// Somebody with that role, for whom nothing is remembered.
    pub(crate) fn with_role(role: Role) -> Self {
        let user = User {
            id: UserId(1),
            name: "somebody".to_owned(),
            password_hash: String::new(),
            role,
            created_at: Timestamp::from_ms(0),
            disabled_at: None,
            signed_in_at: None,
            link_expires_at: None,
            has_second_factor: false,
            time_zone: None,
        };
        let nowhere = Arc::new(tower_sessions::MemoryStore::default());
        let now = Timestamp::from_ms(0);
        Self {
            caller: Caller::user(&user.name, None, now),
            user: Arc::new(user),
            csrf: String::new(),
            confirmed_at: now,
            now,
            path: String::new(),
            address: String::new(),
            flash: None,
            only_reads: false,
            map: Box::leak(Box::new(SiteMap::new([]))),
            standing: Arc::default(),
            session: Session::new(None, nowhere, None),
        }
    }
}

/// The sessions in the database.
#[derive(Clone)]
pub(crate) struct Sessions {
    accounts: Accounts,
    clock: Clock,
    entropy: Entropy,
}

impl Sessions {
    /// What the book keeps of the session of `record`, used at `now`.
    fn kept(record: &Record, now: Timestamp) -> Result<SessionRecord> {
        let signed_in = record.data.get(SIGNED_IN);
        let signed_in = signed_in.and_then(|value| SignedIn::deserialize(value).ok());
        let of_user = signed_in.as_ref();
        let moment = |ms: fn(&SignedIn) -> i64| of_user.map(ms).map_or(now, Timestamp::from_ms);
        let started_at = moment(|each| each.started_ms);
        Ok(SessionRecord {
            id: key(&record.id),
            record: serde_json::to_string(&record.data)
                .map_err(|error| Error::Encode(error.to_string()))?,
            started_at,
            used_at: moment(|each| each.touched_ms),
            expires_at: (now + IDLE_MAX).min(started_at + LIFE_MAX),
            user: of_user.map(|each| UserId(each.user)),
            address: of_user.and_then(|each| Some(each.address?.to_string())),
            browser: signed_in.and_then(|each| each.browser),
        })
    }
}

#[async_trait]
impl SessionStore for Sessions {
    async fn create(&self, record: &mut Record) -> Result<()> {
        let mut id = [0; 16];
        self.entropy.fill(&mut id);
        record.id = Id(i128::from_le_bytes(id));
        let kept = Self::kept(record, self.clock.now())?;
        self.accounts.add_session(kept).await.map_err(backend)
    }

    async fn save(&self, record: &Record) -> Result<()> {
        let kept = Self::kept(record, self.clock.now())?;
        self.accounts.save_session(kept).await.map_err(backend)
    }

    async fn load(&self, id: &Id) -> Result<Option<Record>> {
        let now = self.clock.now();
        let found = self.accounts.session(key(id), now).await;
        let Some(text) = found.map_err(backend)? else {
            return Ok(None);
        };
        let data = serde_json::from_str(&text).map_err(|error| Error::Decode(error.to_string()))?;
        Ok(Some(Record {
            id: *id,
            data,
            expiry_date: (now + IDLE_MAX).to_utc(),
        }))
    }

    async fn delete(&self, id: &Id) -> Result<()> {
        self.accounts.delete_session(key(id)).await.map_err(backend)
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sessions")
    }
}

/// What the database knows a session by: whoever reads it there cannot make the cookie from it.
fn key(id: &Id) -> String {
    sha256_hex(&id.0.to_le_bytes())
}

#[allow(clippy::needless_pass_by_value, reason = "what map_err gives")]
fn backend(error: StoreError) -> Error {
    Error::Backend(error.to_string())
}
