//! Patterns: `%` stands for any run of characters, `_` for one.

/// How many comparisons of characters one evaluation may spend on patterns: texts and patterns may both come
/// from a message, and their lengths multiply.
pub(super) const STEPS_MAX: usize = 1_000_000;

/// A pattern is not well-formed, or too much work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LikeError {
    /// The escape character stands at the end, or in front of a character that means nothing special.
    BadEscape,
    TooLong,
}

#[derive(Clone, Copy, PartialEq)]
enum Piece {
    Run,
    One,
    Exactly(char),
}

/// Whether all of `text` fits `pattern`. Takes what it costs from `steps`.
pub(super) fn like(
    text: &str,
    pattern: &str,
    escape: Option<char>,
    steps: &mut usize,
) -> Result<bool, LikeError> {
    let pieces = pieces(pattern, escape)?;
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut piece) = (0, 0);
    // Where to go on if what follows the newest run does not fit: the run takes one character more.
    let mut run: Option<(usize, usize)> = None;
    while at < text.len() {
        *steps = steps.checked_sub(1).ok_or(LikeError::TooLong)?;
        match pieces.get(piece) {
            Some(Piece::Run) => {
                run = Some((piece, at));
                piece += 1;
            }
            Some(Piece::One) => {
                at += 1;
                piece += 1;
            }
            Some(Piece::Exactly(c)) if *c == text[at] => {
                at += 1;
                piece += 1;
            }
            Some(Piece::Exactly(_)) | None => {
                let Some((of, from)) = run else {
                    return Ok(false);
                };
                run = Some((of, from + 1));
                (at, piece) = (from + 1, of + 1);
            }
        }
    }
    Ok(pieces[piece..].iter().all(|each| *each == Piece::Run))
}

fn pieces(pattern: &str, escape: Option<char>) -> Result<Vec<Piece>, LikeError> {
    let mut pieces = Vec::new();
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        let piece = match c {
            c if Some(c) == escape => match characters.next() {
                Some(next) if Some(next) == escape || matches!(next, '%' | '_') => {
                    Piece::Exactly(next)
                }
                _ => return Err(LikeError::BadEscape),
            },
            '%' => Piece::Run,
            '_' => Piece::One,
            c => Piece::Exactly(c),
        };
        pieces.push(piece);
    }
    Ok(pieces)
}
