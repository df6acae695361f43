//! Parses texts into values. Each error states the fault of the text and a valid form.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::HeaderName;
use ipnet::IpNet;
use url::Url;
use uuid::Uuid;

use crate::base::TimeScale;
use crate::model::access::Secret;
use crate::model::backup::BackupPlace;
use crate::model::destination::EndpointUrl;
use crate::model::own_host::{OwnHost, is_loopback};
use crate::store::MasterKeys;

type Parsed<T> = Result<T, String>;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

pub(super) fn path(text: &str) -> Parsed<PathBuf> {
    if text.is_empty() {
        Err("is empty; name a directory".to_owned())
    } else {
        Ok(PathBuf::from(text))
    }
}

/// A directory, or a bucket.
pub(super) fn backup_place(text: &str) -> Parsed<BackupPlace> {
    path(text)?;
    BackupPlace::parse(text).map_err(|problem| format!("is {text:?}; {problem}"))
}

/// The URL of a service.
pub(super) fn endpoint(text: &str) -> Parsed<EndpointUrl> {
    let url = EndpointUrl::parse(text)
        .ok()
        .filter(|url| url.reveal().query().is_none() && url.is_uri());
    url.ok_or_else(|| {
        format!("is {text:?}; write an http or https URL without ?, like https://s3.example.com")
    })
}

pub(super) fn file(text: &str) -> Parsed<PathBuf> {
    if text.is_empty() {
        Err("is empty; name a file".to_owned())
    } else {
        Ok(PathBuf::from(text))
    }
}

pub(super) fn socket_address(text: &str) -> Parsed<SocketAddr> {
    text.parse().map_err(|_| {
        format!("is {text:?}, which is not an address with a port; write it like 127.0.0.1:8080")
    })
}

pub(super) fn public_url(text: &str) -> Parsed<Url> {
    let wrong = |why| Err(format!("{why}; write it like https://events.example.com"));
    let Ok(url) = Url::parse(text) else {
        return wrong("is not an absolute URL");
    };
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return wrong("is not an http or https URL with a host");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return wrong("holds a user name or a password");
    }
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return wrong("goes on after host and port");
    }
    Ok(url)
}

/// Parses an issuer and keeps it as written, since issuers are compared character by character.
pub(super) fn issuer(text: &str) -> Parsed<String> {
    let url = Url::parse(text).ok();
    let is_here = |url: &Url| url.host().as_ref().is_some_and(is_loopback);
    let is_safe = |url: &Url| url.scheme() == "https" || (url.scheme() == "http" && is_here(url));
    let is_plain = |url: &Url| url.query().is_none() && url.fragment().is_none();
    if url.is_some_and(|url| url.has_host() && is_safe(&url) && is_plain(&url)) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "is {text:?}; write an https URL without ? and #, like https://login.example.com/realms/main (http only for a \
             provider on this machine)"
        ))
    }
}

/// A word of a protocol.
pub(super) fn visible(text: &str) -> Parsed<String> {
    let is_valid = (1..=256).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic());
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "has {text:?}; write 1 to 256 visible ASCII characters, no spaces"
        ))
    }
}

/// A client secret. Its errors do not show it.
pub(super) fn client_secret(text: &str) -> Parsed<Secret> {
    if text.is_empty() || text.chars().any(char::is_control) {
        Err("is empty, or holds control characters".to_owned())
    } else {
        Ok(Secret::new(text))
    }
}

pub(super) fn group(text: &str) -> Parsed<String> {
    if text.trim().is_empty() {
        Err("has an empty group; write its name, or * for everybody".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

pub(super) fn header(text: &str) -> Parsed<HeaderName> {
    let header = text.parse();
    header.map_err(|_| {
        format!("is {text:?}, which is no name of a header; write it like X-Forwarded-User")
    })
}

pub(super) fn time_scale(text: &str) -> Parsed<TimeScale> {
    let factor = number(1..=1_000_000)(text)?;
    Ok(TimeScale::new(factor).expect("the bounds leave out zero"))
}

/// Parses one of the given words.
pub(super) fn word<T: Copy, const N: usize>(
    words: &'static [(&'static str, T); N],
) -> impl Fn(&str) -> Parsed<T> {
    move |text| {
        let known = words.iter().find(|(word, _)| *word == text);
        known.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            format!("is {text:?}; write {}", words.join(" or "))
        })
    }
}

