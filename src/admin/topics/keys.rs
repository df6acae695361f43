//! The two keys of a topic: hidden until asked for, renewed one at a time.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect};

use crate::admin::Site;
use crate::admin::confirm::Confirm;
use crate::admin::error::{PageError, PageResult};
use crate::admin::form::Submitted;
use crate::admin::identify::topic_page;
use crate::admin::session::Visitor;
use crate::admin::topics::draw_topic;
use crate::admin::traffic::RangeChoice;
use crate::admin::view::{Flash, Frame, draw};
use crate::model::access::KeyName;

/// The page of the topic with its keys on it.
pub(in crate::admin) async fn reveal_keys(
    State(site): State<Arc<Site>>,
    Path(topic): Path<String>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let topic = site.made_topic(&topic)?;
    tracing::info!(user.name = visitor.name, topic.name = %topic.topic.name, "keys were shown");
    draw_topic(&site, &visitor, &topic, &RangeChoice::default(), true).await
}

/// Asks before a key is renewed.
pub(in crate::admin) async fn ask_to_regenerate(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path((topic, key)): Path<(String, String)>,
) -> PageResult {
    let topic = site.made_topic(&topic)?;
    let (_, key) = named(&key)?;
    let name = &topic.topic.name;
    Ok(draw(&Confirm {
        frame: Frame::new(&visitor, format!("Regenerate {key} of {name}?")),
        consequences: vec![
            format!("Publishers that use {key}, or signatures made with it, are refused at once."),
            "The other key stays as it is: have publishers use it first.".to_owned(),
        ],
        button: "Regenerate",
        dangerous: true,
        back: topic_page(name.as_str()),
        action: visitor.path.clone(),
    }))
}

/// Renews a key.
pub(in crate::admin) async fn regenerate(
    State(site): State<Arc<Site>>,
    Path((topic, key)): Path<(String, String)>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let topic = site.made_topic(&topic)?;
    let (key, word) = named(&key)?;
    let name = &topic.topic.name;
    site.broker.regenerate_key(name, key).await?;
    tracing::info!(user.name = visitor.name, topic.name = %name, key = word, "a key was renewed");
    visitor
        .tell(Flash::done(format!("{word} has been regenerated.")))
        .await?;
    Ok(Redirect::to(&topic_page(name.as_str())).into_response())
}

fn named(text: &str) -> Result<(KeyName, &'static str), PageError> {
    match text {
        "key1" => Ok((KeyName::Key1, "key1")),
        "key2" => Ok((KeyName::Key2, "key2")),
        other => Err(PageError::NotFound(format!("key {other}"))),
    }
}
