//! The text of the demonstration, for people who see Everpost for the first time.

use std::path::Path;
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;

use crate::app::cli::demo::USER;
use crate::app::cli::demo::stage::{DemoStage, EVENTS, TOPIC};
use crate::app::cli::output::{Screen, items, moment, text};
use crate::app::cli::table::{NamedValues, TextTable};
use crate::base::human::{date_time_ms, span};
use crate::base::{TimeScale, Timestamp};
use crate::model::access::Secret;
use crate::model::delivery::{AttemptResult, Delivery, DeliveryAttempt, DeliveryId, HttpResponse};
use crate::model::event::EventKey;
use crate::model::retry::RetryPolicy;

/// The first lines.
pub(super) fn opening(time_scale: TimeScale) -> String {
    let wait = wait_after_busy(1);
    let (factor, real, here) = (
        time_scale.factor(),
        span(wait),
        span(time_scale.shrink(wait)),
    );
    format!(
        "\
Everpost demo: {EVENTS} events, two receivers that fail, and nothing is lost.

*** TIME RUNS {factor} TIMES FASTER HERE: a wait of {real} takes {here}. ***
"
    )
}

/// Returns the shortest wait after the given number of 503 answers.
fn wait_after_busy(attempt: u32) -> Duration {
    let now = Timestamp::default();
    let failed = DeliveryAttempt {
        attempt,
        started_at: now,
        duration: Duration::ZERO,
        result: AttemptResult::answered(HttpResponse::bare(503)),
        late: None,
    };
    let delivery = Delivery {
        id: DeliveryId(0),
        number: 0,
        event: EventKey(0),
        attempts: attempt,
        published_at: now,
        first_attempt_at: Some(now),
        batch_max: None,
    };
    let next = RetryPolicy::default().next_attempt_at(&delivery, &failed, TimeScale::REAL, 0.0);
    next.since(now)
}

/// Returns the list of participants.
pub(super) fn cast(stage: &DemoStage) -> String {
    let mut lines = NamedValues::default();
    lines.add("  appliance", stage.url());
    lines.add("  data in", stage.data_dir.display().to_string());
    lines.add("  topic", TOPIC);
    for (role, _) in &stage.receivers {
        let (wanted, answers) = (role.event_type.unwrap_or("all"), role.answers(", "));
        lines.add(
            format!("  {}", role.name),
            format!("wants {wanted} events; its receiver answers each with {answers}"),
        );
    }
    format!("\nSet up, with a handshake between the appliance and each receiver\n{lines}")
}

/// Returns the text that is shown when publishing is done.
pub(super) fn published(stage: &DemoStage, took: Duration) -> String {
    format!(
        "
Published {EVENTS} events in {}, each on disk before its publisher got 200
  {}/topics/{TOPIC}/api/events

Delivering
",
        span(took),
        stage.url()
    )
}

/// Totals of the demonstration.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) published: usize,
    pub(super) deliveries: usize,
    pub(super) delivered: usize,
    pub(super) dead_lettered: usize,
    pub(super) attempts: usize,
}

/// The timelines of a delivered and of a dead-lettered event, and the totals.
pub(super) fn ending(
    delivered: &Value,
    dead: &Value,
    totals: &Totals,
    time_scale: TimeScale,
    screen: Screen,
) -> String {
    let (waits, reason) = (waits(), text(dead, "/deadLetterReason"));
    let (delivered, dead) = (
        timeline(delivered, time_scale, screen),
        timeline(dead, time_scale, screen),
    );
    let Totals {
        published,
        deliveries,
        delivered: ended_well,
        dead_lettered,
        attempts,
    } = totals;
    let lost = deliveries - ended_well - dead_lettered;
    format!(
        "
A delivered event: {delivered}  503 means \"not now\": Everpost tries again after {waits},
  and so on for a day, with a random extra of up to a tenth of each wait.

A dead-lettered event: {dead}  400 means \"never\": trying again cannot help. The event is kept, with the reason
  {reason}, until somebody resubmits it.

Totals
  {published:>5}  events published
  {deliveries:>5}  deliveries, one for each subscription that wants the event
  {attempts:>5}  attempts
  {ended_well:>5}  delivered
  {dead_lettered:>5}  dead-lettered
  {lost:>5}  lost
"
    )
}

/// `order-001 to billing`, its attempts, and how it ended.
fn timeline(delivery: &Value, time_scale: TimeScale, screen: Screen) -> String {
    let head = ["ATTEMPT", "AT (UTC)", "WAITED", "IN REAL TIME", "ANSWER"];
    let mut table = TextTable::new(head, 2);
    let mut ended_at = None;
    for attempt in items(delivery, "/deliveryAttempts") {
        let started_at = moment(attempt, "/startedAt");
        let waited = started_at
            .zip(ended_at)
            .map(|(at, before): (Timestamp, _)| at.since(before));
        let shown = |wait: Option<Duration>| wait.map_or_else(String::new, span);
        table.row([
            text(attempt, "/attempt"),
            time_of_day(started_at),
            shown(waited),
            shown(waited.map(|wait| wait * time_scale.factor())),
            answer(attempt),
        ]);
        let took = Duration::from_millis(attempt["durationMs"].as_u64().unwrap_or_default());
        ended_at = started_at.map(|at| at + took);
    }
    format!(
        "{} to {}\n{}  {} at {}\n",
        text(delivery, "/eventId"),
        text(delivery, "/subscription"),
        table.text(screen),
        text(delivery, "/state"),
        time_of_day(moment(delivery, "/endedAt"))
    )
}

