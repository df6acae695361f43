//! The client of a request, as far as the request identifies it.

use std::net::{IpAddr, SocketAddr};

use axum::extract::ConnectInfo;
use http::header::{COOKIE, USER_AGENT};
use http::{Extensions, HeaderMap};
use tower_sessions::cookie::Cookie;

use crate::admin::widgets::print;

/// The maximum number of characters kept of a `User-Agent`; real ones are shorter.
const BROWSER_CHARACTERS_MAX: usize = 256;

#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    /// The peer address of the connection; behind a reverse proxy, the address of the proxy.
    pub(crate) address: Option<IpAddr>,
    pub(crate) browser: Option<String>,
}

impl Client {
    pub(crate) fn of(headers: &HeaderMap, extensions: &Extensions) -> Self {
        let address = extensions.get::<ConnectInfo<SocketAddr>>();
        let browser = headers.get(USER_AGENT).map(|value| {
            let text = String::from_utf8_lossy(value.as_bytes());
            let text: String = text.chars().take(BROWSER_CHARACTERS_MAX).collect();
            print::visible(&text)
        });
        Self {
            address: address.map(|ConnectInfo(address)| address.ip().to_canonical()),
            browser,
        }
    }
}

/// Returns the cookie `name`; `None` if it is missing or empty.
pub(crate) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut cookies = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(Cookie::split_parse)
        .flatten();
    let found = cookies.find(|cookie| cookie.name() == name)?;
    Some(found.value().to_owned()).filter(|value| !value.is_empty())
}

/// The request header that the script sends when it reloads a page without the user.
const REFRESH: &str = "everpost-refresh";

/// Reports whether the script of the page reloads it. Such a request leaves the messages for the user in the session.
pub(crate) fn is_refresh(headers: &HeaderMap) -> bool {
    headers.contains_key(REFRESH)
}

#[rustfmt::skip] // a table
const BROWSERS: [(&str, &str); 6] = [
    ("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"), ("Safari/", "Safari"), ("curl/", "curl"),
];

#[rustfmt::skip] // a table
const SYSTEMS: [(&str, &str); 6] = [
    ("Android", "Android"), ("iPhone", "iOS"), ("iPad", "iPadOS"),
    ("Windows", "Windows"), ("Mac OS X", "macOS"), ("Linux", "Linux"),
];

/// Returns the browser and the system that a `User-Agent` claims, in a few words.
pub(crate) fn browser_words(user_agent: &str) -> String {
    let named = |names: &[(&str, &'static str)]| {
        let found = names.iter().find(|(mark, _)| user_agent.contains(mark));
        found.map(|(_, name)| *name)
    };
    match (named(&BROWSERS), named(&SYSTEMS)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(name), None) | (None, Some(name)) => name.to_owned(),
        (None, None) => user_agent.chars().take(40).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refresh_is_told_apart() {
        let mut headers = HeaderMap::new();
        assert!(!is_refresh(&headers));
        headers.insert(REFRESH, "true".parse().expect("a value"));
        assert!(is_refresh(&headers));
    }

    #[test]
    fn browsers_are_told_apart() {
        for (user_agent, words) in [
            (
                "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
                "Firefox on Linux",
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0 Safari/537.36 Edg/142.0",
                "Edge on Windows",
            ),
            (
                "Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 Chrome/142.0 Mobile Safari/537.36",
                "Chrome on Android",
            ),
            ("curl/8.15", "curl"),
            ("lynx", "lynx"),
            ("", ""),
        ] {
            assert_eq!(browser_words(user_agent), words);
        }
    }
}
