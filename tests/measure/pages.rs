//! How soon the pages answer over a store of a million events while it goes on delivering.
//!
//! Five subscriptions: four webhooks take every event of their types, a fifth rejects what it gets, so that a
//! twentieth of all events become dead letters. Then every list and overview page is asked for again and
//! again while 200 events a second are published and delivered.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use super::appliance::Appliance;
use super::browser::Browser;
use super::load::Load;
use super::sink::Sink;

/// Set it to try the measurement with fewer. The appliance takes no unknown word that begins as its own.
const EVENTS: &str = "MEASURE_EVENTS";
const EVENTS_WANTED: usize = 1_000_000;

/// Types of events; the first one is rejected.
const TYPES: u64 = 20;

/// Types that each of the willing webhooks takes, besides those of the rejecting one.
const TYPES_EACH: u64 = TYPES / 4;

/// Events in one request while the store is filled.
const TOGETHER: usize = 100;

const STEADY_RATE: f64 = 200.0;

/// Times that each page is asked for.
const VISITS: usize = 100;

/// From which the load goes on without a look at the clock: longer than all visits take.
const LASTING: Duration = Duration::from_secs(3_600);

/// What is wanted of each page at the median and at the 99th percentile.
const MEDIAN_MAX: Duration = Duration::from_millis(100);
const P99_MAX: Duration = Duration::from_millis(250);

pub(crate) async fn measure() {
    let events = std::env::var(EVENTS).ok();
    let events = events.map_or(EVENTS_WANTED, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{EVENTS} is no number: {text}"))
    });
    let (appliance, sink) = (
        Appliance::start(&["--retention-max-mb", "0"]).await,
        Sink::start().await,
    );
    let load = Load {
        key: appliance.create_topic("orders").await,
        url: format!("{}/topics/orders/api/events", appliance.url),
        types: TYPES,
    };
    for number in 0..=4 {
        subscribe(&appliance, number, &sink.url).await;
    }
    sink.reject(true);
    fill(&appliance, &load, events).await;

    let browser = Browser::signed_in(&appliance).await;
    let pages = pages(&appliance).await;
    println!("{:>9} {:>9} {:>9}  page", "median ms", "p99 ms", "worst ms");
    let background = tokio::spawn(async move { load.publish(LASTING, Some(STEADY_RATE)).await });
    let mut slow = 0;
    for page in &pages {
        slow += usize::from(!visit(&browser, page).await);
    }
    background.abort();
    println!(
        "\n{slow} of {} pages took longer than {} ms at the median or {} ms at p99",
        pages.len(),
        MEDIAN_MAX.as_millis(),
        P99_MAX.as_millis()
    );
}

/// Publishes so many events and waits until each has been delivered or is a dead letter.
async fn fill(appliance: &Appliance, load: &Load, events: usize) {
    let began = Instant::now();
    let mut published = 0;
    while published < events {
        let many = (events - published).min(events / 10).max(TOGETHER);
        published += load.publish_together(many, TOGETHER).await;
        println!("{published} events published after {:?}", began.elapsed());
    }
    loop {
        let counts = appliance
            .manage(Method::GET, "/everpost/counts", None)
            .await;
        let subscriptions = counts["value"].as_array().expect("counts");
        let of = |state: &str| -> u64 {
            let each = subscriptions.iter();
            each.filter_map(|counts| counts[state].as_u64()).sum()
        };
        let (pending, dead) = (of("pending"), of("deadLetters"));
        println!(
            "{pending} wait, {dead} dead letters after {:?}",
            began.elapsed()
        );
        if pending == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

async fn subscribe(appliance: &Appliance, number: u64, webhooks: &str) {
    let types: Vec<String> = match number {
        0 => vec!["Order.0".to_owned()],
        _ => (1..TYPES)
            .filter(|of_type| of_type / TYPES_EACH == number - 1)
            .map(|of_type| format!("Order.{of_type}"))
            .collect(),
    };
    let destination = json!({
        "endpointType": "WebHook",
        "properties": {
            "endpointUrl": format!("{webhooks}/{number}"),
            "skipValidation": true,
            "maxEventsPerBatch": if number == 0 { 1 } else { TOGETHER },
        },
    });
    let filter = json!({"includedEventTypes": types});
    let subscription = json!({"properties": {"destination": destination, "filter": filter}});
    let path = format!("/topics/orders/eventSubscriptions/webhook-{number}");
    appliance
        .manage(Method::PUT, &path, Some(&subscription))
        .await;
}

/// Every list and overview, with the filters that people use, and one of each page that they lead to.
async fn pages(appliance: &Appliance) -> Vec<String> {
    let event = newest(appliance, "/everpost/events?limit=1", "key").await;
    let dead_letter = newest(appliance, "/everpost/deadLetters?limit=1", "deliveryId").await;
    let (early_event, early_letter) = (event / 2, dead_letter / 2);
    [
        "",
        "/topics",
        "/topics/orders",
        "/topics/orders/publish",
        "/subscriptions",
        "/topics/orders/subscriptions/webhook-0",
        "/topics/orders/subscriptions/webhook-1",
        "/topics/orders/subscriptions/webhook-1/edit",
        "/events",
        "/events?of=orders",
        "/events?type=Order.7",
        "/events?type=No.Such.Type",
        "/events?unmatched=on",
        &format!("/events?before={early_event}"),
        &format!("/events?type=Order.7&before={early_event}"),
        "/events?text=no+such+text",
        "/events?state=DeadLettered",
        "/events?state=Pending&of=orders",
        &format!("/events/{event}"),
        "/rejected-events",
        "/namespaces",
        "/dead-letters",
        "/dead-letters?group=source",
        "/dead-letters?group=reason",
        "/dead-letters?group=type",
        "/dead-letters?group=day",
        "/dead-letters?of=orders/webhook-0",
        "/dead-letters?type=Order.0",
        "/dead-letters?text=no+such+text",
        &format!("/dead-letters?before={early_letter}"),
        &format!("/dead-letters/{dead_letter}"),
        "/dead-letters/resubmit-all?of=orders/webhook-0",
        "/dead-letters/purge?of=orders/webhook-0",
        "/replays",
        "/inspectors",
        "/activity",
        "/users",
        "/tokens",
        "/sessions",
        "/settings",
        "/system",
        "/api",
        "/account",
    ]
    .map(|page| format!("/admin{page}"))
    .to_vec()
}

async fn newest(appliance: &Appliance, list: &str, name: &str) -> u64 {
    let answer = appliance.manage(Method::GET, list, None).await;
    answer["value"][0][name].as_u64().expect("a number")
}

/// Asks for a page again and again. Tells whether it was fast enough.
async fn visit(browser: &Browser, page: &str) -> bool {
    let (mut times, mut failed) = (Vec::new(), 0);
    for _ in 0..VISITS {
        let asked = Instant::now();
        failed += usize::from(!browser.get(page).await);
        times.push(asked.elapsed());
    }
    times.sort_unstable();
    let (median, p99, worst) = (
        times[VISITS / 2],
        times[VISITS * 99 / 100 - 1],
        times[VISITS - 1],
    );
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let fits = failed == 0 && median <= MEDIAN_MAX && p99 <= P99_MAX;
    let verdict = match failed {
        0 if fits => String::new(),
        0 => "  too slow".to_owned(),
        failed => format!("  failed {failed} times"),
    };
    println!(
        "{:>9.1} {:>9.1} {:>9.1}  {page}{verdict}",
        ms(median),
        ms(p99),
        ms(worst)
    );
    fits
}
