UPDATE pending_receipts SET due_at = ? WHERE rowid = ?
