//! The hosts under which browsers may reach the admin pages (docs/security.md B3). An attacker's site can resolve its
//! name to an address in another network (DNS rebinding). Pages from that site would then have the same origin as the
//! admin pages, and could call the admin pages with the cookies of a user who has both sites open. The browser still
//! sends the attacker's host name, so requests for a foreign host are rejected.

use axum::extract::{Request, State};
use axum::middleware::Next;
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Uri};
use url::Url;

use crate::admin::error::{PageError, PageResult};
use crate::admin::widgets::print;
use crate::broker::Broker;
use crate::model::own_host::{OwnHost, OwnHosts};

/// The maximum number of characters of a foreign host in an error response. A DNS name has at most 253 characters.
const SHOWN_CHARACTERS_MAX: usize = 253;

/// Rejects a request for a foreign host with an error that contains the URL of the overview page.
pub(crate) async fn reject_unknown(
    State((own, broker)): State<(OwnHosts, Broker)>,
    request: Request,
    next: Next,
) -> PageResult {
    let options = broker.options();
    let public_url = &options.public_url;
    let public = public_host(public_url);
    match foreign_host(request.uri(), request.headers(), &own, public.as_ref()) {
        None => Ok(next.run(request).await),
        Some(host) => Err(PageError::WrongHost {
            host,
            overview: format!("{public_url}/admin"),
        }),
    }
}

fn public_host(public_url: &str) -> Option<OwnHost> {
    OwnHost::parse(Url::parse(public_url).ok()?.host_str()?)
}

/// Returns the host of a request if it is not one of the appliance's own hosts; an empty string if the request has no
/// host. HTTP/2 has the host in the URI, HTTP/1.1 in the `Host` header, or in the header and the URI. If both are
/// present, both must be own hosts.
fn foreign_host(
    uri: &Uri,
    headers: &HeaderMap,
    own: &OwnHosts,
    public: Option<&OwnHost>,
) -> Option<String> {
    let in_header = headers
        .get_all(HOST)
        .into_iter()
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let in_uri = uri.authority().map(Authority::to_string);
    let mut named = in_uri.into_iter().chain(in_header).peekable();
    if named.peek().is_none() {
        return Some(String::new());
    }
    let foreign = named.find(|text| {
        let authority: Option<Authority> = text.parse().ok();
        let host = authority.and_then(|authority| OwnHost::parse(authority.host()));
        !host.is_some_and(|host| own.has(&host) || public == Some(&host))
    })?;
    let shown: String = foreign.chars().take(SHOWN_CHARACTERS_MAX).collect();
    Some(print::visible(&shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Own = (OwnHosts, Option<OwnHost>);

    fn check((own, public): &Own, host: &str, is_ours: bool) {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().expect("a header's value"));
        let foreign = foreign_host(&Uri::from_static("/admin"), &headers, own, public.as_ref());
        assert_eq!(foreign.is_none(), is_ours, "{host}");
    }

    fn own(more: &[&str], public_url: &str, listening: &str) -> Own {
        let more: Vec<OwnHost> = more
            .iter()
            .map(|text| OwnHost::parse(text).expect("a host"))
            .collect();
        let own = OwnHosts::new(&more, &[listening.parse().expect("an address")]);
        (own, public_host(public_url))
    }

    #[test]
    fn hosts_of_ours_are_told_from_others() {
        let hosts = own(
            &["grid.lan", "fd00::7"],
            "https://Events.example.com",
            "10.0.0.5:8080",
        );
        for host in [
            "events.example.com",
            "EVENTS.example.com.:8443",
            "grid.lan:8080",
            "[fd00::7]:8080",
            "10.0.0.5",
            "10.0.0.5:8080",
            "[::ffff:10.0.0.5]",
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:8080",
            "127.9.9.9",
            "[::1]",
        ] {
            check(&hosts, host, true);
        }
        for host in [
            "evil.example",
            "evil.example:8080",
            "events.example.com.evil.example",
            "xevents.example.com",
            "sub.grid.lan",
            "localhost.evil.example",
            "10.0.0.6",
            "192.168.1.5:8080",
            "[fd00::8]",
            "user@evil.example",
            "",
            ":8080",
            "[",
            "a b",
            "\u{e9}.example",
        ] {
            check(&hosts, host, false);
        }
    }

    #[test]
    fn who_listens_everywhere_is_reached_by_any_number() {
        for listening in ["0.0.0.0:8080", "[::]:8080"] {
            let hosts = own(&[], "http://0.0.0.0:8080", listening);
            check(&hosts, "192.168.1.5:8080", true);
            check(&hosts, "[fd00::8]:8080", true);
            check(&hosts, "evil.example:8080", false);
        }
    }

    #[test]
    fn every_host_that_a_request_names_must_be_ours() {
        let (own, public) = own(&[], "http://127.0.0.1:8080", "127.0.0.1:8080");
        let named = |uri: &str, hosts: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, host.parse().expect("a header's value"));
            }
            foreign_host(
                &uri.parse().expect("a URI"),
                &headers,
                &own,
                public.as_ref(),
            )
        };
        let evil = Some("evil.example".to_owned());
        assert_eq!(named("http://localhost/admin", &[]), None);
        assert_eq!(named("http://localhost/admin", &["localhost"]), None);
        assert_eq!(named("http://evil.example/admin", &["localhost"]), evil);
        assert_eq!(named("http://localhost/admin", &["evil.example"]), evil);
        assert_eq!(named("/admin", &["localhost", "evil.example"]), evil);
        assert_eq!(named("/admin", &[]), Some(String::new()));
    }

    #[test]
    fn hosts_are_read_without_ports_and_patterns() {
        for text in [
            "grid.lan:80",
            "*.lan",
            "http://grid.lan",
            "a b",
            "",
            ".",
            "grid.lan/x",
        ] {
            assert_eq!(OwnHost::parse(text), None, "{text:?}");
        }
    }
}
