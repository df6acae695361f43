-- Locks are renewed for an hour from their own beginning, which is locked_at; nothing else asked for the first one.
ALTER TABLE delivery DROP COLUMN first_locked_at;
