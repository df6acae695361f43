-- Publish requests that were refused, and a way to the events that nobody wanted.

CREATE TABLE rejection (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    topic_id     INTEGER NOT NULL,
    received_at  INTEGER NOT NULL,
    status       INTEGER NOT NULL,
    code         TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    content_type TEXT,
    bytes        INTEGER NOT NULL, -- of the body, as far as it was read
    beginning    BLOB    NOT NULL  -- of the body
) STRICT;

-- What did nobody want? Costs nothing where somebody wants everything.
CREATE INDEX event_unmatched ON event (id) WHERE matched = 0;
