-- Differs from Postgres: IGNORE passes over more than duplicates, and ON DUPLICATE
-- KEY UPDATE counts rows that it left alone. So those that are there are left out,
-- and one that another session records in between is an error; then all is run again.
INSERT INTO pending_receipts (ticket, owner_id, token, sent_at, due_at)
SELECT given.ticket, UNHEX(given.owner_id), given.token, given.sent_at, ?
FROM JSON_TABLE(
    ?,
    '$[*]' COLUMNS (
        ticket VARCHAR(128) CHARACTER SET utf8mb4
            /*!50700 COLLATE utf8mb4_0900_bin */ /*M!100200 COLLATE utf8mb4_nopad_bin */
            PATH '$[0]' ERROR ON EMPTY ERROR ON ERROR,
        owner_id VARCHAR(32) CHARACTER SET utf8mb4
            PATH '$[1]' ERROR ON EMPTY ERROR ON ERROR,
        token VARCHAR(512) CHARACTER SET utf8mb4
            PATH '$[2]' ERROR ON EMPTY ERROR ON ERROR,
        sent_at VARCHAR(26) CHARACTER SET utf8mb4
            PATH '$[3]' ERROR ON EMPTY ERROR ON ERROR
    )
) AS given
LEFT JOIN pending_receipts AS there
    FORCE INDEX (PRIMARY)
    ON there.ticket = given.ticket
WHERE there.ticket IS NULL
