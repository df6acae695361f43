//! What pages are made of: the frame around them and the parts that many of them show.
//!
//! A part is a struct of texts ready to print with a template of its own. Its output is escaped where it
//! is made, so a page prints it as it is.

use std::fmt::Display;

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::admin::session::Visitor;
use crate::admin::theme::{Theme, ThemeSwitch};
use crate::admin::{assets, page, print};
use crate::base::{Timestamp, human};
use crate::store::accounts::Role;

/// What every page behind the login has around it.
pub(super) struct Frame {
    pub(super) title: String,
    pub(super) nav: Vec<NavGroup>,
    pub(super) user: String,
    role: Role,
    pub(super) csrf: String,
    pub(super) flash: Option<Flash>,
    /// Whether the page may read itself again when something has changed.
    pub(super) live: bool,
    pub(super) theme: Theme,
    pub(super) switch: ThemeSwitch,
    pub(super) now: Moment,
    pub(super) version: &'static str,
    pub(super) icon: String,
    pub(super) style: String,
    pub(super) script: String,
}

/// Links of the navigation that belong together.
pub(super) struct NavGroup {
    /// Empty where it goes without saying.
    pub(super) title: &'static str,
    pub(super) links: Vec<NavLink>,
}

/// A link in the navigation.
pub(super) struct NavLink {
    pub(super) href: String,
    pub(super) title: &'static str,
    pub(super) current: bool,
}

impl Frame {
    /// The frame of the page `title`, as `visitor` sees it.
    pub(super) fn new(visitor: &Visitor, title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            nav: page::nav(&visitor.path, visitor.role),
            user: visitor.name.clone(),
            role: visitor.role,
            csrf: visitor.csrf.clone(),
            flash: visitor.flash.clone(),
            live: visitor.only_reads,
            theme: Theme::chosen(),
            switch: ThemeSwitch::new(back(visitor)),
            now: Moment::at(visitor.now),
            version: env!("CARGO_PKG_VERSION"),
            icon: assets::url("icon.svg"),
            style: assets::url("everpost.css"),
            script: assets::url("everpost.js"),
        }
    }

    /// The role that keeps some things from the visitor, who is to see why they are not there.
    pub(super) fn limited_to(&self) -> Option<&'static str> {
        (self.role < Role::Admin).then(|| self.role.name())
    }

    /// Where in the navigation the page belongs.
    pub(super) fn here(&self) -> Option<&NavLink> {
        let mut links = self.nav.iter().flat_map(|group| &group.links);
        links.find(|link| link.current)
    }

    /// Whether a link to the page at `path` leads somewhere.
    pub(super) fn opens(&self, path: impl Display) -> bool {
        page::opens(&path.to_string(), self.role)
    }

    /// Whether the form that is sent to `path` would be taken.
    pub(super) fn sends(&self, path: impl Display) -> bool {
        page::sends(&path.to_string(), self.role)
    }
}

/// Where to come back to from a page, without sending its form again.
fn back(visitor: &Visitor) -> String {
    match visitor.only_reads {
        true => visitor.address.clone(),
        false => "/admin".to_owned(),
    }
}

/// What pages without navigation have around them: login, set-up and errors.
pub(super) struct Bare {
    pub(super) title: String,
    pub(super) theme: Theme,
    pub(super) icon: String,
    pub(super) style: String,
    pub(super) script: String,
}

impl Bare {
    /// The frame of the page `title`.
    pub(super) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            theme: Theme::chosen(),
            icon: assets::url("icon.svg"),
            style: assets::url("everpost.css"),
            script: assets::url("everpost.js"),
        }
    }
}

/// The page as a response.
pub(super) fn draw(page: &impl Template) -> Response {
    draw_with(StatusCode::OK, page)
}

/// The page as a response with a status of its own.
pub(super) fn draw_with(status: StatusCode, page: &impl Template) -> Response {
    let html = page.render().expect("templates only write texts");
    (status, Html(html)).into_response()
}

/// How good news is; every tone has a shape of its own beside its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Tone {
    Good,
    Bad,
    Waiting,
    Neutral,
}

impl Tone {
    /// The end of its class in the stylesheet.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Waiting => "waiting",
            Self::Neutral => "neutral",
        }
    }

    /// Its shape, as the path of an icon 12 units wide.
    pub(super) fn shape(self) -> &'static str {
        match self {
            Self::Good => "M2 6.5 5 9.5 10 3",
            Self::Bad => "M3 3 9 9M9 3 3 9",
            Self::Waiting => "M6 1.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M6 3.8V6l1.6 1",
            Self::Neutral => "M2.5 6H9.5",
        }
    }
}

/// What the last action has to say.
#[derive(Clone, Debug, PartialEq, Eq, Template, Serialize, Deserialize)]
#[template(path = "admin/parts/flash.html")]
pub(super) struct Flash {
    tone: Tone,
    text: String,
}

