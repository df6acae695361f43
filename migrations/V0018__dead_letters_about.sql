-- What a dead letter is about, copied from its event when it is given up: its queue is searched and put into
-- groups out of an index alone, while each event among a million others costs a page of the file.
ALTER TABLE delivery ADD COLUMN about_type TEXT;
ALTER TABLE delivery ADD COLUMN about_source TEXT; -- its topic's name where the event has no source of its own
ALTER TABLE delivery ADD COLUMN about_subject TEXT;

UPDATE delivery SET (about_type, about_source, about_subject) =
    (SELECT event.event_type, coalesce(event.source, topic.name), event.subject
     FROM event LEFT JOIN topic ON topic.id = event.topic_id WHERE event.id = delivery.event_id)
WHERE state = 2;

-- No way of giving a delivery up can forget it.
CREATE TRIGGER delivery_given_up AFTER UPDATE OF state ON delivery WHEN new.state = 2 AND old.state <> 2
BEGIN
    UPDATE delivery SET (about_type, about_source, about_subject) =
        (SELECT event.event_type, coalesce(event.source, topic.name), event.subject
         FROM event LEFT JOIN topic ON topic.id = event.topic_id WHERE event.id = new.event_id)
    WHERE id = new.id;
END;

-- What lies in the dead-letter queues, and in that of one subscription? A search reads nothing else before it
-- fits, but for words in the data.
DROP INDEX delivery_dead;
CREATE INDEX delivery_dead ON delivery (id, subscription_id, event_id, dead_letter_reason, dead_letter_own_reason,
    last_outcome, last_status, ended_at, about_type, about_source, about_subject) WHERE state = 2;
DROP INDEX delivery_dead_subscription;
CREATE INDEX delivery_dead_subscription ON delivery (subscription_id, id, event_id, dead_letter_reason,
    dead_letter_own_reason, last_outcome, last_status, ended_at, about_type, about_source, about_subject)
    WHERE state = 2;
