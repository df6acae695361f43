//! Users whom a reverse proxy has signed in, and names in a header of every request (docs/security.md B3).

use axum::response::Response;
use http::{Extensions, HeaderMap, HeaderName, StatusCode};
use tower_sessions::Session;

use crate::admin::bare::BareMessage;
use crate::admin::error::PageResult;
use crate::admin::security::client::Client;
use crate::admin::security::{external, session};
use crate::admin::site::Site;
use crate::broker::people::ByTrustedProxy;
use crate::model::identity::{Identity, UserSource};
use crate::store::accounts::User;

/// Whom the proxy names; `None` where there is none to believe.
pub(crate) fn identity(
    site: &Site,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Option<Identity> {
    let names = site.sign_in.proxy.as_ref()?;
    extensions.get::<ByTrustedProxy>()?;
    let name = only(headers, &names.user)?.trim();
    let groups = only(headers, &names.groups)
        .into_iter()
        .flat_map(|groups| groups.split(','))
        .map(str::trim)
        .filter(|group| !group.is_empty());
    (!name.is_empty()).then(|| Identity {
        source: UserSource::Proxy,
        subject: name.to_owned(),
        name: name.to_owned(),
        groups: groups.map(str::to_owned).collect(),
        authenticated_at: None,
    })
}

/// The text of a header that the proxy sets. Where there are two of it, one came from the client, and none counts.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => str::from_utf8(value.as_bytes()).ok(),
        _ => None,
    }
}

/// Has the session be that of whom the proxy names now, with the role that the groups have now; what it was before
/// ends. Returns a page for whoever does not get in.
pub(crate) async fn follow(
    site: &Site,
    session: &Session,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> PageResult<Option<Response>> {
    if site.sign_in.proxy.is_none() {
        return Ok(None);
    }
    let present = session::user_of(site, session).await?;
    let is_proxied = |user: &User| user.source == UserSource::Proxy;
    let Some(identity) = identity(site, headers, extensions) else {
        if present.as_ref().is_some_and(is_proxied) {
            session.flush().await?;
        }
        return Ok(None);
    };
    let role = site.sign_in.roles.role_of(&identity.groups);
    let is_same = |user: &User| user.subject.as_ref() == Some(&identity.subject);
    if let Some(user) = present.filter(|user| is_proxied(user) && is_same(user))
        && Some(user.role) == role
    {
        return Ok(None);
    }
    let client = Client::of(headers, extensions);
    match external::admit(site, &client, &identity).await? {
        Ok(user) => session::sign_in(site, session, &user, &client, None).await?,
        Err(reason) => {
            session.flush().await?;
            let page = BareMessage::new("Not signed in", reason);
            return Ok(Some(page.draw(StatusCode::FORBIDDEN)));
        }
    }
    Ok(None)
}
