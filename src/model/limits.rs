//! Every number that bounds the product, and where it comes from.
//!
//! "rule 7.1" is that rule of docs/azure-compatibility.md, what Azure publishes; a number without a rule
//! says why it is what it is.

use std::time::Duration;

/// Bytes of one publish request (rule 1.4: what Azure takes; the boundary itself passes).
pub const PUBLISH_BYTES_MAX: usize = 1_536_000;

/// Bytes of one event in it (rule 1.4: 1,025 KiB, as Azure).
pub const EVENT_BYTES_MAX: usize = 1_049_600;

/// Events in one publish request (rule 1.4).
pub const PUBLISH_EVENTS_MAX: usize = 5_000;

/// Nesting of arrays and objects in requests. Deeper documents serve no purpose and cost stack in every
/// parser.
pub const JSON_DEPTH_MAX: usize = 64;

/// Clock skew from which on there is a warning. Receivers of signed requests commonly reject what is five
/// minutes off, and the shortest shared access signatures live for about as long; network delays are far
/// below.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(60);

/// How long no second notice is sent about dead letters of one subscription with one reason: a storm of any
/// size is a notice at once and one a minute.
pub const NOTICE_WINDOW: Duration = Duration::from_secs(60);

/// Notices that are published at once.
pub const NOTICES_AT_ONCE_MAX: usize = 100;

/// Notices that wait in memory: far more than a second brings, and a few hundred kilobytes.
pub const NOTICES_WAITING_MAX: usize = 1_000;

/// Bytes of a management request: a subscription with every filter and header at its limit fits.
pub const MANAGEMENT_BYTES_MAX: usize = 262_144;

/// Bytes of a whole configuration: thousands of objects, and little enough to hold in memory several times.
pub const CONFIGURATION_BYTES_MAX: usize = 8_388_608;

/// Entries of the audit log: years of a busy appliance, and some tens of megabytes at most.
pub const AUDIT_ROWS_MAX: i64 = 100_000;

/// Entries of the audit log in one share ([`crate::model::audit::AuditEntry::share`]): whoever fills it pushes nobody else's
/// entries out.
pub const AUDIT_ROWS_PER_SHARE_MAX: i64 = AUDIT_ROWS_MAX / 100;

/// How long audit entries are kept: as long as the oldest counters.
pub const AUDIT_LIFE: Duration = Duration::from_secs(400 * 86_400);

/// Event subscriptions of one topic (rule 13).
pub const SUBSCRIPTIONS_PER_TOPIC_MAX: usize = 500;

/// Advanced filters of one event subscription, and values over all of them (rule 4.4).
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

/// Seconds that a subscription can let its receivers lock an event (rule N1.1).
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

/// For how long after it was received the lock of an event may be renewed (rule N5).
pub const RENEWAL_WINDOW: Duration = Duration::from_secs(3_600);

/// The longest time that a delivery of a namespace topic may live: the longest retention of its topic
/// (rule N1.1).
pub const NAMESPACE_TIME_TO_LIVE_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Delays in a custom retry schedule: as many as there can be between attempts, and one to spare.
pub const OWN_WAITS_MAX: usize = 30;

/// The shortest delay in a custom retry schedule; less would be no pause for the receiver.
pub const OWN_WAIT_SHORTEST: Duration = Duration::from_secs(1);

/// The longest delay in a custom retry schedule; after more, no event would be alive any more.
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

/// How long a replaced signing secret goes on signing by default (Standard Webhooks leaves it open; a day is
/// what its authors offer).
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

/// How long before its expiration a token is not used any more; for short-lived ones, a tenth of their life.
pub const TOKEN_MARGIN: Duration = Duration::from_secs(60);

/// How long a token is used if the authorization server does not say.
pub const TOKEN_LIFE: Duration = Duration::from_secs(300);

/// Inbound IP rules of one topic (rule 13).
pub const INBOUND_IP_RULES_MAX: usize = 128;