impl Flash {
    /// It worked.
    pub(super) fn done(text: impl Into<String>) -> Self {
        Self {
            tone: Tone::Good,
            text: text.into(),
        }
    }

    /// It did not work.
    pub(super) fn refused(text: impl Into<String>) -> Self {
        Self {
            tone: Tone::Bad,
            text: text.into(),
        }
    }
}

/// A state, as a word with a shape.
#[derive(Clone, Debug, Template)]
#[template(path = "admin/parts/badge.html")]
pub(super) struct Badge {
    tone: Tone,
    word: String,
}

impl Badge {
    /// The word in that tone.
    pub(super) fn new(tone: Tone, word: impl Into<String>) -> Self {
        Self {
            tone,
            word: word.into(),
        }
    }
}

/// A moment in UTC.
#[derive(Clone, Debug, PartialEq, Eq, Template)]
#[template(path = "admin/parts/moment.html")]
pub(super) struct Moment {
    iso: String,
    text: String,
}

impl Moment {
    /// To the second.
    pub(super) fn at(at: Timestamp) -> Self {
        Self {
            iso: at.to_string(),
            text: human::date_time(at),
        }
    }

    /// The day alone.
    pub(super) fn day(at: Timestamp) -> Self {
        let iso = at.to_string();
        let text = iso[..iso.len().min(10)].to_owned();
        Self { iso, text }
    }

    /// To the millisecond.
    pub(super) fn exactly(at: Timestamp) -> Self {
        Self {
            iso: at.to_string(),
            text: human::date_time_ms(at),
        }
    }
}

/// A moment to come, with how far away it is.
#[derive(Clone, Debug, Template)]
#[template(path = "admin/parts/due.html")]
pub(super) struct Due {
    at: Moment,
    from_now: String,
}

impl Due {
    /// As it is seen at `now`; what is late is due now.
    pub(super) fn new(at: Timestamp, now: Timestamp) -> Self {
        Self {
            at: Moment::at(at),
            from_now: print::relative(at.max(now), now),
        }
    }
}

/// The way to older and newest rows of a list.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "admin/parts/pager.html")]
pub(super) struct Pager {
    newest: Option<String>,
    older: Option<String>,
}

impl Pager {
    /// For a list at `path` with these filters, of which `before` was asked for and `next_before` would
    /// be the next page.
    pub(super) fn new(
        path: &str,
        filters: &[(&str, String)],
        before: bool,
        next_before: Option<String>,
    ) -> Self {
        let older = next_before.map(|next| {
            let mut filters = filters.to_vec();
            filters.push(("before", next));
            link(path, &filters)
        });
        Self {
            newest: before.then(|| link(path, filters)),
            older,
        }
    }
}

/// `path` with the parameters that have a value.
pub(super) fn link(path: &str, parameters: &[(&str, String)]) -> String {
    let given = parameters.iter().filter(|(_, value)| !value.is_empty());
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    let query = query.extend_pairs(given).finish();
    match query.as_str() {
        "" => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// What an empty list says, and the next step.
#[derive(Clone, Debug, Template)]
#[template(path = "admin/parts/empty.html")]
pub(super) struct Empty {
    pub(super) text: &'static str,
    pub(super) step: Option<(String, &'static str)>,
}

macro_rules! part {
    ($($name:ty),+ $(,)?) => { $(
        // The template has escaped whatever it printed.
        impl askama::filters::HtmlSafe for $name {}
    )+ };
}
pub(super) use part;

part!(Flash, Badge, Moment, Due, Pager, Empty);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_printed_in_utc_with_the_machine_readable_form() {
        let at = "2026-11-21T06:40:53.138Z".parse().expect("RFC 3339");
        let moment = Moment::at(at).to_string();
        let expected = "<time datetime=\"2026-11-21T06:40:53.138Z\">2026-11-21 06:40:53</time>";
        assert_eq!(moment, expected);
        assert!(
            Moment::exactly(at)
                .to_string()
                .contains(">2026-11-21 06:40:53.138<")
        );
    }

    #[test]
    fn links_leave_out_what_is_empty_and_escape_the_rest() {
        let parameters = [("topic", String::new()), ("type", "a&b *".to_owned())];
        assert_eq!(
            link("/admin/events", &parameters),
            "/admin/events?type=a%26b+*"
        );
        assert_eq!(link("/admin/events", &parameters[..1]), "/admin/events");
    }

    #[test]
    fn parts_escape_what_they_print() {
        let badge = Badge::new(Tone::Bad, "<b>\"x\"</b>").to_string();
        assert!(!badge.contains("<b>"), "{badge}");
        let flash = Flash::done("<script>").to_string();
        assert!(!flash.contains("<script>"), "{flash}");
    }
}
