//! Forms: their fields, what was typed, and what is wrong with it.

pub(crate) mod document;
pub(crate) mod faults;
pub(crate) mod filled;
pub(crate) mod form;
pub(crate) mod json_fault;
pub(crate) mod sheet;
