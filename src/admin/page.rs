//! What pages are made with: handlers take a [`Visitor`] and the [`Site`], and draw a template with a [`Frame`].

pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;

pub(crate) use askama::Template;
pub(crate) use axum::extract::{Path, Query, State};
pub(crate) use axum::response::{IntoResponse, Redirect, Response};

pub(crate) use crate::admin::action::{Call, Done, Names, Question, Subject, name_of};
pub(crate) use crate::admin::bare::{draw, draw_with};
pub(crate) use crate::admin::error::{PageError, PageResult};
pub(crate) use crate::admin::forms::filled::Filled;
pub(crate) use crate::admin::forms::form::{Form, Refusal};
pub(crate) use crate::admin::forms::sheet::{Refused, Sheet};
pub(crate) use crate::admin::frame::Frame;
pub(crate) use crate::admin::lists::link;
pub(crate) use crate::admin::lists::list::List;
pub(crate) use crate::admin::lists::recipe::Recipe;
pub(in crate::admin) use crate::admin::paths;
pub(crate) use crate::admin::security::csrf::Submitted;
pub(crate) use crate::admin::security::session::Visitor;
pub(crate) use crate::admin::site::Site;
pub(crate) use crate::admin::widgets::print::sentence;
pub(crate) use crate::admin::widgets::{
    Badge, Empty, Flash, Icon, Time, Tone, filters, part, print,
};
pub(crate) use crate::base::Timestamp;
pub(crate) use crate::model::registry::TopicEntry;
pub(crate) use crate::store::accounts::Role;
