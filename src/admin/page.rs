//! The names that every page imports: handlers take a [`Call`] and draw a template with a [`Frame`].

pub(crate) use crate::admin::action::{Call, Deletable, Names, Question, Subject, name_of};
pub(crate) use crate::admin::bare::{Bare, Message, draw, draw_with};
pub(crate) use crate::admin::error::{PageError, PageResult};
pub(crate) use crate::admin::forms::filled::Filled;
pub(crate) use crate::admin::forms::form::{Form, FormError};
pub(crate) use crate::admin::frame::Frame;
pub(crate) use crate::admin::lists::link;
pub(crate) use crate::admin::lists::list::List;
pub(crate) use crate::admin::lists::recipe::Recipe;
pub(crate) use crate::admin::outside::*;
pub(in crate::admin) use crate::admin::paths;
pub(crate) use crate::admin::reader::Reader;
pub(crate) use crate::admin::security::client::Client;
pub(crate) use crate::admin::security::session::Visitor;
pub(crate) use crate::admin::site::Site;
pub(crate) use crate::admin::widgets::print::sentence;
pub(crate) use crate::admin::widgets::{
    Badge, Empty, Flash, Icon, Time, Tone, filters, part, print,
};
