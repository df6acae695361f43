//! Metrics with the meanings of Azure's metrics (rule 10.1), named as Prometheus recommends.
//!
//! Counters start at zero with the process. Label values are names of existing topics and subscriptions and words
//! of closed lists, so the registry bounds the number of series. The series of a deleted topic or subscription end.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry as Metrics;

use crate::model::backup::Manifest;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{AttemptResult, Outcome, Settlement};
use crate::model::registry::{Registry, TopicEntry};
use crate::model::replay::ReplayProgress;
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::store::{Discarded, Longest, PrunedRows, Sizes};

/// Bucket bounds of durations, in seconds: from a fast disk to the response deadline.
const SECONDS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0, 30.0,
];

/// The number of deleted subscriptions whose series are removed once more. Requests in flight during the deletion
/// may have created the series again.
const ENDED_KEPT: usize = 1_000;

type Seconds = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TopicMeters {
    topic: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTopicError {
    topic: Arc<str>,
    error: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfReason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SubscriptionMeters {
    topic: Arc<str>,
    subscription: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfSubscriptionError {
    topic: Arc<str>,
    subscription: Arc<str>,
    error: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfResult {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfSubscriptionReason {
    topic: Arc<str>,
    subscription: Arc<str>,
    reason: &'static str,
}

/// The metrics of the process.
pub struct Meters {
    metrics: Metrics,
    publish_success: Family<TopicMeters, Counter>,
    publish_fail: Family<OfTopicError, Counter>,
    publish_latency: Family<TopicMeters, Histogram, fn() -> Histogram>,
    rejections_kept: Counter,
    rejections_lost: Family<OfReason, Counter>,
    matched: Family<SubscriptionMeters, Counter>,
    unmatched: Family<TopicMeters, Counter>,
    delivery_success: Family<SubscriptionMeters, Counter>,
    delivery_attempt_fail: Family<OfSubscriptionError, Counter>,
    destination_processing: Family<SubscriptionMeters, Histogram, fn() -> Histogram>,
    dead_lettered: Family<OfSubscriptionReason, Counter>,
    dropped: Family<OfSubscriptionReason, Counter>,
    dropped_with_subscription: Counter,
    dead_lettered_with_subscription: Counter,
    resubmitted: Counter,
    replayed: Family<OfResult, Counter>,
    replay_jobs_running: Gauge,
    on_probation: Family<SubscriptionMeters, Gauge>,
    requests_in_flight: Gauge,
    request_panics: Counter,
    exported: Counter,
    export_failures: Counter,
    exports_given_up: Counter,
    pruned_events: Counter,
    pruned_deliveries: Counter,
    pruned_attempts: Counter,
    database_bytes: Gauge,
    database_free_bytes: Gauge,
    database_log_bytes: Gauge,
    disk_free_bytes: Gauge,
    longest_change: Seconds,
    longest_commit: Seconds,
    alerts_firing: Gauge,
    alert_messages: Family<OfResult, Counter>,
    spans: Family<OfResult, Counter>,
    backup_failures: Counter,
    provisioning_failures: Counter,
    backup_made_at: Seconds,
    backup_took: Seconds,
    topics: Gauge,
    subscriptions: Gauge,
    /// The error codes of all publish requests rejected so far.
    codes: Mutex<BTreeSet<&'static str>>,
    /// The labels of deleted subscriptions, at most [`ENDED_KEPT`].
    ended: Mutex<HashSet<SubscriptionMeters>>,
}

fn of_topic(topic: &TopicEntry) -> TopicMeters {
    TopicMeters {
        topic: topic.topic.name.shared(),
    }
}

fn of_subscription(topic: &TopicEntry, subscription: &EventSubscription) -> SubscriptionMeters {
    SubscriptionMeters {
        topic: topic.topic.name.shared(),
        subscription: subscription.name.shared(),
    }
}

impl Meters {
    pub(in crate::broker) fn new() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(SECONDS);
        let mut meters = Self {
            metrics: Metrics::with_prefix("everpost"),
            publish_success: Family::default(),
            publish_fail: Family::default(),
            publish_latency: Family::new_with_constructor(histogram),
            rejections_kept: Counter::default(),
            rejections_lost: Family::default(),
            matched: Family::default(),
            unmatched: Family::default(),
            delivery_success: Family::default(),
            delivery_attempt_fail: Family::default(),
            destination_processing: Family::new_with_constructor(histogram),
            dead_lettered: Family::default(),
            dropped: Family::default(),
            dropped_with_subscription: Counter::default(),
            dead_lettered_with_subscription: Counter::default(),
            resubmitted: Counter::default(),
            replayed: Family::default(),
            replay_jobs_running: Gauge::default(),
            on_probation: Family::default(),
            requests_in_flight: Gauge::default(),
            request_panics: Counter::default(),
            exported: Counter::default(),
            export_failures: Counter::default(),
            exports_given_up: Counter::default(),
            pruned_events: Counter::default(),
            pruned_deliveries: Counter::default(),
            pruned_attempts: Counter::default(),
            database_bytes: Gauge::default(),
            database_free_bytes: Gauge::default(),
            database_log_bytes: Gauge::default(),
            disk_free_bytes: Gauge::default(),
            longest_change: Seconds::default(),
            longest_commit: Seconds::default(),
            alerts_firing: Gauge::default(),
            alert_messages: Family::default(),
            spans: Family::default(),
            backup_failures: Counter::default(),
            provisioning_failures: Counter::default(),
            backup_made_at: Seconds::default(),
            backup_took: Seconds::default(),
            topics: Gauge::default(),
            subscriptions: Gauge::default(),
            codes: Mutex::default(),
            ended: Mutex::default(),
        };
        meters.register();
        meters
    }

    fn register(&mut self) {
        let all = &mut self.metrics;
        let each = self.publish_success.clone();
        all.register(
            "published_events",
            "Events accepted (PublishSuccessCount)",
            each,
        );
        let each = self.publish_fail.clone();
        all.register(
            "publish_failed_requests",
            "Requests rejected (PublishFailCount)",
            each,
        );
        let each = self.publish_latency.clone();
        all.register(
            "publish_latency_seconds",
            "Time from request to durable acceptance (PublishSuccessLatencyInMs)",
            each,
        );
        let each = self.rejections_kept.clone();
        all.register(
            "rejected_requests_kept",
            "Rejected publish requests that are stored",
            each,
        );
        let each = self.rejections_lost.clone();
        all.register(
            "rejected_requests_not_kept",
            "Rejected publish requests that are only counted, by reason",
            each,
        );
        let each = self.matched.clone();
        all.register(
            "matched_events",
            "Events a subscription wanted (MatchedEventCount)",
            each,
        );
        let each = self.unmatched.clone();
        all.register(
            "unmatched_events",
            "Events nobody wanted (UnmatchedEventCount)",
            each,
        );
        let each = self.delivery_success.clone();
        all.register(
            "delivered_events",
            "Deliveries completed (DeliverySuccessCount)",
            each,
        );
        let each = self.delivery_attempt_fail.clone();
        all.register(
            "delivery_attempt_failures",
            "Attempts that failed (DeliveryAttemptFailCount)",
            each,
        );
        let each = self.destination_processing.clone();
        all.register(
            "destination_processing_seconds",
            "Time a destination took to answer (DestinationProcessingDurationInMs)",
            each,
        );
        let each = self.dead_lettered.clone();
        all.register(
            "dead_lettered_events",
            "Deliveries dead-lettered (DeadLetteredCount)",
            each,
        );
        let each = self.dropped.clone();
        all.register(
            "dropped_events",
            "Deliveries dropped (DroppedEventCount)",
            each,
        );
        let each = self.dropped_with_subscription.clone();
        all.register(
            "dropped_with_subscription_events",
            "Deliveries dropped because their subscription was deleted",
            each,
        );
        let each = self.dead_lettered_with_subscription.clone();
        all.register(
            "dead_lettered_with_subscription_events",
            "Deliveries kept as dead letters because their subscription was deleted",
            each,
        );
        let each = self.resubmitted.clone();
        all.register(
            "resubmitted_events",
            "Deliveries resubmitted, one by one or by replay jobs",
            each,
        );
        let each = self.replayed.clone();
        all.register(
            "replay_events",
            "Deliveries that replay jobs dealt with",
            each,
        );
        let each = self.replay_jobs_running.clone();
        all.register("replay_jobs_running", "Replay jobs that are running", each);
        let each = self.alerts_firing.clone();
        all.register("alerts_firing", "Objects that alert rules fire for", each);
        let each = self.alert_messages.clone();
        all.register(
            "alert_messages",
            "Attempts to send a message to an alert channel, by result",
            each,
        );
        let each = self.spans.clone();
        all.register(
            "trace_spans",
            "Spans of traces, by whether they reached the collector",
            each,
        );
        let each = self.on_probation.clone();
        all.register(
            "subscription_on_probation",
            "1 while nothing but a probe is sent, because of failures in a row",
            each,
        );
        let each = self.requests_in_flight.clone();
        all.register("requests_in_flight", "Delivery requests in flight", each);
        let each = self.request_panics.clone();
        all.register(
            "request_panics",
            "Delivery requests that a defect of the appliance cut off",
            each,
        );
        for (name, help, counter) in [
            (
                "exported_dead_letters",
                "Dead letters that went to storage",
                &self.exported,
            ),
            (
                "export_failures",
                "Blobs of dead letters that storage did not take",
                &self.export_failures,
            ),
            (
                "exports_given_up",
                "Dead letters dropped because their storage was away too long",
                &self.exports_given_up,
            ),
            (
                "pruned_events",
                "Events that retention deleted",
                &self.pruned_events,
            ),
            (
                "pruned_deliveries",
                "Deliveries that went with them",
                &self.pruned_deliveries,
            ),
            (
                "pruned_attempts",
                "Attempts that went with them",
                &self.pruned_attempts,
            ),
            (
                "backup_failures",
                "Backups that failed",
                &self.backup_failures,
            ),
            (
                "provisioning_failures",
                "Times that the provisioning directory could not be applied as a whole",
                &self.provisioning_failures,
            ),
        ] {
            all.register(name, help, counter.clone());
        }
        for (name, help, gauge) in [
            (
                "database_bytes",
                "Size of the database",
                &self.database_bytes,
            ),
            (
                "database_free_bytes",
                "What of it holds nothing",
                &self.database_free_bytes,
            ),
            (
                "database_log_bytes",
                "Size of its write-ahead log",
                &self.database_log_bytes,
            ),
            (
                "disk_free_bytes",
                "Free on the disk of the data directory",
                &self.disk_free_bytes,
            ),
        ] {
            all.register(name, help, gauge.clone());
        }
        for (name, help, gauge) in [
            (
                "writer_longest_change_seconds",
                "The longest change of the store in the last ten seconds",
                &self.longest_change,
            ),
            (
                "writer_longest_commit_seconds",
                "The longest commit of the store in the last ten seconds",
                &self.longest_commit,
            ),
            (
                "backup_made_timestamp_seconds",
                "When the newest backup was made; 0 if there is none",
                &self.backup_made_at,
            ),
            (
                "backup_duration_seconds",
                "How long that took",
                &self.backup_took,
            ),
        ] {
            all.register(name, help, gauge.clone());
        }
        all.register("topics", "Topics", self.topics.clone());
        all.register(
            "event_subscriptions",
            "Event subscriptions",
            self.subscriptions.clone(),
        );
    }

    /// Returns all metrics in the text format of OpenMetrics.
    pub(in crate::broker) fn text(
        &self,
        requests_in_flight: usize,
        on_probation: &HashSet<SubscriptionId>,
        registry: &Registry,
    ) -> String {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.requests_in_flight.set(gauge(requests_in_flight));
        self.topics.set(gauge(registry.made_topics().count()));
        self.subscriptions
            .set(gauge(registry.subscriptions().count()));
        self.on_probation.clear();
        let mut ended = self.ended.lock().unwrap();
        for (topic, subscription) in registry.subscriptions() {
            let labels = of_subscription(topic, subscription);
            ended.remove(&labels); // there is one of the same name now
            let is_on = on_probation.contains(&subscription.id);
            self.on_probation
                .get_or_create(&labels)
                .set(i64::from(is_on));
        }
        for labels in ended.iter() {
            self.end(labels);
        }
        let mut text = String::new();
        encode(&mut text, &self.metrics).expect("writing to a String cannot fail");
        text
    }

    /// Ends the series of a deleted subscription.
    pub(in crate::broker) fn forget_subscription(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
    ) {
        let labels = of_subscription(topic, subscription);
        self.end(&labels);
        let mut ended = self.ended.lock().unwrap();
        if ended.len() == ENDED_KEPT {
            ended.clear();
        }
        ended.insert(labels);
    }

    fn end(&self, labels: &SubscriptionMeters) {
        self.matched.remove(labels);
        self.delivery_success.remove(labels);
        self.destination_processing.remove(labels);
        for outcome in Outcome::ALL {
            let labels = OfSubscriptionError {
                topic: labels.topic.clone(),
                subscription: labels.subscription.clone(),
                error: outcome.name(),
            };
            self.delivery_attempt_fail.remove(&labels);
        }
        for reason in DeadLetterReason::ALL {
            let labels = with_reason(labels.clone(), reason.name());
            self.dead_lettered.remove(&labels);
            self.dropped.remove(&labels);
        }
    }

    /// Ends the series of a deleted topic.
    pub(in crate::broker) fn forget_topic(&self, topic: &TopicEntry) {
        let labels = of_topic(topic);
        self.publish_success.remove(&labels);
        self.publish_latency.remove(&labels);
        self.unmatched.remove(&labels);
        for error in self.codes.lock().unwrap().iter() {
            self.publish_fail.remove(&OfTopicError {
                topic: labels.topic.clone(),
                error,
            });
        }
    }

    /// Counts a publish request with `events` events that was answered 200 after `took`.
    pub fn published(&self, topic: &TopicEntry, events: usize, took: Duration) {
        self.publish_success
            .get_or_create(&of_topic(topic))
            .inc_by(events as u64);
        self.publish_latency
            .get_or_create(&of_topic(topic))
            .observe(took.as_secs_f64());
    }

    /// Counts stored events that the appliance itself published.
    pub(in crate::broker) fn published_of_ours(&self, topic: &TopicEntry, events: usize) {
        self.publish_success
            .get_or_create(&of_topic(topic))
            .inc_by(events as u64);
    }

    /// Counts a rejected publish request; `error` is Azure's error code.
    pub fn publish_failed(&self, topic: &TopicEntry, error: &'static str) {
        let labels = OfTopicError {
            topic: topic.topic.name.shared(),
            error,
        };
        self.publish_fail.get_or_create(&labels).inc();
        self.codes.lock().unwrap().insert(error);
    }

    /// Counts dead letters that were exported to storage.
    pub(in crate::broker) fn exported(&self, count: usize) {
        self.exported.inc_by(count as u64);
    }

    /// Counts a failed upload of a blob of dead letters.
    pub(in crate::broker) fn export_failed(&self) {
        self.export_failures.inc();
    }

    /// Counts dead letters that were dropped because their storage was unreachable for too long.
    pub(in crate::broker) fn exports_given_up(&self, count: usize) {
        self.exports_given_up.inc_by(count as u64);
    }

    /// Counts rejected publish requests that were stored.
    pub(in crate::broker) fn rejections_kept(&self, count: usize) {
        self.rejections_kept.inc_by(count as u64);
    }

    /// Counts rejected publish requests that were not stored, by reason.
    pub(in crate::broker) fn rejections_lost(&self, reason: &'static str, count: usize) {
        self.rejections_lost
            .get_or_create(&OfReason { reason })
            .inc_by(count as u64);
    }

    /// Counts matched and unmatched events that were stored. `targets` lists a subscription once for each event that it
    /// matched.
    pub(in crate::broker) fn matched(
        &self,
        topic: &TopicEntry,
        targets: &[SubscriptionId],
        unmatched: usize,
    ) {
        for subscription in topic.subscriptions.values() {
            let its_own = targets.iter().filter(|target| **target == subscription.id);
            let matched = its_own.count() as u64;
            if matched > 0 {
                self.matched
                    .get_or_create(&of_subscription(topic, subscription))
                    .inc_by(matched);
            }
        }
        if unmatched > 0 {
            self.unmatched
                .get_or_create(&of_topic(topic))
                .inc_by(unmatched as u64);
        }
    }

    /// Counts a delivery request that ended with `result` after `took`.
    pub(in crate::broker) fn attempted(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        result: &AttemptResult,
        took: Duration,
    ) {
        let labels = of_subscription(topic, subscription);
        self.destination_processing
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
        if result.outcome != Outcome::Delivered {
            let SubscriptionMeters {
                topic,
                subscription,
            } = labels;
            let labels = OfSubscriptionError {
                topic,
                subscription,
                error: result.outcome.name(),
            };
            self.delivery_attempt_fail.get_or_create(&labels).inc();
        }
    }

    /// Counts attempts that were skipped because the subscription is on probation.
    pub(in crate::broker) fn skipped(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        attempts: usize,
    ) {
        let SubscriptionMeters {
            topic,
            subscription,
        } = of_subscription(topic, subscription);
        let labels = OfSubscriptionError {
            topic,
            subscription,
            error: Outcome::Probation.name(),
        };
        self.delivery_attempt_fail
            .get_or_create(&labels)
            .inc_by(attempts as u64);
    }

    /// Counts deliveries that were settled, with or without an attempt.
    pub(in crate::broker) fn settled(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        settlements: &[Settlement],
    ) {
        for settlement in settlements {
            let labels = of_subscription(topic, subscription);
            match settlement {
                Settlement::Complete => {
                    self.delivery_success.get_or_create(&labels).inc();
                }
                Settlement::DeadLetter(reason) => {
                    let labels = with_reason(labels, reason.name());
                    self.dead_lettered.get_or_create(&labels).inc();
                }
                Settlement::Drop(reason) => {
                    self.dropped
                        .get_or_create(&with_reason(labels, reason.name()))
                        .inc();
                }
                Settlement::Retry { .. } | Settlement::Split { .. } => {}
            }
        }
    }

    /// Counts the rows that retention deleted.
    pub(in crate::broker) fn pruned(&self, pruned: PrunedRows) {
        self.pruned_events.inc_by(pruned.events);
        self.pruned_deliveries.inc_by(pruned.deliveries);
        self.pruned_attempts.inc_by(pruned.attempts);
    }

    /// Returns the number of events, deliveries and attempts that retention deleted since the start of the process.
    pub(in crate::broker) fn pruned_so_far(&self) -> PrunedRows {
        PrunedRows {
            events: self.pruned_events.get(),
            deliveries: self.pruned_deliveries.get(),
            attempts: self.pruned_attempts.get(),
            ..PrunedRows::default()
        }
    }

    /// Sets the gauges of the sizes of the database and of the free disk space.
    pub(in crate::broker) fn measured(&self, sizes: &Sizes) {
        let gauge = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.database_bytes.set(gauge(sizes.file));
        self.database_free_bytes.set(gauge(sizes.free));
        self.database_log_bytes.set(gauge(sizes.log));
        self.disk_free_bytes
            .set(gauge(sizes.disk_free.unwrap_or(0)));
    }

    /// Sets the gauges of the longest change and the longest commit of the writer since the previous call.
    pub(in crate::broker) fn kept(&self, longest: Longest) {
        self.longest_change.set(longest.change.as_secs_f64());
        self.longest_commit.set(longest.commit.as_secs_f64());
    }

    /// Sets the gauges of the newest backup, which was just made or found.
    pub(in crate::broker) fn backed_up(&self, backup: &Manifest) {
        self.backup_made_at
            .set(backup.made_at.as_ms() as f64 / 1_000.0);
        self.backup_took.set(backup.took().as_secs_f64());
    }

    pub(in crate::broker) fn backup_failed(&self) {
        self.backup_failures.inc();
    }

    /// Counts trace spans by their result, such as exported or dropped.
    pub(in crate::broker) fn spans_ended(&self, result: &'static str, spans: u64) {
        self.spans.get_or_create(&OfResult { result }).inc_by(spans);
    }

    pub(in crate::broker) fn provisioning_failed(&self) {
        self.provisioning_failures.inc();
    }

    /// Sets the number of firing alerts.
    pub(in crate::broker) fn alerting(&self, alerts: usize) {
        self.alerts_firing
            .set(i64::try_from(alerts).unwrap_or(i64::MAX));
    }

    /// Returns the number of firing alerts at the last evaluation.
    pub fn alerts_firing(&self) -> u64 {
        self.alerts_firing.get().unsigned_abs()
    }

    /// Counts an attempt to send a message to an alert channel, by its result.
    pub(in crate::broker) fn alert_sent(&self, is_sent: bool) {
        let result = if is_sent { "sent" } else { "failed" };
        self.alert_messages
            .get_or_create(&OfResult { result })
            .inc();
    }

    /// Counts a delivery request that was ended by a panic.
    pub(in crate::broker) fn panicked(&self) {
        self.request_panics.inc();
    }

    /// Counts deliveries that were resubmitted.
    pub(in crate::broker) fn resubmitted(&self, deliveries: usize) {
        self.resubmitted.inc_by(deliveries as u64);
    }

    /// Counts a batch that a replay job stored, as the difference of its progress `before` and `after` the batch.
    pub(in crate::broker) fn replayed(&self, before: &ReplayProgress, after: &ReplayProgress) {
        let counts = |progress: &ReplayProgress| {
            let skipped = progress.skipped.values().sum();
            [progress.resubmitted, skipped, progress.failed]
        };
        let results = ["resubmitted", "skipped", "failed"].into_iter();
        for (result, (before, after)) in results.zip(counts(before).into_iter().zip(counts(after)))
        {
            self.replayed
                .get_or_create(&OfResult { result })
                .inc_by(after - before);
        }
    }

    /// Sets the number of running replay jobs.
    pub(in crate::broker) fn replaying(&self, jobs: usize) {
        self.replay_jobs_running
            .set(i64::try_from(jobs).unwrap_or(i64::MAX));
    }

    /// Counts pending deliveries that ended because their subscription was deleted.
    pub(in crate::broker) fn ended_with_subscription(&self, ended: Discarded) {
        self.dropped_with_subscription.inc_by(ended.dropped as u64);
        self.dead_lettered_with_subscription
            .inc_by(ended.dead_lettered as u64);
    }
}

fn with_reason(labels: SubscriptionMeters, reason: &'static str) -> OfSubscriptionReason {
    let SubscriptionMeters {
        topic,
        subscription,
    } = labels;
    OfSubscriptionReason {
        topic,
        subscription,
        reason,
    }
}
