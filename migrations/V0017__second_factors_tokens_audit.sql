-- A second factor for users, tokens for programs, and what anybody has changed.

ALTER TABLE user ADD COLUMN totp      TEXT;    -- sealed: the seed of the second factor, in base32
ALTER TABLE user ADD COLUMN totp_step INTEGER; -- the last step whose code was used

CREATE TABLE recovery_code (
    user_id INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE,
    hash    TEXT    NOT NULL, -- SHA-256, in hex; a code that was used is gone
    PRIMARY KEY (user_id, hash)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE audit (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    kind    TEXT    NOT NULL CHECK (kind IN ('User', 'ApiToken', 'ManagementToken', 'CommandLine')),
    actor   TEXT    NOT NULL, -- the name, where the kind has names
    address TEXT,
    method  TEXT    NOT NULL, -- of the request; SET for what is done in the database itself
    path    TEXT    NOT NULL,
    changes TEXT    NOT NULL  -- JSON: [[property, before, after], ...], without secrets
) STRICT;

CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_actor ON audit (actor, id);

CREATE TRIGGER audit_stays BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'what has been done is not rewritten');
END;
