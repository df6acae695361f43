-- Namespaces: topics of CloudEvents under one name, with keys and network rules in common.

CREATE TABLE namespace (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT    NOT NULL COLLATE NOCASE,
    definition  TEXT    NOT NULL, -- the resource as the management API takes it
    key1        TEXT    NOT NULL,
    key2        TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    deleted_at  INTEGER           -- the row stays, like those of its topics
) STRICT;

CREATE UNIQUE INDEX namespace_name ON namespace (name) WHERE deleted_at IS NULL;

-- NULL for a custom topic. The name of a namespace topic stands behind its namespace's: shop/orders.
ALTER TABLE topic ADD COLUMN namespace_id INTEGER REFERENCES namespace (id);
