//! One webhook of a hundred hangs. The other 99 should hardly notice: their throughput falls by 5 % at most
//! and their p99 rises by 10 % at most.
//!
//! Both sides take turns, and take turns at who is first, each over an empty appliance: first as fast as publishers are answered, then at a
//! steady rate that leaves the machine some air, because latency at saturation says nothing.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use super::appliance::Appliance;
use super::load::Load;
use super::median;
use super::sink::Sink;

const ROUNDS: usize = 8;
const SUBSCRIPTIONS: u64 = 100;
const LASTING: Duration = Duration::from_secs(6);

/// Events a second of the steady part, a fraction of what two cores manage beside generator and webhooks.
const STEADY_RATE: f64 = 1_000.0;

/// What one turn of one side shows of the healthy webhooks.
struct DispatchSlot {
    per_second: f64,
    /// Processor time of the appliance for each delivery.
    cpu_us: f64,
    p50_ms: f64,
    p99_ms: f64,
}

pub(crate) async fn measure() {
    let mut sides = [Vec::new(), Vec::new()];
    println!(
        "{:>5}  {:<9} {:>12} {:>11} {:>8} {:>8}",
        "round", "the 100th", "deliveries/s", "CPU us each", "p50 ms", "p99 ms"
    );
    for round in 1..=ROUNDS {
        let odd = round % 2 == 1;
        for hangs in [!odd, odd] {
            let turn = take_turn(hangs).await;
            let state = if hangs { "hangs" } else { "healthy" };
            println!(
                "{round:>5}  {state:<9} {:>12.0} {:>11.0} {:>8.2} {:>8.2}",
                turn.per_second, turn.cpu_us, turn.p50_ms, turn.p99_ms
            );
            sides[usize::from(hangs)].push(turn);
        }
    }
    println!("\nhanging to healthy, of medians over {ROUNDS} rounds:");
    let compare = |name, value: fn(&DispatchSlot) -> f64, wanted| {
        let [healthy, hanging] = sides
            .each_ref()
            .map(|turns| median(&turns.iter().map(value).collect::<Vec<_>>()));
        println!("  {name:<10}  {:.3}  {wanted}", hanging / healthy);
    };
    compare(
        "throughput",
        |turn| turn.per_second,
        "(0.95 or more is wanted)",
    );
    compare("CPU", |turn| turn.cpu_us, "");
    compare("p50", |turn| turn.p50_ms, "");
    compare("p99", |turn| turn.p99_ms, "(1.10 or less is wanted)");
}

async fn take_turn(hangs: bool) -> DispatchSlot {
    let (appliance, sink) = (Appliance::start(&[]).await, Sink::start().await);
    let load = Load {
        key: appliance.create_topic("orders").await,
        url: format!("{}/topics/orders/api/events", appliance.url),
        types: SUBSCRIPTIONS,
    };
    for number in 0..SUBSCRIPTIONS {
        subscribe(&appliance, number, &sink.url).await;
    }
    sink.hang(hangs);

    sink.forget();
    let cpu_before = appliance.cpu_seconds();
    let published = load.publish(LASTING, None).await;
    let fast = sink.wait_for(published.others).await;
    assert_eq!(fast.events, published.others, "each arrives once");
    let per_second = fast.events as f64 / (fast.last - published.began).as_secs_f64();
    let cpu = appliance.cpu_seconds().zip(cpu_before);
    let cpu_seconds = cpu.map_or(f64::NAN, |(after, before)| after - before);

    sink.forget();
    let published = load.publish(LASTING, Some(STEADY_RATE)).await;
    let steady = sink.wait_for(published.others).await;
    assert_eq!(steady.events, published.others, "each arrives once");

    DispatchSlot {
        per_second,
        cpu_us: cpu_seconds * 1e6 / fast.events as f64,
        p50_ms: steady.p50_ms,
        p99_ms: steady.p99_ms,
    }
}

async fn subscribe(appliance: &Appliance, number: u64, webhooks: &str) {
    let destination = json!({
        "endpointType": "WebHook",
        "properties": {"endpointUrl": format!("{webhooks}/{number}"), "skipValidation": true},
    });
    let filter = json!({"includedEventTypes": [format!("Order.{number}")]});
    let subscription = json!({"properties": {"destination": destination, "filter": filter}});
    let path = format!("/topics/orders/eventSubscriptions/webhook-{number}");
    appliance
        .manage(Method::PUT, &path, Some(&subscription))
        .await;
}
