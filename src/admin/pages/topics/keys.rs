//! Showing and renewing the keys of a topic.

use std::sync::Arc;

use axum::extract::{Path, Query, State};

use crate::admin::bare::draw;
use crate::admin::error::PageResult;
use crate::admin::pages::keys;
use crate::admin::pages::keys::OnlyKey;
use crate::admin::pages::topics::draw_topic;
use crate::admin::pages::traffic::RangeChoice;
use crate::admin::paths::topic_page;
use crate::admin::security::csrf::Submitted;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::Flash;

/// The page of the topic with its keys on it.
pub(crate) async fn reveal_keys(
    State(site): State<Arc<Site>>,
    Path(topic): Path<String>,
    Query(only): Query<OnlyKey>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let shown = only.chosen()?;
    let visitor = visitor.with_flash().await?;
    let topic = site.made_topic(&topic)?;
    let (by, name) = (&visitor.caller, &topic.topic.name);
    site.broker.show_topic_keys(by, name).await?;
    draw_topic(&site, &visitor, &topic, &RangeChoice::default(), shown).await
}

/// Asks before a key is renewed.
pub(crate) async fn ask_to_regenerate(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path((topic, key)): Path<(String, String)>,
) -> PageResult {
    let topic = site.made_topic(&topic)?;
    let key = keys::named(&key)?;
    let name = topic.topic.name.as_str();
    let question = keys::ask_to_regenerate(&visitor, key, name, topic_page(name));
    Ok(draw(&question))
}

/// Renews a key.
pub(crate) async fn regenerate(
    State(site): State<Arc<Site>>,
    Path((topic, key)): Path<(String, String)>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let topic = site.made_topic(&topic)?;
    let key = keys::named(&key)?;
    let name = &topic.topic.name;
    site.broker
        .regenerate_key(&visitor.caller, name, key)
        .await?;
    visitor
        .flash(Flash::done(format!("{key} has been regenerated.")))
        .await?;
    Ok(keys::lead_to_key(&topic_page(name.as_str()), key))
}
