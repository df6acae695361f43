//! Every number that bounds the product, and where it comes from.
//!
//! "rule 7.1" refers to docs/azure-compatibility.md and to a number that Azure publishes. A number without a rule has
//! its reason in the comment.

use std::time::Duration;

/// Bytes of one publish request, as Azure accepts them (rule 1.4). A request of exactly this size is accepted.
pub const PUBLISH_BYTES_MAX: usize = 1_536_000;

/// Bytes of one event in a publish request: 1,025 KiB, as Azure (rule 1.4).
pub const EVENT_BYTES_MAX: usize = 1_049_600;

/// Events in one publish request (rule 1.4).
pub const PUBLISH_EVENTS_MAX: usize = 5_000;

/// Nesting of arrays and objects in requests. Deeper documents serve no purpose and cost stack in every
/// parser.
pub const JSON_DEPTH_MAX: usize = 64;

/// Clock skew that causes a warning. Receivers of signed requests commonly reject signatures that are five minutes off,
/// and the shortest shared access signatures are valid for about as long. Network delays are far below this limit.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(60);

/// Shortest time between two notices about dead letters of one subscription with one reason. Any number of dead letters
/// causes one notice at once and then one per minute.
pub const NOTICE_WINDOW: Duration = Duration::from_secs(60);

/// Notices that are published at once.
pub const NOTICES_AT_ONCE_MAX: usize = 100;

/// Notices that wait in memory: far more than arise in a second, a few hundred kilobytes.
pub const NOTICES_WAITING_MAX: usize = 1_000;

/// Bytes of a management request: a subscription with every filter and header at its limit fits.
pub const MANAGEMENT_BYTES_MAX: usize = 262_144;

/// Bytes of a whole configuration: thousands of objects, and little enough to hold in memory several times.
pub const CONFIGURATION_BYTES_MAX: usize = 8_388_608;

/// Entries of the audit log: years of a busy appliance, and some tens of megabytes at most.
pub const AUDIT_ROWS_MAX: i64 = 100_000;

/// Entries of the audit log in one share ([`crate::model::audit::AuditEntry::share`]). A share that is full loses only
/// its own entries.
pub const AUDIT_ROWS_PER_SHARE_MAX: i64 = AUDIT_ROWS_MAX / 100;

/// Time for which audit entries are kept, equal to that of the oldest counters.
pub const AUDIT_LIFE: Duration = Duration::from_secs(400 * 86_400);

/// Event subscriptions of one topic (rule 13).
pub const SUBSCRIPTIONS_PER_TOPIC_MAX: usize = 500;

/// Advanced filters of one event subscription (rule 4.4).
pub const FILTERS_MAX: usize = 25;

/// Values over all advanced filters of one event subscription (rule 4.4).
pub const FILTER_VALUES_MAX: usize = 25;

/// Characters of a string in a filter (rule 4.4).
pub const FILTER_STRING_MAX: usize = 512;

/// Attempts of one delivery (rule 3.3).
pub const ATTEMPTS_MAX: u32 = 30;

/// Minutes that a delivery may live (rule 3.3).
pub const TIME_TO_LIVE_MINUTES_MAX: u32 = 1_440;

/// Events in one publish request to a namespace topic (rule N3).
pub const NAMESPACE_PUBLISH_EVENTS_MAX: usize = 1_000;

/// Characters of the name of a CloudEvents extension attribute in a namespace topic
/// (rule N3).
pub const NAMESPACE_EXTENSION_NAME_MAX: usize = 20;

/// Namespaces of one appliance (rule N1: of one Azure subscription).
pub const NAMESPACES_MAX: usize = 50;

/// Throughput units of one namespace (rule N1).
pub const THROUGHPUT_UNITS_MAX: u32 = 40;

/// Topics of a namespace for each of its throughput units (rule N9).
pub const TOPICS_PER_UNIT_MAX: usize = 100;

/// Days that a namespace topic keeps events (rule N1).
pub const EVENT_RETENTION_DAYS_MAX: u32 = 7;

/// Attempts of one delivery of a namespace topic (rule N1.1).
pub const NAMESPACE_ATTEMPTS_MAX: u32 = 10;

