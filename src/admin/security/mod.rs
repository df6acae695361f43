//! Who may do what: sessions, signing in, roles, and what browsers are told to reject.

pub(crate) mod client;
pub(crate) mod csrf;
pub(crate) mod external;
pub(crate) mod gate;
pub(crate) mod headers;
pub(crate) mod hosts;
pub(crate) mod login;
pub(crate) mod open_form;
pub(crate) mod password_again;
pub(crate) mod password_link;
pub(crate) mod provider;
pub(crate) mod proxy_user;
pub(crate) mod session;
pub(crate) mod setup;
