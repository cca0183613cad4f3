INSERT INTO pending_receipts (ticket, owner_id, token, sent_at, due_at)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (ticket) DO NOTHING
