-- Answers that come after their deadline are kept with the attempt that they belong to, and whoever deletes
-- an event subscription says what becomes of its pending deliveries.

ALTER TABLE delivery_attempt ADD COLUMN late_status INTEGER;
ALTER TABLE delivery_attempt ADD COLUMN late_ms     INTEGER; -- since the start of the attempt

ALTER TABLE event_subscription ADD COLUMN keeps_pending INTEGER NOT NULL DEFAULT 0 -- once deleted
    CHECK (keeps_pending IN (0, 1));
