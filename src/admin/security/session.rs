//! Sessions of signed-in users, stored in the database and identified by a cookie that scripts cannot read.
//!
//! A session ends half an hour after the last request and at most twelve hours after signing in, by the server's clock.
//! The database stores only the hash of the session id (docs/security.md B3).

use std::fmt;
use std::fmt::Display;
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
use crate::admin::reader::{PageReader, ReadingUser};
use crate::admin::security::client::{Client, cookie};
use crate::admin::site::Site;
use crate::admin::sitemap::SiteMap;
use crate::admin::standing::StandingView;
use crate::admin::widgets::Flash;
use crate::base::zone::Zone;
use crate::base::{Timestamp, sha256_hex};
use crate::model::audit::Caller;
use crate::model::delivery::DeliveryId;
use crate::store::StoreError;
use crate::store::accounts::{Accounts, SessionRecord, User, UserId};

/// The maximum lifetime of a session without requests, and in total (docs/security.md B3).
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
const LIFE_MAX: Duration = Duration::from_secs(12 * 3_600);

/// The maximum time between the password and the code of the second factor.
const CODE_WAIT_MAX: Duration = Duration::from_secs(10 * 60);

/// The minimum time between updates of a session in the database, so that not every page view causes a write.
const TOUCHED_EVERY: Duration = Duration::from_secs(60);

/// The session cookie. Over TLS it is bound to the host, which plain HTTP does not allow.
const COOKIE: &str = "everpost_session";
const COOKIE_OF_HOST: &str = "__Host-everpost_session";

const SIGNED_IN: &str = "signed_in";
const AWAITED: &str = "awaited";
const FLASH: &str = "flash";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SignedIn {
    user: i64,
    /// The token in every form; see [`crate::admin::security::csrf`].
    csrf: String,
    started_ms: i64,
    #[serde(default)]
    confirmed_ms: i64,
    touched_ms: i64,
    address: Option<IpAddr>,
    browser: Option<String>,
}

#[derive(Clone)]
pub(crate) struct Visitor {
    pub(crate) user: Arc<User>,
    pub(crate) csrf: String,
    pub(crate) confirmed_at: Timestamp,
    pub(crate) now: Timestamp,
    pub(crate) path: String,
    pub(crate) address: String,
    pub(crate) flash: Option<Flash>,
    /// Is true if the page can be reloaded, since it is not the response to a form.
    pub(crate) only_reads: bool,
    pub(crate) map: &'static SiteMap,
    pub(crate) caller: Caller,
    pub(crate) standing: Arc<StandingView>,
    session: Session,
}

impl Deref for Visitor {
    type Target = User;

    fn deref(&self) -> &User {
        &self.user
    }
}

impl Visitor {
    pub(crate) fn sees_data(&self) -> bool {
        self.role.sees_data()
    }

    /// Reports whether the visitor may open the page at `path`.
    pub(crate) fn opens(&self, path: impl Display) -> bool {
        self.map.opens(&path.to_string(), self.role)
    }

    pub(crate) fn sends(&self, path: impl Display) -> bool {
        self.map.sends(&path.to_string(), self.role)
    }

    /// Returns the next step for an empty page, if the visitor may open it.
    pub(crate) fn step(
        &self,
        path: impl Into<String>,
        title: &'static str,
    ) -> Option<(String, &'static str)> {
        let path = path.into();
        self.opens(&path).then_some((path, title))
    }

    pub(crate) fn session_key(&self) -> Option<String> {
        self.session.id().as_ref().map(key)
    }

    pub(crate) async fn confirm(&self) -> PageResult<()> {
        let mut signed_in = self
            .session
            .get::<SignedIn>(SIGNED_IN)
            .await?
            .ok_or(PageError::SignedOut)?;
        signed_in.confirmed_ms = self.now.as_ms();
        Ok(self.session.insert(SIGNED_IN, signed_in).await?)
    }

    pub(crate) async fn leave(&self, flash: Flash, page: &str) -> PageResult {
        self.flash(flash).await?;
        Ok(Redirect::to(page).into_response())
    }

