//! The `$filter` of lists, as far as Azure documents it: `name` with `eq`, `ne` and `contains`, combined with `not`,
//! `and`, `or` and parentheses. Letter case does not matter.

use crate::api::error::ApiError;

/// Maximum length of a filter in bytes. Names have at most 64.
const BYTES_MAX: usize = 2_000;

/// Maximum nesting depth of parentheses and `not`.
const DEPTH_MAX: usize = 16;

/// A condition on the name of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NameFilter {
    Is(String),
    Contains(String),
    Not(Box<NameFilter>),
    All(Vec<NameFilter>),
    Any(Vec<NameFilter>),
}

impl NameFilter {
    /// Parses a filter.
    pub(super) fn parse(text: &str) -> Result<Self, ApiError> {
        let mut parser = FilterParser {
            text,
            at: 0,
            depth: 0,
        };
        let parsed = if text.len() > BYTES_MAX {
            Err(format!("it has more than {BYTES_MAX} bytes"))
        } else {
            parser.whole()
        };
        parsed.map_err(|problem| {
            ApiError::of_field(
                "$filter",
                format!(
                    "The $filter cannot be read: {problem}. Write it like contains(name, 'orders') and name ne \
                     'orders-1'; there are eq, ne, contains, not, and, or and parentheses, for the name alone."
                ),
            )
        })
    }

    /// Reports whether the filter matches a name.
    pub(super) fn takes(&self, name: &str) -> bool {
        match self {
            Self::Is(text) => name.eq_ignore_ascii_case(text),
            Self::Contains(text) => name
                .to_ascii_lowercase()
                .contains(&text.to_ascii_lowercase()),
            Self::Not(inner) => !inner.takes(name),
            Self::All(all) => all.iter().all(|each| each.takes(name)),
            Self::Any(any) => any.iter().any(|each| each.takes(name)),
        }
    }
}

type Parsed = Result<NameFilter, String>;

struct FilterParser<'a> {
    text: &'a str,
    /// The position in `text`, in bytes.
    at: usize,
    depth: usize,
}

impl FilterParser<'_> {
    fn whole(&mut self) -> Parsed {
        let filter = self.any()?;
        if self.rest().is_empty() {
            Ok(filter)
        } else {
            Err(self.unexpected("\"and\", \"or\" or the end"))
        }
    }

    fn any(&mut self) -> Parsed {
        let mut parts = vec![self.all()?];
        while self.takes_word("or") {
            parts.push(self.all()?);
        }
        Ok(one_or(parts, NameFilter::Any))
    }

    fn all(&mut self) -> Parsed {
        let mut parts = vec![self.one()?];
        while self.takes_word("and") {
            parts.push(self.one()?);
        }
        Ok(one_or(parts, NameFilter::All))
    }

    fn one(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("it is nested more than {DEPTH_MAX} levels deep"));
        }
        let filter = if self.takes_word("not") {
            NameFilter::Not(Box::new(self.one()?))
        } else if self.takes("(") {
            let inner = self.any()?;
            self.expect(")")?;
            inner
        } else if self.takes_word("contains") {
            self.expect("(")?;
            self.name()?;
            self.expect(",")?;
            let text = self.string()?;
            self.expect(")")?;
            NameFilter::Contains(text)
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(filter)
    }

    fn comparison(&mut self) -> Parsed {
        self.name()?;
        if self.takes_word("eq") {
            return self.string().map(NameFilter::Is);
        }
        if self.takes_word("ne") {
            let is = NameFilter::Is(self.string()?);
            return Ok(NameFilter::Not(Box::new(is)));
        }
        Err(self.unexpected("eq or ne"))
    }

    fn name(&mut self) -> Result<(), String> {
        if self.takes_word("name") {
            Ok(())
        } else {
            Err(self.unexpected("name"))
        }
    }

    /// Parses a string in single quotes. Two single quotes in it stand for one.
    fn string(&mut self) -> Result<String, String> {
        if !self.takes("'") {
            return Err(self.unexpected("a text in single quotes"));
        }
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(end) = rest.find('\'') else {
                return Err("a single quote is missing at its end".to_owned());
            };
            text.push_str(&rest[..end]);
            self.at += end + 1;
            if !self.text[self.at..].starts_with('\'') {
                return Ok(text);
            }
            text.push('\'');
            self.at += 1;
        }
    }

    fn expect(&mut self, mark: &str) -> Result<(), String> {
        if self.takes(mark) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("{mark:?}")))
        }
    }

    fn takes(&mut self, mark: &str) -> bool {
        let is_there = self.rest().starts_with(mark);
        self.at += if is_there { mark.len() } else { 0 };
        is_there
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let rest = self.rest();
        let end = rest.find(|c| !is_letter(c)).unwrap_or(rest.len());
        let is_there = rest[..end].eq_ignore_ascii_case(word);
        self.at += if is_there { end } else { 0 };
        is_there
    }

    /// Skips spaces and returns the text that is still to be read.
    fn rest(&mut self) -> &str {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        &self.text[self.at..]
    }

    fn unexpected(&mut self, expected: &str) -> String {
        let place = self.text[..self.at].chars().count() + 1;
        format!("at character {place}, {expected} is expected")
    }
}

fn one_or(mut parts: Vec<NameFilter>, join: fn(Vec<NameFilter>) -> NameFilter) -> NameFilter {
    match parts.len() {
        1 => parts.swap_remove(0),
        _ => join(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_take_the_names_that_they_mean() {
        for (filter, taken) in [
            ("name eq 'orders'", "orders Orders"),
            ("NAME EQ 'ORDERS'", "orders Orders"),
            ("name ne 'orders'", "orders-1 test-a it's"),
            ("contains(namE, 'ORDER')", "orders Orders orders-1"),
            (
                "contains(name,'order') and name ne 'orders-1'",
                "orders Orders",
            ),
            ("not contains(name, 'o')", "test-a it's"),
            ("name eq 'test-a' or name eq 'it''s'", "test-a it's"),
            (
                "name eq 'x' or contains(name, '-') and not (name eq 'test-a')",
                "orders-1",
            ),
            ("not not name eq 'test-a'", "test-a"),
        ] {
            let parsed = NameFilter::parse(filter).expect(filter);
            let names = ["orders", "Orders", "orders-1", "test-a", "it's"];
            let found: Vec<_> = names
                .into_iter()
                .filter(|name| parsed.takes(name))
                .collect();
            assert_eq!(found.join(" "), taken, "{filter}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_place() {
        let deep = "(".repeat(17);
        let long = format!("name eq '{}'", "x".repeat(2_000));
        for (filter, expected) in [
            ("", "at character 1, name is expected"),
            ("location eq 'westus'", "at character 1, name is expected"),
            ("name gt 'a'", "at character 6, eq or ne is expected"),
            (
                "name eq orders",
                "at character 9, a text in single quotes is expected",
            ),
            ("name eq 'orders", "a single quote is missing"),
            (
                "name eq 'a' name eq 'b'",
                "at character 13, \"and\", \"or\" or the end is expected",
            ),
            ("contains(name 'a')", "at character 15, \",\" is expected"),
            ("(name eq 'a'", "at character 13, \")\" is expected"),
            (&deep, "nested more than 16 levels deep"),
            (&long, "more than 2000 bytes"),
        ] {
            let error = NameFilter::parse(filter).expect_err(filter);
            assert!(
                error.explanation.contains(expected),
                "{filter}: {}",
                error.explanation
            );
        }
    }
}
