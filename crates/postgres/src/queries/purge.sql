-- MATERIALIZED and the array: see take_due.
WITH old AS MATERIALIZED (
    SELECT ticket
    FROM pending_receipts
    WHERE sent_at < ?::timestamptz
    ORDER BY sent_at, ticket
    LIMIT ?::bigint
    FOR UPDATE SKIP LOCKED
)
DELETE FROM pending_receipts AS receipts
USING unnest(ARRAY(SELECT ticket FROM old)) AS old_ones (ticket)
WHERE receipts.ticket = old_ones.ticket
