SELECT
    topic,
    state,
    held,
    holder,
    COUNT(*) AS found,
    MIN(visible_at) AS first_visible_at,
    MAX(locked_until) AS last_locked_until
FROM (
    SELECT
        topic,
        visible_at,
        locked_until,
        CASE
            WHEN next_attempt_at = '9999-12-31T23:59:59.999999Z' THEN 'parked'
            WHEN locked_until > ? THEN 'leased'
            WHEN next_attempt_at > ? THEN 'waiting'
            ELSE 'due'
        END AS state,
        CASE WHEN locked_until IS NULL THEN 0 ELSE 1 END AS held,
        CASE WHEN locked_until IS NULL THEN NULL ELSE locked_by END AS holder
    FROM {table}
) AS r
GROUP BY topic, state, held, holder
