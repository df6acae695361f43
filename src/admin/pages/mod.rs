//! The pages, one file or folder for each family of them. `use crate::admin::pages::*` has in scope what every page is
//! made of: the parts of the floor, the nouns of the model, what the store's views answer, and JSON.

pub(crate) mod account;
pub(crate) mod activity;
pub(crate) mod alerts;
pub(crate) mod api_reference;
pub(crate) mod dead_letters;
pub(crate) mod delivery;
pub(crate) mod events;
pub(crate) mod first_event;
pub(crate) mod inspectors;
pub(crate) mod keys;
pub(crate) mod live;
pub(crate) mod namespaces;
pub(crate) mod overview;
pub(crate) mod playground;
pub(crate) mod queue_depths;
pub(crate) mod queues;
pub(crate) mod rejected_events;
pub(crate) mod replays;
pub(crate) mod search;
pub(crate) mod service_bus;
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

pub(crate) use crate::admin::forms::form::refusals;
pub(crate) use crate::admin::forms::json_fault;
pub(crate) use crate::admin::forms::sheet::named;
pub(crate) use crate::admin::lists::bulk::{Bulk, NAMED_MAX, Selectable};
pub(crate) use crate::admin::lists::download::{FILE_BATCH, NDJSON, file, line, streamed};
pub(crate) use crate::admin::lists::filter::{Reading, given};
pub(crate) use crate::admin::lists::list::{ROWS, cursor};
pub(crate) use crate::admin::lists::recipe::{command, quoted};
pub(crate) use crate::admin::page::*;
pub(crate) use crate::admin::site::{existing, numbered};
pub(crate) use crate::admin::standing::{Standing, State as Stand};
pub(crate) use crate::admin::widgets::{hint, json_text, response};
pub(crate) use crate::model::{
    audit::*, blob_storage::*, dead_letter::*, dead_letter_filter::*, delivery::*, destination::*,
    event::*, event_filter::*, explanation::*, filter::*, filter_trial::*, name::*, registry::*,
    rejection::*, replay::*, retry::*, signing::*, subscription::*, topic::*,
};
pub(crate) use crate::store::views::{PullQueue, *};
pub(crate) use crate::wire::resource::{self, SubscriptionContext};

/// A page for whoever visits it: its template, its title, and the types and values of what else the template has.
macro_rules! page {
    ($template:tt $(<$life:lifetime>)?, $visitor:expr, $title:expr, { $($name:ident: $type:ty = $value:expr,)* }) => {{
        #[derive(Template)]
        #[template(path = $template)]
        struct Drawn $(<$life>)? {
            frame: Frame,
            $($name: $type,)*
        }
        Drawn {
            frame: Frame::new($visitor, $title),
            $($name: $value,)*
        }
    }};
}
pub(crate) use page;

/// Answers with such a page, or with the status of the form behind it if that is refused.
macro_rules! answer {
    ($template:tt $(<$life:lifetime>)?, $visitor:expr, $title:expr, { $($fields:tt)* } $(, $form:ident)?) => {{
        let page = page!($template $(<$life>)?, $visitor, $title, { $($fields)* });
        let status = [$(page.$form.status(),)? StatusCode::OK][0];
        PageResult::Ok(draw_with(status, &page))
    }};
}
pub(crate) use answer;
