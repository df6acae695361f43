//! Texts that are compared without regard to letter case.

/// A text of a filter, with the form in which it is compared.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Text {
    written: String,
    folded: String,
}

impl Text {
    /// Returns the text as it was written.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Returns the form that is compared: two texts that differ in letter case alone have the same form.
    pub(super) fn folded(&self) -> &str {
        &self.folded
    }
}

impl<T: Into<String>> From<T> for Text {
    fn from(text: T) -> Self {
        let written = text.into();
        let folded = fold(&written);
        Self { written, folded }
    }
}

/// Returns a form that is equal for two texts that differ only in letter case.
///
/// Folds character by character, so that the folded form of a prefix, suffix or part of a text is a prefix, suffix or
/// part of the folded text. `str::to_lowercase` does not promise that: it looks at the neighbors of a sigma.
pub(super) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars().map(fold_char).collect()
}

/// Converts to upper case first, so that letters with one capital, such as the two small sigmas, become equal.
fn fold_char(letter: char) -> char {
    let upper = single(letter.to_uppercase()).unwrap_or(letter);
    single(upper.to_lowercase()).unwrap_or(upper)
}

fn single(mut letters: impl Iterator<Item = char>) -> Option<char> {
    letters.next().filter(|_| letters.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(one: &str, other: &str, equal: bool) {
        assert_eq!(fold(one) == fold(other), equal, "{one} {other}");
    }

    #[test]
    fn letter_case_alone_makes_no_difference() {
        check("", "", true);
        check("Orders/PAID", "orders/paid", true);
        check("orders", "order", false);
        check("ÄÖÜ", "äöü", true);
        check("Ä", "a", false);
        check("straße", "STRAßE", true);
        // Letter by letter: two letters never equal one.
        check("straße", "STRASSE", false);
        check("ΟΔΟΣ", "οδος", true);
        check("ΟΔΟΣ", "οδοσ", true);
        check("ДОМ", "дом", true);
        check("K", "k", true); // the sign of the kelvin
    }

    #[test]
    fn parts_stay_parts() {
        assert!(fold("ΟΔΟΣΑ").starts_with(&fold("ΟΔΟΣ")));
        assert!(fold("İstanbul").ends_with(&fold("STANBUL")));
    }
}
