-- Counters behind lists and pages. They are written in the same change as what they count (store/tally.rs),
-- so that no page ever counts rows.

-- How a subscription's deliveries stand. At any moment
--   matched = pending + delivered + dead_lettered + dropped,
-- also when the rows themselves have been pruned.
CREATE TABLE subscription_total (
    subscription_id INTEGER PRIMARY KEY,
    matched         INTEGER NOT NULL, -- deliveries made, resubmissions among them
    pending         INTEGER NOT NULL,
    delivered       INTEGER NOT NULL,
    dead_lettered   INTEGER NOT NULL, -- ever
    dropped         INTEGER NOT NULL,
    dead_letters    INTEGER NOT NULL  -- in the queue now
) STRICT;

INSERT INTO subscription_total
    SELECT subscription_id, count(*), sum(state = 0), sum(state = 1), sum(state NOT IN (0, 1, 3)), sum(state = 3),
        sum(state = 2)
    FROM delivery GROUP BY subscription_id;

-- What happened when. A row begins at a full minute; older ones are folded onto full hours, then days.
CREATE TABLE subscription_rollup (
    subscription_id INTEGER NOT NULL,
    start_at        INTEGER NOT NULL,
    matched         INTEGER NOT NULL,
    delivered       INTEGER NOT NULL,
    dead_lettered   INTEGER NOT NULL,
    dropped         INTEGER NOT NULL,
    attempts        INTEGER NOT NULL,
    -- delivered within so long of publishing: see LATENCY_BOUNDS_MS; the last column has the rest
    within_0  INTEGER NOT NULL, within_1  INTEGER NOT NULL, within_2  INTEGER NOT NULL,
    within_3  INTEGER NOT NULL, within_4  INTEGER NOT NULL, within_5  INTEGER NOT NULL,
    within_6  INTEGER NOT NULL, within_7  INTEGER NOT NULL, within_8  INTEGER NOT NULL,
    within_9  INTEGER NOT NULL, within_10 INTEGER NOT NULL, within_11 INTEGER NOT NULL,
    PRIMARY KEY (subscription_id, start_at)
) STRICT, WITHOUT ROWID;

CREATE INDEX subscription_rollup_start ON subscription_rollup (start_at);

CREATE TABLE topic_rollup (
    topic_id  INTEGER NOT NULL,
    start_at  INTEGER NOT NULL,
    published INTEGER NOT NULL,
    unmatched INTEGER NOT NULL,
    bytes     INTEGER NOT NULL, -- of data
    PRIMARY KEY (topic_id, start_at)
) STRICT, WITHOUT ROWID;

CREATE INDEX topic_rollup_start ON topic_rollup (start_at);

-- What the dead-letter queues hold, by reason and by day of their dead-lettering.
CREATE TABLE dead_letter_total (
    subscription_id INTEGER NOT NULL,
    reason          TEXT    NOT NULL,
    day             INTEGER NOT NULL, -- its beginning
    dead_letters    INTEGER NOT NULL,
    PRIMARY KEY (subscription_id, reason, day)
) STRICT, WITHOUT ROWID;

INSERT INTO dead_letter_total
    SELECT subscription_id, dead_letter_reason, ended_at - ended_at % 86400000, count(*)
    FROM delivery WHERE state = 2 GROUP BY 1, 2, 3;
