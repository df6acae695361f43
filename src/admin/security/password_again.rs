//! Asks for the password again before a secret is shown or somebody's rights change: whoever finds a browser
//! that somebody left open gets no further (docs/security.md B3; ASVS 7.5.1 and 7.5.3).

use crate::admin::page::*;
use crate::admin::security::{csrf, provider};
use crate::model::identity::UserSource;

/// How long a sign-in, or the password typed again, is enough: as long as one sitting at such a task takes,
/// and half of what ends an idle session.
pub(crate) const CONFIRMED_FOR: Duration = Duration::from_secs(15 * 60);

/// The field for the present password in forms that have another one as well.
pub(crate) const PASSWORD_FIELD: &str = "own-password";

/// Rejects the form of a call whose field does not hold the visitor's password.
pub(crate) async fn check_password(
    site: &Site,
    visitor: &Visitor,
    form: &Form,
    field: &str,
) -> PageResult<()> {
    let (user, address) = (&visitor.user, visitor.caller.address);
    let known = site
        .people
        .knows_password::<PageError>(user, form.raw(field), address);
    if known.await? {
        return Ok(());
    }
    Err(FormError::of(field, "This is not your password.").into())
}

/// Lets a form pass if the password was typed lately, or is in it.
pub(crate) async fn ask(
    State(site): State<Arc<Site>>,
    visitor: Visitor,
    request: Request,
    next: Next,
) -> PageResult {
    let is_confirmed = || visitor.now.since(visitor.confirmed_at) < CONFIRMED_FOR;
    // A reverse proxy says of every request who makes it, and cannot be asked for more.
    let is_vouched_for = visitor.source == UserSource::Proxy;
    if request.method().is_safe() || is_vouched_for || is_confirmed() {
        return Ok(next.run(request).await);
    }
    let (parts, body) = request.into_parts();
    let body = Bytes::from_request(Request::from_parts(parts.clone(), body), &()).await;
    let body = body.map_err(|error| PageError::of_body(error.body_text()))?;
    let sent = Request::from_parts(parts.clone(), body.clone().into());
    let form = Form::from_request(sent, &()).await?;
    csrf::check(&form, &visitor.csrf)?;
    let is_external = visitor.source != UserSource::Local;
    let elsewhere = is_external.then(|| {
        let name = site.sign_in.provider_name().to_owned();
        (provider::path_again(&visitor.path), name)
    });
    let mut form_errors = Vec::new();
    if form.has(PASSWORD_FIELD) && !is_external {
        match check_password(&site, &visitor, &form, PASSWORD_FIELD).await {
            Ok(()) => {
                visitor.confirm().await?;
                return Ok(next.run(Request::from_parts(parts, body.into())).await);
            }
            Err(error) => form_errors = error.in_form()?,
        }
    }
    let title = if is_external {
        "Confirm that it is you"
    } else {
        "Confirm your password"
    };
    let page = PasswordAgainPage {
        frame: Frame::new(&visitor, title),
        elsewhere,
        form: Filled::with(()).with_faults(form_errors),
        sent: &form,
    };
    // Nothing has been done yet.
    Ok(draw_with(StatusCode::FORBIDDEN, &page))
}

#[derive(Template)]
#[template(path = "pages/password_again.html")]
struct PasswordAgainPage<'a> {
    frame: Frame,
    /// Where somebody signs in again who has no password here, and what that is called.
    elsewhere: Option<(String, String)>,
    form: Filled<()>,
    sent: &'a Form,
}
