//! Asking before something that cannot be undone.

use askama::Template;

use crate::admin::view::Frame;

/// A question with what a yes would mean.
#[derive(Template)]
#[template(path = "admin/confirm.html")]
pub(super) struct Confirm {
    pub(super) frame: Frame,
    /// What would happen, one sentence each.
    pub(super) consequences: Vec<String>,
    pub(super) button: &'static str,
    /// Whether something would be lost.
    pub(super) dangerous: bool,
    /// Where a no leads to. A yes is posted to the address of the question itself.
    pub(super) back: String,
    pub(super) action: String,
}
