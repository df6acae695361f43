//! Retention at work: what it costs that delivered events go while others come.
//!
//! One side may keep whatever it gets; the other is full from the beginning, so that it has to delete as much
//! as it is given. Both are filled first, take turns, and take turns at who is first.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use super::appliance::Appliance;
use super::load::{Load, Published};
use super::median;
use super::sink::{Got, Sink};

const ROUNDS: usize = 4;

/// Mebibytes that the full side may use: a few seconds of events.
const FULL_MB: &str = "32";

/// Long enough to fill it.
const FILLING: Duration = Duration::from_secs(10);

/// Two rounds of retention, which begin ten seconds apart.
const LASTING: Duration = Duration::from_secs(20);

/// Events a second of the steady part, a fraction of what two cores manage beside generator and webhook.
const STEADY_RATE: f64 = 1_000.0;

/// The longest waits are told for the last ten seconds.
const LOOKS: Duration = Duration::from_secs(5);

struct DispatchSlot {
    per_second: f64,
    /// Processor time of the appliance for each event, that of deleting others included.
    cpu_us: f64,
    p50_ms: f64,
    p99_ms: f64,
    longest_change_ms: f64,
    longest_commit_ms: f64,
    pruned: f64,
}

pub(crate) async fn measure() {
    let mut sides = [Vec::new(), Vec::new()];
    println!(
        "{:>5}  {:<7} {:>8} {:>11} {:>8} {:>8} {:>17} {:>17} {:>8}",
        "round",
        "side",
        "events/s",
        "CPU us each",
        "p50 ms",
        "p99 ms",
        "longest change ms",
        "longest commit ms",
        "deleted"
    );
    for round in 1..=ROUNDS {
        let odd = round % 2 == 1;
        for deletes in [!odd, odd] {
            let turn = take_turn(deletes).await;
            let side = if deletes { "deletes" } else { "keeps" };
            println!(
                "{round:>5}  {side:<7} {:>8.0} {:>11.0} {:>8.2} {:>8.2} {:>17.1} {:>17.1} {:>8.0}",
                turn.per_second,
                turn.cpu_us,
                turn.p50_ms,
                turn.p99_ms,
                turn.longest_change_ms,
                turn.longest_commit_ms,
                turn.pruned
            );
            sides[usize::from(deletes)].push(turn);
        }
    }
    println!("\ndeleting to keeping, of medians over {ROUNDS} rounds:");
    let compare = |name, value: fn(&DispatchSlot) -> f64| {
        let [keeping, deleting] = sides
            .each_ref()
            .map(|turns| median(&turns.iter().map(value).collect::<Vec<_>>()));
        println!(
            "  {name:<14}  {:.3}  ({deleting:.2} to {keeping:.2})",
            deleting / keeping
        );
    };
    compare("throughput", |turn| turn.per_second);
    compare("CPU", |turn| turn.cpu_us);
    compare("p50", |turn| turn.p50_ms);
    compare("p99", |turn| turn.p99_ms);
    compare("longest change", |turn| turn.longest_change_ms);
    compare("longest commit", |turn| turn.longest_commit_ms);
}

async fn take_turn(deletes: bool) -> DispatchSlot {
    let most = if deletes { FULL_MB } else { "0" };
    let settings = ["--retention-max-mb", most];
    let (appliance, sink) = (Appliance::start(&settings).await, Sink::start().await);
    let load = Load {
        key: appliance.create_topic("orders").await,
        url: format!("{}/topics/orders/api/events", appliance.url),
        types: 1,
    };
    subscribe(&appliance, &sink.url).await;
    play(&load, &sink, FILLING, None).await;
    // What kept the writer while the store was made does not count.
    tokio::time::sleep(2 * LOOKS).await;

    let watched = async {
        let cpu_before = appliance.cpu_seconds();
        let (published, fast) = play(&load, &sink, LASTING, None).await;
        let cpu = appliance.cpu_seconds().zip(cpu_before);
        let cpu_seconds = cpu.map_or(f64::NAN, |(after, before)| after - before);
        let (_, steady) = play(&load, &sink, LASTING, Some(STEADY_RATE)).await;
        DispatchSlot {
            per_second: fast.events as f64 / (fast.last - published.began).as_secs_f64(),
            cpu_us: cpu_seconds * 1e6 / fast.events as f64,
            p50_ms: steady.p50_ms,
            p99_ms: steady.p99_ms,
            longest_change_ms: 0.0,
            longest_commit_ms: 0.0,
            pruned: 0.0,
        }
    };
    let mut watched = std::pin::pin!(watched);
    let mut longest: [f64; 2] = [0.0, 0.0];
    let turn = loop {
        tokio::select! {
            turn = &mut watched => break turn,
            () = tokio::time::sleep(LOOKS) => {}
        }
        let kept = ["change", "commit"].map(|what| format!("writer_longest_{what}_seconds"));
        for (longest, name) in longest.iter_mut().zip(kept) {
            *longest = longest.max(appliance.metric(&name).await * 1e3);
        }
    };
    let pruned = appliance.metric("pruned_events_total").await;
    assert_eq!(pruned > 0.0, deletes, "one side alone deletes");
    DispatchSlot {
        longest_change_ms: longest[0],
        longest_commit_ms: longest[1],
        pruned,
        ..turn
    }
}

/// Publishes, and waits until all of it has arrived.
async fn play(
    load: &Load,
    sink: &Sink,
    lasting: Duration,
    per_second: Option<f64>,
) -> (Published, Got) {
    sink.forget();
    let published = load.publish(lasting, per_second).await;
    let got = sink.wait_for(published.events).await;
    assert_eq!(got.events, published.events, "each arrives once");
    (published, got)
}

async fn subscribe(appliance: &Appliance, webhooks: &str) {
    let destination = json!({
        "endpointType": "WebHook",
        "properties": {"endpointUrl": format!("{webhooks}/1"), "skipValidation": true},
    });
    let subscription = json!({"properties": {"destination": destination}});
    let path = "/topics/orders/eventSubscriptions/webhook";
    appliance
        .manage(Method::PUT, path, Some(&subscription))
        .await;
}
