DELETE FROM pending_receipts
WHERE owner_id = ?::uuid
