DELETE FROM pending_receipts WHERE ticket = ?
