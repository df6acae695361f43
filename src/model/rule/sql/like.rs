//! Patterns: `%` stands for any run of characters, `_` for one.

use crate::model::rule::sql::EvaluationError;
use crate::model::rule::steps::Steps;

#[derive(Clone, Copy, PartialEq)]
enum Piece {
    Run,
    One,
    Exactly(char),
}

/// Returns whether all of `text` fits `pattern`. Takes a step for each character of the pattern and each comparison:
/// both may come from a message, and their lengths multiply.
pub(super) fn like(
    text: &str,
    pattern: &str,
    escape: Option<char>,
    steps: &mut Steps,
) -> Result<bool, EvaluationError> {
    let pieces = pieces(pattern, escape, steps)?;
    // What of the text is still to be compared.
    let (mut rest, mut piece) = (text.chars(), 0);
    // Where to go on if what follows the newest run does not fit: the run takes one character more.
    let mut run = None;
    loop {
        let before = rest.clone();
        let Some(found) = rest.next() else {
            break;
        };
        steps.take(1)?;
        match pieces.get(piece) {
            Some(Piece::Run) => {
                piece += 1;
                run = Some((piece, before.clone()));
                rest = before;
            }
            Some(Piece::One) => piece += 1,
            Some(Piece::Exactly(c)) if *c == found => piece += 1,
            Some(Piece::Exactly(_)) | None => {
                let Some((behind, from)) = &mut run else {
                    return Ok(false);
                };
                from.next();
                rest = from.clone();
                piece = *behind;
            }
        }
    }
    Ok(pieces[piece..].iter().all(|each| *each == Piece::Run))
}

fn pieces(
    pattern: &str,
    escape: Option<char>,
    steps: &mut Steps,
) -> Result<Vec<Piece>, EvaluationError> {
    steps.take(pattern.len())?;
    let mut pieces = Vec::new();
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        let piece = match c {
            c if Some(c) == escape => match characters.next() {
                Some(next) if Some(next) == escape || matches!(next, '%' | '_') => {
                    Piece::Exactly(next)
                }
                _ => return Err(EvaluationError::BadEscape),
            },
            '%' => Piece::Run,
            '_' => Piece::One,
            c => Piece::Exactly(c),
        };
        pieces.push(piece);
    }
    Ok(pieces)
}
