-- Topics that the appliance has of itself. Their numbers lie below those of all others, and they have no keys
-- (model/system_topic.rs). Whoever has a topic of that name already keeps it under a longer one.

UPDATE topic SET name = name || '-' || id
    WHERE deleted_at IS NULL AND name IN ('dead-letter-storage', 'everpost-system');

INSERT INTO topic (id, name, definition, key1, key2, created_at, updated_at)
    SELECT id, name, '{"location":"local","properties":{"inputSchema":"EventGridSchema"}}', '', '',
        unixepoch() * 1000, unixepoch() * 1000
    FROM (SELECT -1 AS id, 'dead-letter-storage' AS name UNION ALL SELECT -2, 'everpost-system');