/// How long a receiver of a pull subscription locks an event unless the subscription says otherwise (rule
/// N1.1).
pub const RECEIVE_LOCK: Duration = Duration::from_secs(60);

/// Seconds for which a receiver can lock an event, as a subscription can set them (rule N1.1).
pub const RECEIVE_LOCK_SECONDS: std::ops::RangeInclusive<u32> = 60..=300;

/// Events that one request receives (rule N5).
pub const RECEIVE_EVENTS: std::ops::RangeInclusive<usize> = 1..=100;

/// Seconds that a receiver may wait for the first event (rule N5).
pub const RECEIVE_WAIT_SECONDS: std::ops::RangeInclusive<u64> = 10..=120;

/// How long a receiver waits for something to receive by default (rule S8).
pub const PULL_WAIT: Duration = Duration::from_secs(60);

/// Delays of a released event, in seconds (rule N5).
pub const RELEASE_DELAYS_S: [u64; 5] = [0, 10, 60, 600, 3_600];

/// Lock tokens in one request to settle: ten times what one request receives.
pub const SETTLED_LOCKS_MAX: usize = 1_000;

/// Time after the receipt of an event within which its lock may be renewed (rule N5).
pub const RENEWAL_WINDOW: Duration = Duration::from_secs(3_600);

/// The longest time that a delivery of a namespace topic may live: the longest retention of its topic
/// (rule N1.1).
pub const NAMESPACE_TIME_TO_LIVE_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Delays in a custom retry schedule: one more than the largest possible number of pauses between attempts.
pub const OWN_WAITS_MAX: usize = 30;

/// The shortest delay in a custom retry schedule; less would be no pause for the receiver.
pub const OWN_WAIT_SHORTEST: Duration = Duration::from_secs(1);

/// The longest delay in a custom retry schedule. After a longer delay every event would have expired.
pub const OWN_WAIT_LONGEST: Duration = Duration::from_secs(24 * 3_600);

/// Events in one delivery request (rule 8).
pub const BATCH_EVENTS_MAX: u32 = 5_000;

/// Kilobytes that a delivery request may aim at (rule 8).
pub const BATCH_KILOBYTES_MAX: u32 = 1_024;

/// Custom headers of one event subscription (rule 6.4).
pub const DELIVERY_ATTRIBUTES_MAX: usize = 10;

/// Bytes of a custom header's value (rule 6.4).
pub const DELIVERY_ATTRIBUTE_BYTES_MAX: usize = 4_096;

/// Bytes of a webhook's URL. Nearly every server rejects longer request lines.
pub const ENDPOINT_URL_BYTES_MAX: usize = 8_192;

/// Signing secrets of one event subscription that sign at once: each adds 48 bytes to every request.
pub const SIGNING_SECRETS_MAX: usize = 5;

/// Time for which a replaced signing secret continues to sign by default. Standard Webhooks does not define it; its
/// authors offer a day.
pub const SIGNING_GRACE: Duration = Duration::from_secs(24 * 3_600);

/// The longest grace time of a replaced signing secret.
pub const SIGNING_GRACE_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Bytes of a user name, password, token, client id or scope: what servers take in one header.
pub const CREDENTIAL_BYTES_MAX: usize = 8_192;

/// Bytes of a certificate with its chain, of a key, and of a bundle of authorities.
pub const PEM_BYTES_MAX: usize = 65_536;

/// HTTP clients for webhooks with TLS settings of their own. Each holds its connections and some 100 KiB of
/// trusted certificates.
pub const TLS_CLIENTS_MAX: usize = 256;

/// How long an authorization server has to answer with a token.
pub const TOKEN_DEADLINE: Duration = Duration::from_secs(10);

/// How long after a failure no other token is requested.
pub const TOKEN_PAUSE: Duration = Duration::from_secs(5);

/// Time before its expiration from which a token is not used; a tenth of the lifetime of a short-lived token.
pub const TOKEN_MARGIN: Duration = Duration::from_secs(60);

/// How long a token is used if the authorization server does not say.
pub const TOKEN_LIFE: Duration = Duration::from_secs(300);

