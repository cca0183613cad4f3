use duebox_core::{Database, DbError};

use super::{Column, Index, Table, flag, gather, rows};

// Collations of these names, and of a database of these, order by bytes.
const COLUMNS: &str = "\
SELECT
    a.attname::text AS name,
    format_type(a.atttypid, NULL)::text AS kind,
    (CASE WHEN a.atttypmod > 4 THEN a.atttypmod - 4 END)::bigint AS chars,
    (NOT a.attnotnull)::int AS nullable,
    (a.atthasdef OR a.attidentity <> '')::int AS defaulted,
    (a.attgenerated <> '')::int AS generated,
    COALESCE(
        c.collname IN ('C', 'POSIX', 'ucs_basic')
            OR (
                c.collname = 'default'
                AND d.datcollate IN ('C', 'POSIX')
                AND COALESCE(to_jsonb(d) ->> 'datlocprovider', 'c') = 'c'
            ),
        true
    )::int AS ordered,
    COALESCE(c.collisdeterministic, true)::int AS exact
FROM pg_catalog.pg_attribute AS a
CROSS JOIN pg_catalog.pg_database AS d
LEFT JOIN pg_catalog.pg_collation AS c
    ON c.oid = a.attcollation
WHERE a.attrelid = to_regclass(?)
    AND a.attnum > 0
    AND NOT a.attisdropped
    AND d.datname = current_database()
ORDER BY a.attnum";

const INDEXES: &str = "\
SELECT
    c.relname::text AS name,
    i.indisprimary::int AS is_primary,
    -- One in another collation than its columns' serves no comparison of theirs.
    (
        i.indisvalid
        AND (k.place > i.indnkeyatts OR a.attcollation IN (0, i.indcollation[k.place - 1]))
    )::int AS is_valid,
    (i.indpred IS NOT NULL)::int AS is_partial,
    COALESCE(a.attname::text, '') AS part
FROM pg_catalog.pg_index AS i
JOIN pg_catalog.pg_class AS c
    ON c.oid = i.indexrelid
CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (number, place)
LEFT JOIN pg_catalog.pg_attribute AS a
    ON a.attrelid = i.indrelid
    AND a.attnum = k.number
WHERE i.indrelid = to_regclass(?)
    AND k.place <= i.indnkeyatts
ORDER BY c.relname, k.place";

pub(super) async fn read(db: &dyn Database, table: &str) -> Result<Table, DbError> {
    let columns = rows(db, COLUMNS, &[table]).await?;
    let columns = columns.iter().map(|row| {
        Ok(Column {
            name: row.get("name")?,
            kind: row.get("kind")?,
            chars: row.get("chars")?,
            nullable: flag(row, "nullable")?,
            defaulted: flag(row, "defaulted")?,
            generated: flag(row, "generated")?,
            ordered: flag(row, "ordered")?,
            exact: flag(row, "exact")?,
        })
    });
    let columns = columns.collect::<Result<Vec<_>, DbError>>()?;
    let indexes = gather(&rows(db, INDEXES, &[table]).await?, |row| {
        Ok(Index {
            name: row.get("name")?,
            parts: Vec::new(),
            primary: flag(row, "is_primary")?,
            valid: flag(row, "is_valid")?,
            partial: flag(row, "is_partial")?,
        })
    })?;
    Ok(Table { columns, indexes })
}
