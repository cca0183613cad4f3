-- With an alias, because a DELETE of one table has no FORCE INDEX.
DELETE receipts
FROM pending_receipts AS receipts
FORCE INDEX (pending_receipts_owner)
WHERE receipts.owner_id = ?
