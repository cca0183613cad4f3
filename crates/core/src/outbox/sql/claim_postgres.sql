-- The bounds and the limit are sub-selects so that the planner does not look at
-- them: knowing them it takes each plan for better than the one it has kept, and
-- plans anew at every claim, which took longer than the claim. The lower bound is
-- one on two columns because the planner takes two bounds on one column for a
-- narrow range: on a table that it has not counted yet it then read, sorted and
-- kept a plan for all that is due.
WITH due AS MATERIALIZED (
    SELECT id, visible_at, octet_length(payload) AS bytes
    FROM {table}
    WHERE (visible_at, id) >= ((SELECT ?::text), '')
        AND visible_at <= (SELECT ?::text)
        AND next_attempt_at < '9999-12-31T23:59:59.999999Z'
    ORDER BY visible_at, id
    LIMIT (SELECT ?::bigint)
    FOR UPDATE SKIP LOCKED
),
summed AS (
    SELECT id, visible_at, row_number() OVER before AS place, sum(bytes) OVER before AS total
    FROM due
    WINDOW before AS (ORDER BY visible_at, id ROWS UNBOUNDED PRECEDING)
),
fitting AS MATERIALIZED (
    SELECT id, visible_at
    FROM summed
    WHERE place = 1
        OR total <= ?
)
UPDATE {table} AS o
SET
    lapses = CASE
        WHEN o.locked_until IS NULL OR o.lapses = 9223372036854775807 THEN o.lapses
        ELSE o.lapses + 1
    END,
    claims = CASE WHEN o.claims = 9223372036854775807 THEN o.claims ELSE o.claims + 1 END,
    locked_until = ?,
    locked_by = ?
FROM fitting
WHERE o.id = fitting.id
RETURNING
    o.id,
    o.topic,
    o.payload,
    o.subject,
    o.attempts,
    o.claims,
    o.lapses,
    o.created_at,
    fitting.visible_at AS due_at
