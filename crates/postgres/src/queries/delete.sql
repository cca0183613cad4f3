-- By way of a sub-select, so that the planner takes the array for short; see take_due.
DELETE FROM pending_receipts AS receipts
USING unnest((SELECT ?::text[])) AS settled (ticket)
WHERE receipts.ticket = settled.ticket
