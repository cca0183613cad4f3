DELETE o
FROM JSON_TABLE(
    ?,
    '$[*]' COLUMNS (
        id VARCHAR(64) CHARACTER SET utf8mb4
            /*!50700 COLLATE utf8mb4_0900_bin */ /*M!100200 COLLATE utf8mb4_nopad_bin */
            PATH '$'
    )
) AS k
STRAIGHT_JOIN {table} AS o
    FORCE INDEX (PRIMARY)
    ON o.id = k.id
