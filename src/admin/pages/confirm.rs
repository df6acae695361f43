//! Asking before something that cannot be undone.

use askama::Template;

use crate::admin::frame::Frame;

/// A question with what a yes would mean.
#[derive(Template)]
#[template(path = "admin/confirm.html")]
pub(crate) struct Confirm {
    pub(crate) frame: Frame,
    /// What would happen, one sentence each.
    pub(crate) consequences: Vec<String>,
    pub(crate) button: &'static str,
    /// Whether something would be lost.
    pub(crate) dangerous: bool,
    /// Where a no leads to. A yes is posted to the address of the question itself.
    pub(crate) back: String,
    pub(crate) action: String,
}
