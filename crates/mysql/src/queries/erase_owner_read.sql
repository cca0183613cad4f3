-- Differs from Postgres: deleted by their owner, rows are locked in its index first and
-- by their key then, against the order of every other call; delete.sql follows.
SELECT ticket
FROM pending_receipts
FORCE INDEX (pending_receipts_owner)
WHERE owner_id = ?
ORDER BY ticket
