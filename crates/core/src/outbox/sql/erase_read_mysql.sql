SELECT d.id, o.id AS found
FROM (
    SELECT id
    FROM {table}
    FORCE INDEX ({name}_subject)
    WHERE subject = ?
        AND id > ?
    ORDER BY id
    LIMIT ?
) AS d
LEFT JOIN {table} AS o
    FORCE INDEX (PRIMARY)
    ON o.id = d.id
    AND o.subject = ?
FOR UPDATE
