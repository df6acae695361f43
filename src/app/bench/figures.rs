//! Results of a benchmark run: rates, percentiles, losses.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::app::bench::BenchPlan;
use crate::app::bench::instance::Usage;
use crate::app::bench::records::{PublisherRecords, ReceiverRecords, Records};

/// Results of a benchmark run. The name of a field ends with its unit of time; `per_second` is in events per second.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    pub version: &'static str,
    pub connections: usize,
    pub payload_bytes: usize,
    pub events_per_request: u64,
    pub fan_out: usize,
    pub events_per_delivery: u32,
    pub published: PublishedFigures,
    pub delivered: DeliveredFigures,
    /// The CPU time of the server for each 10,000 accepted events; `None` for a server elsewhere.
    #[serde(rename = "cpuSecondsPer10000Events")]
    pub cpu_seconds: Option<f64>,
    /// The most that the server had resident.
    pub memory_peak_bytes: Option<u64>,
    /// The median of a durable write of 4 KiB to the server's disk.
    pub flush_ms: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PublishedFigures {
    pub accepted: u64,
    pub rejected: u64,
    pub first_rejection: Option<String>,
    pub seconds: f64,
    pub per_second: f64,
    pub latency_ms: LatencyPercentiles,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveredFigures {
    /// Accepted events, once for each event subscription.
    pub expected: u64,
    pub delivered: u64,
    pub lost: u64,
    pub duplicates: u64,
    /// Attempts that were answered with an error, as planned.
    pub failed_attempts: u64,
    pub seconds: f64,
    pub per_second: f64,
    /// From publishing to delivery.
    pub latency_ms: LatencyPercentiles,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatencyPercentiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Figures {
    pub fn of(
        plan: &BenchPlan,
        records: &Records,
        usage: Option<Usage>,
        flush: Option<Duration>,
    ) -> Self {
        let (published, arrivals) = (records.published(), records.arrivals());
        let per_10_000 = published.accepted as f64 / 10_000.0;
        Self {
            version: env!("CARGO_PKG_VERSION"),
            connections: plan.connections,
            payload_bytes: plan.payload_bytes,
            events_per_request: plan.events_per_request,
            fan_out: plan.fan_out,
            events_per_delivery: plan.events_per_delivery,
            cpu_seconds: usage.map(|usage| usage.cpu_seconds / per_10_000),
            memory_peak_bytes: usage.map(|usage| usage.memory_peak_bytes),
            flush_ms: flush.map(|flush| flush.as_secs_f64() * 1_000.0),
            delivered: delivered(plan, &published, &arrivals, records.missing()),
            published: self::published(published),
        }
    }
}

fn published(published: PublisherRecords) -> PublishedFigures {
    let seconds = published.last_us as f64 / 1e6;
    PublishedFigures {
        accepted: published.accepted,
        rejected: published.rejected,
        first_rejection: published.first_rejection,
        seconds,
        per_second: published.accepted as f64 / seconds,
        latency_ms: LatencyPercentiles::of(&published.latency_us),
    }
}

fn delivered(
    plan: &BenchPlan,
    published: &PublisherRecords,
    arrivals: &ReceiverRecords,
    lost: u64,
) -> DeliveredFigures {
    let seconds = arrivals.last_us as f64 / 1e6;
    DeliveredFigures {
        expected: published.accepted * plan.fan_out as u64,
        delivered: arrivals.delivered,
        lost,
        duplicates: arrivals.duplicates,
        failed_attempts: arrivals.failed,
        seconds,
        per_second: if seconds > 0.0 {
            arrivals.delivered as f64 / seconds
        } else {
            0.0
        },
        latency_ms: LatencyPercentiles::of(&arrivals.latency_us),
    }
}

impl LatencyPercentiles {
    fn of(latency_us: &Histogram<u64>) -> Self {
        let at = |quantile| latency_us.value_at_quantile(quantile) as f64 / 1_000.0;
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: latency_us.max() as f64 / 1_000.0,
        }
    }

    /// Returns the percentiles, each with its name.
    pub fn named(&self) -> [(&'static str, f64); 5] {
        [
            ("p50", self.p50),
            ("p90", self.p90),
            ("p99", self.p99),
            ("p99.9", self.p999),
            ("max", self.max),
        ]
    }
}
