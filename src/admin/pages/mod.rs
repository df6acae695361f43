//! The pages, one file or folder for each family of them. `use crate::admin::pages::*` has in scope what every page is
//! made of: the parts of the floor, the nouns of the model, what the store's views answer, and JSON.

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

pub(crate) use crate::admin::form_error::{all_of, form_errors, of_fields, said};
pub(crate) use crate::admin::forms::document::Shape;
pub(crate) use crate::admin::forms::json_fault;
pub(crate) use crate::admin::forms::sheet::{Head, Sheet, SheetFields, draw_sheet, named};
pub(crate) use crate::admin::lists::bulk::{Bulk, Selectable};
pub(crate) use crate::admin::lists::by_name::NameQuery;
pub(crate) use crate::admin::lists::download::{
    FILE_BATCH, LINES, NDJSON, Rows, body_file, file, line, streamed,
};
pub(crate) use crate::admin::lists::filter::{Of, Reading, given, in_utc, moment, whole_topic};
pub(crate) use crate::admin::lists::list::{ROWS, cursor};
pub(crate) use crate::admin::lists::recipe::{command, quoted};
pub(crate) use crate::admin::page::*;
pub(crate) use crate::admin::pages::delivery::DeliveryCard;
pub(crate) use crate::admin::pages::keys::{KEYS_STOP, Keyed, Keys};
pub(crate) use crate::admin::pages::queue_depths::{LATE, QueueDepths};
pub(crate) use crate::admin::pages::traffic::{RangeChoice, TrafficCharts, bound};
pub(crate) use crate::admin::site::{existing, named_in, numbered};
pub(crate) use crate::admin::standing::{DAY, StandingView, State as Stand};
pub(crate) use crate::admin::widgets::body_view::{BodyView, carried_by};
pub(crate) use crate::admin::widgets::{
    chart::Spark, figure::Look, hint, json_text, kept_body::KeptBody, response,
};
pub(crate) use crate::base::request_memory::RequestMemory;
pub(crate) use crate::broker::Put;
pub(crate) use crate::model::access::{AccessKeys, KeyName, KeyOwner};
pub(crate) use crate::model::identity::UserSource;
pub(crate) use crate::model::lease::{QueueRef, SubQueue};
pub(crate) use crate::model::rule::{Parameters, Rule, RuleFilter, SqlFilter};
pub(crate) use crate::model::{
    alert::*, audit::*, blob_storage::*, dead_letter::*, dead_letter_filter::*, delivery::*,
    destination::*, event::*, event_filter::*, explanation::*, filter::*, filter_trial::*,
    inspector::*, name::*, registry::*, rejection::*, replay::*, retry::*, signing::*,
    subscription::*, topic::*,
};
pub(crate) use crate::store::views::{PullQueue, *};
pub(crate) use crate::wire;
pub(crate) use crate::wire::duration::{self, DURATION_MAX};
pub(crate) use crate::wire::resource::{self, SubscriptionContext};

/// A page for whoever visits it: its template, its title, and the types and values of what else the template has.
macro_rules! page {
    ($template:tt $(<$life:lifetime>)?, $visitor:expr, $title:expr, { $($name:ident: $type:ty = $value:expr,)* }) => {{
        #[derive(Template)]
        #[template(path = $template)]
        struct RenderedPage $(<$life>)? {
            frame: PageFrame,
            $($name: $type,)*
        }
        RenderedPage {
            frame: PageFrame::new($visitor, $title),
            $($name: $value,)*
        }
    }};
}
pub(crate) use page;

/// Answers with such a page, or with the status of the form behind it if that is rejected.
macro_rules! answer {
    ($template:tt $(<$life:lifetime>)?, $visitor:expr, $title:expr, { $($fields:tt)* } $(, $form:ident)?) => {{
        let page = page!($template $(<$life>)?, $visitor, $title, { $($fields)* });
        let status = [$(page.$form.status(),)? StatusCode::OK][0];
        PageResult::Ok(draw_with(status, &page))
    }};
}
pub(crate) use answer;
