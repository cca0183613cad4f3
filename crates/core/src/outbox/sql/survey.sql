SELECT
    topic,
    locked_by AS holder,
    COUNT(*) AS found,
    COUNT(CASE WHEN visible_at <= ? THEN 1 END) AS due,
    COUNT(CASE WHEN locked_until > ? AND next_attempt_at < '9999-12-31T23:59:59.999999Z' THEN 1 END) AS leased,
    COUNT(CASE WHEN next_attempt_at = '9999-12-31T23:59:59.999999Z' THEN 1 END) AS parked,
    COUNT(locked_until) AS held,
    MIN(visible_at) AS first_visible_at,
    MAX(locked_until) AS last_locked_until
FROM {table}
GROUP BY topic, locked_by
