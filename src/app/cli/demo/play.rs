//! The course of the demonstration: definitions, handshakes, publishing, waiting for the end, and the check that it
//! ended well.

use std::convert::Infallible;
use std::io;
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::app::cli::demo::program;
use crate::app::cli::demo::stage::{
    BILLING, CANCELLED, CANCELLED_EVERY, DemoRole, DemoStage, EVENTS, PLACED, REFUNDS, TOPIC,
};
use crate::app::cli::demo::story::{self, Invitation, Totals};
use crate::app::cli::output::{Screen, items, print, text};
use crate::app::cli::subscriptions::handshake_ended;
use crate::app::cli::topic_arg::TopicArg;
use crate::app::cli::topics::first_key;
use crate::app::receive::{ReceivedRequest, WebhookReceiver};
use crate::base::Timestamp;
use crate::model::access::Secret;
use crate::model::response_script::ScriptedResponse;
use crate::wire::received::RequestKind;

/// Number of events per request.
const EVENTS_PER_REQUEST: usize = 10;

/// Time limit for all deliveries: many times longer than a slow machine needs.
const DEADLINE: Duration = Duration::from_secs(60);

/// Pause before a query is repeated.
const PAUSE: Duration = Duration::from_millis(50);

/// Pauses between two progress updates: the first for a line that is redrawn, the second for lines that stay.
const PROGRESS_PAUSE: Duration = Duration::from_millis(100);
const LINE_PAUSE: Duration = Duration::from_secs(1);

/// Runs the demonstration and prints its output.
pub(super) async fn play(stage: &DemoStage) -> anyhow::Result<()> {
    let topic = stage
        .server
        .put(["topics", TOPIC])
        .json(&json!({ "location": "local" }));
    topic.send().await.context("the topic cannot be created")?;
    for (role, receiver) in &stage.receivers {
        subscribe(stage, role, receiver).await?;
    }
    print(&story::cast(stage))?;

    let started_at = stage.clock.now();
    publish(stage).await?;
    print(&story::published(
        stage,
        stage.clock.now().since(started_at),
    ))?;

    let ended = tokio::time::timeout(DEADLINE, all_ended(stage));
    let events = tokio::select! {
        ended = ended => ended.with_context(|| format!("some deliveries have not ended after {DEADLINE:?}"))??,
        shown = show_progress(stage, started_at) => match shown? {},
    };
    print(&format!("{}\n", progress(stage, started_at)))?;
    let deliveries = events.iter().flat_map(|event| items(event, "/deliveries"));
    let deliveries: Vec<&Value> = deliveries.collect();
    let totals = totals(events.len(), &deliveries)?;
    let first = |role: &DemoRole| {
        deliveries
            .iter()
            .find(|each| each["subscription"] == role.name)
    };
    let examples = first(&BILLING).zip(first(&REFUNDS));
    let (delivered, dead) = examples.context("there are no deliveries")?;
    let scale = stage.time_scale;
    Ok(print(&story::ending(
        delivered,
        dead,
        &totals,
        scale,
        Screen::of_stdout(),
    ))?)
}

/// Creates the event subscription and waits until its receiver has agreed to it.
async fn subscribe(
    stage: &DemoStage,
    role: &DemoRole,
    receiver: &WebhookReceiver,
) -> anyhow::Result<()> {
    let name = role.name;
    let path = ["topics", TOPIC, "eventSubscriptions", name];
    let body = role.definition(&format!("{}/{name}", receiver.url()));
    let created = stage
        .server
        .put(path)
        .json(&body)
        .send()
        .await
        .with_context(|| format!("the subscription {name} cannot be created"))?;
    let created = handshake_ended(&stage.server, &path, created).await?;
    let of = |pointer| text(&created, &format!("/properties/{pointer}"));
    match of("provisioningState").as_str() {
        "Succeeded" => Ok(()),
        state => bail!(
            "the handshake with {name} ended as {state}: {}",
            of("everpost/validationFailure")
        ),
    }
}

async fn publish(stage: &DemoStage) -> anyhow::Result<()> {
    let topic = TopicArg::custom(TOPIC);
    let key = first_key(&stage.server, topic).await?;
    for first in (1..=EVENTS).step_by(EVENTS_PER_REQUEST) {
        let numbers = first..=(first + EVENTS_PER_REQUEST - 1).min(EVENTS);
        let request = stage.server.post(topic.publish_path()).key(&key);
        let sent = request.json(&body(numbers, stage.clock.now())).text().await;
        sent.with_context(|| format!("the events from number {first} on are not published"))?;
    }
    Ok(())
}

fn body(numbers: RangeInclusive<usize>, now: Timestamp) -> Value {
    numbers.map(|number| event(number, now)).collect()
}