/// Inbound IP rules of one topic (rule 13).
pub const INBOUND_IP_RULES_MAX: usize = 128;

/// How long a webhook has to respond (rule 6.1).
pub const RESPONSE_DEADLINE: Duration = Duration::from_secs(30);

/// Seconds that a subscription can give its webhook to respond (an extension).
pub const RESPONSE_DEADLINE_S_MAX: u32 = 300;

/// Time after a request for which the appliance waits for a late response (rule 7.2).
pub const LATE_ANSWER_WINDOW: Duration = Duration::from_secs(180);

/// Requests whose late responses are waited for at once. Each holds a connection, and the body of its request
/// while the receiver does not read it, up to 1 MiB.
pub const LATE_RESPONSES_MAX: usize = 128;

/// Consecutive failures that put a subscription on probation (rule A, 7.4).
pub const PROBATION_FAILURES: u32 = 10;

/// The longest probation by default (rule A).
pub const PROBATION_LONGEST: Duration = Duration::from_secs(3_600);

/// The largest setting for the longest probation, in seconds (rule A).
pub const PROBATION_LONGEST_S_MAX: u64 = 4 * 3_600;

/// Bytes of a webhook's response that are read; for a longer response the connection is closed. The limit is above the
/// recorded size, so that the connection is reusable after a slightly longer response.
pub const RESPONSE_READ_MAX: usize = 65_536;

/// How much of a webhook's response is recorded with the attempt.
pub const RESPONSE_KEPT_MAX: usize = 16_384;

/// Bytes of a webhook's response that are kept after a later attempt was answered, or for every delivery but one of a
/// request. Otherwise long responses to many attempts would fill the disk.
pub const RESPONSE_CUT_MAX: usize = 1_024;

/// Headers of a webhook's response that are recorded with the attempt.
pub const RESPONSE_HEADERS_KEPT_MAX: usize = 100;

/// The longest `Retry-After` that is respected (rule A).
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3_600);

/// How long the validation URL of a handshake can be opened (rule A, 5.1).
pub const HANDSHAKE_WINDOW: Duration = Duration::from_secs(10 * 60);

/// Tries of a handshake (rule A).
pub const HANDSHAKE_TRIES: u32 = 3;

/// The pause between two tries of a handshake (rule A).
pub const HANDSHAKE_PAUSE: Duration = Duration::from_secs(5);

/// How long a PUT of an event subscription waits for the outcome of its handshake (rule A).
pub const HANDSHAKE_PUT_WAIT: Duration = Duration::from_secs(5);

/// Shortest time for which the row of a deleted object is kept. No request that began before the deletion lasts longer.
pub const DELETED_KEPT: Duration = Duration::from_secs(10 * 60);

/// For how long a repeated `x-ms-client-request-id` is recognised (rule A).
pub const REQUEST_ID_WINDOW: Duration = Duration::from_secs(10 * 60);

/// Deliveries in flight for one event subscription. The number is enough for a fast receiver in a LAN, and low enough
/// not to overload a small one.
pub const IN_FLIGHT_PER_SUBSCRIPTION: usize = 32;

/// Deliveries in flight that one event subscription can set for itself (an extension): the default limit over all
/// subscriptions.
pub const IN_FLIGHT_OWN_MAX: u32 = 1_024;

/// Deliveries in flight over all event subscriptions, which bounds the duplicates after a crash.
pub const IN_FLIGHT_MAX: usize = 1_024;

/// Bytes of the events in flight over all event subscriptions: 64 of the largest size. Above the limit no request is
/// started. One turn may exceed it by the events that it has already read.
pub const WIRE_BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// The longest age for which anything can be kept, in hours: a century.
pub const RETENTION_HOURS_MAX: u64 = 876_000;

/// Deliveries that one change of the store creates, locks or ends. A larger number is done in batches of this size, and
/// other changes run between them. A batch takes the writer some 5 ms, as the deliveries of one event write a page of
/// 16 KiB each.
pub const CHANGE_DELIVERIES_MAX: usize = 200;

