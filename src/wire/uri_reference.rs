//! References of RFC 3986, as CloudEvents has them in `source` and `dataschema`. As URLs of browsers do, they may have
//! letters beyond ASCII (RFC 3987).

use std::borrow::Cow;

/// Characters of ASCII that a reference has besides letters, digits and `%`.
const OTHERS: &str = "-._~:/?#[]@!$&'()*+,;=";

/// Describes what keeps a text from being a reference, if anything does.
pub(super) fn problem(text: &str) -> Option<String> {
    if let Some(c) = text.chars().find(|c| *c != '%' && !is_allowed(*c)) {
        return Some(format!("{c:?} has to be written as %XX"));
    }
    if let Some((at, _)) = text
        .match_indices('%')
        .find(|(at, _)| !is_escape(&text[*at..]))
    {
        let digits: String = text[at..].chars().take(3).collect();
        return Some(format!("{digits:?} is not % and two hexadecimal digits"));
    }
    if text.matches('#').count() > 1 {
        return Some("it has more than one #".to_owned());
    }
    let first = text.split(['/', '?', '#']).next().unwrap_or_default();
    let (scheme, _) = first.split_once(':')?;
    let is_rest = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let is_scheme =
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_rest);
    (!is_scheme).then(|| format!("{scheme:?} in front of the first colon is not a scheme"))
}

fn is_allowed(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphanumeric() || OTHERS.contains(c)
    } else {
        !c.is_control() && !c.is_whitespace()
    }
}

/// Reports whether a text begins with a percent sign and two hexadecimal digits.
fn is_escape(text: &str) -> bool {
    let digits = text.as_bytes().get(1..3);
    digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// Returns the text as a reference: characters that no reference may have are escaped.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    if problem(text).is_none() {
        return Cow::Borrowed(text);
    }
    let first = text.find(['/', '?', '#']).unwrap_or(text.len());
    let mut has_fragment = false;
    let mut reference = String::with_capacity(text.len() + 16);
    for (at, c) in text.char_indices() {
        let is_kept = match c {
            '%' => is_escape(&text[at..]),
            '#' => !std::mem::replace(&mut has_fragment, true),
            // It would end a scheme.
            ':' => at > first || problem(&text[..=at]).is_none(),
            c => is_allowed(c),
        };
        if is_kept {
            reference.push(c);
        } else {
            let mut bytes = [0; 4];
            let bytes = c.encode_utf8(&mut bytes).bytes();
            reference.extend(bytes.map(|byte| format!("%{byte:02X}")));
        }
    }
    Cow::Owned(reference)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn references_are_told_from_other_texts() {
        for text in [
            "",
            "https://cloudevents.io",
            "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66",
            "/a/b%20c?d=e#f",
            "#1.0",
            "//authority/path",
            "orders:created",
            "./1:2",
            "https://[2001:db8::1]/x",
            "/größe",
        ] {
            assert_eq!(problem(text), None, "{text}");
        }
        for (text, part) in [
            ("a b c", "' ' has to be"),
            ("not a uri at all", "' ' has to be"),
            ("<x>", "'<'"),
            ("/a%2", "\"%2\" is not %"),
            ("/a%zz", "\"%zz\" is not %"),
            ("a#b#c", "more than one #"),
            ("1:2", "is not a scheme"),
            (":x", "is not a scheme"),
            ("a\u{2028}b", "has to be"),
        ] {
            let problem = problem(text).expect(text);
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }

    proptest! {
        #[test]
        fn every_text_can_be_escaped(text in "\\PC{0,20}", more in "[a-c:#% <>/]{0,12}") {
            for text in [text, more] {
                let reference = escaped(&text);
                prop_assert_eq!(problem(&reference), None, "{}", reference);
                prop_assert_eq!(escaped(&reference), reference.as_ref());
            }
        }
    }
}
