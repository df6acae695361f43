//! Hidden characters: invisible ones, and ones that change how other characters are displayed.

use std::ops::RangeInclusive;

/// Invisible characters that some scripts need: joiners and variation selectors for letters and emoji, number signs
/// that extend below digits, and the blank Braille pattern.
#[rustfmt::skip] // a table
const IN_WRITING: [RangeInclusive<char>; 14] = [
    '\u{600}'..='\u{605}', '\u{6dd}'..='\u{6dd}', '\u{70f}'..='\u{70f}', '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}', '\u{180b}'..='\u{180d}', '\u{180f}'..='\u{180f}', '\u{200c}'..='\u{200d}',
    '\u{2800}'..='\u{2800}', '\u{fe00}'..='\u{fe0f}', '\u{110bd}'..='\u{110bd}', '\u{110cd}'..='\u{110cd}',
    '\u{13430}'..='\u{1343f}', '\u{e0100}'..='\u{e01ef}',
];

/// Invisible characters that no script needs: the line and paragraph separators, and the characters of Unicode's
/// category Cf, such as those that control text direction, and of Default_Ignorable_Code_Point, except for the ones in
/// [`IN_WRITING`].
#[rustfmt::skip] // a table
const BESIDES: [RangeInclusive<char>; 18] = [
    '\u{ad}'..='\u{ad}', '\u{34f}'..='\u{34f}', '\u{61c}'..='\u{61c}', '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}', '\u{180e}'..='\u{180e}', '\u{200b}'..='\u{200b}', '\u{200e}'..='\u{200f}',
    '\u{2028}'..='\u{202e}', '\u{2060}'..='\u{206f}', '\u{3164}'..='\u{3164}', '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}', '\u{fff0}'..='\u{fffb}', '\u{1bca0}'..='\u{1bca3}', '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e00ff}', '\u{e01f0}'..='\u{e0fff}',
];

/// Returns whether `c` is invisible. Two names that differ only in invisible characters look the same.
fn is_hidden(c: char) -> bool {
    steers(c) || IN_WRITING.iter().any(|range| range.contains(&c))
}

/// Returns whether `c` is invisible and not needed by any script, such as a control character. Untrusted text is shown
/// with these characters escaped, since it must not look different from its content.
pub fn steers(c: char) -> bool {
    c.is_control() || (c >= '\u{ad}' && BESIDES.iter().any(|range| range.contains(&c)))
}

/// Returns the fault by which a name could look the same as another name; `None` for a name without such a fault.
pub fn problem_of_look(name: &str) -> Option<&'static str> {
    let is_blank = |c: char| c.is_whitespace() && c != ' ';
    if name.trim() != name {
        Some("it may neither begin nor end with a space")
    } else if name.chars().any(|c| is_hidden(c) || is_blank(c)) {
        Some(
            "it may hold neither control characters, nor such as are not seen, nor other spaces than the usual one",
        )
    } else if name.contains("  ") {
        Some("it may not hold two spaces in a row, which look like one")
    } else {
        None
    }
}

/// Returns the text with its hidden characters escaped in the form `\u{202e}`. Leaves characters that scripts need and
/// the characters in `keep` unchanged.
pub fn visible(text: &str, keep: &[char]) -> String {
    let mut visible = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) && !keep.contains(&c) {
            visible.extend(c.escape_default());
        } else {
            visible.push(c);
        }
    }
    visible
}

/// Returns JSON text with its hidden characters escaped in the form `\u202e`. Leaves line breaks, tabs and characters
/// that scripts need unchanged.
pub fn visible_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if steers(c) && !matches!(c, '\n' | '\r' | '\t') {
            for unit in c.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stays_hidden_in_the_text_of_strangers() {
        for (text, line, lines) in [
            (
                "größe, 注文, عدد, 👩\u{200d}🚀❤\u{fe0f}\r\n\t",
                "größe, 注文, عدد, 👩\u{200d}🚀❤\u{fe0f}\\r\\n\\t",
                "größe, 注文, عدد, 👩\u{200d}🚀❤\u{fe0f}\r\n\t",
            ),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
            ("a\0b\u{1b}[2J", "a\\u{0}b\\u{1b}[2J", "a\\u{0}b\\u{1b}[2J"),
            ("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}", "\\u{9b}31m\\u{7f}"),
            (
                "a\u{ad}\u{200b}\u{2028}\u{2060}\u{feff}\u{e0041}b",
                "a\\u{ad}\\u{200b}\\u{2028}\\u{2060}\\u{feff}\\u{e0041}b",
                "a\\u{ad}\\u{200b}\\u{2028}\\u{2060}\\u{feff}\\u{e0041}b",
            ),
        ] {
            assert_eq!(visible(text, &[]), line);
            assert_eq!(visible(text, &['\r', '\n', '\t']), lines);
        }
    }

    #[test]
    fn no_two_names_differ_in_what_is_not_seen() {
        for name in [
            "admin",
            "Jörg",
            "注文",
            "two words",
            "ann.lee+ops@example.com",
            "عدد",
        ] {
            assert_eq!(problem_of_look(name), None, "{name}");
        }
        let tags = '\u{e0000}'..='\u{e007f}';
        let bidi = ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}');
        let joiners = '\u{200b}'..='\u{200f}';
        let invisible = '\u{2060}'..='\u{2064}';
        let selectors = ('\u{fe00}'..='\u{fe0f}').chain('\u{e0100}'..='\u{e01ef}');
        let single = [
            '\0',
            '\u{7f}',
            '\u{85}',
            '\u{a0}',
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{1160}',
            '\u{1680}',
            '\u{17b4}',
            '\u{180e}',
            '\u{2003}',
            '\u{2028}',
            '\u{202f}',
            '\u{2800}',
            '\u{3000}',
            '\u{3164}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{fff9}',
            '\u{1d173}',
        ];
        let all = tags
            .chain(bidi)
            .chain(joiners)
            .chain(invisible)
            .chain(selectors);
        for c in all.chain(single) {
            for name in [
                format!("ad{c}min"),
                format!("{c}admin"),
                format!("admin{c}"),
            ] {
                assert!(problem_of_look(&name).is_some(), "{name:?}");
            }
        }
        for name in [" admin", "admin ", "two  words"] {
            assert!(problem_of_look(name).is_some(), "{name:?}");
        }
    }
}
