//! The parts of pages, which show types of the model. A part is a struct with a template; its output is escaped where
//! it is made, so a page prints it as it is.

pub(crate) mod badge;
pub(crate) mod body_view;
pub(crate) mod chart;
pub(crate) mod figure;
pub(crate) mod filters;
pub(crate) mod hint;
pub(crate) mod json_text;
pub(crate) mod kept_body;
pub(crate) mod ladder;
pub(crate) mod message;
pub(crate) mod print;
pub(crate) mod qr;
pub(crate) mod response;
pub(crate) mod strip;
pub(crate) mod time;

use crate::admin::outside::*;

pub(crate) use badge::{Badge, Icon, Tone};
pub(crate) use message::{Empty, Flash};
pub(crate) use time::Time;

macro_rules! part {
    ($($name:ty),+ $(,)?) => { $(
        // The template has escaped whatever it printed.
        impl askama::filters::HtmlSafe for $name {}
    )+ };
}
pub(crate) use part;