/// How long a webhook has to respond (rule 6.1).
pub const RESPONSE_DEADLINE: Duration = Duration::from_secs(30);

/// Seconds that a subscription can give its webhook to respond (an extension).
pub const RESPONSE_DEADLINE_S_MAX: u32 = 300;

/// How long after its request a late response is waited for (rule 7.2).
pub const LATE_ANSWER_WINDOW: Duration = Duration::from_secs(180);

/// Requests whose late responses are waited for at once. Each holds a connection, and the body of its request
/// while the receiver does not read it, up to 1 MiB.
pub const LATE_RESPONSES_MAX: usize = 128;

/// Consecutive failures that put a subscription on probation (rule A, 7.4).
pub const PROBATION_FAILURES: u32 = 10;

/// The longest probation (rule A), and what a setting can make of it.
pub const PROBATION_LONGEST: Duration = Duration::from_secs(3_600);

/// The longest that the longest probation can be set to, in seconds (rule A).
pub const PROBATION_LONGEST_S_MAX: u64 = 4 * 3_600;

/// How much of a webhook's response is read; the rest is dropped with the connection. More than is recorded,
/// so that a slightly longer response still leaves the connection reusable.
pub const RESPONSE_READ_MAX: usize = 65_536;

/// How much of a webhook's response is recorded with the attempt.
pub const RESPONSE_KEPT_MAX: usize = 16_384;

/// How much is kept of a webhook's response once a later attempt was answered, or for each but one of the deliveries of a
/// request: whoever answers much to many attempts fills the disk with it.
pub const RESPONSE_CUT_MAX: usize = 1_024;

/// Headers of a webhook's response that are recorded with the attempt.
pub const RESPONSE_HEADERS_KEPT_MAX: usize = 100;

/// The longest `Retry-After` that is respected (rule A).
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3_600);

/// How long the validation URL of a handshake can be opened (rule A, 5.1).
pub const HANDSHAKE_WINDOW: Duration = Duration::from_secs(10 * 60);

/// Tries of a handshake, and the pause between two of them (rule A).
pub const HANDSHAKE_TRIES: u32 = 3;

/// The pause between two tries of a handshake (rule A).
pub const HANDSHAKE_PAUSE: Duration = Duration::from_secs(5);

/// How long a PUT of an event subscription waits for the outcome of its handshake (rule A).
pub const HANDSHAKE_PUT_WAIT: Duration = Duration::from_secs(5);

/// How long the row of something deleted stays at least. No request that began before the deletion lasts longer.
pub const DELETED_KEPT: Duration = Duration::from_secs(10 * 60);

/// For how long a repeated `x-ms-client-request-id` is recognised (rule A).
pub const REQUEST_ID_WINDOW: Duration = Duration::from_secs(10 * 60);

/// Deliveries on the wire for one event subscription. Enough to keep a fast receiver busy over a LAN,
/// few enough not to flatten a small one.
pub const IN_FLIGHT_PER_SUBSCRIPTION: usize = 32;

/// Deliveries on the wire that one event subscription can set for itself (an extension): the default over all
/// subscriptions.
pub const IN_FLIGHT_OWN_MAX: u32 = 1_024;

/// Deliveries on the wire over all event subscriptions: bounds the duplicates that a crash can cause.
pub const IN_FLIGHT_MAX: usize = 1_024;

/// Bytes of the events on the wire over all event subscriptions: 64 of the greatest size. Beyond it no request is
/// started; one turn may exceed it by what it has read.
pub const WIRE_BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// The longest age for which anything can be kept, in hours: a century.
pub const RETENTION_HOURS_MAX: u64 = 876_000;

/// Deliveries that one change of the store creates, locks or ends. What is more is done in batches of so many, each of which
/// takes the writer some 5 ms, between the changes of others: those of one event write a page of 16 KiB each.
pub const CHANGE_DELIVERIES_MAX: usize = 200;