/// Deliveries, over all event subscriptions, whose requests were answered but whose results are not stored yet. At the
/// limit no further delivery is sent. This bounds the memory for responses on a slow disk, and the duplicates after a
/// crash.
pub const UNSTORED_MAX: usize = 4_096;

/// Changes per slot of an event subscription that store answered requests and wait for the writer. Each request needs
/// one change, except in large batches. At the limit the subscription waits, so that a crash repeats few deliveries. A
/// lower limit would make a receiver on the same machine wait for the disk.
pub const UNSTORED_PER_SLOT: usize = 4;

/// Bytes of events, over all event subscriptions, that wait in memory for a slot. At the limit no further events are
/// handed over or leased ahead. All events are in the store.
pub const LEASED_AHEAD_BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// The `Retry-After` for publishers when the appliance cannot accept events right now, in seconds.
pub const RETRY_AFTER_BUSY_S: u64 = 5;

/// How long counters are kept by the minute: what the finest chart shows, and some more.
pub const MINUTES_KEPT: Duration = Duration::from_secs(6 * 3_600);

/// How long counters are kept by the hour.
pub const HOURS_KEPT: Duration = Duration::from_secs(32 * 24 * 3_600);

/// How long counters are kept by the day.
pub const DAYS_KEPT: Duration = Duration::from_secs(400 * 24 * 3_600);

/// Characters of a reason, a description or a property that a receiver gives with a dead letter
/// (rule S4.1).
pub const DEAD_LETTER_TEXT_MAX: usize = 4_096;

/// Properties that a receiver gives with a dead letter. With all of them at their longest, clients still
/// accept the headers of a response.
pub const DEAD_LETTER_PROPERTIES_MAX: usize = 32;

/// Characters of the name of a property of a dead letter; many clients reject longer header names.
pub const DEAD_LETTER_PROPERTY_NAME_MAX: usize = 128;

/// How long a lock lasts by default (rule S1, LockDuration).
pub const LOCK_DURATION: Duration = Duration::from_secs(60);

/// The shortest and the longest lock that a receiver can request (rule S1).
pub const LOCK_SECONDS: std::ops::RangeInclusive<u64> = 5..=300;

/// Mebibytes of all messages of a queue or a Service Bus topic by default, as at Azure.
pub const QUEUE_MEGABYTES: u32 = 1_024;
/// The largest size of a queue or a Service Bus topic in mebibytes: 1 TiB is more than the database is made for.
pub const QUEUE_MEGABYTES_MAX: u32 = 1_048_576;

/// Deliveries of a message before a queue dead-letters it, by default and at most (rule S1, MaxDeliveryCount).
pub const QUEUE_DELIVERIES: u32 = 10;
pub const QUEUE_DELIVERIES_MAX: u32 = 2_000;

/// Bytes of application properties that the receivers of a message may set.
pub const RECEIVER_PROPERTY_BYTES_MAX: usize = 65_536;

/// Bytes of properties, set by receivers, of the messages that one change settles. The last message may exceed the
/// limit. Further messages are settled in later changes, so that other changes can run between them.
pub const SETTLED_BYTES_MAX: usize = 64 * RECEIVER_PROPERTY_BYTES_MAX;

/// Bytes of a dead letter's reason, description and properties that a full queue still accepts, so that receivers can
/// dead-letter messages that they cannot process.
pub const DEAD_LETTER_BYTES_LET_IN: usize = 1_024;

/// Characters of a message's id: Service Bus' own limit.
pub const MESSAGE_ID_MAX: usize = 128;

/// Bytes of a message's header, annotations and properties together: Service Bus' own limit.
pub const HEAD_BYTES_MAX: usize = 64 * 1_024;

/// Characters of a session id (rule S6).
pub const SESSION_ID_MAX: usize = 128;

/// Bytes of the state of a session.
pub const SESSION_STATE_BYTES_MAX: usize = 262_144;

/// Messages that the holder of a session may have locked at once. One change covers all of them when the lock is
/// renewed, released, or taken over after it has expired.
pub const SESSION_MESSAGES_HELD_MAX: usize = CHANGE_DELIVERIES_MAX;

/// Sessions that one answer lists.
pub const SESSIONS_LISTED_MAX: usize = 100;

