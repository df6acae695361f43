//! What can be done with a single delivery.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect};

use crate::admin::error::{PageError, PageResult};
use crate::admin::pages::timeline;
use crate::admin::paths::event_page;
use crate::admin::security::csrf::Submitted;
use crate::admin::security::gate;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::site::delivery_id;
use crate::admin::widgets::Flash;
use crate::admin::widgets::print::sentence;
use crate::broker::{Hold, RetryNowError};
use crate::store::views::DeliveryRow;

/// Tries a pending delivery now.
pub(crate) async fn try_now(
    State(site): State<Arc<Site>>,
    Path(id): Path<String>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let id = delivery_id(&id)?;
    let found = site.views.delivery(id).await?;
    let found = found.ok_or_else(|| PageError::NotFound(format!("delivery {id}")))?;
    match held_up(&site, &found.row) {
        Some(why) => {
            let told = format!("Nothing is sent now. {why}");
            visitor.tell(Flash::refused(told)).await?;
        }
        None => tell_whether(&visitor, site.broker.retry_now(&visitor.caller, id).await).await?,
    }
    let back = match form.raw("back") {
        back if gate::is_page(back) => back.to_owned(),
        _ => format!("{}#delivery-{id}", event_page(found.row.event)),
    };
    Ok(Redirect::to(&back).into_response())
}

fn held_up(site: &Site, row: &DeliveryRow) -> Option<String> {
    let registry = site.broker.registry();
    let (_, subscription) = registry.subscription(row.subscription_id)?;
    timeline::held_up(subscription, site.broker.clock().now())
}

async fn tell_whether(
    visitor: &Visitor,
    retried: Result<Option<Hold>, RetryNowError>,
) -> Result<(), PageError> {
    let told = match retried {
        Ok(_) => Flash::done("The next attempt is made now."),
        Err(RetryNowError::Store(error)) => return Err(error.into()),
        Err(error) => Flash::refused(sentence(&error.to_string())),
    };
    visitor.tell(told).await
}