/// Levels, or `target=level`, separated by commas. The filter itself takes a misspelt level for a target.
pub(super) fn log_level(text: &str) -> Parsed<String> {
    let is_level = |level: &str| LEVELS.contains(&level.to_ascii_lowercase().as_str());
    let is_directive = |directive: &str| match directive.trim().split_once('=') {
        Some((target, level)) => !target.is_empty() && is_level(level),
        None => is_level(directive.trim()),
    };
    if text.split(',').all(is_directive) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "is {text:?}; write one of {}, or levels of modules, such as \"info,everpost::broker=debug\"",
            LEVELS.join(", ")
        ))
    }
}

pub(super) fn network(text: &str) -> Parsed<IpNet> {
    let address = || text.parse::<IpAddr>().map(IpNet::from).ok();
    text.parse().ok().or_else(address).ok_or_else(|| {
        format!("has {text:?}, which is not a network; write it like 10.0.0.0/8 or fd00::/8")
    })
}

pub(super) fn uuid(text: &str) -> Parsed<Uuid> {
    Uuid::from_str(text).map_err(|_| {
        format!(
            "is {text:?}, which is not a UUID; write it like 00000000-0000-0000-0000-000000000000"
        )
    })
}

/// Azure's own rule for names of resource groups.
pub(super) fn resource_group(text: &str) -> Parsed<String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_().".contains(c);
    let is_valid = (1..=90).contains(&text.len()) && text.chars().all(is_allowed);
    if is_valid && !text.ends_with('.') {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "is {text:?}; write up to 90 letters, digits, hyphens, underscores, parentheses and periods, no period last"
        ))
    }
}

pub(super) fn host_name(text: &str) -> Parsed<String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.chars().all(is_allowed);
    if text.len() <= 253 && text.split('.').all(is_label) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "is {text:?}, which is not a host name; write it like eventgrid.azure.net"
        ))
    }
}

/// A host name or an address, as browsers name it.
pub(super) fn host(text: &str) -> Parsed<OwnHost> {
    OwnHost::parse(text).ok_or_else(|| {
        format!(
            "has {text:?}, which is not a host name or an address; write it like events.lan or 192.168.1.5, \
             without scheme, port or *"
        )
    })
}

pub(super) fn switch(text: &str) -> Parsed<bool> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("is {text:?}; write true or false")),
    }
}

/// A whole number within bounds.
pub(super) fn number<T>(bounds: RangeInclusive<T>) -> impl Fn(&str) -> Parsed<T>
where
    T: FromStr + PartialOrd + Display,
{
    move |text| {
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        number.ok_or_else(|| {
            let (least, most) = (bounds.start(), bounds.end());
            format!("is {text:?}; write a whole number from {least} to {most}")
        })
    }
}

pub(super) fn seconds(bounds: RangeInclusive<u64>) -> impl Fn(&str) -> Parsed<Duration> {
    move |text| number(bounds.clone())(text).map(Duration::from_secs)
}

pub(super) fn hours(bounds: RangeInclusive<u64>) -> impl Fn(&str) -> Parsed<Duration> {
    move |text| number(bounds.clone())(text).map(|hours| Duration::from_secs(hours * 3_600))
}

/// Mebibytes, as bytes; a pebibyte is more than any disk has.
pub(super) fn mebibytes(text: &str) -> Parsed<u64> {
    number(0..=1_073_741_824)(text).map(|mebibytes: u64| mebibytes * 1_048_576)
}

/// A token that fits into a header. Its errors do not show it.
pub(super) fn token(text: &str) -> Parsed<Secret> {
    if text.len() >= 16 && text.chars().all(|c| c.is_ascii_graphic()) {
        Ok(Secret::new(text))
    } else {
        Err(
            "is unfit; a token has at least 16 characters, all of them visible ASCII, no spaces"
                .to_owned(),
        )
    }
}

/// Master keys. Their errors do not show them.
pub(super) fn master_keys(text: &str) -> Parsed<MasterKeys> {
    MasterKeys::parse(text).map_err(|_| {
        "is no master key; write 32 bytes in base64, as from `openssl rand -base64 32`".to_owned()
    })
}

/// A password. Its errors do not show it.
pub(super) fn password(text: &str) -> Parsed<Secret> {
    match text.chars().count() {
        8..=1_024 => Ok(Secret::new(text)),
        count => Err(format!("has {count} characters; a password has 8 to 1024")),
    }
}

pub(super) fn user(text: &str) -> Parsed<String> {
    let is_valid = (1..=64).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    if is_valid && text.trim() == text {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "is {text:?}; write 1 to 64 characters, no spaces around them"
        ))
    }
}