/// Sessions of a queue that are read to list sessions for a client, including those that the client skips.
pub const SESSIONS_WALKED_MAX: usize = 50_000;

/// How long a receiver waits for the next session by default (rule S10.5).
pub const SESSION_WAIT: Duration = Duration::from_secs(60);

/// Time for which a queue remembers message ids by default (rule S6). [`DUPLICATE_WINDOW_SECONDS`] is the range.
pub const DUPLICATE_WINDOW: Duration = Duration::from_secs(10 * 60);
pub const DUPLICATE_WINDOW_SECONDS: std::ops::RangeInclusive<u64> = 20..=7 * 24 * 3_600;

/// Message ids that a queue remembers, about 100 MB. Above the limit the oldest ones are forgotten.
pub const DUPLICATE_IDS_MAX: u64 = 1_000_000;

/// Messages in one batch, the limit of Service Bus. A batch is stored in one change, so that receivers see all of its
/// messages or none.
pub const BATCH_MESSAGES_MAX: usize = 4_500;

/// Bytes that a message of a batch counts for until it is stored, in addition to its size. They cover the message as
/// read, the event made of it, and its part of the change. Messages of 8 bytes took 1.1 KB in a measurement.
pub const SENT_MESSAGE_BYTES: usize = 1_536;

/// Access rules of one queue or topic, and also access rules for all of them (rule S1.1).
pub const ACCESS_RULES_MAX: usize = 12;

/// Rules of all subscriptions of a topic together (rule S7): SQL filters are evaluated one by one for every message.
pub const RULES_PER_TOPIC_MAX: usize = 2_000;

/// Bytes of memory for the rules of all subscriptions of a topic: 8 KiB for each of the [`RULES_PER_TOPIC_MAX`] rules.
/// A single SQL text of 1,024 characters may take 100 KB.
pub const RULES_MEMORY_MAX: usize = 16 * 1_024 * 1_024;

/// Steps that the rules of all subscriptions of a topic take for one message (rule S7): a few milliseconds. The largest
/// number of rules, each with dozens of comparisons of short properties, stays far below the limit.
pub const RULE_STEPS_MAX: usize = 1_000_000;

/// Copies that rules make of the messages of one batch. [`RULE_COPIES_BYTES_MAX`] limits the bytes of the copies that
/// actions changed. All copies are stored in one change.
pub const RULE_COPIES_MAX: usize = 4_500;
pub const RULE_COPIES_BYTES_MAX: usize = 16 * 1_024 * 1_024;

/// Bytes of a rule as it is stored. Each SQL text has up to 1,024 characters.
pub const RULE_BYTES_MAX: usize = 16_384;

/// Rules that one answer lists.
pub const RULES_LISTED_MAX: usize = 100;

/// Times that a message may be forwarded. After that it is dead-lettered (rule S4.2).
pub const HOPS_MAX: u32 = 4;

/// Copies of one message over all topics that it is forwarded to: enough for a topic that forwards to twenty topics
/// with five hundred subscriptions each. Topics that forward in a circle would make the fourth power of the copies of
/// one topic.
pub const FORWARD_COPIES_MAX: u32 = 10_000;

/// Messages that a queue or topic forwards in one turn.
pub const FORWARDED_AT_ONCE_MAX: usize = 100;

/// The shortest life of messages that a queue may set.
pub const MESSAGE_TIME_TO_LIVE_MIN: Duration = Duration::from_secs(1);

/// The shortest time after which an idle queue may be deleted (rule S1). [`USER_METADATA_MAX`] limits the characters of
/// its notes (rule S1).
pub const IDLE_MIN: Duration = Duration::from_secs(300);
pub const USER_METADATA_MAX: usize = 1_024;

/// Unavailable messages that are read to count the scheduled messages of a queue.
pub const SCHEDULED_COUNTED_MAX: u64 = 10_000;

/// Bytes of a message, or of a batch of them.
pub const MESSAGE_BYTES_MAX: u64 = 1_048_576;

/// Locks that one request takes or settles (rule N5 has 100 for `maxEvents`).
pub const LOCKS_PER_REQUEST_MAX: usize = 100;

