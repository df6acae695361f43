-- What lies in the dead-letter queue of one subscription? The same as delivery_dead, for one of many.
CREATE INDEX delivery_dead_subscription ON delivery (subscription_id, id, event_id, dead_letter_reason,
    dead_letter_own_reason, last_outcome, last_status, ended_at) WHERE state = 2;