    pub(crate) async fn flash(&self, flash: Flash) -> PageResult<()> {
        Ok(self.session.insert(FLASH, flash).await?)
    }

    /// Takes the message of the last action out of the session.
    pub(crate) async fn with_flash(mut self) -> PageResult<Self> {
        self.flash = self.session.remove(FLASH).await?;
        Ok(self)
    }

    /// Returns the message of the last action; `None` if it is about a delivery, whose card shows it.
    pub(crate) fn said(&self) -> Option<&Flash> {
        self.flash.as_ref().filter(|flash| flash.is_about(None))
    }

    pub(crate) fn said_of(&self, delivery: DeliveryId) -> Option<&Flash> {
        let flash = self.flash.as_ref();
        flash.filter(|flash| flash.is_about(Some(delivery)))
    }

    pub(crate) fn as_reader(&self) -> PageReader {
        let before = PageReader::current();
        let zone = self.time_zone.as_deref().and_then(Zone::named);
        PageReader {
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

impl<S: Sync> FromRequestParts<S> for Visitor {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> PageResult<Self> {
        let visitor = parts.extensions.get::<Visitor>();
        visitor.cloned().ok_or(PageError::SignedOut)
    }
}

pub(crate) fn layer(site: &Arc<Site>) -> SessionManagerLayer<BrowserSessions> {
    let secure = site.is_https();
    SessionManagerLayer::new(BrowserSessions(Arc::clone(site)))
        .with_name(if secure { COOKIE_OF_HOST } else { COOKIE })
        .with_secure(secure)
        .with_path(if secure { "/" } else { "/admin" })
        .with_http_only(true)
        .with_same_site(SameSite::Lax)
        .with_expiry(Expiry::OnSessionEnd) // of the browser's; ours are looked at here
}

/// Reports whether the browser sent a session cookie. The session may have ended.
pub(crate) fn is_brought(headers: &HeaderMap) -> bool {
    [COOKIE, COOKIE_OF_HOST].map(|name| cookie(headers, name)) != [None, None]
}

/// The data of a session after the right password, while the code of the second factor is still missing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SecondFactorSession {
    pub(crate) user: i64,
    since_ms: i64,
    pub(crate) csrf: String,
    pub(crate) next: String,
}

/// Stores in a session with a new id that the password of `user` was right.
pub(crate) async fn await_code(
    site: &Site,
    session: &Session,
    user: UserId,
    next: &str,
) -> PageResult<()> {
    session.flush().await?;
    let awaited = SecondFactorSession {
        user: user.0,
        since_ms: site.people.now().as_ms(),
        csrf: site.broker.entropy().secret(),
        next: next.to_owned(),
    };
    Ok(session.insert(AWAITED, awaited).await?)
}

pub(crate) async fn awaited(
    site: &Site,
    session: &Session,
) -> PageResult<Option<SecondFactorSession>> {
    let awaited = session.get::<SecondFactorSession>(AWAITED).await?;
    let waited =
        |each: &SecondFactorSession| site.people.now().since(Timestamp::from_ms(each.since_ms));
    Ok(awaited.filter(|each| waited(each) < CODE_WAIT_MAX))
}

/// Signs `user` in with a new session id, whatever id the browser sent. The time of the last confirmation is now,
/// unless `confirmed_at` is earlier.
pub(crate) async fn sign_in(
    site: &Site,
    session: &Session,
    user: &User,
    client: &Client,
    confirmed_at: Option<Timestamp>,
) -> PageResult<()> {
    session.flush().await?;
    let now = site.people.now();
    let by = Caller::user(&user.name, client.address, now);
    site.people.accounts().note_sign_in(user.id, by).await?;
    let signed_in = SignedIn {
        user: user.id.0,
        csrf: site.broker.entropy().secret(),
        started_ms: now.as_ms(),
        confirmed_ms: confirmed_at.unwrap_or(now).min(now).as_ms(),
        touched_ms: now.as_ms(),
        address: client.address,
        browser: client.browser.clone(),
    };
    Ok(session.insert(SIGNED_IN, signed_in).await?)
}

/// Returns the user of the session, if the user may still sign in.
pub(crate) async fn user_of(site: &Site, session: &Session) -> PageResult<Option<User>> {
    let Some(signed_in) = session.get::<SignedIn>(SIGNED_IN).await? else {
        return Ok(None);
    };
    let user = site.people.accounts().user(UserId(signed_in.user)).await?;
    Ok(user.filter(|user| user.disabled_at.is_none()))
}

/// Returns the visitor who requests `address`; `None` if the visitor is unknown. An automatic request does not extend
/// the session.
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
    let Some(user) = user_of(site, &session).await? else {
        return Ok(None);
    };
    let now = site.people.now();
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

#[derive(Clone)]
pub(crate) struct BrowserSessions(Arc<Site>);

impl BrowserSessions {
    fn accounts(&self) -> &Accounts {
        self.0.people.accounts()
    }

    fn kept(&self, record: &Record) -> Result<SessionRecord> {
        let now = self.0.people.now();
        let signed_in = record
            .data
            .get(SIGNED_IN)
            .map(SignedIn::deserialize)
            .and_then(std::result::Result::ok);
        let of_user = signed_in.as_ref();
        let moment = |ms: fn(&SignedIn) -> i64| of_user.map(ms).map_or(now, Timestamp::from_ms);
        let started_at = moment(|each| each.started_ms);
        let data = serde_json::to_string(&record.data);
        Ok(SessionRecord {
            id: key(&record.id),
            record: data.map_err(|error| Error::Encode(error.to_string()))?,
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
impl SessionStore for BrowserSessions {
    async fn create(&self, record: &mut Record) -> Result<()> {
        let mut id = [0; 16];
        self.0.broker.entropy().fill(&mut id);
        record.id = Id(i128::from_le_bytes(id));
        let kept = self.kept(record)?;
        self.accounts().add_session(kept).await.map_err(backend)
    }

    async fn save(&self, record: &Record) -> Result<()> {
        let kept = self.kept(record)?;
        self.accounts().save_session(kept).await.map_err(backend)
    }

    async fn load(&self, id: &Id) -> Result<Option<Record>> {
        let now = self.0.people.now();
        let found = self
            .accounts()
            .session(key(id), now)
            .await
            .map_err(backend)?;
        let data = found
            .as_deref()
            .map(serde_json::from_str)
            .transpose()
            .map_err(|error| Error::Decode(error.to_string()))?;
        Ok(data.map(|data| Record {
            id: *id,
            data,
            expiry_date: (now + IDLE_MAX).to_utc(),
        }))
    }

    async fn delete(&self, id: &Id) -> Result<()> {
        let deleted = self.accounts().delete_session(key(id));
        deleted.await.map_err(backend)
    }
}

impl fmt::Debug for BrowserSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sessions")
    }
}

/// Returns the key of a session in the database. It is a hash, so whoever reads the database cannot make the cookie
/// from it.
fn key(id: &Id) -> String {
    sha256_hex(&id.0.to_le_bytes())
}

#[allow(clippy::needless_pass_by_value, reason = "what map_err gives")]
fn backend(error: StoreError) -> Error {
    Error::Backend(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::accounts::Role;

    /// Forgets every session.
    #[derive(Debug)]
    struct NoSessions;

    #[async_trait]
    impl SessionStore for NoSessions {
        async fn save(&self, _: &Record) -> Result<()> {
            Ok(())
        }

        async fn load(&self, _: &Id) -> Result<Option<Record>> {
            Ok(None)
        }

        async fn delete(&self, _: &Id) -> Result<()> {
            Ok(())
        }
    }

    impl Visitor {
        pub(crate) fn with_role(role: Role) -> Self {
            let user = User {
                id: UserId(1),
                name: "somebody".to_owned(),
                password_hash: String::new(),
                source: crate::model::identity::UserSource::Local,
                subject: None,
                role,
                created_at: Timestamp::from_ms(0),
                disabled_at: None,
                signed_in_at: None,
                link_expires_at: None,
                has_second_factor: false,
                time_zone: None,
            };
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
                map: Box::leak(Box::new(SiteMap { pages: Vec::new() })),
                standing: Arc::default(),
                session: Session::new(None, Arc::new(NoSessions), None),
            }
        }
    }
}