/// Bytes of events after which a request takes no further lock; the first one is always taken.
pub const LOCK_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// How long a receiver waits for something to receive by default (rule S8).
pub const RECEIVE_WAIT: Duration = Duration::from_secs(60);

/// The longest time that a receiver can wait (rule N5 has 120 s for `maxWaitTime`). The receiver then gets an empty
/// response and asks again.
pub const RECEIVE_WAIT_MAX: Duration = Duration::from_secs(120);

/// Receivers that wait at once, over all queues. Half of them may have one key and wait at one queue, which is twice
/// the limit of Service Bus. Each receiver also holds a request or a link, for which memory allows fewer.
pub const RECEIVERS_WAITING_MAX: usize = 20_000;

/// Events that a filter is tried on by default.
pub const TRIAL_EVENTS: usize = 1_000;

/// Events that a filter is tried on at most: enough to judge by, and read in
/// seconds.
pub const TRIAL_EVENTS_MAX: usize = 10_000;

/// Trials of filters on large events that wait at once; the events are held in memory meanwhile.
pub const TRIALS_WAITING_MAX: usize = 32;

/// Time for which a filter is tried. Afterwards the results so far are returned.
pub const TRIAL_DEADLINE: Duration = Duration::from_secs(5);

/// How much of a rejected publish request is recorded.
pub const REJECTED_BYTES_KEPT_MAX: usize = 16_384;

/// Characters that are recorded of the content type of a rejected publish request, and of its reason.
pub const REJECTED_TEXT_KEPT_MAX: usize = 1_000;

/// Rejected publish requests that are kept, the newest: 16 MiB of bodies.
pub const REJECTIONS_MAX: usize = 1_000;

/// How long a rejected publish request is kept: somebody who was away for a week still finds it.
pub const REJECTION_LIFE: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Rejected publish requests that are recorded per second, over all topics: a broken publisher costs one
/// short commit a second.
pub const REJECTIONS_PER_SECOND_MAX: usize = 16;

/// Rejected publish requests of one topic that are recorded per second, so that a broken publisher does not hide
/// others.
pub const REJECTIONS_PER_SECOND_OF_TOPIC_MAX: usize = 4;

/// Resubmissions in a row that an event may have, by default: more than a person has patience for, few enough
/// to end a loop of two machines soon.
pub const RESUBMISSIONS_MAX: u32 = 10;

/// Deliveries that one request or one batch of a replay job resubmits: a few milliseconds of the writer.
pub const REPLAY_BATCH_MAX: usize = 200;

/// Requests that a resubmission to a URL has in flight at once, which bounds the duplicates after a kill.
pub const REPLAY_REQUESTS_MAX: usize = 16;

/// Bytes of events that one batch of a replay job holds in memory.
pub const REPLAY_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// Deliveries that one read for a replay job looks at: some tens of milliseconds of a reader.
pub const REPLAY_WINDOW: usize = 5_000;

/// Pending deliveries of a subscription at which a replay job pauses: a few seconds of a busy receiver, so
/// that new events wait no longer than that.
pub const REPLAY_BACKLOG_MAX: usize = 2_000;

/// How long a replay job waits before it looks again at a backlog.
pub const REPLAY_BACKLOG_PAUSE: Duration = Duration::from_millis(100);

/// The pause between two batches of replay jobs, in which the writer serves others.
pub const REPLAY_PAUSE: Duration = Duration::from_millis(5);

/// Replay jobs that are running or paused at once: each costs a read and a change per round.
pub const REPLAY_JOBS_MAX: usize = 32;

/// Ended replay jobs that are kept.
pub const REPLAY_JOBS_KEPT: usize = 1_000;

/// Errors that a replay job records: enough to see what is wrong.
pub const REPLAY_ERRORS_KEPT_MAX: usize = 20;

/// Number of inspectors. With [`INSPECTED_REQUESTS_MAX`] and [`INSPECTED_BYTES_MAX`] they keep at most 160 MiB of
/// bodies.
pub const INSPECTORS_MAX: usize = 25;

/// Requests that an inspector keeps, the newest.
pub const INSPECTED_REQUESTS_MAX: u64 = 100;

