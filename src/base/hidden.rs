//! Characters that are not seen themselves but change how others are shown.

/// Whether `c` steers: a control character, or one that turns the direction of the text around it
/// (Unicode, Bidi_Control). Text of strangers must not look otherwise than it reads.
pub fn is_hidden(c: char) -> bool {
    let turns = matches!(c,
        '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control()
}

/// The text with its hidden characters written out, as `\u{202e}`, except for those to `keep`.
pub fn visible(text: &str, keep: &[char]) -> String {
    let mut visible = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) && !keep.contains(&c) {
            true => visible.extend(c.escape_default()),
            false => visible.push(c),
        }
    }
    visible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stays_hidden_in_the_text_of_strangers() {
        for (text, line, lines) in [
            (
                "größe, 注文, عدد, 👩\u{200d}🚀\r\n\t",
                "größe, 注文, عدد, 👩\u{200d}🚀\\r\\n\\t",
                "größe, 注文, عدد, 👩\u{200d}🚀\r\n\t",
            ),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
            ("a\0b\u{1b}[2J", "a\\u{0}b\\u{1b}[2J", "a\\u{0}b\\u{1b}[2J"),
            ("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}", "\\u{9b}31m\\u{7f}"),
        ] {
            assert_eq!(visible(text, &[]), line);
            assert_eq!(visible(text, &['\r', '\n', '\t']), lines);
        }
    }
}
