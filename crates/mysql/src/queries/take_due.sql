-- FORCE INDEX: of a small table the planner reads, sorts and locks every row.
SELECT
    ticket,
    owner_id,
    token,
    sent_at,
    due_at
FROM pending_receipts
FORCE INDEX (pending_receipts_due)
WHERE due_at <= CAST(? AS DATETIME(6))
ORDER BY due_at, ticket
LIMIT ?
FOR UPDATE SKIP LOCKED