/// How much of the body of a request an inspector records.
pub const INSPECTED_BYTES_MAX: usize = 65_536;

/// The longest delay of an inspector: as long as a late response is waited for.
pub const INSPECTOR_DELAY_MAX: Duration = LATE_ANSWER_WINDOW;

/// Headers that an inspector can add to its responses.
pub const INSPECTOR_HEADERS_MAX: usize = 20;

/// Bytes of the value of a header of an inspector's responses.
pub const INSPECTOR_HEADER_BYTES_MAX: usize = 4_096;

/// Bytes of the body of an inspector's responses: enough for an error of an API; no page of a delivery would
/// show more.
pub const INSPECTOR_BODY_BYTES_MAX: usize = 1_024;

/// Alert rules: far more than there are kinds of them, and few enough to be judged every few seconds.
pub const ALERT_RULES_MAX: usize = 50;

/// Number of alert channels. Every message needs one request per channel.
pub const ALERT_CHANNELS_MAX: usize = 20;

/// Alerts of one rule. Above the limit an alert for a further object begins only after another one has ended.
pub const ALERTS_PER_RULE_MAX: usize = 1_000;

/// Minutes that a rule looks back: a day.
pub const ALERT_MINUTES_MAX: u32 = 1_440;

/// Minutes that a topic may be without events: a week, for what is published every few days.
pub const ALERT_QUIET_MINUTES_MAX: u32 = 10_080;

/// Days before an expiration at which an alert can fire.
pub const ALERT_DAYS_MAX: u32 = 365;

/// Mebibytes of free disk space in an alert rule: a pebibyte.
pub const ALERT_MEGABYTES_MAX: u32 = 1 << 30;

/// Number of dead letters from which an alert rule fires.
pub const ALERT_COUNT_MAX: u32 = 1_000_000;

/// The shortest time between two messages of one rule to one channel, and the first wait before a message that failed
/// is sent once more.
pub const ALERT_MESSAGE_INTERVAL: Duration = Duration::from_secs(60);

/// Attempts of one message: with waits that double, 15 minutes.
pub const ALERT_ATTEMPTS_MAX: u32 = 5;

/// Lines of a message: what somebody reads on a phone, and what every service takes.
pub const ALERT_LINES_MAX: usize = 12;

/// Bytes of the text about one alert.
pub const ALERT_DETAIL_BYTES_MAX: usize = 120;

/// Messages that are kept, the newest: some weeks of a busy appliance.
pub const ALERT_MESSAGES_KEPT: usize = 500;

/// Messages that are sent at once.
pub const ALERT_MESSAGES_AT_ONCE_MAX: usize = 20;

/// Mail addresses of one channel.
pub const ALERT_ADDRESSES_MAX: usize = 20;

/// How long a channel may take to answer, the look-up aside: somebody may wait for a test.
pub const ALERT_DEADLINE: Duration = Duration::from_secs(10);

/// How long a dead letter waits to be exported, together with all that follow meanwhile (rule 9.1).
pub const EXPORT_DELAY: Duration = Duration::from_secs(5 * 60);

/// The longest delay of exports that can be set.
pub const EXPORT_DELAY_S_MAX: u64 = 24 * 3_600;

/// How long storage may be unreachable before its dead letters are dropped or kept (rule 9.1).
pub const STORAGE_OUTAGE_MAX: Duration = Duration::from_secs(4 * 3_600);

/// Dead letters in one blob: few enough that a change marks them within milliseconds.
pub const BLOB_RECORDS_MAX: usize = 500;

/// Bytes of events in one blob after which no further event is added. The blob is held in memory during the upload.
pub const BLOB_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// Concurrent uploads, each of another subscription, so that hanging storage delays few others.
pub const BLOBS_AT_ONCE_MAX: usize = 4;

/// How long the upload of a blob may take.
pub const BLOB_DEADLINE: Duration = Duration::from_secs(60);

/// How long the blob of a dead letter is remembered.
pub const BLOB_NAMES_KEPT: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Bytes of an imported blob of dead letters: more than an exported blob has.
pub const IMPORT_BYTES_MAX: usize = 16 * 1_024 * 1_024;
