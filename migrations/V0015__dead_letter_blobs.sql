-- Dead letters on their way to storage: which blob they belong to, and storage that does not take any.

-- A blob is put under its name and then marked: whoever puts it again after a crash overwrites the same one.
CREATE TABLE dead_letter_blob (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    subscription_id INTEGER NOT NULL,
    name            TEXT    NOT NULL, -- in its container
    made_at         INTEGER NOT NULL,
    stored_at       INTEGER           -- NULL until the storage has it
) STRICT;

-- One at a time for each subscription.
CREATE UNIQUE INDEX dead_letter_blob_waiting ON dead_letter_blob (subscription_id) WHERE stored_at IS NULL;

CREATE TABLE storage_outage (
    subscription_id INTEGER PRIMARY KEY,
    since           INTEGER NOT NULL,
    failures        INTEGER NOT NULL, -- in a row
    tried_at        INTEGER NOT NULL,
    next_try_at     INTEGER NOT NULL,
    error           TEXT    NOT NULL
) STRICT;

ALTER TABLE delivery ADD COLUMN blob_id INTEGER; -- of a dead letter that has been given to one

-- Which dead letters of a subscription are in no blob yet?
CREATE INDEX delivery_unexported ON delivery (subscription_id, next_attempt_at, id) WHERE state = 2 AND blob_id IS NULL;
-- What does this blob hold?
CREATE INDEX delivery_blob ON delivery (blob_id) WHERE blob_id IS NOT NULL;
