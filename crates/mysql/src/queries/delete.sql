-- A list of values instead would make the planner read, and lock, all of a small table.
DELETE receipts
FROM JSON_TABLE(
    ?,
    '$[*]' COLUMNS (
        ticket VARCHAR(128) CHARACTER SET utf8mb4
            /*!50700 COLLATE utf8mb4_0900_bin */ /*M!100200 COLLATE utf8mb4_nopad_bin */
            PATH '$' ERROR ON EMPTY ERROR ON ERROR
    )
) AS settled
STRAIGHT_JOIN pending_receipts AS receipts
    FORCE INDEX (PRIMARY)
    ON receipts.ticket = settled.ticket
