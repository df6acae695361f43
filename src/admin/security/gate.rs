//! Who gets to the pages: nobody before the appliance is claimed, then whoever is signed in with a role
//! that suffices.

use axum::extract::OriginalUri;

use crate::admin::page::*;
use crate::admin::security::client::is_refresh;
use crate::admin::security::{login, proxy_user, session, setup};
use crate::admin::sitemap::Access;
use crate::admin::standing::Standing;
use crate::base::budget::PresentedKey;
use crate::base::request_memory::RequestMemory;
use crate::model::audit::Actor;

/// Lets the signed in pass, as a [`Visitor`] in the request's extensions.
pub(crate) async fn admit(
    State(site): State<Arc<Site>>,
    OriginalUri(uri): OriginalUri,
    session: Session,
    mut request: Request,
    next: Next,
) -> PageResult {
    if !site.is_claimed().await? {
        return Ok(setup::unclaimed());
    }
    let (headers, extensions) = (request.headers().clone(), request.extensions().clone());
    if let Some(rejected) = proxy_user::follow(&site, &session, &headers, &extensions).await? {
        return Ok(rejected);
    }
    let address = uri.path_and_query().map_or("", |address| address.as_str());
    let by_reader = !is_refresh(request.headers());
    let client = Client::of(request.headers(), request.extensions());
    let visitor = session::visitor(&site, session, address.to_owned(), &client, by_reader);
    let Some(mut visitor) = visitor.await? else {
        return Ok(to_login(&request, address));
    };
    if let Some(memory) = extensions.get::<RequestMemory>() {
        memory.note_key(|| PresentedKey::alone(format!("{:?}", Actor::User(visitor.name.clone()))));
    }
    visitor.only_reads = request.method().is_safe();
    if visitor.only_reads && by_reader {
        visitor = visitor.with_flash().await?;
    }
    visitor.standing = Arc::new(Standing::read(&site, visitor.now).await?);
    let reader = visitor.as_reader();
    request.extensions_mut().insert(visitor);
    Ok(reader.reads(next.run(request)).await)
}

pub(crate) async fn authorize(
    State(access): State<Access>,
    visitor: Visitor,
    request: Request,
    next: Next,
) -> PageResult {
    let needed = if request.method().is_safe() {
        access.reads
    } else {
        access.changes
    };
    if visitor.role < needed {
        return Err(PageError::Forbidden(needed));
    }
    Ok(next.run(request).await)
}

/// The page that was asked for is found again after signing in; a form that was sent is not.
fn to_login(request: &Request, wanted: &str) -> Response {
    if !request.method().is_safe() {
        return match wanted {
            "/admin/logout" => login::told("signed-out", ""),
            _ => login::told("not-sent", ""),
        };
    }
    let had_session = session::is_brought(request.headers());
    let is_wanted = paths::is_page(wanted) && wanted != "/admin";
    let news = if had_session { "session-ended" } else { "" };
    let next = if is_wanted { wanted } else { "" };
    let parameters = [("news", news.to_owned()), ("next", next.to_owned())];
    Redirect::to(&link("/admin/login", &parameters)).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use axum::{Extension, Router};
    use http::Method;
    use tower::ServiceExt;

    use super::*;

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
        let status = |allowed| {
            if allowed {
                StatusCode::OK
            } else {
                StatusCode::FORBIDDEN
            }
        };
        for role in Role::ALL {
            for (reads, changes) in Role::ALL.into_iter().zip(Role::ALL.into_iter().rev()) {
                let access = Access { reads, changes };
                check(role, access, Method::POST, status(role >= changes)).await;
                check(role, access, Method::GET, status(role >= reads)).await;
            }
        }
    }
}
