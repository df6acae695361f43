//! Characters that are not seen themselves but change what is seen of others.

/// Whether `c` steers: a control character, or one that turns the direction of the text around it
/// (Unicode, Bidi_Control). What strangers wrote must not show otherwise than it reads.
pub fn is_hidden(c: char) -> bool {
    let turns = matches!(c,
        '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control()
}
