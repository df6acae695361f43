//! Things with their names, one under the other.

use askama::Template;

use crate::admin::widgets::{Time, part};
use crate::base::Timestamp;

/// Ready to print, in the order in which they were told.
#[derive(Default, Template)]
#[template(path = "widgets/facts.html")]
pub(crate) struct Facts {
    all: Vec<Fact>,
}

part!(Facts);

struct Fact {
    name: &'static str,
    at: Option<Time>,
    text: String,
}

impl Facts {
    pub(crate) fn text(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.all.push(Fact {
            name,
            at: None,
            text: text.into(),
        });
        self
    }

    pub(crate) fn moment(mut self, name: &'static str, at: Timestamp) -> Self {
        self.all.push(Fact {
            name,
            at: Some(Time::at(at)),
            text: String::new(),
        });
        self
    }
}
