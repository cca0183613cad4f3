-- MATERIALIZED, so that under no plan rows are locked more than once; and by way of
-- arrays, which the planner takes for short, so that it finds the rows by their key
-- and does not read a long table to join it.
--
-- A stored instant that no store writes is given as NULL, and the earliest due
-- instants as one: either driver reads the years 1 to 9999 alone.
WITH due AS MATERIALIZED (
    SELECT ticket, due_at
    FROM pending_receipts
    WHERE due_at <= ?::timestamptz
    ORDER BY due_at, ticket
    LIMIT ?::bigint
    FOR UPDATE SKIP LOCKED
)
UPDATE pending_receipts AS receipts
SET due_at = ?::timestamptz
FROM unnest(ARRAY(SELECT ticket FROM due), ARRAY(SELECT due_at FROM due))
    AS taken (ticket, due_at)
WHERE receipts.ticket = taken.ticket
RETURNING
    receipts.ticket,
    receipts.owner_id,
    receipts.token,
    CASE
        WHEN receipts.sent_at >= '1970-01-01T00:00:00Z'
            AND receipts.sent_at <= '9999-12-31T23:59:59.999999Z'
        THEN receipts.sent_at
    END AS sent_at,
    GREATEST(taken.due_at, '1970-01-01T00:00:00Z') AS due_at
