DELETE o
FROM JSON_TABLE(
    ?,
    '$[*]' COLUMNS (
        id VARCHAR(64) CHARACTER SET utf8mb4
            /*!50700 COLLATE utf8mb4_0900_bin */ /*M!100200 COLLATE utf8mb4_nopad_bin */
            PATH '$[0]',
        claims BIGINT PATH '$[1]',
        created_at VARCHAR(27) CHARACTER SET utf8mb4
            /*!50700 COLLATE utf8mb4_0900_bin */ /*M!100200 COLLATE utf8mb4_nopad_bin */
            PATH '$[2]'
    )
) AS k
STRAIGHT_JOIN {table} AS o
    FORCE INDEX (PRIMARY)
    ON o.id = k.id
    AND o.claims = k.claims
    AND o.created_at = k.created_at
WHERE o.locked_until IS NOT NULL
