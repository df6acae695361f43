-- The database of an Everpost appliance: one file, opened by one process.
--
-- Conventions:
--   * Columns in `_at`, `_until` and `_since` are moments in milliseconds since 1970-01-01 UTC; `_ms` are
--     milliseconds, `_bytes` are bytes. Booleans are 0 or 1.
--   * Ids ascend and are never reused (AUTOINCREMENT, or highest_id): they appear in URLs, and they order the
--     queues.
--   * States, reasons, outcomes and kinds are stored as the words that the API shows.
--   * "JSON" and "encrypted" (see src/store/engine/encryption.rs) are said beside the column.
--   * Nothing is ever changed by hand: tables of counters are written in the transaction that changes what
--     they count (see src/store/ledger/counters.rs).
--
-- Until the first release this file is changed in place. From then on it is frozen, and every change is a
-- file of its own behind it.

------------------------------------------------------------------------------------------------------------
-- Catalog: namespaces, topics and event subscriptions. Deleted ones keep their rows as long as there are events
-- or deliveries that they give their names to (see src/store/retention/deleted.rs).

CREATE TABLE namespace (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL COLLATE NOCASE,
    definition TEXT    NOT NULL, -- JSON: the resource as the management API takes it
    key1       TEXT    NOT NULL, -- encrypted
    key2       TEXT    NOT NULL, -- encrypted
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    key1_used_at INTEGER,        -- written at most once a minute; NULL: never
    key2_used_at INTEGER
) STRICT;

CREATE UNIQUE INDEX namespace_name ON namespace (name) WHERE deleted_at IS NULL;

