//! What can be done with a single delivery.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect};

use crate::admin::Site;
use crate::admin::error::{PageError, PageResult, sentence};
use crate::admin::form::Submitted;
use crate::admin::gate;
use crate::admin::identify::{delivery_id, event_page};
use crate::admin::session::Visitor;
use crate::admin::view::Flash;
use crate::broker::HastenError;

/// Tries a pending delivery now.
pub(super) async fn try_now(
    State(site): State<Arc<Site>>,
    Path(id): Path<String>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let id = delivery_id(&id)?;
    let found = site.views.delivery(id).await?;
    let found = found.ok_or_else(|| PageError::NotFound(format!("delivery {id}")))?;
    tell_whether(&visitor, site.broker.hasten(id).await).await?;
    let back = match form.raw("back") {
        back if gate::is_page(back) => back.to_owned(),
        _ => format!("{}#delivery-{id}", event_page(found.row.event)),
    };
    Ok(Redirect::to(&back).into_response())
}

async fn tell_whether(
    visitor: &Visitor,
    hastened: Result<(), HastenError>,
) -> Result<(), PageError> {
    let told = match hastened {
        Ok(()) => Flash::done("The next attempt is made now."),
        Err(HastenError::Store(error)) => return Err(error.into()),
        Err(error) => Flash::refused(sentence(&error.to_string())),
    };
    visitor.tell(told).await
}
