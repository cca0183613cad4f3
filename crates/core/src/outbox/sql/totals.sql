SELECT d.due, d.oldest_due_at, l.later, p.parked
FROM (
    SELECT COUNT(*) AS due, MIN(visible_at) AS oldest_due_at
    FROM {table}
    WHERE visible_at <= ?
) AS d
CROSS JOIN (
    SELECT COUNT(*) AS later
    FROM {table}
    WHERE visible_at > ?
        AND visible_at < '9999-12-31T23:59:59.999999Z'
) AS l
CROSS JOIN (
    SELECT COUNT(*) AS parked
    FROM {table}
    WHERE visible_at = '9999-12-31T23:59:59.999999Z'
) AS p