-- Built-in topics have negative ids and no keys (see src/model/system_topic.rs).
CREATE TABLE topic (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace_id INTEGER REFERENCES namespace (id), -- of Event Grid; NULL but for topics of one
    name         TEXT    NOT NULL COLLATE NOCASE,   -- of a namespace topic: namespace/topic
    kind         TEXT    NOT NULL CHECK (kind IN ('Custom', 'Namespace', 'Queue', 'ServiceBus', 'System')),
    definition   TEXT    NOT NULL,                  -- JSON: the resource as the management API takes it; of a queue as
                                                    -- far as its own subscription does not have it
    key1         TEXT    NOT NULL,                  -- encrypted; empty for a built-in topic
    key2         TEXT    NOT NULL,                  -- encrypted; empty for a built-in topic
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    key1_used_at INTEGER,                           -- written at most once a minute; NULL: never
    key2_used_at INTEGER,
    used_at      INTEGER,                           -- likewise, of a Service Bus topic
    -- Whose names it shares. There is one, in which topics of events have their names, too.
    service_bus_namespace TEXT NOT NULL DEFAULT 'default' COLLATE NOCASE,
    CHECK ((kind = 'Namespace') = (namespace_id IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX topic_name ON topic (service_bus_namespace, name) WHERE deleted_at IS NULL;
CREATE INDEX topic_namespace ON topic (namespace_id) WHERE namespace_id IS NOT NULL;

INSERT INTO topic (id, name, kind, definition, key1, key2, created_at, updated_at)
    SELECT column1, column2, 'System', '{}', '', '', unixepoch() * 1000, unixepoch() * 1000
    FROM (VALUES (-1, 'dead-letter-storage'), (-2, 'everpost-system'));

CREATE TABLE event_subscription (
    id                    INTEGER PRIMARY KEY AUTOINCREMENT,
    topic_id              INTEGER NOT NULL REFERENCES topic (id),
    name                  TEXT    NOT NULL COLLATE NOCASE,
    definition            TEXT    NOT NULL, -- encrypted JSON: the resource as the management API takes it
    validation_state      TEXT    NOT NULL CHECK (validation_state IN
                              ('Creating', 'Updating', 'AwaitingManualAction', 'Succeeded', 'Failed')),
    validated_once        INTEGER NOT NULL CHECK (validated_once IN (0, 1)),
    validation_code       TEXT,             -- encrypted
    validation_expires_at INTEGER,
    validation_failure    TEXT,
    allowed_rate          INTEGER,          -- requests per minute, as the webhook answered
    created_at            INTEGER NOT NULL,
    updated_at            INTEGER NOT NULL,
    deleted_at            INTEGER,
    used_at               INTEGER,          -- of a queue or a subscription of messages; as that of topics
    dead_letters_pending  INTEGER NOT NULL DEFAULT 0 -- once deleted: pending deliveries are dead-lettered
                              CHECK (dead_letters_pending IN (0, 1)) -- (1) or dropped (0)
) STRICT;

CREATE UNIQUE INDEX event_subscription_name ON event_subscription (topic_id, name) WHERE deleted_at IS NULL;
CREATE INDEX event_subscription_topic ON event_subscription (topic_id);

-- The rules of Service Bus subscriptions, deleted with them.
CREATE TABLE subscription_rule (
    subscription_id INTEGER NOT NULL REFERENCES event_subscription (id),
    name            TEXT    NOT NULL COLLATE NOCASE,
    definition      TEXT    NOT NULL, -- JSON: the resource as the management API takes it
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (subscription_id, name)
) STRICT, WITHOUT ROWID;

-- Shared access rules: keys of the queues and topics of Service Bus.
CREATE TABLE access_rule (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    topic_id     INTEGER REFERENCES topic (id), -- NULL: for all of them
    name         TEXT    NOT NULL COLLATE NOCASE, -- behind that of the queue or topic: orders/app
    rights       TEXT    NOT NULL, -- JSON: as the management API takes them
    key1         TEXT    NOT NULL, -- encrypted
    key2         TEXT    NOT NULL, -- encrypted
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    key1_used_at INTEGER,          -- written at most once a minute; NULL: never
    key2_used_at INTEGER
) STRICT;

CREATE UNIQUE INDEX access_rule_name ON access_rule (name);
CREATE INDEX access_rule_topic ON access_rule (topic_id);

-- What comes from the provisioning directory, and from which of its files.
CREATE TABLE provisioned (
    kind TEXT NOT NULL, -- as in a file
    name TEXT NOT NULL COLLATE NOCASE,
    file TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

------------------------------------------------------------------------------------------------------------
-- Ledger: events and what becomes of them.

-- One row per accepted event, written once.
CREATE TABLE event (
    id             INTEGER PRIMARY KEY,
    topic_id       INTEGER NOT NULL,
    received_at    INTEGER NOT NULL,
    event_id       TEXT    NOT NULL, -- the publisher's id
    event_type     TEXT    NOT NULL,
    source         TEXT,             -- NULL: the topic's own resource id
    subject        TEXT,
    event_time     TEXT,             -- as published
    data_version   TEXT,
    attributes     TEXT,             -- JSON: further CloudEvents attributes, [[name, value as JSON text], ...]
    checksum       INTEGER NOT NULL, -- of all but matched (see src/store/engine/checksum.rs)
    data           ANY,              -- a text is JSON, a blob is binary; NULL: no data
    matched        INTEGER NOT NULL  -- event subscriptions that matched it; 0: unmatched
) STRICT;

-- Which events matched no subscription? Costs nothing where all of them match.
CREATE INDEX event_unmatched ON event (id) WHERE matched = 0;

-- One row per event and matching event subscription: the queues, and the schedule of attempts.
--
--   Pending       to be delivered, or locked by a receiver
--   Delivered     ended
--   DeadLettered  in the dead-letter queue
--   Dropped       ended without being kept as a dead letter
--   Resubmitted   a dead letter that a new delivery replaces
--   Removed       a dead letter that somebody has taken out of its queue
CREATE TABLE delivery (
    id                   INTEGER PRIMARY KEY,
    event_id             INTEGER NOT NULL REFERENCES event (id),
    subscription_id      INTEGER NOT NULL, -- of a transfer queue: that of its owner, negated
    checksum             INTEGER NOT NULL, -- of what seldom changes (see src/store/engine/checksum.rs)
    state                TEXT    NOT NULL DEFAULT 'Pending' -- no IN (...): it costs a temporary table per write
                             CHECK (state = 'Pending' OR state = 'Delivered' OR state = 'DeadLettered'
                                 OR state = 'Dropped' OR state = 'Resubmitted' OR state = 'Removed'),
    next_attempt_at      INTEGER NOT NULL, -- when a pending delivery or a dead letter can be leased next
    published_at         INTEGER NOT NULL, -- when its time to live began
    scheduled_at         INTEGER,          -- when it is enqueued, as its sender has scheduled it; NULL: at once
    expires_at           INTEGER,          -- when the time to live ends that a message has of its own; NULL: it has none
    attempts             INTEGER NOT NULL DEFAULT 0,
    batch_max            INTEGER,          -- events of its request at most, since one with more was split; NULL: never
    last_attempt_at      INTEGER,
    last_outcome         TEXT,
    last_status          INTEGER,          -- HTTP
    ended_at             INTEGER,
    removed_at           INTEGER,
    -- Locks of receivers.
    lock_token           BLOB CHECK (length(lock_token) = 16), -- of the newest lock, also a lapsed one
    locked_at            INTEGER,
    locked_until         INTEGER,
    deferred             INTEGER NOT NULL DEFAULT 0 CHECK (deferred IN (0, 1)), -- received by number only
    message_properties   BLOB,             -- application properties that receivers set: an encoded map of AMQP
    bytes                INTEGER,          -- of a message of a queue or a Service Bus subscription
    number               INTEGER,          -- likewise: its place among all that were ever in the queue, from 1 on
    session              TEXT,             -- the message session that it belongs to
    -- Messages that another queue has forwarded, or that were scheduled in a topic.
    hops                 INTEGER,          -- how often
    copies               INTEGER,          -- how many there may be of it, over all topics that forwarded it
    first_number         INTEGER,          -- that of its delivery to the first queue; of what was scheduled in a topic,
                                           -- the id of the first copy
    dead_letter_source   TEXT,             -- the queue of which it was a dead letter
    transfer_to          INTEGER,          -- in a transfer queue: the id of the queue or topic that it goes on to
    -- Dead letters.
    dead_letter_reason   TEXT,
    receiver_reason      TEXT,             -- given by the receiver that dead-lettered it itself
    receiver_description TEXT,             -- likewise; or which rule could not be evaluated, and the problem
    receiver_properties  TEXT,             -- likewise; JSON: [[name, value], ...]
    event_type           TEXT,             -- copied from its event
    event_source         TEXT,             -- likewise; the topic's name where the event has no source
    event_subject        TEXT,             -- likewise
    blob_id              INTEGER,          -- the dead-letter blob that it is exported in
    resubmission_of      INTEGER,          -- the delivery that this one replaces
    resubmitted_as       INTEGER,          -- the delivery that replaces this one
    CHECK ((state = 'Pending') = (ended_at IS NULL)),
    CHECK ((state = 'Removed') = (removed_at IS NOT NULL)),
    CHECK (dead_letter_reason IS NOT NULL
        OR (state <> 'DeadLettered' AND state <> 'Dropped' AND state <> 'Removed')),
    CHECK ((lock_token IS NULL) = (locked_until IS NULL) AND (lock_token IS NULL) = (locked_at IS NULL)),
    CHECK (lock_token IS NULL OR state = 'Pending' OR state = 'DeadLettered')
) STRICT;

-- Which deliveries of a subscription are due? It leads with the subscription, so that the backlog of one
-- dead endpoint delays nobody else.
CREATE INDEX delivery_due ON delivery (subscription_id, next_attempt_at, id, scheduled_at) WHERE state = 'Pending';
-- Which dead letters of a subscription can be received?
CREATE INDEX delivery_dead_due ON delivery (subscription_id, next_attempt_at, id) WHERE state = 'DeadLettered';
-- Which dead letters of a subscription are in no blob yet?
CREATE INDEX delivery_unexported ON delivery (subscription_id, next_attempt_at, id)
    WHERE state = 'DeadLettered' AND blob_id IS NULL;
-- Which dead letters match a filter, of all subscriptions or of one? A search reads nothing but the index,
-- unless it looks for text in the events.
CREATE INDEX delivery_dead ON delivery (id, subscription_id, event_id, dead_letter_reason, receiver_reason,
    last_outcome, last_status, ended_at, event_type, event_source, event_subject) WHERE state = 'DeadLettered';
CREATE INDEX delivery_dead_subscription ON delivery (subscription_id, id, event_id, dead_letter_reason,
    receiver_reason, last_outcome, last_status, ended_at, event_type, event_source, event_subject)
    WHERE state = 'DeadLettered';
-- Which messages lie in a queue from a number on? No two of them have the same number.
CREATE UNIQUE INDEX delivery_number ON delivery (subscription_id, state, number)
    WHERE number IS NOT NULL AND (state = 'Pending' OR state = 'DeadLettered');
-- And in a session of a queue?
CREATE INDEX delivery_session_peek ON delivery (subscription_id, session, state, number)
    WHERE session IS NOT NULL AND number IS NOT NULL AND (state = 'Pending' OR state = 'DeadLettered');
-- Which messages have outlived their own time to live, and are not deferred?
CREATE INDEX delivery_expiring ON delivery (expires_at)
    WHERE state = 'Pending' AND expires_at IS NOT NULL AND deferred = 0;
-- Which messages of a session are due, and which of them does its holder have?
CREATE INDEX delivery_session ON delivery (subscription_id, session, next_attempt_at, id)
    WHERE state = 'Pending' AND session IS NOT NULL;
CREATE INDEX delivery_session_held ON delivery (subscription_id, session)
    WHERE state = 'Pending' AND session IS NOT NULL AND lock_token IS NOT NULL;
-- Which locks have lapsed? Those of messages in sessions end with their session.
CREATE INDEX delivery_held ON delivery (subscription_id, state, locked_until)
    WHERE lock_token IS NOT NULL AND (session IS NULL OR state <> 'Pending');
-- Where did this event go?
CREATE INDEX delivery_event ON delivery (event_id);
-- What does this blob hold?
CREATE INDEX delivery_blob ON delivery (blob_id) WHERE blob_id IS NOT NULL;

-- Message sessions of queues: those with messages, with a state, or with a holder. The lock on a session covers the
-- messages of it that its holder has received; each of them has a lock that ends with it.
CREATE TABLE message_session (
    id              INTEGER PRIMARY KEY,
    subscription_id INTEGER NOT NULL,
    name            TEXT    NOT NULL, -- the session id of its messages
    available_at    INTEGER NOT NULL, -- when its first message is due, or its lock ends; may be too early
    lock_token      BLOB CHECK (length(lock_token) = 16), -- of the newest lock, also a lapsed one
    locked_until    INTEGER,
    state_set_at    INTEGER,
    state           BLOB,             -- what its holders keep with it
    CHECK ((lock_token IS NULL) = (locked_until IS NULL) AND (state IS NULL) = (state_set_at IS NULL))
) STRICT;

CREATE UNIQUE INDEX message_session_name ON message_session (subscription_id, name);
-- Which session of a queue can be held next?
CREATE INDEX message_session_available ON message_session (subscription_id, available_at);
-- Which sessions of a queue have a state?
CREATE INDEX message_session_state ON message_session (subscription_id, state_set_at)
    WHERE state_set_at IS NOT NULL;

-- What queues and Service Bus topics remember of messages, so that one that is sent again is dropped.
CREATE TABLE message_id (
    topic_id     INTEGER NOT NULL,
    fingerprint     BLOB    NOT NULL CHECK (length(fingerprint) = 16), -- of the message id
    number          INTEGER NOT NULL, -- counts those of a topic
    forgotten_at    INTEGER NOT NULL,
    PRIMARY KEY (topic_id, fingerprint)
) STRICT, WITHOUT ROWID;

-- Which are the oldest ones?
CREATE UNIQUE INDEX message_id_number ON message_id (topic_id, number);
CREATE INDEX message_id_end ON message_id (forgotten_at);

CREATE TABLE delivery_attempt (
    delivery_id      INTEGER NOT NULL,
    attempt          INTEGER NOT NULL CHECK (attempt >= 1),
    started_at       INTEGER NOT NULL,
    duration_ms      INTEGER NOT NULL,
    outcome          TEXT    NOT NULL,
    status           INTEGER, -- HTTP
    error            TEXT,
    warning          TEXT,    -- what the request lacked
    remote_address   TEXT,
    response_headers TEXT,    -- JSON: [[name, value], ...]; [] if only the beginning of the body is kept
    response_body    BLOB,    -- its beginning
    late_outcome     TEXT,    -- of a response that came after the deadline
    late_status      INTEGER, -- HTTP
    late_ms          INTEGER, -- when it came, since the start of the attempt
    PRIMARY KEY (delivery_id, attempt)
) STRICT, WITHOUT ROWID;

-- The highest ids that were given to events and deliveries, stored whenever some of them are deleted (see
-- src/store/ledger/ids.rs).
CREATE TABLE highest_id (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    event    INTEGER NOT NULL,
    delivery INTEGER NOT NULL
) STRICT;

-- A publish request whose deliveries are still to be created, since they are too many for one change. Deleted with
-- the last of them.
CREATE TABLE fan_out (
    first_event_id INTEGER PRIMARY KEY, -- the ids of its events are consecutive
    last_event_id  INTEGER NOT NULL,
    next_event_id  INTEGER NOT NULL,    -- the first of its strip: those before it have their deliveries
    next_cell      INTEGER NOT NULL DEFAULT 0, -- within the strip, subscription by subscription
    topic_id       INTEGER NOT NULL,
    received_at    INTEGER NOT NULL,
    targets        BLOB    NOT NULL,    -- who gets them (see src/store/ledger/fan_out.rs)
    checksum       INTEGER NOT NULL     -- of all that is before it
) STRICT;

-- What is left to be done for this topic?
CREATE INDEX fan_out_topic ON fan_out (topic_id, first_event_id);

-- Recognises publish requests that a client repeats because it missed the response. One row for those of one group
-- of changes (see src/store/ledger/request_marks.rs).
CREATE TABLE publish_request (
    id           INTEGER PRIMARY KEY,
    received_at  INTEGER NOT NULL, -- when the last of them was received
    fingerprints BLOB    NOT NULL  -- 16 bytes each, of topic, x-ms-client-request-id and body
) STRICT;

------------------------------------------------------------------------------------------------------------
-- Resubmissions and replay jobs.

-- One row per resubmission of a delivery, deleted with the event that was resubmitted.
CREATE TABLE resubmission (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery_id    INTEGER NOT NULL, -- what was resubmitted
    event_id       INTEGER NOT NULL REFERENCES event (id) ON DELETE CASCADE, -- its event
    as_delivery_id INTEGER,          -- the new delivery to its own subscription
    as_event_id    INTEGER,          -- the new event: edited, published anew, or both
    url            TEXT,             -- the endpoint that it was sent to, without its query
    generation     INTEGER NOT NULL CHECK (generation >= 1), -- resubmissions that led here, this one included
    replay_job_id  INTEGER,
    resubmitted_at INTEGER NOT NULL,
    CHECK (as_delivery_id IS NOT NULL OR as_event_id IS NOT NULL OR url IS NOT NULL)
) STRICT;

-- What became of this event, and where do this event and this delivery come from?
CREATE INDEX resubmission_event ON resubmission (event_id);
CREATE INDEX resubmission_as_event ON resubmission (as_event_id) WHERE as_event_id IS NOT NULL;
CREATE INDEX resubmission_as_delivery ON resubmission (as_delivery_id) WHERE as_delivery_id IS NOT NULL;
-- What has this replay job resubmitted?
CREATE INDEX resubmission_replay_job ON resubmission (replay_job_id) WHERE replay_job_id IS NOT NULL;

CREATE TABLE replay_job (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    state              TEXT    NOT NULL CHECK (state IN ('Running', 'Paused', 'Completed', 'Cancelled')),
    source             TEXT    NOT NULL CHECK (source IN ('DeadLetters', 'Delivered')),
    -- The filter. NULL does not filter.
    topic_id           INTEGER,
    subscription_id    INTEGER,
    reason             TEXT,             -- a dead-letter reason, or one given by a receiver
    last_outcome       TEXT,
    last_status        INTEGER,
    event_type         TEXT,
    subject            TEXT,
    ended_from         INTEGER,
    ended_before       INTEGER,
    text               TEXT,
    last_delivery_id   INTEGER NOT NULL, -- the last delivery that the job covers
    target             TEXT    NOT NULL CHECK (target IN ('Subscription', 'Topic', 'Url')),
    target_topic_id    INTEGER,          -- NULL: each event's own topic
    target_url         TEXT,             -- encrypted: its query may hold a secret
    rate_per_1000_s    INTEGER,          -- events per 1,000 seconds; NULL: unlimited
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    ended_at           INTEGER,
    cursor             INTEGER NOT NULL DEFAULT 0, -- the last delivery that is done with
    total              INTEGER NOT NULL,
    resubmitted        INTEGER NOT NULL DEFAULT 0,
    failed             INTEGER NOT NULL DEFAULT 0,
    skipped            TEXT    NOT NULL DEFAULT '[]', -- JSON: [[reason, how many], ...]
    errors             TEXT    NOT NULL DEFAULT '[]', -- JSON: [[delivery, message], ...]
    notice_owed        INTEGER NOT NULL DEFAULT 0 CHECK (notice_owed IN (0, 1)), -- of its end, to subscribers
    CHECK ((state IN ('Completed', 'Cancelled')) = (ended_at IS NOT NULL)),
    CHECK ((target = 'Url') = (target_url IS NOT NULL))
) STRICT;

-- Which jobs have ended without a notice so far?
CREATE INDEX replay_job_notice ON replay_job (id) WHERE notice_owed = 1;
-- Which jobs have not ended?
CREATE INDEX replay_job_open ON replay_job (id) WHERE state IN ('Running', 'Paused');

------------------------------------------------------------------------------------------------------------
-- Export of dead letters to blob storage.

-- A blob gets its row and its dead letters first, is then uploaded, and is then marked as stored. So an
-- upload that is repeated after a crash overwrites the same blob.
CREATE TABLE dead_letter_blob (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    subscription_id INTEGER NOT NULL,
    name            TEXT    NOT NULL, -- in its container
    created_at      INTEGER NOT NULL,
    stored_at       INTEGER           -- NULL until it is uploaded
) STRICT;

-- One upload at a time for each subscription.
CREATE UNIQUE INDEX dead_letter_blob_pending ON dead_letter_blob (subscription_id) WHERE stored_at IS NULL;

-- Storage that cannot be reached.
CREATE TABLE storage_outage (
    subscription_id INTEGER PRIMARY KEY,
    since           INTEGER NOT NULL,
    failures        INTEGER NOT NULL, -- in a row
    last_attempt_at INTEGER NOT NULL,
    next_attempt_at INTEGER NOT NULL,
    error           TEXT    NOT NULL
) STRICT;

------------------------------------------------------------------------------------------------------------
-- Counters: what lists, charts and metrics read, so that no page counts rows.

-- The deliveries of a subscription. At any moment
--   matched = pending + delivered + dead_lettered + dropped,
-- whatever has been pruned.
CREATE TABLE subscription_total (
    subscription_id INTEGER PRIMARY KEY,
    matched         INTEGER NOT NULL, -- deliveries ever made, resubmissions among them
    pending         INTEGER NOT NULL,
    delivered       INTEGER NOT NULL,
    dead_lettered   INTEGER NOT NULL, -- ever
    dropped         INTEGER NOT NULL,
    dead_letters    INTEGER NOT NULL, -- in the queue now
    bytes           INTEGER NOT NULL DEFAULT 0, -- of messages that are pending or dead letters, and of session states
    numbered        INTEGER NOT NULL DEFAULT 0, -- messages that were ever in the queue
    kept            INTEGER NOT NULL DEFAULT 0, -- deliveries that were not pruned
    deleted         INTEGER NOT NULL DEFAULT 0  -- whether the subscription is
                        CHECK (deleted IN (0, 1))
) STRICT;

-- Which deleted subscriptions have left something that ends with them?
CREATE INDEX subscription_total_left ON subscription_total (subscription_id)
    WHERE deleted = 1 AND (pending > 0 OR bytes > 0 OR numbered > 0 AND dead_letters > 0);
-- Which deleted subscriptions have no deliveries any more?
CREATE INDEX subscription_total_empty ON subscription_total (subscription_id) WHERE deleted = 1 AND kept <= 0;

-- What happened to a subscription's deliveries, minute by minute; old rows are rolled up to full hours, then
-- to full days. Those of subscriptions without a row any more are together under the id 0; so are those of topics.
CREATE TABLE subscription_rollup (
    subscription_id INTEGER NOT NULL,
    start_at        INTEGER NOT NULL,
    matched         INTEGER NOT NULL,
    delivered       INTEGER NOT NULL,
    dead_lettered   INTEGER NOT NULL,
    dropped         INTEGER NOT NULL,
    attempts        INTEGER NOT NULL,
    -- how many took at most so many milliseconds from publishing to success, and more than the bound before
    within_5         INTEGER NOT NULL,
    within_10        INTEGER NOT NULL,
    within_25        INTEGER NOT NULL,
    within_50        INTEGER NOT NULL,
    within_100       INTEGER NOT NULL,
    within_250       INTEGER NOT NULL,
    within_500       INTEGER NOT NULL,
    within_1000      INTEGER NOT NULL,
    within_2500      INTEGER NOT NULL,
    within_5000      INTEGER NOT NULL,
    within_15000     INTEGER NOT NULL,
    within_30000     INTEGER NOT NULL,
    within_60000     INTEGER NOT NULL,
    within_120000    INTEGER NOT NULL,
    within_300000    INTEGER NOT NULL,
    within_600000    INTEGER NOT NULL,
    within_1200000   INTEGER NOT NULL,
    within_3600000   INTEGER NOT NULL,
    within_7200000   INTEGER NOT NULL,
    within_21600000  INTEGER NOT NULL,
    within_43200000  INTEGER NOT NULL,
    within_86400000  INTEGER NOT NULL,
    longer          INTEGER NOT NULL,
    PRIMARY KEY (subscription_id, start_at)
) STRICT, WITHOUT ROWID;

CREATE INDEX subscription_rollup_start ON subscription_rollup (start_at);

-- What was published to a topic, rolled up likewise.
CREATE TABLE topic_rollup (
    topic_id   INTEGER NOT NULL,
    start_at   INTEGER NOT NULL,
    published  INTEGER NOT NULL,
    unmatched  INTEGER NOT NULL,
    data_bytes INTEGER NOT NULL,
    PRIMARY KEY (topic_id, start_at)
) STRICT, WITHOUT ROWID;

CREATE INDEX topic_rollup_start ON topic_rollup (start_at);

-- What the dead-letter queues hold, by reason and by the day of dead-lettering.
CREATE TABLE dead_letter_total (
    subscription_id INTEGER NOT NULL,
    reason          TEXT    NOT NULL,
    day_at          INTEGER NOT NULL, -- its beginning
    dead_letters    INTEGER NOT NULL,
    PRIMARY KEY (subscription_id, reason, day_at)
) STRICT, WITHOUT ROWID;

-- Dead letters that subscribers of the built-in topic everpost-system have not been notified of. Written only
-- while there are such subscribers; one row for each subscription and reason, however many dead letters.
CREATE TABLE dead_letter_notice (
    subscription_id  INTEGER NOT NULL,
    reason           TEXT    NOT NULL,
    dead_letters     INTEGER NOT NULL, -- since the last notice
    first_at         INTEGER NOT NULL,
    last_at          INTEGER NOT NULL,
    last_delivery_id INTEGER NOT NULL,
    quiet_until      INTEGER NOT NULL DEFAULT 0, -- no notice before
    PRIMARY KEY (subscription_id, reason)
) STRICT, WITHOUT ROWID;

------------------------------------------------------------------------------------------------------------
-- Diagnostics for publishers and subscribers.

-- Publish requests that were rejected; the newest ones.
CREATE TABLE rejection (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    topic_id     INTEGER NOT NULL,
    received_at  INTEGER NOT NULL,
    status       INTEGER NOT NULL,
    code         TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    content_type TEXT,
    body_bytes   INTEGER NOT NULL, -- as far as the body was read
    body_start   BLOB    NOT NULL  -- its beginning
) STRICT;

-- Inspectors: receivers inside the appliance that respond as their definition says.
CREATE TABLE inspector (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT    NOT NULL COLLATE NOCASE UNIQUE,
    definition  TEXT    NOT NULL, -- JSON: as the management API takes it
    script_step INTEGER NOT NULL, -- deliveries responded to since the definition was written
    received    INTEGER NOT NULL, -- requests ever received; the number of the newest
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) STRICT;

-- The newest requests of each inspector.
CREATE TABLE inspected_request (
    inspector_id INTEGER NOT NULL REFERENCES inspector (id) ON DELETE CASCADE,
    number       INTEGER NOT NULL,
    received_at  INTEGER NOT NULL,
    method       TEXT    NOT NULL,
    path         TEXT    NOT NULL,
    headers      TEXT    NOT NULL, -- JSON: [[name, value], ...]
    body_bytes   INTEGER NOT NULL,
    body_start   BLOB    NOT NULL, -- its beginning
    handshake    TEXT,
    events       INTEGER NOT NULL,
    event_id     TEXT,
    event_type   TEXT,
    signature    TEXT,             -- the result of checking it
    response     TEXT    NOT NULL,
    PRIMARY KEY (inspector_id, number)
) STRICT;

------------------------------------------------------------------------------------------------------------
-- Alerts: what is watched, what fires, and who is told.

CREATE TABLE alert_rule (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL COLLATE NOCASE UNIQUE,
    definition TEXT    NOT NULL, -- JSON: as the management API takes it
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    told_at    INTEGER           -- when its last message was made
) STRICT;

-- Those that are there from the start.
INSERT INTO alert_rule (name, definition, created_at, updated_at)
    SELECT column1, column2, unixepoch() * 1000, unixepoch() * 1000
    FROM (VALUES ('disk-space', '{"enabled":true,"type":"DiskSpace","megabytes":1024}'),
        ('failing-endpoints', '{"enabled":true,"type":"EndpointFailing","minutes":10}'));

-- One row per object that a rule fires for, until its end has been told.
CREATE TABLE alert (
    rule_id      INTEGER NOT NULL REFERENCES alert_rule (id) ON DELETE CASCADE,
    object       TEXT    NOT NULL,
    detail       TEXT    NOT NULL,
    firing_since INTEGER NOT NULL,
    told         INTEGER NOT NULL CHECK (told IN (0, 1)), -- that it fires
    over         INTEGER NOT NULL CHECK (over IN (0, 1)), -- which is still to be told
    PRIMARY KEY (rule_id, object)
) STRICT, WITHOUT ROWID;

CREATE TABLE alert_channel (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL COLLATE NOCASE UNIQUE,
    definition TEXT    NOT NULL, -- encrypted JSON: as the management API takes it
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    sent_at    INTEGER,          -- when a message last arrived
    failed_at  INTEGER,          -- when one last did not
    error      TEXT              -- and the reason
) STRICT;

-- Messages to channels, the newest: those to be sent, and what became of the others.
CREATE TABLE alert_message (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    channel_id      INTEGER NOT NULL REFERENCES alert_channel (id) ON DELETE CASCADE,
    rule            TEXT    NOT NULL, -- its name
    subject         TEXT    NOT NULL,
    body            TEXT    NOT NULL,
    firing          INTEGER NOT NULL CHECK (firing IN (0, 1)),
    state           TEXT    NOT NULL CHECK (state IN ('Pending', 'Sent', 'Failed')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    created_at      INTEGER NOT NULL,
    next_attempt_at INTEGER,
    sent_at         INTEGER,
    error           TEXT,
    CHECK ((state = 'Pending') = (next_attempt_at IS NOT NULL)),
    CHECK ((state = 'Sent') = (sent_at IS NOT NULL))
) STRICT;

CREATE INDEX alert_message_channel ON alert_message (channel_id);
-- Which are to be sent?
CREATE INDEX alert_message_due ON alert_message (next_attempt_at) WHERE state = 'Pending';

------------------------------------------------------------------------------------------------------------
-- Accounts: who may sign in, and as what.

CREATE TABLE user (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    name            TEXT    NOT NULL UNIQUE COLLATE NOCASE,
    password_hash   TEXT    NOT NULL, -- PHC string; empty until a password is chosen, and where it is not here
    role            TEXT    NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    created_at      INTEGER NOT NULL,
    disabled_at     INTEGER,
    signed_in_at    INTEGER, -- the last time
    link_hash       TEXT,    -- SHA-256, in hex, of the token in a password link
    link_expires_at INTEGER,
    totp            TEXT,    -- encrypted: the secret of the second factor, in base32
    totp_step       INTEGER, -- the last time step whose code was used
    time_zone       TEXT,    -- by its name; NULL for that of the browser
    source          TEXT    NOT NULL DEFAULT 'local' CHECK (source IN ('local', 'oidc', 'proxy')),
    subject         TEXT,    -- who it is at the source
    CHECK ((source = 'local') = (subject IS NULL))
) STRICT;

CREATE UNIQUE INDEX user_link ON user (link_hash) WHERE link_hash IS NOT NULL;
CREATE UNIQUE INDEX user_subject ON user (source, subject) WHERE subject IS NOT NULL;

-- A code that was used is deleted.
CREATE TABLE recovery_code (
    user_id INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE,
    hash    TEXT    NOT NULL, -- SHA-256, in hex
    PRIMARY KEY (user_id, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE session (
    id         TEXT    PRIMARY KEY, -- SHA-256, in hex, of the cookie's token
    record     TEXT    NOT NULL,    -- JSON
    user_id    INTEGER REFERENCES user (id) ON DELETE CASCADE, -- NULL: not signed in yet
    started_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL,    -- to the minute
    expires_at INTEGER NOT NULL,
    address    TEXT,                -- of the client that signed in
    browser    TEXT                 -- what it calls itself
) STRICT, WITHOUT ROWID;

CREATE INDEX session_user ON session (user_id, used_at);
CREATE INDEX session_end ON session (expires_at);

CREATE TABLE api_token (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL UNIQUE COLLATE NOCASE,
    hash       TEXT    NOT NULL UNIQUE, -- SHA-256, in hex
    role       TEXT    NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    created_by TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    used_at    INTEGER                  -- to the minute
) STRICT;

-- Failed logins by account and by network, so that the delays survive a restart.
CREATE TABLE login_failure (
    hash          TEXT    PRIMARY KEY, -- SHA-256, in hex: what is typed as a name may be a password
    failures      INTEGER NOT NULL,
    last_at       INTEGER NOT NULL,
    blocked_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX login_failure_last ON login_failure (last_at);

-- From where each account was signed in to: failures elsewhere do not keep its user waiting there.
CREATE TABLE known_network (
    hash    TEXT    PRIMARY KEY, -- SHA-256, in hex: of the account and the network
    used_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX known_network_used ON known_network (used_at);

------------------------------------------------------------------------------------------------------------
-- Settings that were changed while the appliance ran.

CREATE TABLE setting (
    name  TEXT PRIMARY KEY, -- as in the configuration file
    value TEXT NOT NULL     -- as in an environment variable
) STRICT, WITHOUT ROWID;

------------------------------------------------------------------------------------------------------------
-- Audit log: who did what.

CREATE TABLE audit (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    at          INTEGER NOT NULL,
    actor_kind  TEXT    NOT NULL CHECK (actor_kind IN ('User', 'ApiToken', 'ManagementToken', 'CommandLine', 'Provisioning', 'AccessRule',
                    'Appliance')),
    actor       TEXT    NOT NULL, -- the name, where the kind has names
    address     TEXT,
    action      TEXT    NOT NULL, -- 'Create', 'Pause', ...
    target_kind TEXT    NOT NULL, -- 'Topic', 'User', ...
    target      TEXT    NOT NULL, -- the name or the number; topic/name of an event subscription
    details     TEXT    NOT NULL, -- JSON: the action with its members, without secrets
    share       TEXT              -- the part of the log that it has to fit into; NULL: all of it
) STRICT;

CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_share ON audit (share) WHERE share IS NOT NULL;

-- Entries are added and, in the end, deleted, but never changed.
CREATE TRIGGER audit_unchanged BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit log is not changed');
END;
