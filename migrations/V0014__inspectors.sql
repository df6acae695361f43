-- Inspectors: receivers inside the appliance, and the newest requests of each.

CREATE TABLE inspector (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL COLLATE NOCASE UNIQUE,
    definition TEXT    NOT NULL, -- as the management API takes it
    turn       INTEGER NOT NULL, -- deliveries answered since the definition was written
    received   INTEGER NOT NULL, -- requests that ever came; the number of the newest
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE inspected_request (
    inspector_id INTEGER NOT NULL REFERENCES inspector (id) ON DELETE CASCADE,
    number       INTEGER NOT NULL,
    received_at  INTEGER NOT NULL,
    method       TEXT    NOT NULL,
    path         TEXT    NOT NULL,
    headers      TEXT    NOT NULL, -- pairs as a JSON array
    bytes        INTEGER NOT NULL, -- of the body
    beginning    BLOB    NOT NULL, -- of the body
    handshake    TEXT,
    events       INTEGER NOT NULL,
    event_id     TEXT,
    event_type   TEXT,
    signature    TEXT,             -- what is to be said of it
    answer       TEXT    NOT NULL,
    PRIMARY KEY (inspector_id, number)
) STRICT;
