-- Differs from Postgres: there is no RETURNING; these are the rows of take_due.sql.
UPDATE JSON_TABLE(
    ?,
    '$[*]' COLUMNS (
        ticket VARCHAR(128) CHARACTER SET utf8mb4
            /*!50700 COLLATE utf8mb4_0900_bin */ /*M!100200 COLLATE utf8mb4_nopad_bin */
            PATH '$' ERROR ON EMPTY ERROR ON ERROR
    )
) AS taken
STRAIGHT_JOIN pending_receipts AS receipts
    FORCE INDEX (PRIMARY)
    ON receipts.ticket = taken.ticket
SET receipts.due_at = ?
