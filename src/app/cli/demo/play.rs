//! What happens, act by act: definitions, handshakes, publishing, waiting for the end.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::cli::demo::ending::Ending;
use crate::app::cli::demo::program;
use crate::app::cli::demo::progress::Progress;
use crate::app::cli::demo::role::{CANCELLED, CANCELLED_EVERY, EVENTS, PLACED, TOPIC};
use crate::app::cli::demo::stage::{Actor, Stage};
use crate::app::cli::demo::story::{self, Invitation};
use crate::app::cli::output::{items, print, text};
use crate::app::cli::place::Place;
use crate::app::cli::topics::first_key;
use crate::app::config::AdminAccount;
use crate::base::Timestamp;

/// Events of one request.
const EVENTS_PER_REQUEST: usize = 10;

/// How long both handshakes and all deliveries may take, each: many times what a slow machine needs.
const DEADLINE: Duration = Duration::from_secs(60);

/// The pause before a question is asked again.
const PAUSE: Duration = Duration::from_millis(50);

/// Plays it and tells it.
pub(super) async fn play(stage: &Stage) -> anyhow::Result<()> {
    create_topic(stage).await?;
    for actor in &stage.cast {
        subscribe(stage, actor).await?;
    }
    print(&story::cast(stage))?;

    let progress = Progress::new(stage);
    publish(stage).await?;
    print(&story::published(stage, progress.passed()))?;

    let events = settled(stage, &progress).await?;
    let ending = Ending::of(&events)?;
    print(&story::ending(&ending, stage.time_scale))?;
    Ok(())
}

async fn create_topic(stage: &Stage) -> anyhow::Result<()> {
    let body = json!({ "location": "local" });
    let made = stage
        .client
        .send(Method::PUT, &["topics", TOPIC], Some(&body));
    made.await.context("the topic cannot be made")?;
    Ok(())
}

/// Makes the event subscription and waits until its receiver has agreed to it.
async fn subscribe(stage: &Stage, actor: &Actor) -> anyhow::Result<()> {
    let name = actor.role.name;
    let path = ["topics", TOPIC, "eventSubscriptions", name];
    let body = actor.role.definition(&actor.endpoint());
    let made = stage.client.send(Method::PUT, &path, Some(&body)).await;
    let mut made = made.with_context(|| format!("the subscription {name} cannot be made"))?;
    let agreed = async {
        while is_shaking_hands(&made) {
            tokio::time::sleep(PAUSE).await;
            made = stage.client.get(&path, &[]).await?;
        }
        anyhow::Ok(())
    };
    let agreed = tokio::time::timeout(DEADLINE, agreed).await;
    agreed.with_context(|| format!("the handshake with {name} does not end"))??;
    match text(&made, "/properties/provisioningState").as_str() {
        "Succeeded" => Ok(()),
        state => bail!(
            "the handshake with {name} ended as {state}: {}",
            text(&made, "/properties/everpost/validationFailure")
        ),
    }
}

fn is_shaking_hands(subscription: &Value) -> bool {
    let state = text(subscription, "/properties/provisioningState");
    matches!(state.as_str(), "Creating" | "Updating")
}

async fn publish(stage: &Stage) -> anyhow::Result<()> {
    let place = Place::custom(TOPIC);
    let key = first_key(&stage.client, place).await?;
    let path = place.publish_path();
    for first in (1..=EVENTS).step_by(EVENTS_PER_REQUEST) {
        let numbers = first..=(first + EVENTS_PER_REQUEST - 1).min(EVENTS);
        let body = body(numbers, stage.clock.now());
        let sent = stage.client.publish(&path, &key, "application/json", body);
        let sent = sent.await;
        sent.with_context(|| format!("the events from number {first} on are not published"))?;
    }
    Ok(())
}

fn body(numbers: RangeInclusive<usize>, now: Timestamp) -> String {
    let events: Vec<Value> = numbers.map(|number| event(number, now)).collect();
    Value::from(events).to_string()
}

/// The event with this number, in Event Grid's schema.
pub(super) fn event(number: usize, now: Timestamp) -> Value {
    let is_cancelled = number.is_multiple_of(CANCELLED_EVERY);
    json!({
        "id": format!("order-{number:03}"),
        "eventType": if is_cancelled { CANCELLED } else { PLACED },
        "subject": format!("/orders/{number}"),
        "eventTime": now.to_string(),
        "data": { "total": number },
        "dataVersion": "1",
    })
}

/// Waits until every delivery has ended and returns the events with their deliveries, oldest first.
async fn settled(stage: &Stage, progress: &Progress<'_>) -> anyhow::Result<Vec<Value>> {
    let ended = tokio::time::timeout(DEADLINE, all_ended(stage));
    let ended = tokio::select! {
        ended = ended => ended,
        shown = progress.keep_showing() => match shown? {},
    };
    progress.end()?;
    let late = || format!("some deliveries have not ended after {DEADLINE:?}");
    ended.with_context(late)?
}

async fn all_ended(stage: &Stage) -> anyhow::Result<Vec<Value>> {
    let query = [
        ("topic", TOPIC.to_owned()),
        ("limit", (2 * EVENTS).to_string()),
    ];
    let list = stage.client.get(&["everpost", "events"], &query).await?;
    let mut events = Vec::new();
    for row in items(&list, "/value").iter().rev() {
        events.push(ended(stage, &text(row, "/key")).await?);
    }
    Ok(events)
}

async fn ended(stage: &Stage, key: &str) -> anyhow::Result<Value> {
    loop {
        let event = stage.client.get(&["everpost", "events", key], &[]).await?;
        let mut deliveries = items(&event, "/deliveries").iter();
        if deliveries.all(|delivery| text(delivery, "/state") != "Pending") {
            return Ok(event);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What somebody who stays can do, with everything filled in.
pub(super) async fn invitation(stage: &Stage, account: &AdminAccount) -> anyhow::Result<String> {
    let key = first_key(&stage.client, Place::custom(TOPIC)).await?;
    Ok(story::invitation(&Invitation {
        url: stage.url(),
        account,
        key: &key,
        event: &event(EVENTS + 1, stage.clock.now()),
        data_dir: &stage.data_dir,
        program: &program(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tenth_order_is_cancelled() {
        let now = Timestamp::from_ms(0);
        let events: Vec<Value> =
            serde_json::from_str(&body(1..=EVENTS, now)).expect("an array of events");
        let is_cancelled = |event: &&Value| event["eventType"] == CANCELLED;
        let cancelled: Vec<&Value> = events.iter().filter(is_cancelled).collect();
        assert_eq!((events.len(), cancelled.len()), (100, 10));
        assert_eq!(cancelled[0]["id"], "order-010");
        assert_eq!(cancelled[9]["id"], "order-100");
    }
}
