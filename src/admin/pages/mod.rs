//! The pages, one file or folder for each family of them.

pub(crate) mod access_rules;
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

/// A page for whoever visits it: its template, its title, and the types and values of what else the template has.
macro_rules! page {
    ($template:tt $(<$life:lifetime>)?, $visitor:expr, $title:expr, { $($name:ident: $type:ty = $value:expr,)* }) => {{
        #[derive(askama::Template)]
        #[template(path = $template)]
        struct RenderedPage $(<$life>)? {
            frame: $crate::admin::frame::PageFrame,
            $($name: $type,)*
        }
        RenderedPage {
            frame: $crate::admin::frame::PageFrame::new($visitor, $title),
            $($name: $value,)*
        }
    }};
}
pub(crate) use page;

/// Answers with such a page, or with the status of the form behind it if that is rejected.
macro_rules! answer {
    ($template:tt $(<$life:lifetime>)?, $visitor:expr, $title:expr, { $($fields:tt)* } $(, $form:ident)?) => {{
        let page = $crate::admin::pages::page!($template $(<$life>)?, $visitor, $title, { $($fields)* });
        let status = [$(page.$form.status(),)? http::StatusCode::OK][0];
        $crate::admin::error::PageResult::Ok($crate::admin::bare::draw_with(status, &page))
    }};
}
pub(crate) use answer;
