//! The newest lines of the log, taken apart for reading.

use serde::Deserialize;

use crate::admin::widgets::{Time, Tone};

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

/// A line.
pub(crate) struct LogLine {
    /// `None` for a line that does not begin as the log writes lines.
    pub(crate) at: Option<Time>,
    pub(crate) level: String,
    pub(crate) tone: Tone,
    pub(crate) text: String,
}

impl LogForm {
    /// The choices: addresses below `path`, what they are called, and which is current.
    pub(crate) fn choices(&self, path: &str) -> Vec<(String, &'static str, bool)> {
        let choice = |(value, title, _): (&str, &'static str, Tone)| {
            let href = match value {
                "" => format!("{path}#log"),
                value => format!("{path}?log={value}#log"),
            };
            (href, title, value == self.log)
        };
        LEVELS.map(choice).to_vec()
    }

    /// Those of `lines` that are asked for, newest first.
    pub(crate) fn chosen(&self, lines: &[String]) -> Vec<LogLine> {
        let least = LEVELS.iter().find(|(value, ..)| *value == self.log);
        let least = least.map_or(Tone::Good, |(_, _, tone)| *tone);
        let lines = lines.iter().rev().map(|line| LogLine::new(line));
        lines.filter(|line| line.tone >= least).collect()
    }
}

impl LogLine {
    /// `2026-11-23T07:50:12.724Z  WARN something happened`.
    fn new(line: &str) -> Self {
        let (at, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (level, text) = rest.trim_start().split_once(' ').unwrap_or((rest, ""));
        let tone = match level {
            "ERROR" => Some(Tone::Bad),
            "WARN" => Some(Tone::Warn),
            "INFO" | "DEBUG" | "TRACE" => Some(Tone::Good),
            _ => None,
        };
        match (at.parse(), tone) {
            (Ok(at), Some(tone)) => Self {
                at: Some(Time::seconds(at)),
                level: level.to_owned(),
                tone,
                text: text.trim_start().to_owned(),
            },
            (Err(_), _) | (_, None) => Self {
                at: None,
                level: String::new(),
                tone: Tone::Good,
                text: line.to_owned(),
            },
        }
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
            let texts: Vec<_> = chosen.iter().map(|line| line.text.as_str()).collect();
            assert_eq!(texts, expected, "{log}");
            assert!(
                chosen
                    .iter()
                    .all(|line| line.at.is_some() || line.level.is_empty())
            );
        }
    }
}
