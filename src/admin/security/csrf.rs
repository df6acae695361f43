//! Protection against cross-site request forgery. Requests that change state must come from our own pages, which is
//! checked by the browser's origin headers and by a token in the form (docs/security.md B3).

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::extract::{Request, State};
use axum::middleware::Next;
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Method};
use url::Url;

use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::form::Form;
use crate::admin::site::Site;

pub(crate) async fn reject_foreign(
    State(site): State<Arc<Site>>,
    request: Request,
    next: Next,
) -> PageResult {
    if !is_our_own(request.method(), request.headers(), &site.public_url()) {
        return Err(PageError::Foreign);
    }
    Ok(next.run(request).await)
}

fn is_token(presented: &str, expected: &str) -> bool {
    !expected.is_empty()
        && verify_slices_are_equal(presented.as_bytes(), expected.as_bytes()).is_ok()
}

/// Rejects a form that does not carry the token `expected`.
pub(crate) fn check(form: &Form, expected: &str) -> PageResult<()> {
    let is_ours = is_token(form.raw("csrf"), expected);
    is_ours.then_some(()).ok_or(PageError::BadToken)
}

/// Checks `Sec-Fetch-Site`, or else `Origin`. Browsers omit `Sec-Fetch-Site` over plain HTTP, and send `null` as
/// `Origin` from pages that send no referrer, as ours do; then only the token in the form decides.
fn is_our_own(method: &Method, headers: &HeaderMap, public_url: &str) -> bool {
    if method.is_safe() {
        return true;
    }
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if let Some(site) = text("sec-fetch-site") {
        return matches!(site, "same-origin" | "none");
    }
    match text(ORIGIN.as_str()) {
        None | Some("null") => true,
        Some(origin) => {
            let origin = authority(origin);
            let host = text(HOST.as_str());
            origin.is_some()
                && (origin == host.and_then(|host| authority(&format!("http://{host}")))
                    || origin == authority(public_url))
        }
    }
}

/// Returns host and port. Default ports are treated as absent for any scheme, because a proxy that ends TLS forwards
/// only the host.
fn authority(url: &str) -> Option<(String, Option<u16>)> {
    let url = Url::parse(url).ok()?;
    let port = url.port().filter(|port| !matches!(port, 80 | 443));
    Some((url.host_str()?.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: &str = "https://events.example.com";

    fn check(headers: &[(&'static str, &str)], ours: bool) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a header's value"));
        }
        assert_eq!(is_our_own(&Method::POST, &map, PUBLIC), ours, "{headers:?}");
        assert!(is_our_own(&Method::GET, &map, PUBLIC), "{headers:?}");
    }

    #[test]
    fn foreign_posts_are_recognised() {
        check(&[("sec-fetch-site", "same-origin")], true);
        check(&[("sec-fetch-site", "none")], true);
        check(&[("sec-fetch-site", "cross-site")], false);
        check(&[("sec-fetch-site", "same-site")], false);
        check(&[("sec-fetch-site", "gibberish")], false);
        // What the browser says about the site counts for more than the origin.
        let disguised = [("sec-fetch-site", "cross-site"), ("origin", PUBLIC)];
        check(&disguised, false);

        check(&[("origin", PUBLIC)], true);
        check(&[("origin", "https://events.example.com:443")], true);
        check(&[("origin", "https://events.example.com:8443")], false);
        check(&[("origin", "https://evil.example")], false);
        check(&[("origin", "no url")], false);
        check(&[("origin", ""), ("host", "")], false);
        let local = ("host", "10.0.0.5:8080");
        check(&[("origin", "http://10.0.0.5:8080"), local], true);
        check(&[("origin", "http://10.0.0.5:8081"), local], false);
        check(&[("origin", "http://10.0.0.50:8080"), local], false);
        // A proxy ends TLS and passes on the host.
        let proxied = [("origin", "https://lan.example"), ("host", "lan.example")];
        check(&proxied, true);

        check(&[], true);
        check(&[("origin", "null")], true);
    }

    #[test]
    fn no_token_is_no_match_for_no_token() {
        assert!(is_token("abc", "abc"));
        assert!(!is_token("abd", "abc"));
        assert!(!is_token("", ""));
        assert!(!is_token("", "abc"));
    }
}
