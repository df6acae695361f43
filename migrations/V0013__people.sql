-- Users who come and go, links by which they choose their passwords, and sessions that can be looked at.

ALTER TABLE user ADD COLUMN disabled_at     INTEGER;
ALTER TABLE user ADD COLUMN signed_in_at    INTEGER; -- the last time
ALTER TABLE user ADD COLUMN link_hash       TEXT;    -- SHA-256, in hex, of a password link's token
ALTER TABLE user ADD COLUMN link_expires_at INTEGER;

CREATE UNIQUE INDEX user_link ON user (link_hash) WHERE link_hash IS NOT NULL;

-- Whoever is signed in signs in again once.
DROP TABLE session;

CREATE TABLE session (
    id         TEXT    PRIMARY KEY, -- SHA-256 of the cookie's token, in hex
    record     TEXT    NOT NULL,
    user_id    INTEGER REFERENCES user (id) ON DELETE CASCADE, -- NULL: nobody has signed in yet
    started_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL,    -- to the minute
    expires_at INTEGER NOT NULL,
    address    TEXT,                -- of the client that signed in
    browser    TEXT                 -- what it says that it is
) STRICT, WITHOUT ROWID;

CREATE INDEX session_user ON session (user_id, used_at);
CREATE INDEX session_end ON session (expires_at);
