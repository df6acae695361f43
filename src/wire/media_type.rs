//! Media types of RFC 2046.

/// Reports whether a text is a media type: a type, a subtype, and parameters with their values.
pub(super) fn is_media_type(text: &str) -> bool {
    let mut parts = Unread { rest: text };
    if !(parts.token() && parts.mark('/') && parts.token()) {
        return false;
    }
    loop {
        parts.space();
        if parts.rest.is_empty() {
            return true;
        }
        if !parts.mark(';') {
            return false;
        }
        parts.space();
        // An empty parameter, as a semicolon at the end makes it, is passed over (RFC 9110, 5.6.6).
        if parts.rest.is_empty() || parts.rest.starts_with(';') {
            continue;
        }
        if !(parts.token() && parts.mark('=') && (parts.quoted() || parts.token())) {
            return false;
        }
    }
}

struct Unread<'a> {
    rest: &'a str,
}

impl Unread<'_> {
    /// One character or more that need no quotes.
    fn token(&mut self) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        let behind = self.rest.trim_start_matches(is_part);
        let is_there = behind.len() < self.rest.len();
        self.rest = behind;
        is_there
    }

    fn mark(&mut self, mark: char) -> bool {
        let behind = self.rest.strip_prefix(mark);
        self.rest = behind.unwrap_or(self.rest);
        behind.is_some()
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    /// A text in double quotes, in which a backslash stands before one that belongs to it.
    fn quoted(&mut self) -> bool {
        let Some(inside) = self.rest.strip_prefix('"') else {
            return false;
        };
        let mut is_escaped = false;
        for (at, c) in inside.char_indices() {
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '"' => {
                    self.rest = &inside[at + 1..];
                    return true;
                }
                _ => {}
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_told_from_other_texts() {
        for (text, expected) in [
            ("application/json", true),
            ("application/json; charset=utf-8", true),
            ("Text/Plain;charset=\"utf-8\" ; format=flowed", true),
            ("multipart/mixed; boundary=\"a;\\\"b\"", true),
            ("application/cloudevents+json;", true),
            ("", false),
            ("xyz", false),
            ("/json", false),
            ("application/", false),
            ("application/json charset=utf-8", false),
            ("application/json; charset", false),
            ("application/json; charset=\"utf-8", false),
            ("a b/c", false),
        ] {
            assert_eq!(is_media_type(text), expected, "{text}");
        }
    }
}
