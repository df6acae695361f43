//! The pages, one file or folder for each family of them.

pub(crate) mod account;
pub(crate) mod activity;
pub(crate) mod api_reference;
pub(crate) mod dead_letters;
pub(crate) mod delivery;
pub(crate) mod events;
pub(crate) mod first_event;
pub(crate) mod inspectors;
pub(crate) mod keys;

pub(crate) mod live;
pub(crate) mod log_lines;
pub(crate) mod namespaces;
pub(crate) mod outbound_check;
pub(crate) mod overview;
pub(crate) mod playground;
pub(crate) mod queue_depths;
pub(crate) mod rejected_events;
pub(crate) mod replays;
pub(crate) mod search;
pub(crate) mod second_factor;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod subscriptions;
pub(crate) mod system;
pub(crate) mod theme;
pub(crate) mod tokens;
pub(crate) mod topics;
pub(crate) mod traffic;
pub(crate) mod url_trial;
pub(crate) mod users;
