-- Differs from Postgres: a DELETE cannot skip locked rows; delete.sql follows.
SELECT ticket
FROM pending_receipts
FORCE INDEX (pending_receipts_sent)
WHERE sent_at < CAST(? AS DATETIME(6))
ORDER BY sent_at, ticket
LIMIT ?
FOR UPDATE SKIP LOCKED
