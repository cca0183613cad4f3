DELETE FROM {table}
WHERE rowid IN (
    SELECT o.rowid
    FROM json_each(?) AS l
    CROSS JOIN {table} AS o
    WHERE o.id = l.key
        AND o.created_at = l.value
        AND o.claims = ?
        AND o.locked_until IS NOT NULL
)
