-- Locks of receivers outside, what applications say when they dead-letter, and a state for dead letters that
-- somebody has taken out of their queue. The table is made anew because its check of states is.

CREATE TABLE delivery_with_locks (
    id                      INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id                INTEGER NOT NULL REFERENCES event (id),
    subscription_id         INTEGER NOT NULL,
    -- Pending 0, Delivered 1, DeadLettered 2, Dropped 3, Resubmitted 4, Removed 5
    state                   INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 5),
    next_attempt_at         INTEGER NOT NULL, -- when a pending delivery or a dead letter can be taken next
    published_at            INTEGER NOT NULL, -- when its time to live began
    attempts                INTEGER NOT NULL DEFAULT 0,
    last_attempt_at         INTEGER,
    last_outcome            TEXT,
    last_status             INTEGER,
    dead_letter_reason      TEXT,
    dead_letter_own_reason  TEXT, -- an application's, where dead_letter_reason is Application
    dead_letter_description TEXT, -- likewise
    dead_letter_properties  TEXT, -- likewise; JSON: [[name, value], ...]
    ended_at                INTEGER,
    removed_at              INTEGER,
    resubmission_of         INTEGER,
    resubmitted_as          INTEGER,
    lock_token              BLOB CHECK (length(lock_token) = 16), -- of the newest lock, also a lapsed one
    locked_at               INTEGER,
    locked_until            INTEGER,
    first_locked_at         INTEGER,
    deferred                INTEGER NOT NULL DEFAULT 0 CHECK (deferred IN (0, 1)),
    CHECK ((state = 0) = (ended_at IS NULL)),
    CHECK ((state = 5) = (removed_at IS NOT NULL)),
    CHECK (state NOT IN (2, 3, 5) OR dead_letter_reason IS NOT NULL),
    CHECK ((lock_token IS NULL) = (locked_until IS NULL) AND (lock_token IS NULL) = (locked_at IS NULL)),
    CHECK (lock_token IS NULL OR state IN (0, 2))
) STRICT;

INSERT INTO delivery_with_locks (id, event_id, subscription_id, state, next_attempt_at, published_at, attempts,
    last_attempt_at, last_outcome, last_status, dead_letter_reason, ended_at, resubmission_of, resubmitted_as)
    SELECT id, event_id, subscription_id, state, coalesce(ended_at, next_attempt_at), published_at, attempts,
        last_attempt_at, last_outcome, last_status, dead_letter_reason, ended_at, resubmission_of, resubmitted_as
    FROM delivery;

-- Numbers are never reused, also where the newest deliveries are gone.
DELETE FROM sqlite_sequence WHERE name = 'delivery_with_locks';
INSERT INTO sqlite_sequence (name, seq) SELECT 'delivery_with_locks', seq FROM sqlite_sequence WHERE name = 'delivery';

DROP TABLE delivery;
ALTER TABLE delivery_with_locks RENAME TO delivery;

-- Which deliveries of a subscription are due? It leads with the subscription, so that one dead
-- receiver's backlog hides nobody else's work.
CREATE INDEX delivery_due ON delivery (subscription_id, next_attempt_at, id) WHERE state = 0;
-- Where did this event go?
CREATE INDEX delivery_event ON delivery (event_id);
-- Which dead letters of a subscription can be taken?
CREATE INDEX delivery_dead_due ON delivery (subscription_id, next_attempt_at, id) WHERE state = 2;
-- What lies in the dead-letter queues? A search reads nothing else of a delivery before it fits.
CREATE INDEX delivery_dead ON delivery (id, subscription_id, event_id, dead_letter_reason, dead_letter_own_reason,
    last_outcome, last_status, ended_at) WHERE state = 2;
-- Who holds this lock?
CREATE UNIQUE INDEX delivery_lock ON delivery (lock_token) WHERE lock_token IS NOT NULL;
