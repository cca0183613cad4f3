SELECT d.due, d.oldest_due_at, r.waiting, r.leased, r.parked
FROM (
    SELECT COUNT(*) AS due, MIN(visible_at) AS oldest_due_at
    FROM {table}
    WHERE visible_at <= ?
) AS d
CROSS JOIN (
    SELECT
        COUNT(CASE WHEN next_attempt_at = '9999-12-31T23:59:59.999999Z' THEN 1 END) AS parked,
        COUNT(CASE WHEN next_attempt_at < '9999-12-31T23:59:59.999999Z' AND locked_until > ? THEN 1 END) AS leased,
        COUNT(
            CASE
                WHEN next_attempt_at = '9999-12-31T23:59:59.999999Z' OR locked_until > ? THEN NULL
                ELSE 1
            END
        ) AS waiting
    FROM {table}
    WHERE visible_at > ?
) AS r
