//! Who gets to the pages: nobody before the appliance is claimed, then whoever is signed in with a role
//! that suffices.

use std::sync::Arc;

use axum::extract::{OriginalUri, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use http::Uri;
use tower_sessions::Session;

use crate::admin::error::PageError;
use crate::admin::lists::link;
use crate::admin::security::client::{Client, is_refresh};
use crate::admin::security::login::News;
use crate::admin::security::session;
use crate::admin::security::session::Visitor;
use crate::admin::security::setup;
use crate::admin::site::Site;
use crate::admin::sitemap::Access;
use crate::admin::standing::Standing;

/// Lets the signed in pass, as a [`Visitor`] in the request's extensions.
pub(crate) async fn admit(
    State(site): State<Arc<Site>>,
    OriginalUri(uri): OriginalUri,
    session: Session,
    client: Client,
    mut request: Request,
    next: Next,
) -> Result<Response, PageError> {
    if !site.is_claimed().await? {
        return Ok(setup::unclaimed());
    }
    let address = uri.path_and_query().map_or("", |address| address.as_str());
    let by_reader = !is_refresh(request.headers());
    let Some(visitor) =
        session::visitor(&site, session, address.to_owned(), &client, by_reader).await?
    else {
        return Ok(to_login(&request, &uri));
    };
    let visitor = match (request.method().is_safe(), by_reader) {
        (true, true) => visitor.only_reading().with_flash().await?,
        (true, false) => visitor.only_reading(),
        (false, _) => visitor,
    };
    let standing = Standing::read(&site, visitor.now).await?;
    let visitor = visitor.seeing(standing);
    let reader = visitor.as_reader();
    request.extensions_mut().insert(visitor);
    Ok(reader.reads(next.run(request)).await)
}

/// Lets pass what the visitor's role allows.
pub(crate) async fn authorize(
    State(access): State<Access>,
    request: Request,
    next: Next,
) -> Result<Response, PageError> {
    let needed = match request.method().is_safe() {
        true => access.reads,
        false => access.changes,
    };
    let visitor = request.extensions().get();
    match visitor.is_some_and(|visitor: &Visitor| visitor.role >= needed) {
        true => Ok(next.run(request).await),
        false => Err(PageError::Forbidden(needed)),
    }
}

/// The page that was asked for is found again after signing in; a form that was sent is not.
fn to_login(request: &Request, uri: &Uri) -> Response {
    if !request.method().is_safe() {
        let was_leaving = uri.path() == "/admin/logout";
        let news = if was_leaving {
            News::SignedOut
        } else {
            News::NotSent
        };
        return news.flash();
    }
    let wanted = uri.path_and_query().map_or("", |wanted| wanted.as_str());
    let is_wanted = is_page(wanted) && wanted != "/admin";
    let had_session = session::is_brought(request.headers());
    let parameters = [
        (had_session, "news", News::SessionEnded.name()),
        (is_wanted, "next", wanted),
    ];
    let given = parameters.into_iter().filter(|(is_given, ..)| *is_given);
    let given: Vec<_> = given
        .map(|(_, name, value)| (name, value.to_owned()))
        .collect();
    Redirect::to(&link("/admin/login", &given)).into_response()
}

/// Whether `path` leads to one of our pages, and not through one of them to another site.
pub(crate) fn is_page(path: &str) -> bool {
    let below = path == "/admin" || path.starts_with("/admin/") || path.starts_with("/admin?");
    below
        && path
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use axum::{Extension, Router};
    use http::{Method, StatusCode};
    use tower::ServiceExt;

    use super::*;
    use crate::store::accounts::Role;

    async fn check(role: Role, access: Access, method: Method, expected: StatusCode) {
        let page = get(|| async { "shown" }).post(|| async { "done" });
        let router: Router = Router::new()
            .route("/", page.layer(from_fn_with_state(access, authorize)))
            .layer(Extension(Visitor::with_role(role)));
        let request = Request::builder().method(method.clone()).uri("/");
        let request = request.body(Body::empty()).expect("a request");
        let response = router.oneshot(request).await.expect("an answer");
        assert_eq!(response.status(), expected, "{role:?} {access:?} {method}");
    }

    #[tokio::test]
    async fn reading_and_changing_take_a_role_each() {
        let status = |allowed| match allowed {
            true => StatusCode::OK,
            false => StatusCode::FORBIDDEN,
        };
        for role in Role::ALL {
            for (reads, changes) in Role::ALL.into_iter().zip(Role::ALL.into_iter().rev()) {
                let access = Access { reads, changes };
                check(role, access, Method::POST, status(role >= changes)).await;
                check(role, access, Method::GET, status(role >= reads)).await;
            }
        }
    }

    #[test]
    fn only_our_own_pages_are_returned_to() {
        for (path, ours) in [
            ("/admin", true),
            ("/admin/topics/orders?x=%0d%0a", true),
            ("/admin?x=1", true),
            ("/administrator", false),
            ("//evil.example/admin", false),
            ("https://evil.example", false),
            ("/admin/\\evil.example", false),
            ("/admin/\r\nSet-Cookie: a=b", false),
            ("", false),
        ] {
            assert_eq!(is_page(path), ours, "{path:?}");
        }
    }
}
