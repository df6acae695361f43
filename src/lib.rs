//! Everpost: a self-hosted event delivery appliance.
//!
//! Floors, from the ground up. A module imports floors below its own, never above, never beside it;
//! the test `tidy` enforces it.
//!
//! | floor | modules | what they are |
//! |---|---|---|
//! | 7 | [`app`] | configuration, command line, start and stop |
//! | 6 | [`api`], [`admin`] | the doors: protocol in, protocol out |
//! | 5 | [`broker`] | the verbs: publish, manage, dispatch, receive, settle |
//! | 4 | [`store`], [`outbound`] | the durable state; the world outside |
//! | 3 | [`wire`] | bytes to model and back, pure |
//! | 2 | [`model`] | nouns and rules, pure |
//! | 1 | [`base`] | where time and dice come from |

pub mod admin;
pub mod api;
pub mod app;
pub mod base;
pub mod broker;
pub mod model;
pub mod outbound;
pub mod store;
pub mod wire;
