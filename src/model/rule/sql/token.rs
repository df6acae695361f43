//! The tokenizer of SQL filters and actions.

use winnow::LocatingSlice;
use winnow::Parser;
use winnow::ascii::{digit0, digit1, multispace0};
use winnow::combinator::{alt, delimited, opt, preceded, repeat};
use winnow::error::ContextError;
use winnow::token::{none_of, one_of, take_while};

use crate::model::rule::sql::SqlError;

/// A token and the column at which it begins, in characters from 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Located {
    pub(super) column: usize,
    pub(super) token: SqlToken,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum SqlToken {
    /// A keyword or a name.
    Word(String),
    /// A name in brackets or quotes, which is never a keyword.
    Name(String),
    /// A parameter name, without its `@`.
    Parameter(String),
    Text(String),
    Integer(u64),
    Double(f64),
    Sign(&'static str),
    /// The end of the text.
    End,
}

/// The operators and punctuation, longer ones first so that they match before their prefixes.
const SIGNS: [&str; 17] = [
    "<>", "!=", ">=", "<=", "=", ">", "<", "(", ")", ",", "+", "-", "*", "/", "%", ".", ";",
];

/// The prefixes of comments in other SQL dialects. Comments are rejected. Otherwise, `--` would be parsed as two minus
/// signs, which is not the intention of the author.
const COMMENTS: [&str; 2] = ["--", "/*"];

type Input<'a> = LocatingSlice<&'a str>;
type Parsed<T> = Result<T, ContextError>;

/// Splits `text` into tokens, followed by [`SqlToken::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Located>, SqlError> {
    let mut input = LocatingSlice::new(text);
    let mut found = Vec::new();
    loop {
        let _: Parsed<&str> = multispace0.parse_next(&mut input);
        let column = column_of(text, input.len());
        if input.is_empty() {
            let token = SqlToken::End;
            found.push(Located { column, token });
            return Ok(found);
        }
        let rest = *input;
        if COMMENTS.iter().any(|sign| rest.starts_with(sign)) {
            let problem = "comments are not allowed; leave it out".to_owned();
            return Err(SqlError { column, problem });
        }
        let token = token(&mut input).map_err(|_| SqlError {
            column,
            problem: problem(rest),
        })?;
        found.push(Located { column, token });
    }
}

/// The column at which `left` bytes of `text` remain.
fn column_of(text: &str, left: usize) -> usize {
    text[..text.len() - left].chars().count() + 1
}

/// Explains why `rest` does not begin with a token.
fn problem(rest: &str) -> String {
    match rest.chars().next() {
        Some('\'') => "the text is not closed; expected another '".to_owned(),
        Some('[') => "the name is not closed; expected ]".to_owned(),
        Some('"') => "the name is not closed; expected another \"".to_owned(),
        Some(c) if c.is_ascii_digit() || c == '.' => {
            "the number is too large: whole numbers have 64 bits".to_owned()
        }
        Some(c) => format!("unexpected character {c:?}"),
        None => "unexpected end".to_owned(),
    }
}

fn token(input: &mut Input<'_>) -> Parsed<SqlToken> {
    alt((
        number,
        word.map(SqlToken::Word),
        quoted('\'', '\'').map(SqlToken::Text),
        quoted('[', ']').map(SqlToken::Name),
        quoted('"', '"').map(SqlToken::Name),
        preceded('@', word).map(SqlToken::Parameter),
        sign,
    ))
    .parse_next(input)
}

fn sign(input: &mut Input<'_>) -> Parsed<SqlToken> {
    for sign in SIGNS {
        if input.starts_with(sign) {
            return sign.value(SqlToken::Sign(sign)).parse_next(input);
        }
    }
    Err(ContextError::new())
}

fn word(input: &mut Input<'_>) -> Parsed<String> {
    let first = one_of(|c: char| c.is_alphabetic() || c == '_');
    let rest = take_while(0.., |c: char| c.is_alphanumeric() || c == '_');
    (first, rest).take().map(str::to_owned).parse_next(input)
}

fn exponent(input: &mut Input<'_>) -> Parsed<()> {
    (one_of(['e', 'E']), opt(one_of(['+', '-'])), digit1)
        .void()
        .parse_next(input)
}

/// Parses a text between `open` and `close`. A doubled `close` inside the text stands for a single one.
fn quoted<'a>(open: char, close: char) -> impl Parser<Input<'a>, String, ContextError> {
    let doubled = (close, close).value(close);
    let inside = repeat(0.., alt((doubled, none_of(close))));
    delimited(open, inside, close)
}

fn number(input: &mut Input<'_>) -> Parsed<SqlToken> {
    let fraction = alt((
        (digit1, '.', digit0, opt(exponent)).void(),
        ('.', digit1, opt(exponent)).void(),
        (digit1, exponent).void(),
    ));
    alt((
        fraction.take().parse_to().map(SqlToken::Double),
        digit1.parse_to().map(SqlToken::Integer),
    ))
    .parse_next(input)
}
