//! The second step of signing in: a code from an app, or a recovery code.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use http::StatusCode;
use tower_sessions::Session;

use crate::admin::bare::Bare;
use crate::admin::bare::draw_with;
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::field::{Field, Problem, mark};
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::security::client::Client;
use crate::admin::security::session;
use crate::admin::security::session::Awaited;
use crate::admin::security::setup::OPEN_FORM_BYTES_MAX;
use crate::admin::security::{csrf, login};
use crate::admin::site::Site;

pub(crate) fn router() -> Router<Arc<Site>> {
    let page = get(show)
        .post(submit)
        .layer(DefaultBodyLimit::max(OPEN_FORM_BYTES_MAX));
    Router::new().route("/login/code", page)
}

async fn show(State(site): State<Arc<Site>>, session: Session) -> PageResult {
    Ok(match session::awaited(&site, &session).await? {
        Some(awaited) => draw_form(&awaited, None),
        None => Redirect::to("/admin/login").into_response(),
    })
}

async fn submit(
    State(site): State<Arc<Site>>,
    session: Session,
    client: Client,
    form: Form,
) -> PageResult {
    let Some(awaited) = session::awaited(&site, &session).await? else {
        return Ok(Redirect::to("/admin/login").into_response());
    };
    if !csrf::is_token(form.raw("csrf"), &awaited.csrf) {
        return Err(PageError::BadToken);
    }
    let user = site.people.accounts().user(awaited.user()).await?;
    let Some(user) = user.filter(|user| user.disabled_at.is_none()) else {
        return Ok(Redirect::to("/admin/login").into_response());
    };
    // Counted apart from passwords: whoever knows the password must not start these afresh.
    let account = format!("second factor of {}", user.id.0);
    let now = site.broker.clock().now();
    if let Some(wait) = site.throttle.begin(&account, client.address, now).await? {
        return Ok(login::wait(wait));
    }
    if !site
        .people
        .passes_second_factor(&user, form.text("code"))
        .await?
    {
        tracing::warn!(
            user.name = user.name,
            "a sign-in failed by its second factor"
        );
        let refusal = Refusal::of("code", "This is not the code, or it was used already.");
        return Ok(draw_form(&awaited, Some(refusal)));
    }
    site.throttle.succeeded(&account, client.address).await?;
    session::sign_in(&site, &session, &user, client).await?;
    Ok(Redirect::to(login::after_login(&awaited.next)).into_response())
}

#[derive(Template)]
#[template(path = "pages/login_code.html")]
struct CodePage {
    bare: Bare,
    token: String,
    problem: Option<Problem>,
    fields: [Field; 1],
}

fn draw_form(awaited: &Awaited, refusal: Option<Refusal>) -> Response {
    let status = match refusal {
        None => StatusCode::OK,
        Some(_) => StatusCode::UNAUTHORIZED,
    };
    let mut fields = [code_field(
        "The code of your app, or one of your recovery codes.",
    )];
    let page = CodePage {
        bare: Bare::new("Second factor"),
        token: awaited.csrf.clone(),
        problem: mark(fields.iter_mut(), refusal),
        fields,
    };
    draw_with(status, &page)
}

/// The field for a code.
pub(crate) fn code_field(hint: &str) -> Field {
    Field::line("code", "Code", &Form::default())
        .hint(hint)
        .autocomplete("one-time-code")
        .mono()
        .required()
}
