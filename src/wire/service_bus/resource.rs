//! The resource that a shared access signature is for.

/// A host and a path, or a path alone. Scheme and port are ignored: .NET clients sign without the port, others with the
/// port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenResource {
    /// In lower case, without its port; `None` for a path alone.
    host: Option<String>,
    /// The segments of the path in lower case, none of them empty. Without segments, the resource is the whole host.
    parts: Vec<String>,
}

/// Why a text is not a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTokenResource {
    #[error("it has a fragment, which a resource cannot have")]
    Fragment,
    #[error("it has a user name, which a resource cannot have")]
    User,
    #[error("it has a scheme inside of its path or its query")]
    SecondScheme,
    #[error("it has no host behind its scheme")]
    NoHost,
}

impl TokenResource {
    /// Parses a URL or a path. A text without a scheme is a path, unless its first segment is one of `hosts` (with or
    /// without a port), because clients also write `host/queue`.
    pub fn parse(text: &str, hosts: &[&str]) -> Result<Self, InvalidTokenResource> {
        if text.contains('#') {
            return Err(InvalidTokenResource::Fragment);
        }
        // The JavaScript administration client also signs the query, which does not identify the resource.
        let (place, query) = text.split_once('?').unwrap_or((text, ""));
        let (host, path) = match place.split_once("://") {
            Some((scheme, _)) if scheme.contains('/') => {
                return Err(InvalidTokenResource::SecondScheme);
            }
            Some((_scheme, rest)) => {
                let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
                if host.is_empty() {
                    return Err(InvalidTokenResource::NoHost);
                }
                (Some(host), path)
            }
            None => match place.split_once('/').unwrap_or((place, "")) {
                (first, path) if is_one_of(first, hosts) => (Some(first), path),
                _ => (None, place),
            },
        };
        if path.contains("://") || query.contains("://") {
            return Err(InvalidTokenResource::SecondScheme);
        }
        if host.is_some_and(|host| host.contains('@')) {
            return Err(InvalidTokenResource::User);
        }
        Ok(Self {
            host: host.map(without_port),
            parts: parts(path).collect(),
        })
    }

    /// Reports whether the resource is at one of `hosts` or names no host.
    pub fn is_at(&self, hosts: &[&str]) -> bool {
        let host = self.host.as_deref();
        host.is_none_or(|host| is_one_of(host, hosts))
    }

    /// Reports whether the resource is `path` or a parent of `path`.
    pub fn covers(&self, path: &str) -> bool {
        let mut below = parts(path);
        self.parts
            .iter()
            .all(|own| below.next().as_ref() == Some(own))
    }

    /// Returns the path of the resource without leading and trailing slashes.
    pub fn path(&self) -> String {
        self.parts.join("/")
    }
}

/// Returns the paths of the resources that cover `path`: the root, each parent, and `path` itself.
pub fn covering(path: &str) -> impl Iterator<Item = String> {
    let down = parts(path).scan(String::new(), |above, part| {
        if !above.is_empty() {
            above.push('/');
        }
        above.push_str(&part);
        Some(above.clone())
    });
    std::iter::once(String::new()).chain(down)
}

fn is_one_of(host: &str, hosts: &[&str]) -> bool {
    let host = without_port(host);
    !host.is_empty() && hosts.iter().any(|each| without_port(each) == host)
}

/// Returns a host in lower case without its port. An IPv6 address stands in brackets.
fn without_port(host: &str) -> String {
    let port = host.rfind(':').filter(|at| !host[*at..].contains(']'));
    host[..port.unwrap_or(host.len())].to_ascii_lowercase()
}

fn parts(path: &str) -> impl Iterator<Item = String> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTS: [&str; 2] = ["Bus.example:8080", "[::1]:80"];

    #[test]
    fn scheme_and_port_do_not_count_and_host_and_path_do() {
        for (text, is_there, path) in [
            ("https://bus.example/", true, ""),
            ("sb://BUS.example:5671/Jobs/", true, "jobs"),
            ("amqps://bus.example//a//b", true, "a/b"),
            ("http://[::1]:9/jobs", true, "jobs"),
            ("bus.example/jobs", true, "jobs"),
            ("bus.example:1", true, ""),
            ("https://bus.example/a?api-version=2021-05", true, "a"),
            ("", true, ""),
            ("/jobs", true, "jobs"),
            ("other.example/jobs", true, "other.example/jobs"),
            ("https://other.example/jobs", false, "jobs"),
            ("https://evil.bus.example/jobs", false, "jobs"),
        ] {
            let resource = TokenResource::parse(text, &HOSTS).expect(text);
            assert_eq!(resource.is_at(&HOSTS), is_there, "{text}");
            assert_eq!(resource.path(), path, "{text}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_rejected() {
        for (text, expected) in [
            ("https://bus.example/#/evil", InvalidTokenResource::Fragment),
            ("https://a@bus.example/", InvalidTokenResource::User),
            (
                "https://bus.example/http://evil",
                InvalidTokenResource::SecondScheme,
            ),
            ("bus.example/sb://evil", InvalidTokenResource::SecondScheme),
            (
                "bus.example:8080?x://y/evil",
                InvalidTokenResource::SecondScheme,
            ),
            ("https:///jobs", InvalidTokenResource::NoHost),
            ("://", InvalidTokenResource::NoHost),
        ] {
            assert_eq!(TokenResource::parse(text, &HOSTS), Err(expected), "{text}");
        }
    }

    #[test]
    fn it_covers_whole_parts_below_it() {
        for (resource, path, expected) in [
            ("", "/jobs/messages", true),
            ("jobs", "/Jobs/messages/head", true),
            ("JOBS", "jobs/$DeadLetterQueue", true),
            ("jobs", "/jobs2", false),
            ("jobs/$DeadLetterQueue", "/jobs", false),
            ("a/b", "/a", false),
        ] {
            let resource = TokenResource::parse(resource, &HOSTS).expect(resource);
            assert_eq!(resource.covers(path), expected, "{resource:?} {path}");
            let is_among = covering(path).any(|each| each == resource.path());
            assert_eq!(is_among, expected, "{resource:?} {path}");
        }
    }
}
