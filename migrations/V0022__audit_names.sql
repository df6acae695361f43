-- Whom does a number in the path stand for? Kept with the entry, since users and tokens are deleted.
ALTER TABLE audit ADD COLUMN name TEXT;
