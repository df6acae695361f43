//! The newest lines of the log, taken apart for reading.

use serde::Deserialize;

use crate::admin::widgets::Tone;
use crate::base::Timestamp;

/// Which lines are asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LogForm {
    /// The value of one of [`LEVELS`].
    log: String,
}

/// What can be asked for: the value, what it is called, and the least tone of its lines.
const LEVELS: [(&str, &str, Tone); 3] = [
    ("", "All", Tone::Good),
    ("warnings", "Warnings", Tone::Warn),
    ("errors", "Errors", Tone::Bad),
];

/// A line. One that does not begin as the log writes lines has nothing but its text.
pub(crate) struct LogLine<'a> {
    pub(crate) at: Option<Timestamp>,
    pub(crate) level: &'a str,
    pub(crate) tone: Tone,
    pub(crate) text: &'a str,
}

impl LogForm {
    /// The choices: addresses, what they are called, and which is current.
    pub(crate) fn choices(&self) -> [(String, &'static str, bool); 3] {
        LEVELS.map(|(value, title, _)| {
            let query = if value.is_empty() { "" } else { "?log=" };
            let href = format!("/admin/system{query}{value}#log");
            (href, title, value == self.log)
        })
    }

    /// Those of `lines` that are asked for, newest first.
    pub(crate) fn chosen<'a>(&self, lines: &'a [String]) -> Vec<LogLine<'a>> {
        let least = LEVELS.iter().find(|(value, ..)| *value == self.log);
        let least = least.map_or(Tone::Good, |(_, _, tone)| *tone);
        let lines = lines.iter().rev().map(|line| LogLine::new(line));
        lines.filter(|line| line.tone >= least).collect()
    }
}

impl<'a> LogLine<'a> {
    /// `2026-11-23T07:50:12.724Z  WARN something happened`.
    fn new(line: &'a str) -> Self {
        Self::read(line).unwrap_or(Self {
            at: None,
            level: "",
            tone: Tone::Good,
            text: line,
        })
    }

    fn read(line: &'a str) -> Option<Self> {
        let (at, rest) = line.split_once(' ')?;
        let (level, text) = rest.trim_start().split_once(' ')?;
        Some(Self {
            at: Some(at.parse().ok()?),
            level,
            tone: match level {
                "ERROR" => Tone::Bad,
                "WARN" => Tone::Warn,
                "INFO" | "DEBUG" | "TRACE" => Tone::Good,
                _ => return None,
            },
            text: text.trim_start(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart_and_chosen_by_their_level() {
        let lines = [
            "2026-11-23T07:50:12.724123Z  INFO listening url=\"http://x\"",
            "2026-11-23T07:50:13.724123Z  WARN endpoint on probation",
            "2026-11-23T07:50:14.724123Z ERROR the disk is full",
            "something else",
        ];
        let lines = lines.map(str::to_owned);
        for (log, expected) in [
            (
                "",
                vec![
                    "something else",
                    "the disk is full",
                    "endpoint on probation",
                    "listening url=\"http://x\"",
                ],
            ),
            (
                "warnings",
                vec!["the disk is full", "endpoint on probation"],
            ),
            ("errors", vec!["the disk is full"]),
        ] {
            let form = LogForm {
                log: log.to_owned(),
            };
            let chosen = form.chosen(&lines);
            let texts: Vec<_> = chosen.iter().map(|line| line.text).collect();
            assert_eq!(texts, expected, "{log}");
            assert!(
                chosen
                    .iter()
                    .all(|line| line.at.is_some() || line.level.is_empty())
            );
        }
    }
}
