//! Showing and renewing the keys of a namespace.

use std::sync::Arc;

use axum::extract::{Path, Query, State};

use crate::admin::bare::draw;
use crate::admin::error::PageResult;
use crate::admin::pages::keys;
use crate::admin::pages::keys::OnlyKey;
use crate::admin::pages::namespaces::draw_namespace;
use crate::admin::paths::namespace_page;
use crate::admin::security::csrf::Submitted;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::Flash;

/// The page of the namespace with its keys on it.
pub(crate) async fn reveal_keys(
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
    Query(only): Query<OnlyKey>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let shown = only.chosen()?;
    let visitor = visitor.with_flash().await?;
    let entry = site.namespace(&name)?;
    let (by, name) = (&visitor.caller, &entry.namespace.name);
    site.broker.show_namespace_keys(by, name).await?;
    draw_namespace(&site, &visitor, &entry, shown).await
}

/// Asks before a key is renewed.
pub(crate) async fn ask_to_regenerate(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path((name, key)): Path<(String, String)>,
) -> PageResult {
    let entry = site.namespace(&name)?;
    let key = keys::named(&key)?;
    let name = entry.namespace.name.as_str();
    let question = keys::ask_to_regenerate(&visitor, key, name, namespace_page(name));
    Ok(draw(&question))
}

/// Renews a key.
pub(crate) async fn regenerate(
    State(site): State<Arc<Site>>,
    Path((name, key)): Path<(String, String)>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let entry = site.namespace(&name)?;
    let key = keys::named(&key)?;
    let name = &entry.namespace.name;
    site.broker
        .regenerate_namespace_key(&visitor.caller, name, key)
        .await?;
    visitor
        .flash(Flash::done(format!("{key} has been regenerated.")))
        .await?;
    Ok(keys::lead_to_key(&namespace_page(name.as_str()), key))
}