/// Deliveries, over all event subscriptions, whose requests were answered and that are not stored yet. Beyond it
/// none is sent, so that a slow disk bounds the memory of their responses, and the duplicates of a crash.
pub const UNSTORED_MAX: usize = 4_096;

/// Changes that store the answered requests of one event subscription, and wait for the writer, for each of its slots:
/// one change for each request, but for large batches. Beyond it the
/// subscription waits, so that a crash repeats little. With fewer a receiver on the same machine would wait for the
/// disk.
pub const UNSTORED_PER_SLOT: usize = 4;

/// Bytes of events, over all event subscriptions, that wait in memory for a slot. Beyond it nothing is handed over
/// or leased ahead; the store has it all.
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

/// Characters of the name of such a property; many clients reject longer header names.
pub const DEAD_LETTER_PROPERTY_NAME_MAX: usize = 128;

/// How long a lock lasts by default (rule S1, LockDuration).
pub const LOCK_DURATION: Duration = Duration::from_secs(60);

/// The shortest and the longest lock that a receiver can request (rule S1).
pub const LOCK_SECONDS: std::ops::RangeInclusive<u64> = 5..=300;

/// Mebibytes that the messages of a queue or a Service Bus topic have together at most, unless given, as at Azure.
pub const QUEUE_MEGABYTES: u32 = 1_024;
/// And what can be given: 1 TiB is more than the database is made for.
pub const QUEUE_MEGABYTES_MAX: u32 = 1_048_576;

/// Deliveries of a message before a queue dead-letters it, by default and at most (rule S1, MaxDeliveryCount).
pub const QUEUE_DELIVERIES: u32 = 10;
pub const QUEUE_DELIVERIES_MAX: u32 = 2_000;

/// Bytes of application properties that the receivers of a message may set.
pub const RECEIVER_PROPERTY_BYTES_MAX: usize = 65_536;

/// Bytes that receivers have set, of the messages that one change settles; the last one may go beyond. More are settled in
/// several changes, between which others have the writer.
pub const SETTLED_BYTES_MAX: usize = 64 * RECEIVER_PROPERTY_BYTES_MAX;

/// Bytes of a dead letter's reason, description and properties that are let into a full queue, so that receivers can put
/// aside what they cannot process.
pub const DEAD_LETTER_BYTES_LET_IN: usize = 1_024;

/// Characters of a message's id: Service Bus' own limit.
pub const MESSAGE_ID_MAX: usize = 128;

/// Bytes of a message's header, annotations and properties together: Service Bus' own limit.
pub const HEAD_BYTES_MAX: usize = 64 * 1_024;

/// Characters of a session id (rule S6).
pub const SESSION_ID_MAX: usize = 128;

/// Bytes of the state of a session.
pub const SESSION_STATE_BYTES_MAX: usize = 262_144;

/// Messages of a session that its holder may have at once: to renew the lock, to give the session back or to take it over when
/// the lock has lapsed is one change for all of them.
pub const SESSION_MESSAGES_HELD_MAX: usize = CHANGE_DELIVERIES_MAX;

/// Sessions that one answer lists.
pub const SESSIONS_LISTED_MAX: usize = 100;

/// Sessions of a queue that are looked at for a client's list of them, those that it skips among them.
pub const SESSIONS_WALKED_MAX: usize = 50_000;

/// How long a receiver waits for the next session by default (rule S10.5).
pub const SESSION_WAIT: Duration = Duration::from_secs(60);

/// How long a queue remembers ids of messages, by default, at least and at most (rule S6).
pub const DUPLICATE_WINDOW: Duration = Duration::from_secs(10 * 60);
pub const DUPLICATE_WINDOW_SECONDS: std::ops::RangeInclusive<u64> = 20..=7 * 24 * 3_600;

/// Ids of messages that a queue remembers, about 100 MB. Beyond it the oldest ones are forgotten.
pub const DUPLICATE_IDS_MAX: u64 = 1_000_000;

