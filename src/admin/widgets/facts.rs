//! Things with their names, one under the other.

use askama::Template;

use crate::admin::widgets::{Moment, part};
use crate::base::Timestamp;

/// Ready to print, in the order in which they were told.
#[derive(Default, Template)]
#[template(path = "admin/parts/facts.html")]
pub(crate) struct Facts {
    all: Vec<Fact>,
}

part!(Facts);

struct Fact {
    name: &'static str,
    at: Option<Moment>,
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
            at: Some(Moment::at(at)),
            text: " UTC".to_owned(),
        });
        self
    }
}