/// `30 s, 30 s, 1 min, 5 min, 10 min`
fn waits() -> String {
    let waits = (1..=5).map(|attempt| span(wait_after_busy(attempt)));
    waits.collect::<Vec<_>>().join(", ")
}

/// `09:58:42.120`
fn time_of_day(at: Option<Timestamp>) -> String {
    let text = at.map_or_else(String::new, date_time_ms);
    text.split(' ').next_back().unwrap_or_default().to_owned()
}

/// `503 Service Unavailable`
fn answer(attempt: &Value) -> String {
    let status = attempt["httpStatusCode"]
        .as_u64()
        .and_then(|status| StatusCode::from_u16(u16::try_from(status).ok()?).ok());
    status.map_or_else(|| text(attempt, "/outcome"), |status| status.to_string())
}

/// Returns the suggestions that follow a demonstration whose appliance does not keep running.
pub(super) fn next_steps(program: &str) -> String {
    format!(
        "
That was all: the appliance has stopped and its data is removed. What to try next

  Look around in this one, with the admin pages
    {program} demo --stay

  Serve at http://127.0.0.1:8080, with the admin pages at http://127.0.0.1:8080/admin
    {program} serve --egress-allow 127.0.0.1/32

  In a second terminal, receive
    {program} receive --answer '503x2 200' --per-event

  In a third one, publish
    {program} topics create orders
    {program} subscriptions create billing --topic orders --endpoint http://127.0.0.1:9000/
    {program} publish --topic orders --type Order.Placed --data '{{\"total\":5}}'

  or publish as any client of Azure Event Grid does, with a key of the topic
    KEY=$({program} topics keys orders | awk '/key1/ {{ print $2 }}')
    curl -i http://127.0.0.1:8080/topics/orders/api/events -H \"aeg-sas-key: $KEY\" \\
      -H 'Content-Type: application/json' -d '[{{\"id\":\"1\",\"subject\":\"/orders/1\",
      \"eventType\":\"Order.Placed\",\"eventTime\":\"2026-01-01T00:00:00Z\",
      \"data\":{{\"total\":5}},\"dataVersion\":\"1\"}}]'

  Then see what became of them
    {program} events list
    {program} events show 1
"
    )
}

/// An appliance that keeps running for the user to explore.
pub(super) struct Invitation<'a> {
    pub(super) url: &'a str,
    pub(super) password: &'a Secret,
    /// A key of the topic.
    pub(super) key: &'a str,
    /// One more event to publish.
    pub(super) event: &'a Value,
    pub(super) data_dir: &'a Path,
    pub(super) program: &'a str,
}

/// Returns the addresses to open and the commands to paste.
pub(super) fn invitation(invitation: &Invitation) -> String {
    let Invitation {
        url,
        password,
        key,
        event,
        data_dir,
        program,
    } = invitation;
    let password = password.reveal();
    let data_dir = data_dir.display();
    format!(
        "
The appliance stays, and time stays fast. Ctrl-C stops it and removes its data.

  admin pages  {url}/admin
  sign in as   {USER}, password {password}
  publish to   {url}/topics/{TOPIC}/api/events

  Publish one more
    curl -i {url}/topics/{TOPIC}/api/events -H 'aeg-sas-key: {key}' -H 'Content-Type: application/json' -d '[{event}]'

  See what became of it
    {program} events list --data-dir {data_dir}
"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn waits_are_shown_as_they_were_and_in_real_time() {
        let attempt = |number: u32, at: &str, status: Option<u16>| json!({ "attempt": number, "startedAt": format!("2026-11-21T{at}Z"), "durationMs": 20, "outcome": "TimedOut", "httpStatusCode": status });
        let delivery = json!({
            "eventId": "order-001",
            "subscription": "billing",
            "state": "Delivered",
            "endedAt": "2026-11-21T06:40:58.030Z",
            "deliveryAttempts": [
                attempt(1, "06:40:53.000", None),
                attempt(2, "06:40:54.520", Some(503)),
                attempt(3, "06:40:58.000", Some(200)),
            ],
        });
        let scale = TimeScale::new(20).expect("a factor");
        assert_eq!(
            timeline(&delivery, scale, Screen::default()),
            "\
order-001 to billing
  ATTEMPT  AT (UTC)      WAITED  IN REAL TIME  ANSWER
  1        06:40:53.000                        TimedOut
  2        06:40:54.520  1.5 s   30 s          503 Service Unavailable
  3        06:40:58.000  3.5 s   1 min 9 s     200 OK
  Delivered at 06:40:58.030
"
        );
    }

    #[test]
    fn the_schedule_is_that_of_the_model() {
        assert_eq!(waits(), "30 s, 30 s, 1 min, 5 min, 10 min");
    }
}
