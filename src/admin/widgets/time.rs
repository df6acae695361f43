//! Moments as a reader sees them: by the clocks of the reader's zone, with UTC in the title.

use super::*;
use crate::admin::reader::Reader;
use crate::base::human;

#[derive(Clone, Debug, PartialEq, Eq, Template)]
#[template(
    ext = "html",
    source = "<time datetime=\"{{ at }}\" title=\"{{ self.title() }}\">{{ words }}</time>"
)]
pub(crate) struct Time {
    at: Timestamp,
    words: String,
}

part!(Time);

const SECONDS: &str = "%Y-%m-%d %H:%M:%S";

impl Time {
    pub(crate) fn saying(at: Timestamp, words: impl Into<String>) -> Self {
        let words = words.into();
        Self { at, words }
    }

    pub(crate) fn by(pattern: &str, at: Timestamp) -> Self {
        let local = Reader::current().zone.local(at);
        Self::saying(at, local.strftime(pattern).to_string())
    }

    /// How far away it is: `3 min ago`, `in 9 min`.
    pub(crate) fn relative(at: Timestamp) -> Self {
        Self::saying(at, print::relative(at, Reader::current().now))
    }

    pub(crate) fn at(at: Timestamp) -> Self {
        Self::by(SECONDS, at)
    }

    /// `Tuesday, 24 November 2026`.
    pub(crate) fn long_day(at: Timestamp) -> String {
        Self::by("%A, %-d %B %Y", at).words
    }

    /// The time of day to the minute, with the day where it is not today's.
    pub(crate) fn minute(at: Timestamp) -> Self {
        let reader = Reader::current();
        let day = |at| reader.zone.local(at).date();
        if day(at) == day(reader.now) {
            Self::by("%H:%M", at)
        } else {
            Self::by("%Y-%m-%d %H:%M", at)
        }
    }

    pub(crate) fn seconds(at: Timestamp) -> Self {
        Self::by("%H:%M:%S", at)
    }

    pub(crate) fn text(self) -> String {
        self.words
    }

    fn title(&self) -> String {
        let zone = &Reader::current().zone;
        let local = zone.local(self.at).strftime(SECONDS).to_string();
        match zone.name() {
            "UTC" => format!("{local} UTC"),
            name => format!("{local} {name} · {} UTC", human::date_time(self.at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::reader::SYSTEM;
    use crate::base::zone::Zone;

    async fn check(zone: &str, expected: [&str; 4]) {
        let moment = |text: &str| text.parse::<Timestamp>().expect("RFC 3339");
        let reader = Reader {
            theme: SYSTEM,
            zone: Zone::named(zone).expect("a zone"),
            now: moment("2026-11-21T23:42:00Z"),
            user: None,
        };
        let at = moment("2026-11-21T22:00:53.138Z");
        let drawn = reader.reads(async {
            let whole = Time::relative(at).to_string();
            let exactly = Time::by("%Y-%m-%d %H:%M:%S.%3f", at);
            let texts = [exactly, Time::minute(at), Time::by("%H:%M:%S.%3f", at)];
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
