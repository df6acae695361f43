//! Moments as a reader sees them: by the clocks of the reader's zone, with UTC in the title.

use askama::Template;

use crate::admin::reader::Reader;
use crate::admin::widgets::{part, print};
use crate::base::Timestamp;

/// A moment on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Template)]
#[template(
    ext = "html",
    source = "<time datetime=\"{{ at }}\" title=\"{{ self.title() }}\">{{ self.text() }}</time>"
)]
pub(crate) struct Time {
    at: Timestamp,
    /// Of `strftime`; `None` for how far away it is.
    pattern: Option<&'static str>,
}

part!(Time);

const SECONDS: &str = "%Y-%m-%d %H:%M:%S";
const MILLISECONDS: &str = "%Y-%m-%d %H:%M:%S.%3f";

impl Time {
    /// How far away it is: `3 min ago`, `in 9 min`.
    pub(crate) fn relative(at: Timestamp) -> Self {
        let pattern = None;
        Self { at, pattern }
    }

    /// Date and time of day, to the second.
    pub(crate) fn at(at: Timestamp) -> Self {
        Self::by(SECONDS, at)
    }

    /// The same to the millisecond.
    pub(crate) fn exactly(at: Timestamp) -> Self {
        Self::by(MILLISECONDS, at)
    }

    /// The day alone.
    pub(crate) fn day(at: Timestamp) -> Self {
        Self::by("%Y-%m-%d", at)
    }

    /// The time of day to the minute, with the day where it is not today's.
    pub(crate) fn minute(at: Timestamp) -> Self {
        let reader = Reader::current();
        let today = reader.zone.local(reader.now).date();
        match reader.zone.local(at).date() == today {
            true => Self::by("%H:%M", at),
            false => Self::by("%Y-%m-%d %H:%M", at),
        }
    }

    /// The time of day to the second.
    pub(crate) fn seconds(at: Timestamp) -> Self {
        Self::by("%H:%M:%S", at)
    }

    /// The time of day to the millisecond.
    pub(crate) fn clock(at: Timestamp) -> Self {
        Self::by("%H:%M:%S.%3f", at)
    }

    /// By a pattern of `strftime`.
    pub(crate) fn by(pattern: &'static str, at: Timestamp) -> Self {
        let pattern = Some(pattern);
        Self { at, pattern }
    }

    /// What the page says.
    pub(crate) fn text(self) -> String {
        let reader = Reader::current();
        match self.pattern {
            None => print::relative(self.at, reader.now),
            Some(pattern) => reader.zone.local(self.at).strftime(pattern).to_string(),
        }
    }

    fn title(self) -> String {
        let zone = &Reader::current().zone;
        let local = zone.local(self.at).strftime(SECONDS).to_string();
        match zone.name() {
            "UTC" => format!("{local} UTC"),
            name => {
                let utc = self.at.to_string();
                let utc = utc[..utc.len().min(19)].replace('T', " ");
                format!("{local} {name} · {utc} UTC")
            }
        }
    }
}

/// A moment in other words.
#[derive(Clone, Debug, Template)]
#[template(
    ext = "html",
    source = "<time datetime=\"{{ at }}\" title=\"{{ Time::at(*at).title() }}\">{{ words }}</time>"
)]
pub(crate) struct Said {
    pub(crate) at: Timestamp,
    pub(crate) words: String,
}

part!(Said);

/// A moment to come, with how far away it is.
#[derive(Clone, Debug, Template)]
#[template(
    ext = "html",
    source = "{{ Time::minute(*at) }} <span class=\"muted\">({{ Time::relative(*at).text() }})</span>"
)]
pub(crate) struct Due {
    at: Timestamp,
}

part!(Due);

impl Due {
    /// What is late is due at `now`.
    pub(crate) fn new(at: Timestamp, now: Timestamp) -> Self {
        Self { at: at.max(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::theme;
    use crate::admin::zone::Zone;

    async fn check(zone: &str, expected: [&str; 4]) {
        let moment = |text: &str| text.parse::<Timestamp>().expect("RFC 3339");
        let reader = Reader {
            theme: theme::SYSTEM,
            zone: Zone::named(zone).expect("a zone"),
            now: moment("2026-11-21T23:42:00Z"),
            user: None,
        };
        let at = moment("2026-11-21T22:00:53.138Z");
        let drawn = reader.reads(async {
            let whole = Time::relative(at).to_string();
            let texts = [Time::exactly(at), Time::minute(at), Time::clock(at)];
            (whole, texts.map(Time::text))
        });
        let (whole, texts) = drawn.await;
        assert_eq!(whole, expected[0]);
        assert_eq!(texts, expected[1..], "{zone}");
    }

    #[tokio::test]
    async fn moments_are_shown_in_the_zone_of_the_reader() {
        let whole = "<time datetime=\"2026-11-21T22:00:53.138Z\" \
             title=\"2026-11-21 23:00:53 Europe/Berlin · 2026-11-21 22:00:53 UTC\">1 h 41 min ago</time>";
        let texts = [
            "2026-11-21 23:00:53.138",
            "2026-11-21 23:00",
            "23:00:53.138",
        ];
        check("Europe/Berlin", [whole, texts[0], texts[1], texts[2]]).await;
        let whole = "<time datetime=\"2026-11-21T22:00:53.138Z\" title=\"2026-11-21 22:00:53 UTC\">\
             1 h 41 min ago</time>";
        check(
            "UTC",
            [whole, "2026-11-21 22:00:53.138", "22:00", "22:00:53.138"],
        )
        .await;
    }
}