/// Messages that are sent together, Service Bus' own limit: they are stored in one change, so that all of them are seen or
/// none.
pub const BATCH_MESSAGES_MAX: usize = 4_500;

/// Bytes that each message of a batch counts for, beside its own, until it is stored: for the message as it was read, the event
/// that is made of it, and its part of the change. Messages of 8 bytes took 1.1 KB.
pub const SENT_MESSAGE_BYTES: usize = 1_536;

/// Access rules of one queue or topic, and of all of them together (rule S1.1).
pub const ACCESS_RULES_MAX: usize = 12;

/// Rules of all subscriptions of a topic together (rule S7): SQL filters are evaluated one by one for every message.
pub const RULES_PER_TOPIC_MAX: usize = 2_000;

/// Bytes of memory that the rules of all subscriptions of a topic may take together: 8 KiB for each of as many as there can be,
/// while an SQL text of 1,024 characters may take 100 KB.
pub const RULES_MEMORY_MAX: usize = 16 * 1_024 * 1_024;

/// Steps that the rules of all subscriptions of a topic take for one message together (rule S7): a few milliseconds. All
/// rules that there can be, each with dozens of comparisons of short properties, are far below it.
pub const RULE_STEPS_MAX: usize = 1_000_000;

/// Copies that rules make of the messages that are sent together, and bytes of those that actions have changed: they are
/// stored in one change.
pub const RULE_COPIES_MAX: usize = 4_500;
pub const RULE_COPIES_BYTES_MAX: usize = 16 * 1_024 * 1_024;

/// Bytes of a rule as it is stored. Each SQL text has up to 1,024 characters.
pub const RULE_BYTES_MAX: usize = 16_384;

/// Rules that one answer lists.
pub const RULES_LISTED_MAX: usize = 100;

/// How often a message may be forwarded: further on it is a dead letter (rule S4.2).
pub const HOPS_MAX: u32 = 4;

/// Copies that a message may become over all topics that it is forwarded to: as many as of a topic with twenty others below it
/// that have five hundred subscriptions each. A circle of topics would make as many as the fourth power of theirs.
pub const FORWARD_COPIES_MAX: u32 = 10_000;

/// Messages that a queue or topic forwards in one turn.
pub const FORWARDED_AT_ONCE_MAX: usize = 100;

/// The shortest life of messages that a queue may set.
pub const MESSAGE_TIME_TO_LIVE_MIN: Duration = Duration::from_secs(1);

/// The shortest time after which an idle queue may be deleted, and characters of what is noted about one (rule S1).
pub const IDLE_MIN: Duration = Duration::from_secs(300);
pub const USER_METADATA_MAX: usize = 1_024;

/// Messages that are not available, and are looked at to count what is scheduled in a queue.
pub const SCHEDULED_COUNTED_MAX: u64 = 10_000;

/// Bytes of a message, or of a batch of them.
pub const MESSAGE_BYTES_MAX: u64 = 1_048_576;

/// Locks that one request takes or settles (rule N5 has 100 for `maxEvents`).
pub const LOCKS_PER_REQUEST_MAX: usize = 100;

/// Bytes of events after which a request takes no further lock; the first one is always taken.
pub const LOCK_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// How long a receiver waits for something to receive by default (rule S8).
pub const RECEIVE_WAIT: Duration = Duration::from_secs(60);

/// The longest that a receiver can wait (rule N5 has 120 s for `maxWaitTime`); it gets an empty response then
/// and asks again.
pub const RECEIVE_WAIT_MAX: Duration = Duration::from_secs(120);

/// Receivers that wait at once, over all queues. Half of them may have the same key and wait at the same queue, which is
/// twice what Service Bus allows. Each holds a request or a link, too, and there is memory for fewer of these.
pub const RECEIVERS_WAITING_MAX: usize = 20_000;

/// Events that a filter is tried on by default.
pub const TRIAL_EVENTS: usize = 1_000;

