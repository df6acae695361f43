-- Dead letters that subscribers of the built-in topic everpost-system have not been told of. Written in the same
-- change as the dead letters (store/tally.rs), while there is such a subscriber; at most one row for each event
-- subscription and reason, however many there are.

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