/// The event with this number, in Event Grid's schema.
fn event(number: usize, now: Timestamp) -> Value {
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
async fn all_ended(stage: &DemoStage) -> anyhow::Result<Vec<Value>> {
    let path = ["everpost", "events"];
    let all = json!({ "topic": TOPIC, "limit": 2 * EVENTS });
    let list = stage.server.get(path).query(all).send().await?;
    let mut events = Vec::new();
    for row in items(&list, "/value").iter().rev() {
        loop {
            let event = stage.server.get(path).at(text(row, "/key")).send().await?;
            let mut deliveries = items(&event, "/deliveries").iter();
            if deliveries.all(|delivery| delivery["state"] != "Pending") {
                events.push(event);
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(events)
}

/// Repeatedly shows the progress of the deliveries.
async fn show_progress(stage: &DemoStage, started_at: Timestamp) -> io::Result<Infallible> {
    let bar = ProgressBar::new_spinner();
    loop {
        let pause = if bar.is_hidden() {
            LINE_PAUSE
        } else {
            PROGRESS_PAUSE
        };
        tokio::time::sleep(pause).await;
        let line = progress(stage, started_at);
        if bar.is_hidden() {
            print(&format!("{line}\n"))?;
        } else {
            bar.set_message(line);
        }
    }
}

/// `  2.1 s   263 attempts   billing accepted  63 of 100   refunds rejected 10 of 10`, as the receivers see it.
fn progress(stage: &DemoStage, started_at: Timestamp) -> String {
    let passed = stage.clock.now().since(started_at).as_secs_f64();
    let mut attempts = 0;
    let mut parts = String::new();
    for (role, receiver) in &stage.receivers {
        let requests = receiver.requests();
        let statuses: Vec<u16> = requests.iter().filter_map(|each| status(each)).collect();
        attempts += statuses.len();
        let ended = statuses
            .iter()
            .filter(|status| Some(*status) == role.answers.last());
        let (name, verb, ended, all) = (role.name, role.verb, ended.count(), role.deliveries);
        let width = all.to_string().len();
        parts.push_str(&format!("   {name} {verb} {ended:>width$} of {all}"));
    }
    format!("{passed:>5.1} s   {attempts:>3} attempts{parts}")
}

/// Returns the status with which a delivery was answered.
fn status(request: &ReceivedRequest) -> Option<u16> {
    match (&request.kind, request.answer) {
        (RequestKind::Delivery, ScriptedResponse::Status(status)) => Some(status),
        (RequestKind::Delivery, ScriptedResponse::Timeout | ScriptedResponse::Close)
        | (RequestKind::Validation { .. } | RequestKind::AbuseProtection { .. }, _) => None,
    }
}

/// Counts the outcomes of all deliveries. Fails if a delivery did not end as its receiver's answers require.
fn totals(published: usize, deliveries: &[&Value]) -> anyhow::Result<Totals> {
    let mut totals = Totals {
        published,
        deliveries: deliveries.len(),
        ..Totals::default()
    };
    ensure!(
        published == EVENTS,
        "the server has {published} of {EVENTS} published events"
    );
    for role in DemoRole::ALL {
        let own = deliveries
            .iter()
            .filter(|each| each["subscription"] == role.name);
        let as_expected = own.filter(|each| has_gone_as(role, each)).count();
        let (name, expected) = (role.name, role.deliveries);
        ensure!(
            as_expected == expected,
            "{as_expected} of {expected} deliveries to {name} went as expected"
        );
        totals.attempts += expected * role.answers.len();
        match role.ends {
            "Delivered" => totals.delivered += expected,
            _ => totals.dead_lettered += expected,
        }
    }
    Ok(totals)
}

fn has_gone_as(role: &DemoRole, delivery: &Value) -> bool {
    let attempts = items(delivery, "/deliveryAttempts").iter();
    let statuses = attempts.map(|attempt| attempt["httpStatusCode"].as_u64());
    delivery["state"] == role.ends
        && statuses.eq(role.answers.iter().map(|each| Some(u64::from(*each))))
}

/// Returns the text that tells a user of a running appliance what to try, with all values filled in.
pub(super) async fn invitation(stage: &DemoStage, password: &Secret) -> anyhow::Result<String> {
    let key = first_key(&stage.server, TopicArg::custom(TOPIC)).await?;
    Ok(story::invitation(&Invitation {
        url: stage.url(),
        password,
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
        let events = body(1..=EVENTS, Timestamp::from_ms(0));
        let is_cancelled = |event: &&Value| event["eventType"] == CANCELLED;
        let cancelled: Vec<&Value> = items(&events, "").iter().filter(is_cancelled).collect();
        assert_eq!((items(&events, "").len(), cancelled.len()), (100, 10));
        assert_eq!(cancelled[0]["id"], "order-010");
        assert_eq!(cancelled[9]["id"], "order-100");
    }

    fn delivery(role: &DemoRole) -> Value {
        let attempts = role.answers.iter();
        let attempts = attempts.map(|status| json!({ "httpStatusCode": status }));
        json!({ "subscription": role.name, "state": role.ends,
            "deliveryAttempts": attempts.collect::<Vec<_>>() })
    }

    #[test]
    fn only_the_expected_ending_is_counted() {
        let all = DemoRole::ALL
            .iter()
            .flat_map(|role| vec![delivery(role); role.deliveries]);
        let all: Vec<Value> = all.collect();
        let check =
            |published: usize, change: fn(&mut Vec<Value>), expected: Result<usize, &str>| {
                let mut all = all.clone();
                change(&mut all);
                let found = totals(published, &all.iter().collect::<Vec<_>>());
                let found = found
                    .map(|totals| totals.attempts)
                    .map_err(|error| error.to_string());
                assert_eq!(found, expected.map_err(str::to_owned));
            };
        check(100, |_| {}, Ok(310));
        check(99, |_| {}, Err("the server has 99 of 100 published events"));
        check(
            100,
            |all| all[7]["state"] = json!("Pending"),
            Err("99 of 100 deliveries to billing went as expected"),
        );
        check(
            100,
            |all| all[103]["deliveryAttempts"] = json!([{ "httpStatusCode": null }]),
            Err("9 of 10 deliveries to refunds went as expected"),
        );
    }
}
