//! Scripts of responses: `503 503 200`, `429x5 timeout close 200`.

use std::fmt;
use std::str::FromStr;

/// Entries of one script: more than anybody writes by hand, and quick to search on each request.
const ENTRIES_MAX: usize = 1_000;

/// The most repetitions of one entry, which are written after an `x`: `503x20`.
const REPEAT_MAX: u32 = 1_000_000;

/// One response of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptedResponse {
    /// An HTTP status with an empty body.
    Status(u16),
    /// No response while the connection stays open.
    Timeout,
    /// The connection is closed without a response.
    Close,
}

impl fmt::Display for ScriptedResponse {
    /// Writes the response as it is written in a script.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status}"),
            Self::Timeout => f.write_str("timeout"),
            Self::Close => f.write_str("close"),
        }
    }
}

/// The responses in their order; the last one repeats for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseScript(Vec<ScriptEntry>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ScriptEntry {
    response: ScriptedResponse,
    times: u32,
}

/// Why a text is not a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScript {
    #[error("it names no answer; write statuses such as \"503 503 200\"")]
    Empty,
    #[error("it has more than {ENTRIES_MAX} entries; shorten repetitions, as in \"503x20 200\"")]
    TooLong,
    #[error("{0:?} is no answer: write a status from 200 to 599, \"timeout\" or \"close\"")]
    AttemptResult(String),
    #[error("{0:?} does not repeat: write a number from 1 to {REPEAT_MAX} after the \"x\"")]
    Repeat(String),
}

impl ResponseScript {
    /// Returns a script that responds to all requests with `status`.
    pub fn always(status: u16) -> Self {
        Self(vec![ScriptEntry {
            response: ScriptedResponse::Status(status),
            times: 1,
        }])
    }

    /// The response to the request number `turn`, counted from 0.
    pub fn response(&self, turn: u32) -> ScriptedResponse {
        let mut passed = 0u32;
        for entry in &self.0 {
            passed = passed.saturating_add(entry.times);
            if turn < passed {
                return entry.response;
            }
        }
        self.0.last().expect("a script has an entry").response
    }
}

impl fmt::Display for ResponseScript {
    /// A text that reads back as the same script.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.0.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            match entry.times {
                1 => write!(f, "{space}{}", entry.response)?,
                times => write!(f, "{space}{}x{times}", entry.response)?,
            }
        }
        Ok(())
    }
}

impl FromStr for ResponseScript {
    type Err = InvalidScript;

    /// Reads responses that are separated by spaces or commas.
    fn from_str(text: &str) -> Result<Self, InvalidScript> {
        let words = text.split([' ', ',', '\t', '\n']);
        let entries = words
            .filter(|word| !word.is_empty())
            .take(ENTRIES_MAX + 1)
            .map(entry)
            .collect::<Result<Vec<_>, _>>()?;
        match entries.len() {
            0 => Err(InvalidScript::Empty),
            1..=ENTRIES_MAX => Ok(Self(entries)),
            _ => Err(InvalidScript::TooLong),
        }
    }
}

fn entry(word: &str) -> Result<ScriptEntry, InvalidScript> {
    let (response, times) = match word.split_once('x') {
        Some((response, times)) => (response, repeat(times, word)?),
        None => (word, 1),
    };
    let response = match response {
        "timeout" => ScriptedResponse::Timeout,
        "close" => ScriptedResponse::Close,
        status => ScriptedResponse::Status(self::status(status, word)?),
    };
    Ok(ScriptEntry { response, times })
}

fn repeat(times: &str, word: &str) -> Result<u32, InvalidScript> {
    times
        .parse()
        .ok()
        .filter(|times| (1..=REPEAT_MAX).contains(times))
        .ok_or_else(|| InvalidScript::Repeat(word.to_owned()))
}

/// Parses a status from 200 to 599. Lower ones are interim responses, which cannot end a request.
fn status(text: &str, word: &str) -> Result<u16, InvalidScript> {
    text.parse()
        .ok()
        .filter(|status| (200..=599).contains(status))
        .ok_or_else(|| InvalidScript::AttemptResult(word.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first responses of `script`, written like a script.
    fn check(script: &str, expected: &str) {
        let script: ResponseScript = script.parse().expect(script);
        let count = u32::try_from(expected.split(' ').count()).expect("a short line");
        let given: Vec<String> = (0..count)
            .map(|turn| script.response(turn).to_string())
            .collect();
        assert_eq!(given.join(" "), expected);
    }

    #[test]
    fn answers_come_in_order_and_the_last_repeats() {
        check("200", "200 200 200");
        check("503 503 200", "503 503 200 200");
        check("503x3 200", "503 503 503 200 200");
        check("503x2,429,200", "503 503 429 200");
        check("  timeout\tclose ", "timeout close close");
        check("timeoutx2 closex1 404", "timeout timeout close 404 404");
        check("200x1000000 500", "200 200");
    }

    #[test]
    fn scripts_are_written_as_they_are_read() {
        for (script, written) in [
            ("503,503 200", "503 503 200"),
            ("503x3  timeoutx1", "503x3 timeout"),
            ("close", "close"),
        ] {
            let parsed: ResponseScript = script.parse().expect(script);
            assert_eq!(parsed.to_string(), written);
            assert_eq!(written.parse(), Ok(parsed));
        }
    }

    fn reject(script: &str, expected: &str) {
        let error = script.parse::<ResponseScript>().expect_err(script);
        assert!(error.to_string().contains(expected), "{script}: {error}");
    }

    #[test]
    fn nonsense_is_rejected_with_the_word_at_fault() {
        reject("", "no answer");
        reject(" , ", "no answer");
        reject("200 ok", "\"ok\" is no answer");
        reject("100", "\"100\" is no answer");
        reject("600", "\"600\" is no answer");
        reject("503x0", "\"503x0\" does not repeat");
        reject("503x", "\"503x\" does not repeat");
        reject("503x1000001", "does not repeat");
        reject("-1", "\"-1\" is no answer");
        reject(&"200 ".repeat(ENTRIES_MAX + 1), "more than 1000 entries");
    }
}
