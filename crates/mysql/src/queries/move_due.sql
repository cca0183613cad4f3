-- Differs from Postgres: there is no RETURNING; these are the rows of take_due.sql.
-- A join with their list, as in delete.sql, would be slower by half on MariaDB.
UPDATE pending_receipts
FORCE INDEX (PRIMARY)
SET due_at = ?
WHERE ticket IN ({tickets})
