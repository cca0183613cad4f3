INSERT INTO pending_receipts (ticket, owner_id, token, sent_at, due_at)
SELECT ticket, owner_id, token, sent_at, ?::timestamptz
FROM unnest(?::text[], ?::uuid[], ?::text[], ?::timestamptz[])
    AS given (ticket, owner_id, token, sent_at)
ON CONFLICT (ticket) DO NOTHING
