-- Failures to sign in, by account and by network, so that the waits between tries survive a restart.
CREATE TABLE guesser (
    hash     TEXT    PRIMARY KEY, -- SHA-256, in hex: what is typed as a name may be a password
    failures INTEGER NOT NULL,
    last_at  INTEGER NOT NULL,
    free_at  INTEGER NOT NULL     -- when the next try is let pass
) STRICT, WITHOUT ROWID;

CREATE INDEX guesser_last ON guesser (last_at);
