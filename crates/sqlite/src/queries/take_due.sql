SELECT rowid, ticket, owner_id, token, sent_at, due_at
FROM pending_receipts
WHERE due_at <= ?
ORDER BY due_at, ticket
LIMIT ?
