-- The first schema. Times are milliseconds since the epoch. Numbers of events and deliveries ascend and
-- are never reused (AUTOINCREMENT), since they appear in URLs and order the queues.

CREATE TABLE topic (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT    NOT NULL COLLATE NOCASE,
    definition  TEXT    NOT NULL, -- the resource as the management API takes it
    key1        TEXT    NOT NULL,
    key2        TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    deleted_at  INTEGER           -- the row stays, so that old events keep their names
) STRICT;

CREATE UNIQUE INDEX topic_name ON topic (name) WHERE deleted_at IS NULL;

CREATE TABLE event_subscription (
    id                    INTEGER PRIMARY KEY AUTOINCREMENT,
    topic_id              INTEGER NOT NULL REFERENCES topic (id),
    name                  TEXT    NOT NULL COLLATE NOCASE,
    definition            TEXT    NOT NULL, -- the resource as the management API takes it, secrets included
    validation_state      TEXT    NOT NULL CHECK (validation_state IN
                              ('Creating', 'Updating', 'AwaitingManualAction', 'Succeeded', 'Failed')),
    validated_once        INTEGER NOT NULL CHECK (validated_once IN (0, 1)),
    validation_code       TEXT,
    validation_expires_at INTEGER,
    validation_failure    TEXT,
    allowed_rate          INTEGER,
    created_at            INTEGER NOT NULL,
    updated_at            INTEGER NOT NULL,
    deleted_at            INTEGER
) STRICT;

CREATE UNIQUE INDEX event_subscription_name ON event_subscription (topic_id, name)
    WHERE deleted_at IS NULL;

-- One row per accepted event, body included: written once, read once per attempt that misses the cache.
CREATE TABLE event (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    topic_id     INTEGER NOT NULL,
    received_at  INTEGER NOT NULL,
    event_id     TEXT    NOT NULL, -- the publisher's id
    event_type   TEXT    NOT NULL,
    source       TEXT,             -- NULL: the topic's own resource id
    subject      TEXT,
    event_time   TEXT,
    data_version TEXT,
    attributes   TEXT,             -- JSON: further CloudEvents attributes, [[name, value as JSON text], ...]
    data_kind    INTEGER NOT NULL CHECK (data_kind BETWEEN 0 AND 2), -- absent, JSON, base64
    data         TEXT,
    matched      INTEGER NOT NULL  -- event subscriptions that wanted it; 0 means unmatched
) STRICT;

-- The queue and the schedule. A delivery is Pending (0) until its last settlement; then Delivered (1),
-- DeadLettered (2), Dropped (3) or, once a new delivery replaces a dead letter, Resubmitted (4).
CREATE TABLE delivery (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id           INTEGER NOT NULL REFERENCES event (id),
    subscription_id    INTEGER NOT NULL,
    state              INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
    next_attempt_at    INTEGER NOT NULL, -- when a pending delivery needs attention next
    published_at       INTEGER NOT NULL, -- when its time to live began
    attempts           INTEGER NOT NULL DEFAULT 0,
    last_attempt_at    INTEGER,
    last_outcome       TEXT,
    last_status        INTEGER,
    dead_letter_reason TEXT,
    ended_at           INTEGER,
    resubmission_of    INTEGER,
    resubmitted_as     INTEGER,
    CHECK ((state = 0) = (ended_at IS NULL)),
    CHECK (state NOT IN (2, 3) OR dead_letter_reason IS NOT NULL)
) STRICT;

-- Which deliveries of a subscription are due? It leads with the subscription, so that one dead
-- receiver's backlog hides nobody else's work.
CREATE INDEX delivery_due ON delivery (subscription_id, next_attempt_at, id) WHERE state = 0;
-- Where did this event go?
CREATE INDEX delivery_event ON delivery (event_id);
-- What lies in the dead-letter queues, and in the queue of one subscription?
CREATE INDEX delivery_dead ON delivery (id) WHERE state = 2;
CREATE INDEX delivery_dead_subscription ON delivery (subscription_id, id) WHERE state = 2;

CREATE TABLE delivery_attempt (
    delivery_id      INTEGER NOT NULL,
    attempt          INTEGER NOT NULL CHECK (attempt >= 1),
    started_at       INTEGER NOT NULL,
    duration_ms      INTEGER NOT NULL,
    outcome          TEXT    NOT NULL,
    status           INTEGER,
    error            TEXT,
    remote_address   TEXT,
    response_headers TEXT, -- JSON: [[name, value], ...]
    response_body    BLOB,
    PRIMARY KEY (delivery_id, attempt)
) STRICT, WITHOUT ROWID;

-- Recognises a publish request that a client repeats because it missed the answer.
CREATE TABLE publish_request (
    fingerprint BLOB    PRIMARY KEY, -- of topic and x-ms-client-request-id
    body_hash   BLOB    NOT NULL,
    received_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX publish_request_age ON publish_request (received_at);

-- People who sign in to the admin pages.
CREATE TABLE user (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    name          TEXT    NOT NULL UNIQUE COLLATE NOCASE,
    password_hash TEXT    NOT NULL, -- PHC string
    role          TEXT    NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    created_at    INTEGER NOT NULL
) STRICT;

CREATE TABLE session (
    id         TEXT    PRIMARY KEY, -- SHA-256 of the cookie's token, in hex
    record     TEXT    NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
