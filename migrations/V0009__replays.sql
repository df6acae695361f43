-- Deliveries can be sent again elsewhere than to their own subscription, with the event edited, and in
-- great numbers; whatever comes of it can be followed both ways.

-- One row for each time that a delivery was sent again. It goes with the event that was sent.
CREATE TABLE resubmission (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery_id    INTEGER NOT NULL, -- what was sent again
    event_id       INTEGER NOT NULL REFERENCES event (id) ON DELETE CASCADE, -- its event
    as_delivery_id INTEGER,          -- the new delivery to its own subscription
    as_event_id    INTEGER,          -- the new event: edited, published anew, or both
    url            TEXT,             -- the webhook that it was sent to, without its query
    generation     INTEGER NOT NULL CHECK (generation >= 1), -- resubmissions that led here, itself included
    replay_job_id  INTEGER,
    resubmitted_at INTEGER NOT NULL,
    CHECK (as_delivery_id IS NOT NULL OR as_event_id IS NOT NULL OR url IS NOT NULL)
) STRICT;

-- What has become of this event, and where does this event or delivery come from?
CREATE INDEX resubmission_event ON resubmission (event_id);
CREATE INDEX resubmission_as_event ON resubmission (as_event_id) WHERE as_event_id IS NOT NULL;
CREATE INDEX resubmission_as_delivery ON resubmission (as_delivery_id) WHERE as_delivery_id IS NOT NULL;

-- A replay job is Running (0) or Paused (1) until it is Completed (2) or Cancelled (3).
CREATE TABLE replay_job (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    state              INTEGER NOT NULL CHECK (state BETWEEN 0 AND 3),
    source             TEXT    NOT NULL CHECK (source IN ('DeadLetters', 'Delivered')),
    topic_id           INTEGER, -- the filter, as far as last_delivery_id: NULL does not filter
    subscription_id    INTEGER,
    dead_letter_reason TEXT,
    last_outcome       TEXT,
    last_status        INTEGER,
    event_type         TEXT,
    subject            TEXT,
    ended_from         INTEGER,
    ended_before       INTEGER,
    text               TEXT,
    last_delivery_id   INTEGER NOT NULL, -- deliveries after this one are not covered
    target             TEXT    NOT NULL CHECK (target IN ('Subscription', 'Topic', 'Url')),
    target_topic_id    INTEGER,          -- NULL: each event's own topic
    target_url         TEXT,             -- sealed: its query may hold a secret
    per_1000_s         INTEGER,          -- events in a thousand seconds; NULL: any number
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    ended_at           INTEGER,
    cursor             INTEGER NOT NULL DEFAULT 0, -- everything up to this delivery has been dealt with
    total              INTEGER NOT NULL,
    resubmitted        INTEGER NOT NULL DEFAULT 0,
    failed             INTEGER NOT NULL DEFAULT 0,
    skipped            TEXT    NOT NULL DEFAULT '[]', -- JSON: [[why, how many], ...]
    errors             TEXT    NOT NULL DEFAULT '[]', -- JSON: [[delivery, what went wrong], ...]
    CHECK ((state IN (2, 3)) = (ended_at IS NOT NULL)),
    CHECK ((target = 'Url') = (target_url IS NOT NULL))
) STRICT;

-- Which jobs are not over?
CREATE INDEX replay_job_open ON replay_job (id) WHERE state IN (0, 1);
