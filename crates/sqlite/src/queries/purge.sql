DELETE FROM pending_receipts
WHERE rowid IN (
    SELECT rowid FROM pending_receipts
    WHERE sent_at < ?
    ORDER BY sent_at, ticket
    LIMIT ?
)
