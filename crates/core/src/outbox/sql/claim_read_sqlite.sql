SELECT
    rowid AS row_key,
    id,
    topic,
    payload,
    subject,
    attempts,
    claims,
    lapses,
    created_at,
    locked_until,
    visible_at AS due_at
FROM {table}
WHERE visible_at >= ?
    AND visible_at <= ?
    AND next_attempt_at < '9999-12-31T23:59:59.999999Z'
ORDER BY visible_at, id
LIMIT ?