/// Events that a filter is tried on at most: enough to judge by, and read in
/// seconds.
pub const TRIAL_EVENTS_MAX: usize = 10_000;

/// Questions about what filters make of large events that wait at once: the events are in memory meanwhile.
pub const TRIALS_WAITING_MAX: usize = 32;

/// How long a filter is tried; then what was found so far is returned.
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

/// Requests that a resubmission to a URL has on the wire at once; what a kill can double.
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

/// Inspectors: with the next two limits at most 160 MiB of bodies.
pub const INSPECTORS_MAX: usize = 25;

/// Requests that an inspector keeps, the newest.
pub const INSPECTED_REQUESTS_MAX: u64 = 100;

/// How much of the body of a request an inspector records.
pub const INSPECTED_BYTES_MAX: usize = 65_536;

/// The longest delay of an inspector: as long as a late response is waited for.
pub const INSPECTOR_DELAY_MAX: Duration = LATE_ANSWER_WINDOW;

/// Headers that an inspector can add to its responses.
pub const INSPECTOR_HEADERS_MAX: usize = 20;

/// Bytes of the value of one of them.
pub const INSPECTOR_HEADER_BYTES_MAX: usize = 4_096;

/// Bytes of the body of an inspector's responses: enough for an error of an API; no page of a delivery would
/// show more.
pub const INSPECTOR_BODY_BYTES_MAX: usize = 1_024;

/// Alert rules: far more than there are kinds of them, and few enough to be judged every few seconds.
pub const ALERT_RULES_MAX: usize = 50;

/// Alert channels: each is one request for each message.
pub const ALERT_CHANNELS_MAX: usize = 20;

/// Alerts of one rule: further objects are not noted before others are over.
pub const ALERTS_PER_RULE_MAX: usize = 1_000;

/// Minutes that a rule looks back: a day.
pub const ALERT_MINUTES_MAX: u32 = 1_440;

/// Minutes that a topic may be without events: a week, for what is published every few days.
pub const ALERT_QUIET_MINUTES_MAX: u32 = 10_080;

/// Days before its end that something is said to expire.
pub const ALERT_DAYS_MAX: u32 = 365;

/// Mebibytes of free disk space: a pebibyte.
pub const ALERT_MEGABYTES_MAX: u32 = 1 << 30;

/// Dead letters from which on a rule fires.
pub const ALERT_COUNT_MAX: u32 = 1_000_000;

/// The shortest time between two messages of one rule to one channel, and the first wait before a message that failed
/// is sent once more.
pub const ALERT_MESSAGE_INTERVAL: Duration = Duration::from_secs(60);

/// Attempts of one message: with waits that double, 15 minutes.
pub const ALERT_ATTEMPTS_MAX: u32 = 5;

/// Lines of a message: what somebody reads on a phone, and what every service takes.
pub const ALERT_LINES_MAX: usize = 12;

/// Bytes of what is said of one alert.
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

/// The longest such delay that can be set.
pub const EXPORT_DELAY_S_MAX: u64 = 24 * 3_600;

/// How long storage may be unreachable before its dead letters are dropped or kept (rule 9.1).
pub const STORAGE_OUTAGE_MAX: Duration = Duration::from_secs(4 * 3_600);

/// Dead letters in one blob: few enough that a change marks them within milliseconds.
pub const BLOB_RECORDS_MAX: usize = 500;

/// Bytes of events in one blob after which no more is added; it is held in memory during the upload.
pub const BLOB_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// Concurrent uploads, each of another subscription, so that hanging storage delays few others.
pub const BLOBS_AT_ONCE_MAX: usize = 4;

/// How long the upload of a blob may take.
pub const BLOB_DEADLINE: Duration = Duration::from_secs(60);

/// How long the blob of a dead letter is remembered.
pub const BLOB_NAMES_KEPT: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Bytes of a blob of dead letters that is imported: more than one that is exported has.
pub const IMPORT_BYTES_MAX: usize = 16 * 1_024 * 1_024;
