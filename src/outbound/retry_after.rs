//! `Retry-After`: how long a receiver wants to get no request (RFC 9110, 10.2.3).

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;

use crate::base::Timestamp;
use crate::model::limits::RETRY_AFTER_MAX;

/// The delay that a response asks for at `now`: seconds or a date, at most [`RETRY_AFTER_MAX`]. Unreadable
/// values are ignored.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = seconds(text).or_else(|| until_date(text, now))?;
    Some(wait.min(RETRY_AFTER_MAX))
}

fn seconds(text: &str) -> Option<Duration> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // More digits than a number can hold still mean "very long".
    Some(text.parse().map_or(RETRY_AFTER_MAX, Duration::from_secs))
}

fn until_date(text: &str, now: Timestamp) -> Option<Duration> {
    let date = httpdate::parse_http_date(text).ok()?;
    Some(Timestamp::from_system(date).since(now))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(text: &str, expected_s: Option<u64>) {
        let now: Timestamp = "2026-11-21T06:40:53Z".parse().expect("a moment");
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_bytes(text.as_bytes()).expect("a header value");
        headers.insert(RETRY_AFTER, value);
        let wait = retry_after(&headers, now).map(|wait| wait.as_secs());
        assert_eq!(wait, expected_s, "{text:?}");
    }

    #[test]
    fn seconds_and_dates_are_understood() {
        check("0", Some(0));
        check("120", Some(120));
        check(" 7 ", Some(7));
        check("007", Some(7));
        check("86400", Some(86_400));
        check("86401", Some(86_400));
        check("18446744073709551616", Some(86_400));
        check("99999999999999999999999999999999", Some(86_400));
        // All three date formats that receivers may send.
        check("Sat, 21 Nov 2026 06:42:53 GMT", Some(120));
        check("Saturday, 21-Nov-26 06:42:53 GMT", Some(120));
        check("Sat Nov 21 06:42:53 2026", Some(120));
        check("Sat, 21 Nov 2026 06:40:53 GMT", Some(0));
        check("Sat, 21 Nov 2026 06:00:00 GMT", Some(0));
        check("Thu, 01 Jan 1970 00:00:00 GMT", Some(0));
        check("Fri, 31 Dec 9999 23:59:59 GMT", Some(86_400));
    }

    #[test]
    fn what_cannot_be_read_asks_for_nothing() {
        for text in [
            "",
            "-1",
            "+5",
            "1.5",
            "1e3",
            "0x10",
            "5 s",
            "5, 10",
            "soon",
            "2026-11-21T06:42:53Z",
            "Sat, 21 Nov 2026 06:42:53 CET",
            "Sat, 21 Nov 2026 06:42:53",
            "Sat, 31 Feb 2026 06:42:53 GMT",
            "Sat, 21 Nov 2026 25:42:53 GMT",
            "\u{fc}",
        ] {
            check(text, None);
        }
        assert_eq!(retry_after(&HeaderMap::new(), Timestamp::default()), None);
    }
}
